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
	"syscall"
	"time"
)

// cgo is the environment to compile Go with C.
var cgo = []string{"CGO_ENABLED=1"}

// tester runs tests with mutants.
type tester struct {
	m      *module
	tmp    string                   // folder of the overlay
	passed map[string]time.Duration // how long the tests of packages take without a mutant, 0 if they fail
	took   map[string]time.Duration // how long packages took to test with a mutant that they did not notice
}

func newTester(m *module) (*tester, error) {
	tmp, err := os.MkdirTemp("", "mutants-")
	return &tester{m: m, tmp: tmp, passed: map[string]time.Duration{}, took: map[string]time.Duration{}}, err
}

func (t *tester) close() { os.RemoveAll(t.tmp) }

// overlay writes a mutant and returns the flag to compile it.
func (t *tester) overlay(x *mutant) (string, error) {
	src, err := x.apply()
	if err != nil {
		return "", err
	}
	file, list := filepath.Join(t.tmp, "mutant.go"), filepath.Join(t.tmp, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {x.file: file}})
	return "-overlay=" + list, errors.Join(err, os.WriteFile(file, src, 0o600), os.WriteFile(list, b, 0o600))
}

// compiles reports whether a mutant compiles.
func (t *tester) compiles(ctx context.Context, x *mutant) (bool, error) {
	flag, err := t.overlay(x)
	if err != nil {
		return false, err
	}
	_, err = t.command(ctx, cgo, "build", "-o", os.DevNull, flag, x.pkg.ImportPath)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// command runs go, and ends everything that it has started if the context ends.
func (t *tester) command(ctx context.Context, env []string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), env...)
	c.Dir, c.SysProcAttr, c.WaitDelay = t.m.dir, &syscall.SysProcAttr{Setpgid: true}, time.Second
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// alone returns how long the tests of a package take without a mutant, 0 if they fail. The go command remembers those that have passed.
func (t *tester) alone(ctx context.Context, path string) time.Duration {
	d, known := t.passed[path]
	if !known {
		if out, err := t.command(ctx, nil, "test", "-v", "-vet=off", "-ldflags=-w", "-failfast", "-timeout=60m", path); err == nil {
			d = max(elapsed(out), time.Millisecond)
		} else if ctx.Err() != nil {
			return 0
		}
		t.passed[path] = d
	}
	return d
}

var passing = regexp.MustCompile(`(?m)^--- \w+: \S+ \((.+)\)$`)

// elapsed returns the sum of the tests' times. Results from the cache have the times of their run.
func elapsed(out []byte) (sum time.Duration) {
	for _, f := range passing.FindAllSubmatch(out, -1) {
		if d, err := time.ParseDuration(string(f[1])); err == nil {
			sum += d
		}
	}
	return sum
}

// test runs the tests that a mutant may fail.
func (t *tester) test(ctx context.Context, x *mutant, limit time.Duration) (result, error) {
	r := result{mutant: x}
	flag, err := t.overlay(x)
	if err != nil {
		return r, err
	}
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for _, path := range t.order(x.pkg) {
		if ended, err := t.testPackage(ctx, within, &r, path, flag); ended || err != nil {
			return r, err
		}
	}
	if !x.pkg.inEngine {
		return r, nil
	}
	lib, err := t.buildEngine(within, flag)
	if err != nil {
		return r, fmt.Errorf("build %s with %s: %w", engine, x, err)
	}
	for _, path := range engineTests {
		if ended, err := t.testPackage(ctx, within, &r, t.m.name+path, "-count=1", "ACLTRACE_LIB="+lib); ended || err != nil {
			return r, err
		}
	}
	return r, nil
}

// buildEngine builds the simulator's engine with a mutant. It returns a copy of the folder of libraries with it.
func (t *tester) buildEngine(ctx context.Context, flag string) (string, error) {
	lib := filepath.Join(t.tmp, "lib")
	if _, err := os.Stat(lib); err != nil {
		built := cmp.Or(os.Getenv("ACLTRACE_LIB"), filepath.Join(t.m.dir, "lib"))
		if out, err := exec.CommandContext(ctx, "cp", "-a", built, lib).CombinedOutput(); err != nil {
			return "", fmt.Errorf("copy %s: %w: %s", built, err, out)
		}
	}
	out, err := t.command(ctx, cgo, "build", flag, "-buildmode=c-shared", "-o", filepath.Join(lib, engineFile), t.m.name+engine)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return lib, nil
}

// testPackage runs the tests of a package. It reports whether the fate of a mutant is known.
func (t *tester) testPackage(ctx, within context.Context, r *result, path, flag string, env ...string) (bool, error) {
	began := time.Now()
	out, err := t.command(within, env, "test", flag, "-vet=off", "-ldflags=-w", "-failfast", "-timeout=60m", path)
	took := time.Since(began)
	switch {
	case ctx.Err() != nil:
		return true, ctx.Err()
	case err == nil:
		t.took[path] = took
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return true, fmt.Errorf("build %s with %s: %s", path, r.mutant, out)
	case within.Err() == nil && t.alone(ctx, path) > 0:
		r.by = path
	case within.Err() != nil: // a mutant that hangs is noticed; a busy machine may take ten times as long
		if alone := t.alone(ctx, path); alone > 0 && took > time.Minute+10*alone {
			r.by = path
		}
		r.timedOut = r.by == ""
		return true, ctx.Err()
	}
	return r.by != "", nil
}

// order returns the packages whose tests may notice a change: the package itself, and those that import it, the fastest first if that is known.
func (t *tester) order(p *pkg) []string {
	paths := slices.Clone(p.importers)
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(t.took[a], t.took[b]) })
	if p.tested() {
		paths = slices.Insert(paths, 0, p.ImportPath)
	}
	return paths
}
