// Package replay runs a trace again, on any library with the interface of the traced runtime, and proves that the results equal the
// recorded ones.
//
// Run opens the trace, compiles it into a plan (package compile), plays the plan on a backend (package backend), and compares. The
// player, a separate C program, executes the plan with one thread for each captured thread, and decides nothing. It writes its results to
// a shared file, so a crashing or hanging library ends only the player. Package verify defines the verdicts.
//
// Bundle writes a plan and the player's source into a folder that can be built and run without acltrace. Package lab does experiments
// with traces and runs: it compares repeated runs, explains differences, writes bundles and extracts launches.
//
// Commands call these functions; calls are independent. The package makes no runtime call itself, changes no trace, and writes only into
// a folder that it removes, or that the caller named.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Values for Options.Pace.
const (
	PaceASAP     = "asap"
	PaceRecorded = "recorded" // each call begins at its recorded time since the first
	// PaceScaled, followed by a positive number, is PaceRecorded with all times multiplied by it.
	PaceScaled = "scaled:"
)

// Options are the parameters of Run. The zero value of each field is its default.
type Options struct {
	Backend string // a name of backend.Kinds, or the runtime library's path; default: the simulator
	Place   string // default PlaceAuto; PlaceMove may be followed by a colon and a seed
	// Guess rewrites words that may be addresses, without evidence besides their value. Otherwise results that depend on them are unproved.
	Guess    bool
	Graphs   string        // default GraphsCaptured; GraphsEager needs the simulator, and compares
	Pace     string        // default PaceASAP
	Verify   bool          // compare the results that came back from the device
	Timeout  time.Duration // without progress; default a minute more than ten times the longest recorded call
	PlanOnly io.Writer     // receives the plan as text, one line a Write, which the caller escapes; nothing is run
	Env      []string      // NAME=value, before those of this process
	// KernelLibraries are the simulator's kernel libraries. If nil, they are the existing libraries of the trace, or else those of the
	// environment. If empty, there are none. A library of the trace must be the user's own: otherwise Run and Bundle return a
	// *KernelError.
	KernelLibraries []string
	Keep            string // folder to leave plan and results in
	Replace         bool   // Bundle replaces an earlier bundle
	// Repeat is how often the plan is played, default 1. Results that differ between runs are reported.
	Repeat int
	// Poison fills new device memory with a byte. The plan is played at least three times, with two bytes in turn: results that differ
	// between the bytes depend on uninitialised memory.
	Poison bool
	// Wrapper is a command to run the player with, such as valgrind or gdb --args.
	Wrapper []string
	// Interactive gives the player, or its wrapper, the standard streams of this process and unlimited time.
	Interactive bool
	// StubComm stands in for processes that are not in the trace. The replay makes the memory and notifies that they share and omits
	// waits for them. Results that may come from them are not compared.
	StubComm bool
	// Strict makes the simulator look for errors that a device punishes later, such as unordered accesses: see Report.Findings. Other
	// libraries can't.
	Strict bool
	// Tolerance allows numbers in results to deviate, by default not at all.
	Tolerance verify.Tolerance
	// Trust allows the trace's calls and kernels to run with all the user's rights: on a device, or outside the sandbox.
	Trust bool
	// MaxMemory limits the memory of all players together, in bytes. The default is a quarter of the machine's memory, or no limit with
	// Trust. Interactive players have no limit.
	MaxMemory int64

	// Progress is called now and then with the number of parts done and the total, while the trace is compiled and for each run.
	Progress func(parts string, done, total int)

	// Limits bound the resources that a trace can ask for.
	Limits compile.Limits

	seed uint64 // of PlaceMove
}

