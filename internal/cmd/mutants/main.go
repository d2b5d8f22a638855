// Command mutants changes the module's code in one place at a time, and reports the changes that no test notices.
//
// A mutant is a small change, such as < for <= or a call that is left out, which compiles. The seed determines the mutants: they are drawn in turn from all
// packages of which the product's programs consist, without generated files. So programs of the build, which other commands prove, and helpers of tests have none.
//
// One overlay has all mutants, and a file selects one of them when a program starts. So three kinds of programs are built once: the tests of each package,
// the simulator's engine, which tests in C run as a library, and acltrace, which tests find through ACLTRACE_TEST_BIN. A mutant of a constant is built
// alone, without acltrace.
// The tests of a package run without a mutant first. This shows how long they take, whether they pass, and which mutants they reach. Each runs by itself
// if they run programs or take long, and one that takes longer than 90 s is left out.
// A mutant then runs the tests that reach it: those of its package, then of the packages that import it, then those of the engine, also in virtual time,
// then those that run acltrace. The fastest run first, until some fail. All mutants go through one of these stages before the next begins.
//
// Changes that no test can notice are left out: see unnoticed. equivalent.tsv lists others that mean the same, with the reason.
//
// With -killed a run that was interrupted goes on: only mutants that no test has killed yet run again. The folder FILE.work keeps the programs and the
// results without a mutant, which hold until the code or the package's tests change.
//
// `make mutants` calls it. It ends with 1 if too many mutants survive.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	o := options{}
	only := ""
	flag.IntVar(&o.n, "n", 200, "number of mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "seed that determines the mutants")
	flag.DurationVar(&o.limit, "limit", 5*time.Minute, "time limit of a mutant; it survives if no test has failed by then")
	flag.Float64Var(&o.least, "least", 0.9, "least part of the mutants that tests must notice")
	flag.StringVar(&only, "packages", "", "only packages whose paths match this expression")
	flag.StringVar(&o.killed, "killed", "", "file of mutants that were killed: they are not run again, and new ones are added")
	flag.BoolVar(&o.list, "list", false, "list the mutants and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	// killed is a file with one line a mutant, and the package whose tests killed it after a tab. So a run goes on where an earlier one has ended.
	killed string
}

// workDir returns the folder for builds. With -killed it stays, with what was found out without a mutant, so that a later run is faster.
func (o *options) workDir() (dir string, done func(), err error) {
	if o.killed == "" {
		dir, err := os.MkdirTemp("", "mutants-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	dir, err = filepath.Abs(o.killed + ".work")
	if err != nil {
		return "", nil, err
	}
	return dir, func() {}, os.MkdirAll(dir, 0o700)
}

// result is the fate of a mutant.
type result struct {
	*mutant
	reached  bool          // tests reach it
	by       string        // package whose tests failed, "" for none
	left     time.Duration // of its time limit
	timedOut bool          // before all packages were tested
	notBuilt bool          // other packages compute with its constant
}

func (r *result) String() string {
	switch {
	case r.notBuilt:
		return "left out, other packages don't compile with it"
	case r.by != "":
		return "killed by " + r.by
	case !r.reached:
		return "SURVIVED, no test reaches it"
	case r.timedOut:
		return "survived until its time limit"
	}
	return "SURVIVED"
}

// score counts mutants.
type score struct{ killed, all int }

func (s *score) add(r *result) {
	s.all++
	if r.by != "" {
		s.killed++
	}
}

func (s *score) String() string {
	return fmt.Sprintf("%d of %d mutants killed, %.0f%%", s.killed, s.all, 100*float64(s.killed)/float64(max(s.all, 1)))
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
	tmp, done, err := o.workDir()
	if err != nil {
		return false, err
	}
	defer done()
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
	before, err := readKilled(o.killed)
	if err != nil {
		return false, err
	}
	left := slices.DeleteFunc(slices.Clone(all), func(x *mutant) bool { return before[x.String()] != "" })
	t, err := newTester(ctx, m, all)
	if err != nil {
		return false, err
	}
	rooms := map[string]*score{}
	total := score{}
	var survivors []*result
	told := 0
	tell := func(r *result) error {
		told++
		if _, err := fmt.Fprintf(w, "%d/%d %s: %s\n", told, len(all), r.mutant, r); err != nil || r.notBuilt {
			return err
		}
		room := m.room(r.pkg)
		if rooms[room] == nil {
			rooms[room] = &score{}
		}
		rooms[room].add(r)
		total.add(r)
		if r.by == "" {
			survivors = append(survivors, r)
			return nil
		}
		return before.add(o.killed, r)
	}
	for _, x := range all {
		if by := before[x.String()]; by != "" {
			if err := tell(&result{mutant: x, reached: true, by: by}); err != nil {
				return false, err
			}
		}
	}
	err = t.judge(ctx, left, o.limit, tell)
	if err != nil && ctx.Err() == nil {
		return false, err
	}
	if told < len(all) {
		fmt.Fprintf(w, "%d mutants have no fate yet\n", len(all)-told)
	}
	fmt.Fprintf(w, "\nseed %d: %s; %d more are equivalent, looked at\n", o.seed, &total, equivalent)
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		fmt.Fprintf(w, "%s: %s\n", room, rooms[room])
	}
	for _, r := range survivors {
		fmt.Fprintf(w, "%s: %s\n", r.mutant, r)
	}
	for _, path := range slices.Sorted(maps.Keys(t.alone)) {
		if a := t.alone[path]; a.Failed {
			fmt.Fprintf(w, "the tests of %s fail without a mutant, so they kill none\n", path)
		} else if len(a.Skip) > 0 {
			fmt.Fprintf(w, "tests of %s that fail without a mutant kill none: %s\n", path, strings.Join(a.Skip, ", "))
		}
	}
	return float64(total.killed) >= o.least*float64(total.all), ctx.Err()
}

// killers are the packages whose tests killed mutants, by the mutants' texts.
type killers map[string]string

// readKilled reads a file of killed mutants; "" and a file that does not exist yet have none.
func readKilled(path string) (killers, error) {
	k := killers{}
	b, err := os.ReadFile(path)
	if path == "" || errors.Is(err, os.ErrNotExist) {
		return k, nil
	}
	for line := range strings.Lines(string(b)) {
		if x, by, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			k[x] = by
		}
	}
	return k, err
}

// add appends a mutant to the file, if there is one and it lacks it.
func (k killers) add(path string, r *result) error {
	if path == "" || k[r.mutant.String()] != "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\t%s\n", r.mutant, r.by)
	return errors.Join(err, f.Close())
}
