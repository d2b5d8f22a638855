package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgo is the environment to compile Go with C.
var cgo = []string{"CGO_ENABLED=1"}

// tester runs tests with mutants.
type tester struct {
	m      *module
	tmp    string
	shared *build            // has the mutants that a number selects
	number map[*mutant]int   // of the mutants in shared
	alone  map[string]*alone // by package
}

// alone describes the tests of a package without a mutant.
type alone struct {
	took   time.Duration
	failed bool
	marks  []byte // 1 at the number of each mutant that they reach
}

// errNotBuilt is the failure of programs that don't compile with a mutant: those of other packages compute with its constant.
var errNotBuilt = errors.New("it does not compile")

// build is an overlay with mutants, and the programs that were built with it.
type build struct {
	dir      string
	inEngine bool              // the engine has mutants
	binaries map[string]string // by package
	lib      string            // folder of libraries, "" until they are built
}

// newTester prepares mutants for tests.
func newTester(ctx context.Context, m *module, all []*mutant) (t *tester, err error) {
	t = &tester{m: m, tmp: filepath.Dir(choice), number: map[*mutant]int{}, alone: map[string]*alone{}}
	for _, x := range all {
		if x.form != fixed {
			t.number[x] = len(t.number) + 1
		}
	}
	if err := os.WriteFile(choice+reached, make([]byte, len(t.number)+1), 0o600); err != nil {
		return nil, err
	}
	if t.shared, err = t.newBuild("shared", t.number); err != nil {
		return nil, err
	}
	var own []string
	for _, x := range all {
		if x.pkg.tested() && !slices.Contains(own, x.pkg.ImportPath) {
			own = append(own, x.pkg.ImportPath)
		}
	}
	return t, t.build(ctx, t.shared, own...)
}

// newBuild writes an overlay.
func (t *tester) newBuild(name string, numbers map[*mutant]int) (*build, error) {
	b := &build{dir: filepath.Join(t.tmp, name), binaries: map[string]string{}}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	of := map[*pkg]map[int]*mutant{}
	for x, n := range numbers {
		if of[x.pkg] == nil {
			of[x.pkg] = map[int]*mutant{}
		}
		of[x.pkg][n] = x
		b.inEngine = b.inEngine || x.pkg.inEngine
	}
	replace := map[string]string{}
	for p, by := range of {
		files, err := instrument(t.m.set, p, by)
		if err != nil {
			return nil, err
		}
		for file, text := range files {
			to := filepath.Join(b.dir, strconv.Itoa(len(replace))+".go")
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				return nil, err
			}
			replace[file] = to
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return b, os.WriteFile(filepath.Join(b.dir, "overlay.json"), list, 0o600)
}

func (b *build) overlay() string { return "-overlay=" + filepath.Join(b.dir, "overlay.json") }

// command runs a program, and ends everything that it has started if the context ends.
func (t *tester) command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.SysProcAttr, c.WaitDelay = dir, &syscall.SysProcAttr{Setpgid: true}, time.Second
	c.Env = append(os.Environ(), env...)
	end := func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Cancel = end
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if c.Process != nil {
		_ = end()
	}
	return out.Bytes(), err
}

// build builds the tests of packages. One command builds them all, except that it can't build two programs of the same name. Packages
// with C are built apart: without cgo they may have no files, and other packages are tested without it.
func (t *tester) build(ctx context.Context, b *build, tests ...string) error {
	paths := slices.Clone(tests)
	for i, of := range paths {
		paths[i], _, _ = strings.Cut(of, " ")
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return b.binaries[path] != "" })
	for len(paths) > 0 {
		dir := filepath.Join(b.dir, "tests", strconv.Itoa(len(b.binaries)))
		of, withC := map[string]string{}, t.m.path[paths[0]].withC()
		paths = slices.DeleteFunc(paths, func(path string) bool {
			name := filepath.Base(path)
			if of[name] == "" && t.m.path[path].withC() == withC {
				of[name] = path
			}
			return of[name] == path
		})
		var env []string
		if withC {
			env = cgo
		}
		args := slices.AppendSeq([]string{"test", "-c", b.overlay(), "-vet=off", "-ldflags=-w", "-o", dir + "/"}, maps.Values(of))
		if out, err := t.command(ctx, t.m.dir, env, "go", args...); err != nil {
			return fmt.Errorf("build the tests of packages: %w: %s", cmp.Or(ctx.Err(), errNotBuilt), out)
		}
		for name, path := range of {
			b.binaries[path] = filepath.Join(dir, name+".test")
		}
	}
	return nil
}

