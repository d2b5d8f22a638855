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
	shared *build            // has the mutants that a number selects
	number map[*mutant]int   // of the mutants in shared
	alone  map[string]*alone // by package
	keys   map[string]string // of kept results, by package
}

// alone describes the tests of a package without a mutant.
type alone struct {
	Took   time.Duration
	Failed bool
	Skip   []string // tests that fail without a mutant
	Marks  []byte   // 1 at the number of each mutant that they reach
	Each   []single // if they are slow

	complete bool // each test has run by itself
}

// single is a test that ran by itself without a mutant.
type single struct {
	Name  string
	Took  time.Duration
	Marks []byte // as in alone
}

// A package whose tests take longer than slow runs only the tests that reach a mutant. A test that takes longer than longest by itself kills no mutant.
var slow = 5 * time.Second

const longest = 90 * time.Second

// A batch is tests of a package that run together, and their time without a mutant. Without names, it is all.
type batch struct {
	names []string
	took  time.Duration
}

// reaching returns the tests that reach a mutant, the fast ones first. If none does by itself, it returns all.
func (a *alone) reaching(n int) []batch {
	const fast = 10 * time.Second
	var out [2]batch
	for _, x := range slices.SortedStableFunc(slices.Values(a.Each), func(x, y single) int { return cmp.Compare(x.Took, y.Took) }) {
		if n > 0 && x.Marks[n] != 0 {
			b := &out[0]
			if b.took+x.Took > fast {
				b = &out[1]
			}
			b.names, b.took = append(b.names, x.Name), b.took+x.Took
		}
	}
	some := slices.DeleteFunc(out[:], func(b batch) bool { return b.names == nil })
	if len(some) == 0 {
		return []batch{{took: a.Took}}
	}
	return some
}

// errNotBuilt is the failure of programs that don't compile with a mutant: those of other packages compute with its constant.
var errNotBuilt = errors.New("it does not compile")

// build is an overlay with mutants, and the programs that were built with it.
type build struct {
	dir       string
	inEngine  bool              // the engine has mutants
	inProgram bool              // acltrace has mutants
	binaries  map[string]string // by package
	products  []string          // variables with the folders of libraries and programs, nil until they are built
}

