// Command mutants changes the module's code in one place at a time, and reports the changes that no test notices.
//
// A mutant is a small change, such as < for <= or a call that is left out, which compiles. The seed determines the mutants: they are drawn in turn from all
// packages of which the product's programs consist, without generated files. So generators and helpers of tests have none. Each is compiled in an overlay,
// and runs the tests of its package and then of the packages that import it, the fastest first, until one fails that passes without the mutant.
// Tests in C run the simulator's engine as a library, which is then built with the mutant. bin/acltrace does not contain the mutant.
//
// Changes that no test can notice are left out: see unnoticed. equivalent.tsv lists others that mean the same, with the reason.
//
// `make mutants` calls it. It ends with 1 if too many mutants survive.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

func main() {
	o := options{}
	only := ""
	flag.IntVar(&o.n, "n", 200, "number of mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "seed that determines the mutants")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "time limit of a mutant; it survives if no test has failed by then")
	flag.Float64Var(&o.least, "least", 0.9, "least part of the mutants that tests must notice")
	flag.StringVar(&only, "packages", "", "only packages whose paths match this expression")
	flag.BoolVar(&o.list, "list", false, "list the mutants and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	enough, err := run(ctx, os.Stdout, ".", only, &o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !enough {
		os.Exit(1)
	}
}

type options struct {
	n     int
	seed  uint64
	limit time.Duration
	least float64
	list  bool
}

// result is the fate of a mutant.
type result struct {
	*mutant
	by       string // package whose tests failed, "" for none
	timedOut bool   // before all packages were tested
}

func (r *result) String() string {
	switch {
	case r.by != "":
		return "killed by " + r.by
	case r.timedOut:
		return "survived until its time limit"
	}
	return "SURVIVED"
}

// run draws and tests mutants in the module of a folder. It reports whether enough were killed.
func run(ctx context.Context, w io.Writer, dir, only string, o *options) (enough bool, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return false, fmt.Errorf("parse -packages: %w", err)
	}
	m, err := load(ctx, dir)
	if err != nil {
		return false, err
	}
	for _, entry := range m.stale {
		fmt.Fprintf(w, "%s: no such mutant: %s\n", equivalentFile, entry)
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	choice = filepath.Join(tmp, "selected")
	all, equivalent, err := m.choose(o.seed, o.n, match)
	if err != nil {
		return false, err
	}
	if o.list {
		for _, x := range all {
			fmt.Fprintln(w, x)
		}
		return true, nil
	}
	t, err := newTester(m, all)
	if err != nil {
		return false, err
	}
	var survivors []result
	for i, x := range all {
		r, err := t.test(ctx, x, o.limit)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(w, "%d/%d %s: %s\n", i+1, len(all), x, &r)
		if r.by == "" {
			survivors = append(survivors, r)
		}
	}
	n := len(all)
	killed := n - len(survivors)
	fmt.Fprintf(w, "\nseed %d: %d of %d mutants killed, %.0f%%; %d more are equivalent, looked at\n", o.seed, killed, n, 100*float64(killed)/float64(max(n, 1)), equivalent)
	for i := range survivors {
		fmt.Fprintf(w, "%s: %s\n", survivors[i].mutant, &survivors[i])
	}
	for _, path := range slices.Sorted(maps.Keys(t.passed)) {
		if t.passed[path] == 0 {
			fmt.Fprintf(w, "the tests of %s fail without a mutant, so they kill none\n", path)
		}
	}
	return float64(killed) >= o.least*float64(n), nil
}