// libraries returns a folder of libraries with the engine of a build.
func (t *tester) libraries(ctx context.Context, b *build) (string, error) {
	built := cmp.Or(os.Getenv("ACLTRACE_LIB"), filepath.Join(t.m.dir, "lib"))
	if !b.inEngine || b.lib != "" {
		return cmp.Or(b.lib, built), nil
	}
	lib := filepath.Join(b.dir, "lib")
	if out, err := t.command(ctx, t.m.dir, nil, "cp", "-a", built, lib); err != nil {
		return "", fmt.Errorf("copy %s: %w: %s", built, err, out)
	}
	if out, err := t.command(ctx, t.m.dir, cgo, "go", "build", b.overlay(), "-buildmode=c-shared", "-o", filepath.Join(lib, engineFile), t.m.name+engine); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", engine, cmp.Or(ctx.Err(), errNotBuilt), out)
	}
	b.lib = lib
	return lib, nil
}

// run runs the tests of a package, which may have a flag after it, with a mutant of a build, for a time at most.
func (t *tester) run(ctx context.Context, b *build, n int, tests string, most time.Duration) (failed bool, took time.Duration, err error) {
	path, flag, _ := strings.Cut(tests, " ")
	if err := t.build(ctx, b, path); err != nil {
		return false, 0, err
	}
	lib, err := t.libraries(ctx, b)
	if err != nil {
		return false, 0, err
	}
	if err := os.WriteFile(choice, []byte(strconv.Itoa(n)), 0o600); err != nil {
		return false, 0, err
	}
	within, stop := context.WithTimeout(ctx, most)
	defer stop()
	began := time.Now()
	args := append([]string{"-test.failfast", "-test.timeout=60m", "-test.paniconexit0"}, strings.Fields(flag)...)
	_, err = t.command(within, t.m.path[path].Dir, []string{"ACLTRACE_LIB=" + lib}, b.binaries[path], args...)
	return err != nil, time.Since(began), ctx.Err()
}

// runAlone runs the tests of a package without a mutant, and finds the mutants that they reach.
func (t *tester) runAlone(ctx context.Context, path string) (*alone, error) {
	marks := make([]byte, len(t.number)+1)
	f, err := os.OpenFile(choice+reached, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.WriteAt(marks, 0); err != nil {
		return nil, err
	}
	a := &alone{failed: true}
	for try := 0; try < 2 && a.failed; try++ { // a busy machine may fail a test
		if a.failed, a.took, err = t.run(ctx, t.shared, baseline, path, time.Hour); err != nil {
			return nil, err
		}
	}
	_, err = f.ReadAt(marks, 0)
	a.marks, t.alone[path] = marks, a
	return a, err
}

// test runs the tests that a mutant may fail.
func (t *tester) test(ctx context.Context, x *mutant, limit time.Duration) (result, error) {
	r, b, n := result{mutant: x}, t.shared, t.number[x]
	if n == 0 {
		var err error
		if b, err = t.newBuild("fixed", map[*mutant]int{x: 0}); err != nil {
			return r, err
		}
		defer os.RemoveAll(b.dir)
	}
	for _, paths := range t.order(x.pkg) {
		paths, err := t.reach(ctx, n, paths)
		if err != nil {
			return r, err
		}
		for _, path := range paths {
			r.reached = true
			if t.alone[path].failed {
				continue
			}
			killed, took, err := t.notices(ctx, b, n, path, limit)
			if err != nil {
				return r, fmt.Errorf("%s: %w", x, err)
			}
			if killed {
				r.by = path
				return r, nil
			}
			if limit -= took; limit <= 0 {
				r.timedOut = true
				return r, nil
			}
		}
	}
	return r, nil
}

// reach returns the packages whose tests reach a mutant, the fastest first. Nobody knows who reaches a constant.
func (t *tester) reach(ctx context.Context, n int, paths []string) (out []string, err error) {
	if err := t.build(ctx, t.shared, paths...); err != nil {
		return nil, err
	}
	for _, path := range paths {
		a := t.alone[path]
		if a == nil {
			if a, err = t.runAlone(ctx, path); err != nil {
				return nil, err
			}
		}
		if n == 0 || a.marks[n] != 0 {
			out = append(out, path)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(t.alone[a].took, t.alone[b].took) })
	return out, nil
}

// notices reports whether the tests of a package fail with a mutant. A mutant that hangs is noticed, if the machine has not become slow meanwhile.
func (t *tester) notices(ctx context.Context, b *build, n int, path string, limit time.Duration) (killed bool, took time.Duration, err error) {
	limit = min(limit, 15*time.Second+4*t.alone[path].took)
	failed, took, err := t.run(ctx, b, n, path, limit)
	if err != nil || took < limit {
		return failed, took, err
	}
	a, err := t.runAlone(ctx, path)
	return err == nil && !a.failed && a.took < took/2, took, err
}

// order returns the packages whose tests may notice a change: the package itself, then those that import it, then those that run the engine as a library.
func (t *tester) order(p *pkg) (out [][]string) {
	if p.tested() {
		out = append(out, []string{p.ImportPath})
	}
	out = append(out, p.importers)
	if p.inEngine {
		var last []string
		for _, tests := range engineTests {
			if path, _, _ := strings.Cut(t.m.name+tests, " "); t.m.path[path] != nil {
				last = append(last, t.m.name+tests)
			}
		}
		out = append(out, last)
	}
	return out
}