// Check returns an error about invalid options, which begins with the option's name.
func (o *Options) Check() error {
	computes := backend.New(o.Backend, nil).Computes()
	if o.Place != "" {
		if _, _, err := compile.ParsePlace(o.Place); err != nil {
			return err
		}
	}
	switch {
	case o.Pace != "" && o.Pace != PaceASAP && o.scale() == 0:
		return fmt.Errorf("pace %q: want %s, %s or %sX with X above 0", o.Pace, PaceASAP, PaceRecorded, PaceScaled)
	case o.Graphs != "" && o.Graphs != GraphsCaptured && o.Graphs != GraphsEager:
		return fmt.Errorf("graphs %q: want %s or %s", o.Graphs, GraphsCaptured, GraphsEager)
	case o.Graphs == GraphsEager && o.Backend != "":
		return fmt.Errorf("graphs %s: only the simulator moves memory, which this needs", o.Graphs)
	case o.Graphs == GraphsEager && o.Place == compile.PlaceSame:
		return fmt.Errorf("graphs %s: memory gets other addresses: want place %s", o.Graphs, compile.PlaceMove)
	case o.Verify && !computes:
		return errors.New("verify: no library is called, so there are no results")
	case o.Poison && !computes:
		return errors.New("poison: no library is called, so there is no memory")
	case o.Strict && o.Backend != "":
		return fmt.Errorf("strict: only the simulator finds mistakes, not %s", o.Backend)
	case o.Repeat < 0:
		return fmt.Errorf("repeat %d: want 0 or more", o.Repeat)
	case o.MaxMemory < 0:
		return fmt.Errorf("max-memory %d: want 0 or more bytes", o.MaxMemory)
	case o.Timeout < 0:
		return fmt.Errorf("timeout %v: want 0 or more", o.Timeout)
	}
	return nil
}

// forCompiler returns the compiler's options.
func (o *Options) forCompiler(m *api.Model) *compile.Options {
	var progress func(done, total int)
	if o.Progress != nil {
		progress = func(done, total int) { o.Progress("calls compiled", done, total) }
	}
	return &compile.Options{
		Progress: progress,
		Backend:  backend.New(o.Backend, m), Place: o.Place, Seed: o.seed, Guess: o.Guess, Scale: o.scale(), Compare: o.Verify || o.Repeat > 1, TimeLaunches: o.Repeat > 1,
		Eager: o.Graphs == GraphsEager, Poison: o.Poison, StubComm: o.StubComm, Tolerance: o.Tolerance, Limits: o.Limits,
	}
}

// scale returns the factor for recorded times, 0 if they are not kept.
func (o *Options) scale() float64 {
	if o.Pace == PaceRecorded {
		return 1
	}
	x, ok := strings.CutPrefix(o.Pace, PaceScaled)
	if f, err := strconv.ParseFloat(x, 64); ok && err == nil && f > 0 && f <= 1e6 {
		return f
	}
	return 0
}

// Scale returns the factor that a pace applies to recorded times, 0 for PaceASAP.
func Scale(pace string) (float64, error) {
	o := Options{Pace: pace}
	return o.scale(), o.Check()
}

// ErrTrust is wrapped by the error about a trace that would run on a device without Options.Trust.
var ErrTrust = errors.New("kernels and calls of the trace would run on a device, with your rights")

// ErrSandbox is wrapped by the error about a trace that would run outside the sandbox without Options.Trust.
var ErrSandbox = errors.New("kernels and calls of the trace would run with all your rights")

