package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	shared *build                   // has the mutants that a number selects
	number map[*mutant]int          // of the mutants in shared
	passed map[string]time.Duration // how long the tests of packages take without a mutant, 0 if they fail
	took   map[string]time.Duration // how long packages took to test with a mutant that they did not notice
}

// errNotBuilt is the failure of programs that don't compile with a mutant: those of other packages compute with its constant.
var errNotBuilt = errors.New("it does not compile")

// build is an overlay with mutants, and the programs that were built with it.
type build struct {
	dir      string
	inEngine bool // the engine has mutants
	binaries map[string]string
	lib      string // folder of libraries, "" until they are built
}

// newTester prepares mutants for tests.
func newTester(m *module, all []*mutant) (*tester, error) {
	t := &tester{m: m, tmp: filepath.Dir(choice), number: map[*mutant]int{}, passed: map[string]time.Duration{}, took: map[string]time.Duration{}}
	for i, x := range all {
		if x.form != fixed {
			t.number[x] = i + 1
		}
	}
	b, err := t.newBuild("shared", t.number)
	t.shared = b
	return t, err
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

// binary builds the tests of a package.
func (t *tester) binary(ctx context.Context, b *build, path string) (string, error) {
	if file := b.binaries[path]; file != "" {
		return file, nil
	}
	file := filepath.Join(b.dir, strings.ReplaceAll(strings.TrimPrefix(path, t.m.name), "/", "_")+".test")
	if out, err := t.command(ctx, t.m.dir, nil, "go", "test", "-c", b.overlay(), "-vet=off", "-ldflags=-w", "-o", file, path); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w: %s", path, cmp.Or(ctx.Err(), errNotBuilt), out)
	}
	b.binaries[path] = file
	return file, nil
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

// prepare builds what run needs, so that its time is that of the tests.
func (t *tester) prepare(ctx context.Context, b *build, path string) error {
	if _, err := t.binary(ctx, b, path); err != nil {
		return err
	}
	_, err := t.libraries(ctx, b)
	return err
}

// run runs the tests of a package with a mutant of a build, 0 for none.
func (t *tester) run(ctx context.Context, b *build, n int, path string, flags ...string) (out []byte, failed bool, err error) {
	file, err := t.binary(ctx, b, path)
	if err != nil {
		return nil, false, err
	}
	lib, err := t.libraries(ctx, b)
	if err != nil {
		return nil, false, err
	}
	if err := os.WriteFile(choice, []byte(strconv.Itoa(n)), 0o600); err != nil {
		return nil, false, err
	}
	out, err = t.command(ctx, t.m.path[path].Dir, []string{"ACLTRACE_LIB=" + lib}, file, append(flags, "-test.failfast", "-test.timeout=60m", "-test.paniconexit0")...)
	return out, err != nil, nil
}

// alone returns how long the tests of a package take without a mutant, 0 if they fail.
func (t *tester) alone(ctx context.Context, path string) (time.Duration, error) {
	if d, known := t.passed[path]; known {
		return d, nil
	}
	if err := t.prepare(ctx, t.shared, path); err != nil {
		return 0, err
	}
	began := time.Now()
	_, failed, err := t.run(ctx, t.shared, 0, path)
	if err != nil || ctx.Err() != nil {
		return 0, cmp.Or(ctx.Err(), err)
	}
	t.passed[path] = max(time.Since(began), time.Millisecond)
	if failed {
		t.passed[path] = 0
	}
	return t.passed[path], nil
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
	end := time.Now().Add(limit)
	for i, path := range t.order(x.pkg) {
		if i == 0 { // the tests of its own are short, and the first to hang
			if _, err := t.alone(ctx, path); err != nil {
				return r, err
			}
		}
		killed, err := t.notices(ctx, b, n, path, end)
		if err != nil {
			return r, fmt.Errorf("%s: %w", x, err)
		}
		if killed {
			r.by = path
			return r, nil
		}
		if time.Now().After(end) {
			r.timedOut = true
			return r, nil
		}
	}
	return r, nil
}

// notices reports whether the tests of a package fail with a mutant. A mutant that hangs is noticed; a busy machine may take ten times as long.
func (t *tester) notices(ctx context.Context, b *build, n int, path string, end time.Time) (bool, error) {
	hang := func(alone time.Duration) time.Duration { return time.Minute + 10*alone }
	if err := t.prepare(ctx, b, path); err != nil {
		return false, err
	}
	limit := time.Until(end)
	if alone := t.passed[path]; alone > 0 {
		limit = min(limit, hang(alone))
	}
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	began := time.Now()
	out, failed, err := t.run(within, b, n, path)
	took := time.Since(began)
	if err != nil || ctx.Err() != nil {
		return false, cmp.Or(ctx.Err(), err)
	}
	if !failed {
		t.took[path] = took
		return false, nil
	}
	if within.Err() == nil {
		return t.pass(ctx, path, out)
	}
	alone, err := t.alone(ctx, path)
	return alone > 0 && took >= hang(alone), err
}

var failing = regexp.MustCompile(`(?m)^--- FAIL: (\S+) `)

// pass reports whether tests that failed with a mutant pass without it. A program that died names none, so all must pass.
func (t *tester) pass(ctx context.Context, path string, out []byte) (bool, error) {
	var names []string
	for _, m := range failing.FindAllSubmatch(out, -1) {
		names = append(names, string(m[1]))
	}
	if d, known := t.passed[path]; known || len(names) == 0 {
		if !known {
			var err error
			if d, err = t.alone(ctx, path); err != nil {
				return false, err
			}
		}
		return d > 0, nil
	}
	if err := t.prepare(ctx, t.shared, path); err != nil {
		return false, err
	}
	_, failed, err := t.run(ctx, t.shared, 0, path, "-test.run=^("+strings.Join(names, "|")+")$")
	if failed && err == nil && ctx.Err() == nil {
		t.passed[path] = 0
	}
	return !failed, cmp.Or(ctx.Err(), err)
}

// order returns the packages whose tests may notice a change: the package itself, and those that import it, the fastest first if that is known.
// Those that run the engine as a library are last.
func (t *tester) order(p *pkg) []string {
	paths := slices.Clone(p.importers)
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(t.took[a], t.took[b]) })
	if p.tested() {
		paths = slices.Insert(paths, 0, p.ImportPath)
	}
	if p.inEngine {
		for _, path := range engineTests {
			paths = append(paths, t.m.name+path)
		}
	}
	return paths
}