// newTester prepares mutants for tests.
func newTester(ctx context.Context, m *module, all []*mutant) (t *tester, err error) {
	t = &tester{m: m, tmp: filepath.Dir(choice), number: map[*mutant]int{}, alone: map[string]*alone{}, keys: map[string]string{}}
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
	t.shared.inProgram = len(t.number) > 0 && m.path[m.name+program] != nil
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
	for _, p := range t.m.all { // in order, so that a later run builds the same
		files, err := instrument(t.m.set, p, of[p])
		if err != nil {
			return nil, err
		}
		for _, file := range slices.Sorted(maps.Keys(files)) {
			to := filepath.Join(b.dir, strconv.Itoa(len(replace))+".go")
			if err := os.WriteFile(to, []byte(files[file]), 0o600); err != nil {
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
		args := slices.AppendSeq([]string{"test", "-c", b.overlay(), "-trimpath", "-vet=off", "-ldflags=-w", "-o", dir + "/"}, maps.Values(of))
		if out, err := t.command(ctx, t.m.dir, env, "go", args...); err != nil {
			return fmt.Errorf("build the tests of packages: %w: %s", cmp.Or(ctx.Err(), errNotBuilt), out)
		}
		for name, path := range of {
			b.binaries[path] = filepath.Join(dir, name+".test")
		}
	}
	return nil
}

// built returns the variables by which tests find libraries and programs. The engine and acltrace have the mutants of a build.
func (t *tester) built(ctx context.Context, b *build) ([]string, error) {
	if b.products != nil {
		return b.products, nil
	}
	lib, bin := cmp.Or(os.Getenv("ACLTRACE_LIB"), filepath.Join(t.m.dir, "lib")), filepath.Join(t.m.dir, "bin")
	if b.inEngine || b.inProgram {
		// Both side by side, because examples find the libraries beside their folder.
		for _, from := range []*string{&lib, &bin} {
			to := filepath.Join(b.dir, filepath.Base(*from))
			if out, err := t.command(ctx, t.m.dir, nil, "cp", "-aT", *from, to); err != nil {
				return nil, fmt.Errorf("copy %s: %w: %s", *from, err, out)
			}
			*from = to
		}
	}
	if b.inEngine {
		if err := t.goBuild(ctx, b, cgo, filepath.Join(lib, engineFile), engine, "-buildmode=c-shared"); err != nil {
			return nil, err
		}
	}
	if b.inProgram {
		if err := t.goBuild(ctx, b, []string{"CGO_ENABLED=0"}, filepath.Join(bin, filepath.Base(program)), program, "-tags=embedded", "-ldflags=-s -w"); err != nil {
			return nil, err
		}
	}
	b.products = []string{"ACLTRACE_LIB=" + lib, "ACLTRACE_TEST_BIN=" + bin}
	return b.products, nil
}

// goBuild builds a package with a build's overlay.
func (t *tester) goBuild(ctx context.Context, b *build, env []string, to, path string, flags ...string) error {
	args := slices.Concat([]string{"build", b.overlay(), "-trimpath", "-buildvcs=false"}, flags, []string{"-o", to, t.m.name + path})
	if out, err := t.command(ctx, t.m.dir, env, "go", args...); err != nil {
		return fmt.Errorf("build %s: %w: %s", path, cmp.Or(ctx.Err(), errNotBuilt), out)
	}
	return nil
}

// run runs the tests of a package, which may have a flag after it, with a mutant of a build, for a time at most.
func (t *tester) run(ctx context.Context, b *build, n int, tests string, most time.Duration, flags ...string) (out []byte, failed bool, took time.Duration, err error) {
	path, flag, _ := strings.Cut(tests, " ")
	if err := t.build(ctx, b, path); err != nil {
		return nil, false, 0, err
	}
	env, err := t.built(ctx, b)
	if err != nil {
		return nil, false, 0, err
	}
	if err := os.WriteFile(choice, []byte(strconv.Itoa(n)), 0o600); err != nil {
		return nil, false, 0, err
	}
	within, stop := context.WithTimeout(ctx, most)
	defer stop()
	began := time.Now()
	args := append([]string{"-test.timeout=60m", "-test.paniconexit0", "-test.failfast=" + strconv.FormatBool(n != baseline)}, append(flags, strings.Fields(flag)...)...)
	if skip := t.alone[tests].Skip; len(skip) > 0 {
		args = append(args, "-test.skip="+named(skip))
	}
	out, err = t.command(within, t.m.path[path].Dir, env, b.binaries[path], args...)
	return out, err != nil, time.Since(began), ctx.Err()
}

// runAlone runs the tests of a package without a mutant, and finds the mutants that they reach. Tests that fail without a mutant, as on a busy
// machine, are left out from then on.
func (t *tester) runAlone(ctx context.Context, path string) (*alone, error) {
	a := &alone{Failed: true, Marks: make([]byte, len(t.number)+1)}
	t.alone[path] = a
	for try := 0; try < 3 && a.Failed; try++ {
		var out, marks []byte
		var err error
		if out, marks, a.Failed, a.Took, err = t.marked(ctx, path, time.Hour); err != nil {
			return nil, err
		}
		a.Skip = append(a.Skip, failures(out)...)
		a.mark(marks) // also those that a test reached before it failed
	}
	return a, nil
}

// mark adds the marks of a run.
func (a *alone) mark(marks []byte) {
	for i, mark := range marks {
		a.Marks[i] |= mark
	}
}

// runEach runs each test of a package by itself without a mutant, unless an earlier run has.
func (t *tester) runEach(ctx context.Context, path string) error {
	a := t.alone[path]
	if a.complete {
		return nil
	}
	out, _, _, err := t.run(ctx, t.shared, baseline, path, time.Hour, "-test.list=^(Test|Example|Fuzz)")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(out)) {
		if slices.Contains(a.Skip, name) || slices.ContainsFunc(a.Each, func(x single) bool { return x.Name == name }) {
			continue
		}
		_, marks, failed, took, err := t.marked(ctx, path, longest, "-test.run="+named([]string{name}))
		switch {
		case err != nil:
			return err
		case failed:
			a.Skip = append(a.Skip, name)
		default:
			a.Each, a.Took = append(a.Each, single{name, took, marks}), a.Took+took
			a.mark(marks)
		}
		if err := t.keep(path); err != nil {
			return err
		}
	}
	a.complete = true
	return nil
}

// marked runs tests without a mutant, and returns the marks of the mutants that they reach.
func (t *tester) marked(ctx context.Context, path string, most time.Duration, flags ...string) (out, marks []byte, failed bool, took time.Duration, err error) {
	f, err := os.OpenFile(choice+reached, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, false, 0, err
	}
	defer f.Close()
	marks = make([]byte, len(t.number)+1)
	if _, err := f.WriteAt(marks, 0); err != nil {
		return nil, nil, false, 0, err
	}
	if out, failed, took, err = t.run(ctx, t.shared, baseline, path, most, flags...); err != nil {
		return nil, nil, false, 0, err
	}
	_, err = f.ReadAt(marks, 0)
	return out, marks, failed, took, err
}

// failures returns the names of the tests that failed.
func failures(out []byte) (names []string) {
	for _, x := range failure.FindAllSubmatch(out, -1) {
		names = append(names, string(x[1]))
	}
	return names
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// named returns the expression for these tests.
func named(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// judge runs the tests that the mutants may fail, and tells the fate of each once it is known. All run the tests of their own packages first,
// then the survivors those of importers, one package after the other: most mutants are killed by then, and slow tests run for few.
func (t *tester) judge(ctx context.Context, all []*mutant, limit time.Duration, tell func(*result) error) error {
	alive := make([]*result, len(all))
	for i, x := range all {
		alive[i] = &result{mutant: x, left: limit}
	}
	for stage := range stages {
		for _, path := range t.paths(alive, stage) {
			var err error
			if alive, err = t.judgeBy(ctx, alive, stage, path, tell); err != nil {
				return err
			}
		}
	}
	for _, r := range alive {
		if err := tell(r); err != nil {
			return err
		}
	}
	return nil
}

// paths returns the packages that test mutants in a stage, the fastest first. Before its tests have run, a package is as slow as its program is large:
// small programs need little.
func (t *tester) paths(alive []*result, stage int) (out []string) {
	for _, r := range alive {
		out = append(out, t.order(r.pkg)[stage]...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	took := func(path string) time.Duration {
		if a := t.alone[path]; a != nil {
			return a.Took
		}
		path, _, _ = strings.Cut(path, " ")
		if info, err := os.Stat(t.shared.binaries[path]); err == nil {
			return time.Duration(info.Size()) * time.Microsecond
		}
		return time.Hour
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(took(a), took(b)) })
	return out
}

// judgeBy runs the tests of a package with the mutants that they reach, and returns those that are left.
func (t *tester) judgeBy(ctx context.Context, alive []*result, stage int, path string, tell func(*result) error) (left []*result, err error) {
	for _, r := range alive {
		done := false
		if slices.Contains(t.order(r.pkg)[stage], path) {
			if done, err = t.test(ctx, r, path); err != nil {
				return nil, err
			}
		}
		if !done {
			left = append(left, r)
			continue
		}
		if err := tell(r); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// test runs the tests of a package with a mutant if they reach it, and reports whether its fate is known.
func (t *tester) test(ctx context.Context, r *result, path string) (done bool, err error) {
	a := t.alone[path]
	if a == nil {
		if a, err = t.baseline(ctx, path); err != nil {
			return false, err
		}
	}
	b, n := t.shared, t.number[r.mutant]
	if n > 0 && a.Marks[n] == 0 { // nobody knows who reaches a constant
		return false, nil
	}
	if n > 0 && !a.Failed && a.Took >= slow {
		if err := t.runEach(ctx, path); err != nil {
			return false, err
		}
	}
	if r.reached = true; a.Failed {
		return false, nil
	}
	if n == 0 {
		if b, err = t.newBuild("fixed", map[*mutant]int{r.mutant: 0}); err != nil {
			return false, err
		}
		defer os.RemoveAll(b.dir)
	}
	for _, tests := range a.reaching(n) {
		killed, took, err := t.notices(ctx, b, n, path, r.left, tests)
		if errors.Is(err, errNotBuilt) && n == 0 {
			r.notBuilt = true
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.mutant, err)
		}
		if killed {
			r.by = path
		}
		r.left -= took
		if r.timedOut = !killed && r.left <= 0; killed || r.timedOut {
			return true, nil
		}
	}
	return false, nil
}

// notices reports whether some tests of a package fail with a mutant. A mutant that hangs is noticed, if the machine has not become slow meanwhile.
// A test that now fails without the mutant, too, is left out from then on.
func (t *tester) notices(ctx context.Context, b *build, n int, path string, left time.Duration, tests batch) (killed bool, all time.Duration, err error) {
	a := t.alone[path]
	var only []string
	if tests.names != nil {
		only = []string{"-test.run=" + named(tests.names)}
	}
	for {
		limit := min(left-all, 15*time.Second+4*tests.took)
		out, failed, took, err := t.run(ctx, b, n, path, limit, only...)
		all += took
		if err != nil || !failed {
			return false, all, err
		}
		if took >= limit {
			_, failed, took, err := t.run(ctx, t.shared, 0, path, limit/2, only...)
			return err == nil && !failed, all + took, err
		}
		names := failures(out)
		if len(names) == 0 {
			return true, all, nil
		}
		if _, failed, _, err = t.run(ctx, t.shared, 0, path, time.Hour, "-test.run="+named(names)); err != nil || !failed {
			return err == nil, all, err
		}
		a.Skip = append(a.Skip, names...)
	}
}

// stages are those in which a mutant is tested: by the package itself, by those that import it, by those that run the engine as a library, and
// by those that run acltrace.
const stages = 4

// order returns the packages whose tests may notice a change, by stage.
func (t *tester) order(p *pkg) (out [stages][]string) {
	if p.tested() {
		out[0] = []string{p.ImportPath}
	}
	out[1] = p.importers
	if p.inEngine {
		for _, tests := range engineTests {
			if path, _, _ := strings.Cut(t.m.name+tests, " "); t.m.path[path] != nil {
				out[2] = append(out[2], t.m.name+tests)
			}
		}
	}
	if p.product && t.shared.inProgram {
		out[3] = t.m.running
	}
	return out
}