// Run replays the trace at path. It returns a report after a run, or if some call can't be replayed. An error means that there was no
// run, or that it can't be judged.
func Run(ctx context.Context, path string, m *api.Model, o *Options) (*Report, error) {
	checked, r, err := begin(path, m, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	opts := *checked
	if opts.Strict && m.Simulator.Strict == "" {
		return nil, fmt.Errorf("strict: the %s simulator does not find mistakes", m.Accelerator.Vendor)
	}
	compiling := opts.forCompiler(m)
	if opts.PlanOnly == nil {
		if err := backend.Check(opts.Backend); err != nil {
			return nil, err
		}
		if !opts.Trust && compiling.Backend.NeedsTrust() {
			return nil, fmt.Errorf("replay %s on %s: %w", path, opts.Backend, ErrTrust)
		}
	}
	var kernels []string
	if opts.PlanOnly == nil {
		if kernels, err = chooseKernels(&opts, m, r.Meta()); err != nil {
			return nil, fmt.Errorf("replay %s: %w", path, err)
		}
	}
	dir, done, discard, err := folder(opts.Keep)
	if err != nil {
		return nil, err
	}
	defer done()
	compiled, err := compile.Trace(r, m, dir, compiling)
	if err != nil {
		return nil, errors.Join(compile.InFile(path, err), discard())
	}
	defer compiled.Close()
	p := &judge{compiled, &opts, compiling.Backend}
	if x := r.Meta().Extracted; x != nil && x.Results == 0 && opts.Verify {
		p.Found.Unverified = compile.AddUnverified(p.Found.Unverified, x.Launch, verify.NotRecorded, "the trace lacks the results of the launch: the memory was overwritten or freed before the program read it")
	}
	if opts.PlanOnly != nil {
		if err := printPlan(opts.PlanOnly, compiled, r.Meta()); err != nil {
			return nil, err
		}
	}
	if opts.PlanOnly != nil || len(p.Found.Unsupported) > 0 || p.Found.Calls == 0 {
		return p.report(nil, nil), nil
	}
	s := &session{p: p, o: &opts, dir: dir, meta: r.Meta(), kernels: kernels, r: r, compiling: compiling}
	if err := os.RemoveAll(compile.OwnDir(dir)); err != nil { // left by an earlier replay, if the folder is kept
		return nil, err
	}
	if err := os.MkdirAll(compile.OwnDir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := kernellib.Create(kernelList(dir)); err != nil {
		return nil, err
	}
	res, err := s.play(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	defer func() { res.close() }()
	if len(res.missing) > 0 {
		rep := p.report(nil, nil)
		rep.Unsupported = append(rep.Unsupported, p.MissingFunctions(res.missing)...)
		return rep, nil
	}
	var ran Conditions
	if err := s.executed(&ran); err != nil {
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	res.others = slices.ContainsFunc(ran.KernelLibraries, func(k KernelLibrary) bool { return k.BuildID != k.RecordedBuildID })
	var rep *Report
	if opts.Repeat > 1 {
		runs, err := s.again(ctx, res)
		if err != nil {
			return nil, fmt.Errorf("replay %s: %w", path, err)
		}
		rep = p.report(res, runs.Varying)
		rep.repeated(p, res, runs)
	} else {
		rep = p.report(res, nil)
	}
	if rep.Findings, rep.Unchecked, err = s.findings(); err != nil {
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	rep.KernelLibraries, rep.NotComputed = ran.KernelLibraries, ran.NotComputed
	if err := rep.Crash.tell(r, m); err != nil {
		return nil, compile.InFile(path, err)
	}
	if err := explain(ctx, r, m, rep); err != nil {
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	rep.eagerly(&opts, &p.Found)
	if rep.Placement == "moved" && opts.Place == compile.PlaceSame && rep.Crash == nil {
		return rep, fmt.Errorf("replay %s: %w", path, res.moved(p))
	}
	return rep, nil
}

// explain adds the history of each differing byte to its difference.
func explain(ctx context.Context, r *format.Reader, m *api.Model, rep *Report) error {
	var ds []*Difference
	var bytes []lab.Byte
	add := func(all []Difference) {
		for i := range all {
			if d := &all[i]; d.result && !d.length {
				ds = append(ds, d)
				bytes = append(bytes, lab.Byte{Call: d.Call, Item: d.item, Offset: d.Offset})
			}
		}
	}
	add(rep.Differences)
	add(rep.sources)
	if rep.Repeat != nil {
		add(rep.Repeat.NotDeterministic)
	}
	histories, err := lab.Explain(ctx, r, m, bytes)
	for i, h := range histories {
		ds[i].History = h
	}
	rep.nameSources()
	return err
}

// nameSources adds the copies whose data was taken early to the reasons of results that depend on them.
func (r *Report) nameSources() {
	for _, d := range r.sources {
		for _, x := range d.Chain {
			for i := range r.Unverified {
				if u := &r.Unverified[i]; x.Early != timeline.NoCall && u.Call == d.Call && u.Code == verify.Source {
					u.Reason = fmt.Sprintf("it differs, and depends on the data of call %d, which was %s", x.Early, format.TakenEarly)
				}
			}
		}
	}
}

// printPlan writes the plan as text, one line a Write.
func printPlan(w io.Writer, p *compile.Plan, meta *format.Meta) error {
	set, _ := compile.RecordedVariables(&p.Model.Simulator, meta)
	for _, v := range set {
		if _, err := fmt.Fprintf(w, "environment: %s\n", v); err != nil {
			return err
		}
	}
	return p.Print(w)
}

// begin opens a trace, and sets default options.
func begin(path string, m *api.Model, o *Options) (*Options, *format.Reader, error) {
	opts := Options{}
	if o != nil {
		opts = *o
	}
	if opts.Place == "" {
		opts.Place = compile.PlaceAuto
	}
	if opts.Graphs == GraphsEager {
		opts.Verify = true
		if opts.Place == compile.PlaceAuto {
			opts.Place = eagerPlace
		}
	}
	if opts.Pace == "" {
		opts.Pace = PaceASAP
	}
	if opts.Poison {
		opts.Repeat = max(opts.Repeat, 3)
	}
	if err := opts.Check(); err != nil {
		return nil, nil, err
	}
	opts.Place, opts.seed, _ = compile.ParsePlace(opts.Place)
	r, err := compile.Open(path, m)
	return &opts, r, err
}

// folder returns the folder for plan and results, and a function to call at the end.
func folder(keep string) (dir string, done func(), discard func() error, err error) {
	discard = func() error { return nil }
	if keep == "" {
		dir, err := private.MkdirTemp("acltrace-replay-")
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		return dir, func() { os.RemoveAll(dir) }, discard, err
	}
	if dir, err = filepath.Abs(keep); err == nil {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			discard = func() error { return os.RemoveAll(dir) }
		}
		err = private.MakeFolder(dir)
	}
	if err == nil {
		err = private.CodeFolder(dir) // the player is run from it
	}
	return dir, func() {}, discard, err
}

// session is one player run.
type session struct {
	p    *judge
	o    *Options
	dir  string
	meta *format.Meta
	// kernels are absolute kernel library paths, nil to use the environment's.
	kernels []string
	// r and compiling compile the plan again, for other seeds of PlaceMove.
	r         *format.Reader
	compiling *compile.Options
}

// minTimeout is the timeout for a call whose recorded duration is 0.
const minTimeout = time.Minute

// play runs the player for the n-th time, counted from 0.
func (s *session) play(ctx context.Context, n int) (*outcome, error) {
	player, err := artifacts.Install(artifacts.Player, s.dir)
	if err != nil {
		return nil, err
	}
	library, err := s.p.lib.Library()
	if err != nil {
		return nil, err
	}
	f, err := s.results()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.o.Poison {
		h := plan.ResultHeader{Poison: uint32(lab.Poison(n))}
		if _, err := f.WriteAt(plan.Bytes([]plan.ResultHeader{h}), 0); err != nil {
			return nil, err
		}
	}
	env := s.env()
	box, err := s.sandboxArguments(env)
	if err != nil {
		return nil, err
	}
	args := slices.Concat(s.o.Wrapper, []string{player}, box, []string{s.p.File.Path, library, f.Name()})
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.WaitDelay = time.Second // for processes that keep the standard streams open
	log := &tail{max: 8 << 10}
	cmd.Stdout, cmd.Stderr = log, log
	if s.o.Interactive {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	hung, err := s.wait(ctx, cmd, player, f)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := s.saveCores(); err != nil {
		return nil, err
	}
	b, err := s.takeResults(f)
	if err != nil {
		return nil, err
	}
	o, err := s.p.read(b, cmd.ProcessState, hung, log.String())
	if err != nil {
		_ = syscall.Munmap(b)
		return nil, err
	}
	return o, nil
}

// wait runs the player within the limits of the session, whose processes it ends afterwards.
func (s *session) wait(ctx context.Context, cmd *exec.Cmd, player string, results *os.File) (hung bool, err error) {
	limit := s.memoryLimit()
	bounded := !s.o.Interactive && limit > 0
	var guard *guard
	before := stored(compile.OwnDir(s.dir))
	if bounded {
		if guard, err = startGuard(player); err != nil {
			return false, err
		}
		defer guard.end()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("player: %w", err)
	}
	exited, broken := make(chan error, 1), make(chan *MemoryError, 1)
	over := make(chan struct{})
	if bounded {
		guard.watch(cmd.Process.Pid)
		go func() { broken <- hold(cmd.Process.Pid, compile.OwnDir(s.dir), before, limit, over) }()
	}
	go func() { exited <- cmd.Wait() }()
	hung = s.watch(ctx, results, cmd.Process, exited)
	close(over)
	if !bounded {
		return hung, nil
	}
	e := <-broken
	guard.watch(0)
	if e != nil {
		return false, e
	}
	return hung, nil
}

// takeResults maps a copy of the results. Processes that the player left behind can't change it.
func (s *session) takeResults(f *os.File) ([]byte, error) {
	size := int64(s.p.File.Header.ResBytes)
	own, err := os.CreateTemp(s.dir, "results-")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if err := os.Remove(own.Name()); err != nil {
		return nil, err
	}
	if n, err := io.Copy(own, io.NewSectionReader(f, 0, size)); err != nil {
		return nil, err
	} else if n < size {
		return nil, fmt.Errorf("%s: the player has cut it: %w", f.Name(), io.ErrUnexpectedEOF)
	}
	return syscall.Mmap(int(own.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_PRIVATE)
}

// watch waits until the player ends, and kills it if it makes no progress.
func (s *session) watch(ctx context.Context, f *os.File, proc *os.Process, exited <-chan error) (hung bool) {
	limit := s.o.Timeout
	if limit == 0 {
		limit = minTimeout + 10*time.Duration(s.p.Found.Longest)
		limit += time.Duration(float64(s.p.Found.To-s.p.Found.From) * s.p.Scale)
	}
	tick := time.NewTicker(max(min(limit/10, 100*time.Millisecond), time.Millisecond))
	defer tick.Stop()
	state := make([]byte, 64*len(s.p.Threads))
	last, since := uint64(0), time.Now()
	total := s.p.File.Count()
	played := func(n uint64) {
		if s.o.Progress != nil {
			s.o.Progress("steps played", int(n), int(total))
		}
	}
	defer played(total)
	for {
		select {
		case <-exited:
			return hung
		case <-ctx.Done():
			_ = proc.Kill()
			<-exited
			return false
		case <-tick.C:
		}
		if _, err := f.ReadAt(state, int64(s.p.File.Header.ResThreads)); err != nil {
			continue
		}
		sum := uint64(1)
		for _, t := range plan.View[plan.ResultThread](state, 0, uint64(len(s.p.Threads))) {
			sum += t.Progress
		}
		if sum != last {
			last, since = sum, time.Now()
			played(sum - 1)
		} else if !hung && !s.o.Interactive && time.Since(since) > limit {
			hung = true
			_ = proc.Kill()
		}
	}
}

// allocate sets a file's size and allocates its storage.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// tail keeps the last bytes that were written to it.
type tail struct {
	b   []byte
	max int
}

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if n := len(t.b) - t.max; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.b)) }
