// Package record makes a trace of a running program: it starts the program with a probe, takes what the probe sees while
// the program runs, and writes the file, which is whole however the program ends.
//
// Run does all of it for one command. Nothing here knows what a call means beyond what the model says of its
// parameters, and nothing here changes what the program does.
package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/inject"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/record/watch"
	"github.com/acltrace/acltrace/sim/model"
)

// Payload says how much of what is copied is kept.
type Payload string

const (
	Small Payload = "small" // copies up to 64 KiB
	Full  Payload = "full"  // all
	Hash  Payload = "hash"  // hash and length of all
	None  Payload = "none"
)

// SmallLimit is the size in bytes up to which payloads are kept at the level Small.
const SmallLimit = 64 << 10

// VisibleLimit is the size in bytes of managed memory and registered host memory up to which Options.Replayable keeps its content.
const VisibleLimit = 64 << 20

// SmallestCopy is the size in bytes below which copies are left out where small ones are not wanted.
const SmallestCopy = 4096

// Options are the parameters of Run. The zero value of each field is its default.
type Options struct {
	Model       *api.Model    // required
	Output      string        // file to write, required; %h, %p and %r in it are the host, the program's process and its rank
	Overwrite   bool          // write over a file that has the name of Output or BlobFile
	Keep        int           // without Overwrite, how many older files stay that were moved aside for Output; default 10
	Command     []string      // program and arguments, required
	Env         []string      // nil means the caller's own
	Sim         bool          // run the program on the simulator
	Probe       string        // "shim" (default) or "ebpf"
	Bind        string        // with shim: how it comes before the runtime: "auto" (default, is "preload"), "preload" or "audit"
	Library     string        // with ebpf: the runtime library, where the program does not name it itself
	Ring        *Ring         // keep the newest calls and seal them when something happens; nil records everything
	Armed       bool          // record nothing until somebody asks for it: see Ask
	Drop        bool          // with ebpf: give up the rights of this process that it does not need any more once the probes are there
	For         time.Duration // record only so long, from when recording starts; 0 for no limit
	Payload     Payload       // default Small
	Block       bool          // the program waits where the recorder is too slow, instead of losing calls
	Replayable  bool          // Full and Block, without a limit of size
	MaxSize     int64         // bytes of the trace, at which recording ends, and payloads at nine tenths of it; default a tenth of the free space, at most 10 GiB
	BlobFile    string        // file for the contents of payloads, "" to have them in Output; %h and %r as there
	RingBytes   int           // of each thread's ring; default 8 MiB
	MemoryLimit uint64        // bytes of all rings together; see ring.Options
	Steps       *StepRange    // record these steps alone, nil for all
	StepMarker  string        // what tells steps apart: see step.NewCounter
	State       string        // folder for the list of kernel libraries that were loaded; default statedir.Path
	Stacks      int           // frames to keep of the stack that each call was made from, 0 for none
	NoSmall     bool          // leave out copies below SmallestCopy
	NoTaskIDs   bool          // leave out the runtime's own ids of streams and tasks
	DeviceTime  int           // of how many tasks of a thread one is measured by the device's clock; 0 for none, 1 for all
	// DeviceTimeGap is the least time between two such tasks of a thread.
	DeviceTimeGap time.Duration
	Follower      Follower // is told what is recorded while that goes on; nil for nobody
	// Waiting is told what the recording waits for, where that may take long; nil where nobody asks.
	Waiting func(what string)
	Version string   // of acltrace, for the trace
	Stdin   *os.File // nil: the caller's own, as the next two
	Stdout  *os.File
	Stderr  *os.File
}

// Result says how a recording ended.
type Result struct {
	ExitCode   int               // of the program; 128 and the number of the signal that ended it
	Signal     int               // that ended the program, 0 for none
	Calls      uint64            // in the file
	Nested     uint64            // of the lost calls, those made inside other calls, as signal handlers do
	Unwritten  uint64            // calls that were recorded and could not be written
	Failed     uint64            // of these
	Unfinished uint64            // of these
	Lost       uint64            // calls that are missing
	Refused    int               // threads that could not be recorded
	Processes  int               // that called the runtime
	Bytes      int64             // of the file
	BlobFile   string            // name of the file with the contents of payloads, "" where they are in the trace
	BlobBytes  int64             // of that file
	PassedBy   map[string]uint64 // calls of functions that the shim does not know, by name
	Unhooked   []format.Unhooked // processes and libraries whose calls were not seen
	NoCall     string            // why no call was seen, "" if calls were seen or nothing shows why
	Unexecuted []string          // kernels that were launched on the simulator and that no kernel library implements, sorted
	Crashed    []string          // kernels that crashed in their own code on the simulator, sorted
	// Forgotten is why the list of this user's kernel libraries lacks those of the program, nil if it has them: a replay does not load
	// them by itself.
	Forgotten error
	Output    string   // name of the file
	OlderKept bool     // no call was recorded, and Output is the older file that had the name
	Moved     []string // new names of the older files that had the name of Output
	NoFile    string   // why there is no file, "" if there is
	NoRoom    int64    // the largest size of the file, if that left no room for a call, else 0
	DiskFull  bool     // NoRoom is a part of the free space, not given by Options.MaxSize
	Sealed    []string // with a Ring: the files, in the order in which they were sealed
	Full      bool     // the trace had its largest size before the program ended
	Died      []Died   // processes that a signal has ended, other than the program itself
	Missed    string   // why steps that were wanted are not in the trace, "" where all are
	Salvaged  []string // traces of what recorders that were killed had left
	Left      []Left   // rings that are in no trace yet, of this recording or of earlier ones
	// Incomplete is the error that ended the recording before the program, nil for none: the program ran on.
	Incomplete error
}

// Died is a process that a signal has ended.
type Died struct {
	PID     int
	Command string
	Signal  int      // 0 where it is not known
	Last    []string // the latest calls of its threads, those first that never returned
}

// ErrStart is returned, wrapped, where recording could not begin and the program was not run.
var ErrStart = errors.New("recording could not start")

// Run records one command. An error that wraps ErrStart means that the program was not run.
func Run(ctx context.Context, o *Options) (*Result, error) {
	r, err := prepare(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := r.create(r.env); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	return r.run(ctx)
}

type recorder struct {
	o    Options
	path string // of the program
	// pattern is the name of the trace as it was asked for; Options.Output the one that it has.
	pattern string
	out     output
	pruning sync.WaitGroup
	tenth   bool // Options.MaxSize is a part of the free space
	env     []string
	meta    format.Meta
	b       *builder
	flight  *flight // nil for a recording of everything
	control *session.Server
	chooser *chooser // nil: not by steps
	ends    []probe.End
	code    int // of the exit of what somebody else has started
	root    int // the program's process, 0 where somebody else has started it
	// gone is told of processes that have ended, and of others that have come and are not recorded; nil where nobody asks.
	gone     func(ends, untraced []probe.End)
	succeeds bool        // a collector that was killed
	salvaged []string    // traces of what others had left
	left     []Left      // and what could not be salvaged
	mode     os.FileMode // of the session's files, 0 for this user alone
	unnamed  error       // why the trace does not have its name
	start    int64       // CLOCK_MONOTONIC of the trace's time 0 where that is before now
	ending   string      // why a ring is sealed at the end, "" for how the program ended
	unsealed bool        // what the ring held is still in the session
	full     bool        // the trace has its largest size
	waiting  int64       // time since which nothing is recorded, 0 while it is
	since    int64       // time since which it is
	simDir   string

	kernelList string // file of the kernel libraries that the simulator has loaded, "" if it does not report them
	ownKernels ownKernels

	uprobes uprobe.Trial  // the way that is used, and what it costs
	damaged []ring.Damage // done to the session by programs
	hooked  *int          // functions that have a probe; nil: those of the model
	ended   int64         // when the last calls were seen, where that is before the end; else 0
	late    sync.Mutex    // of unseen, which another goroutine adds to
	unseen  []format.Unhooked
}

// defaults fills in what was not said.
func (r *recorder) defaults() {
	o := &r.o
	if o.Replayable {
		o.Payload, o.Block = Full, o.Block || o.Probe != "ebpf" // a probe in the kernel can't wait
	}
	if o.Payload == "" {
		o.Payload = Small
	}
	if o.Probe == "" {
		o.Probe = "shim"
	}
	if o.Bind == "" || o.Bind == "auto" {
		o.Bind = "preload"
	}
}

// check says what does not go together.
func (r *recorder) check() error {
	o := &r.o
	if o.DeviceTime != 0 && o.Probe != "shim" {
		return errors.New("--device-time puts events on the program's streams, which only --probe shim can")
	}
	if o.Block && o.Probe == "ebpf" {
		return errors.New("--policy block does not go with --probe ebpf: a probe in the kernel can't wait for the recorder; choose --probe shim, or a larger --ring-size")
	}
	switch o.Bind {
	case "preload":
	case "audit":
		if o.Probe != "shim" {
			return errors.New("--bind audit is a way to bind the shim: it does not go with --probe " + o.Probe)
		}
	default:
		return fmt.Errorf("no way %q to bind the shim: there are auto, preload and audit", o.Bind)
	}
	if o.Armed && o.Probe != "shim" {
		return errors.New("--armed goes with --probe shim: what eBPF records is attached when it is wanted")
	}
	if o.Ring != nil && (o.Probe != "shim" || o.Replayable) {
		return errors.New("a ring goes with --probe shim, and not with --replayable: what has left the ring can't be replayed")
	}
	if o.BlobFile != "" && o.Ring != nil {
		return errors.New("--blobs does not go with a ring, which is kept in memory")
	}
	if err := checkBlobFile(o); err != nil {
		return err
	}
	if o.Ring != nil && o.MaxSize != 0 {
		return errors.New("--max-size ends a recording of everything: a ring has its own size, and --max-seals says how many traces are made of it")
	}
	if o.Steps != nil && (o.Probe != "shim" || o.Ring != nil) {
		return errors.New("--steps goes with --probe shim, and not with a ring, which keeps the newest calls whatever the step")
	}
	return nil
}

func checkBlobFile(o *Options) error {
	if strings.Contains(o.BlobFile, "%p") {
		return errors.New("--blobs: %p is not known when that file is made; %h and %r are")
	}
	return nil
}

func prepare(opts *Options) (*recorder, error) {
	r := &recorder{o: *opts}
	r.defaults()
	o := &r.o
	if err := r.check(); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	var err error
	if r.path, err = host.FindProgram(o.Command[0]); err != nil {
		return nil, err
	}
	if err := host.CheckExecutable(r.path); err != nil && (o.Probe == "shim" || !strings.Contains(err.Error(), "statically")) {
		return nil, err
	}
	r.env = slices.Clone(o.Env)
	if o.Sim {
		if r.simDir, err = artifacts.SimulatorDir(o.Model); err != nil {
			return nil, err
		}
		r.env = inject.Simulate(o.Model, r.env, r.simDir)
	}
	return r, nil
}

// create makes the file and what fills it. env is the environment of the program.
func (r *recorder) create(env []string) error {
	o := &r.o
	r.pattern = o.Output
	o.Output = outputName(o.Output, env, os.Getpid()) // until the program has an id
	r.begun(env)
	largest := o.Output
	if o.BlobFile != "" {
		if o.BlobFile = outputName(o.BlobFile, env, os.Getpid()); !o.Overwrite {
			o.BlobFile = free(o.BlobFile) // an older trace needs its own
		}
		largest = o.BlobFile
	}
	if o.MaxSize == 0 && !o.Replayable {
		o.MaxSize, r.tenth = defaultMaxSize(filepath.Dir(largest)), true
	}
	if err := r.out.open(o.Output, o.Overwrite); err != nil {
		return err
	}
	w, err := format.Create(r.out.at, &r.meta, schema.Of(o.Model), &format.WriterOptions{BlobFile: o.BlobFile})
	if err == nil {
		r.out.made, err = os.Stat(r.out.at)
	}
	if err != nil {
		r.out.leave()
		return err
	}
	if o.Ring != nil {
		// The name is tried, and free until there is something to seal.
		r.out.leave()
		if err := errors.Join(w.Abort(), os.Remove(r.out.at)); err != nil {
			return err
		}
		w, r.flight = nil, newFlight(*o.Ring, r)
	}
	r.b = newBuilder(o.Model, w, r.meta.StartMono)
	r.b.visible = o.Replayable && o.Probe == "shim" && o.Model.KeepsVisible()
	r.b.hashOnly, r.b.maxSize = o.Payload == Hash, o.MaxSize
	if o.Follower != nil {
		r.b.following = newFollowing(o.Follower, o.Model, &r.meta)
		r.b.following.undrained = o.Probe == "ebpf"
	}
	return nil
}

// begun notes what is known when a recording begins.
func (r *recorder) begun(env []string) {
	o := &r.o
	name, _ := os.Hostname()
	now, mono := time.Now().UnixNano(), probe.Now()
	if r.start != 0 {
		now, mono = now-(mono-r.start), r.start
	}
	r.meta = format.Meta{
		Host: name, Argv: o.Command, Env: kept(o.Model, env, "."), CapturedBy: o.Probe, API: o.Model.Name, Simulated: o.Sim,
		StartWall: now, StartMono: mono, Payloads: format.Payloads{PayloadLevel: string(o.Payload), Policy: policyName(o.Block), Replayable: o.Replayable},
		Tracer: format.Tracer{Version: o.Version}, Derivation: format.Derivation{Window: o.window()},
	}
	r.meta.Device.Runtime, r.meta.Device.DriverVersion = host.RuntimeVersions(&o.Model.Installed, env)
}

// window is the part of the program's calls that is to be recorded.
func (o *Options) window() format.Window {
	switch {
	case o.Ring != nil:
		return format.WindowRing
	case o.Steps != nil:
		return format.WindowSteps
	case o.Armed:
		return format.WindowArmed
	case len(o.Command) == 0:
		return format.WindowAttached
	}
	return format.WindowWhole
}

func policyName(block bool) string {
	if block {
		return "block"
	}
	return "drop"
}

// kept are the variables of the environment that say how the program ran, by prefix.
func kept(am *api.Model, env []string, cwd string) map[string]string {
	m := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		for _, p := range am.Environment {
			if strings.HasPrefix(name, p) && (strings.HasSuffix(p, "_") || name == p) && !secret(name) {
				m[name] = value
			}
		}
	}
	// A cost model travels as content: a replay opens no file that a trace names.
	if name := am.Simulator.Model; m[name] != "" {
		setting := m[name]
		if inside := filepath.Join(cwd, setting); !filepath.IsAbs(setting) && host.Exists(inside) {
			setting = inside
		}
		if content, err := model.Content(setting); err == nil {
			m[name] = content
		}
	}
	return m
}

// secret reports whether a variable may hold a credential, as OTEL_EXPORTER_OTLP_HEADERS does.
func secret(name string) bool {
	return strings.HasSuffix(name, "_HEADERS") || strings.Contains(name, "KEY") || strings.Contains(name, "TOKEN") || strings.Contains(name, "PASSWORD")
}

func defaultMaxSize(dir string) int64 {
	free, err := host.FreeSpace(dir)
	if err != nil {
		return 10 << 30
	}
	return int64(min(free/10, 10<<30))
}

func (r *recorder) run(ctx context.Context) (*Result, error) {
	var res *Result
	var err error
	if r.o.Probe == "ebpf" {
		res, err = r.runUprobes(ctx)
	} else {
		res, err = r.runShim(ctx)
	}
	if err != nil {
		// What was not even begun leaves no file behind.
		if r.flight == nil {
			r.b.seg.w.Abort()
			os.Remove(r.out.at)
			r.out.leave()
			if r.o.BlobFile != "" {
				os.Remove(r.o.BlobFile)
			}
		}
		return nil, err
	}
	return res, nil
}

func (r *recorder) runShim(ctx context.Context) (*Result, error) {
	s, err := ring.Create(r.o.Model, r.sessionOptions())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer s.Close()
	r.salvaged, r.left = rescue(r.o.Model, filepath.Dir(s.Dir()))
	shim, err := inject.InstallShim(s.Dir(), r.o.Model)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer shim.Close()
	inherited, outer := inject.TakeOver(r.env)
	env := inject.Prepend(inherited, "LD_PRELOAD", shim.Path, ":")
	env = inject.Prepend(env, "ASAN_OPTIONS", inject.LinkOrder, ":")
	env = append(env, "ACLTRACE_SESSION="+s.Dir())
	if env, err = r.listKernels(env, filepath.Join(s.Dir(), kernelList)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if r.o.Bind == "audit" {
		if env, err = shim.Audited(r.path, env); err != nil {
			return nil, fmt.Errorf("%w: --bind audit: %w", ErrStart, err)
		}
	}
	r.meta.Coverage.Binder = r.o.Bind
	if err := r.begin(s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	cmd := r.command(ctx, env)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer forwardSignals(cmd.Process)()
	defer expendable()()
	r.root = cmd.Process.Pid
	r.unnamed = r.named(r.root)
	inject.LeaveNote(outer, cmd.Process.Pid, r.path, r.o.Output)
	w := watch.Start(r.o.Model, cmd.Process.Pid, shim.Path, s.Dir())
	defer beat(s)()
	exited := make(chan struct{})
	var state *os.ProcessState
	go func() {
		_ = cmd.Wait()
		state = cmd.ProcessState
		close(exited)
	}()
	looked := time.Time{}
	incomplete := r.drain(s, func() bool {
		select {
		case <-exited:
		default:
			return false
		}
		if s.Alive() || time.Since(looked) < 50*time.Millisecond {
			return false
		}
		looked = time.Now()
		return deserted(r.o.Model, s)
	})
	if r.control != nil {
		r.control.Close()
	}
	if incomplete != nil {
		s.Off()
		<-exited
	}
	res := r.result(state)
	res.Incomplete, res.Salvaged, res.Left = incomplete, r.salvaged, r.left
	r.learn(res, s)
	res.Unhooked = append(append(inject.Notes(s.Dir()), w.End()...), r.unseen...)
	if res.NoCall = w.WithoutShim(); res.NoCall == "" && host.GainsRights(r.path) {
		res.NoCall = watch.GainedRights
	}
	res, err = r.finish(res)
	if r.unsealed {
		s.Keep()
		res.Left = append(res.Left, Left{Session: s.Dir(), Err: res.Incomplete})
	}
	return res, err
}

// begin is what there is to do before the first program writes into a session.
func (r *recorder) begin(s *ring.Session) error {
	if r.o.Command != nil {
		if output, err := filepath.Abs(r.o.Output); err == nil {
			b, _ := json.Marshal(&session.Note{PID: os.Getpid(), Output: output, Begun: r.meta.StartMono, Ring: r.flight != nil, UUID: r.meta.UUID})
			_ = os.WriteFile(filepath.Join(s.Dir(), session.NoteFile), b, 0o600)
		}
	}
	r.b.name, r.b.joined = s.ThreadName, r.joined
	if r.flight != nil {
		if err := r.flight.open(s); err != nil {
			return err
		}
	}
	r.since = probe.Now() - r.meta.StartMono
	switch {
	case r.succeeds: // what was told to the one before holds
	case r.o.Armed:
		s.Wait(0)
	default:
		s.Go()
	}
	if err := r.limit(s); err != nil { // a trace without calls may be too large already
		return err
	}
	if only, waiting := s.Waiting(); waiting && only == 0 {
		r.waiting = max(probe.Now()-r.meta.StartMono, 1)
		r.b.lacks = format.Detached
	}
	if r.o.Steps != nil {
		r.chooser = newChooser(r.o.Steps, r)
		r.b.wanted = r.chooser.wanted
	}
	var err error
	if r.control, err = session.Listen(s.Dir(), r.mode); err != nil && r.o.Armed {
		return err
	}
	return nil
}

// joined learns from the first process what the trace says of the program.
func (r *recorder) joined(p *probe.Process) {
	if r.o.Command == nil && r.meta.Argv == nil {
		r.meta.Argv = p.Argv
		cwd, _ := host.Cwd(p.Local)
		r.meta.Env = kept(r.o.Model, p.Variables, cwd)
		r.env = p.Variables
		r.unnamed = r.named(p.PID)
	}
}

// beat tells programs that the recorder is alive, until the returned function is called. They wait for a recorder only
// while the goroutine lives: a recorder that is stopped or killed costs data, never the job.
func beat(s *ring.Session) (end func()) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for t := time.NewTicker(100 * time.Millisecond); ; {
			s.Beat()
			select {
			case <-t.C:
			case <-stop:
				t.Stop()
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// learn is what a session tells at its end.
func (r *recorder) learn(res *Result, s *ring.Session) {
	r.meta.Tracer.CostNS, r.meta.Tracer.ClockJumps = s.Cost(), s.ClockJumps()
	res.Refused, res.PassedBy = s.Refused(), s.PassedBy()
	if pid := s.Stranger(); pid != 0 {
		r.unseen = append(r.unseen, format.Unhooked{PID: pid, Reason: "its shim is of another build of acltrace than the recorder, and records nothing: use one build for both"})
	}
	if o := s.ShutOut(); o.Count > 0 {
		r.unseen = append(r.unseen, format.Unhooked{PID: o.PID, Exe: o.Exe, Reason: fmt.Sprintf("it has a filter of system calls (seccomp), under which the shim makes none: %d of its threads and children are not recorded", o.Count)})
	}
	r.damaged = s.Damage()
	for _, d := range r.damaged {
		of := "threads and processes that came later"
		if d.TID != 0 {
			of = fmt.Sprintf("later calls of thread %d", d.TID)
		} else {
			_ = r.b.gap(format.Gap{Thread: format.NoThread, From: r.b.last, To: max(r.b.last, probe.Now()-r.meta.StartMono), Reason: format.RecorderLost})
		}
		r.unseen = append(r.unseen, format.Unhooked{PID: d.PID, Exe: d.Exe, Reason: fmt.Sprintf("%s: %s are not recorded", d.What, of)})
	}
	r.deviceTime(s)
}

// deviceTime says how much of the device's time is known.
func (r *recorder) deviceTime(s *ring.Session) {
	if r.o.DeviceTime == 0 {
		return
	}
	d, n := r.b.times.said, s.Untimed()
	d.Every, d.GapNS = r.o.DeviceTime, r.o.DeviceTimeGap.Nanoseconds()
	d.PoolExhausted, d.Captured, d.Lost, d.Refused = n[probe.UntimedPool], n[probe.UntimedCapture], n[probe.UntimedLost], n[probe.UntimedFailed]
	r.meta.DeviceTime = &d
}

func (r *recorder) sessionOptions() *ring.Options {
	so := &ring.Options{Waiting: r.o.Armed, RingBytes: r.o.RingBytes, MemoryLimit: r.o.MemoryLimit, NoTaskIDs: r.o.NoTaskIDs, StackFrames: r.o.Stacks,
		TimeEvery: r.o.DeviceTime, TimeGap: r.o.DeviceTimeGap}
	if clock := r.o.Model.Simulator.Clock; r.o.Sim && clock != "" && slices.Contains(r.env, clock+"=virtual") {
		// The calls have the times of the simulator's clock.
		so.VirtualFrom = r.meta.StartMono
	}
	if r.o.NoSmall {
		so.PayloadLeast = SmallestCopy
	}
	if r.o.Block {
		so.Policy = ring.Block
	}
	switch r.o.Payload {
	case Small:
		so.PayloadLimit = SmallLimit
	case Full, Hash:
		so.PayloadLimit = ^uint64(0)
	}
	if r.o.Replayable && r.o.Model.KeepsVisible() {
		so.VisibleLimit = VisibleLimit
	}
	return so
}

func (r *recorder) command(ctx context.Context, env []string) *exec.Cmd {
	cmd := exec.Command(r.path, r.o.Command[1:]...)
	cmd.Args[0] = r.o.Command[0]
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if r.o.Stdin != nil {
		cmd.Stdin = r.o.Stdin
	}
	if r.o.Stdout != nil {
		cmd.Stdout = r.o.Stdout
	}
	if r.o.Stderr != nil {
		cmd.Stderr = r.o.Stderr
	}
	return cmd
}

// drain takes what programs write until it is over: then no process that has called the runtime is left, nor one that may still.
func (r *recorder) drain(s *ring.Session, over func() bool) error {
	defer behind()()
	flushed, reaped := time.Now(), time.Now()
	for {
		if over() {
			return errors.Join(r.rest(s), r.reap(s), r.resumed(), r.chooser.end(), r.b.finish())
		}
		began := probe.Now()
		load, err := s.Drain(r.b)
		if err != nil {
			return err
		}
		r.b.following.drained(began)
		if time.Since(reaped) > reapEvery {
			if err := r.reap(s); err != nil {
				return err
			}
			reaped = time.Now()
		}
		if err := errors.Join(r.answer(s), r.limit(s)); err != nil {
			return err
		}
		if err := r.flush(&flushed); err != nil {
			return err
		}
		if r.flight != nil {
			if err := r.flight.tick(time.Now()); err != nil {
				return err
			}
		}
		if load != ring.Pressed {
			pause(s.Interval())
		}
	}
}

// flush writes what has been recorded, when that was last done a second ago: what is on the disk survives a recorder that is killed.
func (r *recorder) flush(last *time.Time) error {
	if err := r.replace(); err != nil {
		return err
	}
	if time.Since(*last) <= time.Second {
		return nil
	}
	*last = time.Now()
	r.rememberKernels()
	return r.b.seg.w.Flush()
}

// rest takes what is in the rings when the recording is over. A call that goes on in a process that another recorder may take over stays
// where it is.
func (r *recorder) rest(s *ring.Session) error {
	if !s.Alive() {
		return s.Finish(r.b)
	}
	// What comes meanwhile is the next one's.
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if load, err := s.Drain(r.b); err != nil || load == ring.Idle {
			return err
		}
	}
	return nil
}

// reapEvery is how often it is looked whether processes have ended.
const reapEvery = 200 * time.Millisecond

// reap takes what processes that are gone have left.
func (r *recorder) reap(s *ring.Session) error {
	ends, err := s.Reap(r.b)
	r.ends = append(r.ends, ends...)
	for i := range ends {
		err = errors.Join(err, r.b.ended(&ends[i]))
	}
	if r.gone != nil {
		r.gone(ends, s.Untraceds())
	}
	return err
}

// limit ends the recording, for the time being, where a limit is reached.
func (r *recorder) limit(s *ring.Session) error {
	if r.waiting != 0 {
		return nil
	}
	switch {
	case r.o.For > 0 && probe.Now()-r.meta.StartMono-r.since > r.o.For.Nanoseconds():
	case r.chooser.done():
	case r.flight == nil && r.o.MaxSize > 0 && r.b.seg.w.Size() > r.o.MaxSize:
		r.full, r.b.cut = true, true
	default:
		return nil
	}
	return r.act(s, &session.Request{Do: session.ActStop})
}

// behind has the thread of the calling goroutine wait for a core instead of taking one from the program whenever it wakes up,
// until the returned function is called. Its share of the cores is that of any other thread, so that nothing is lost for it.
func behind() (undo func()) {
	runtime.LockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil || was.Policy != unix.SCHED_NORMAL {
		return runtime.UnlockOSThread
	}
	batch := *was
	batch.Policy = unix.SCHED_BATCH
	if unix.SchedSetAttr(0, &batch, 0) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		// A thread that can't be set back ends with its goroutine, being locked.
		if unix.SchedSetAttr(0, was, 0) == nil {
			runtime.UnlockOSThread()
		}
	}
}

// pause sleeps on the thread of the calling goroutine. Were it the goroutine alone that slept, two threads would wake up for it, and
// the Go runtime's own look after a thread in a system call wakes up many times more: it is told of none where goroutines have
// another processor. The collector of garbage ends the sleep by a signal.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	if runtime.GOMAXPROCS(0) == 1 {
		_ = unix.Nanosleep(&t, nil) // a signal may end it early
		return
	}
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// deserted reports whether no process of a session is left. A descendant that has not made its first call yet is known by
// its environment. One look at the list of processes may miss what is forked meanwhile, so there are two.
func deserted(m *api.Model, s *ring.Session) bool {
	for range 2 {
		if host.AnyAlive(host.UsingRuntime(m, host.Mentioning(s.Dir()))) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

func (r *recorder) result(state *os.ProcessState) *Result {
	res := &Result{ExitCode: state.ExitCode()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		res.Signal = int(ws.Signal())
		res.ExitCode = 128 + res.Signal
	}
	return res
}

// finish writes what is known only at the end and closes the file.
func (r *recorder) finish(res *Result) (*Result, error) {
	b := r.b
	m := &r.meta
	m.EndNS = probe.Now() - m.StartMono
	if r.ended != 0 {
		m.EndNS = max(r.ended-m.StartMono, b.last)
	}
	m.ExitCode, m.ExitSignal = cmp.Or(res.ExitCode, r.code), res.Signal
	m.Coverage.PassedBy, m.Coverage.Unhooked, m.Coverage.Refused = res.PassedBy, res.Unhooked, res.Refused
	r.describe(m)
	res.Unexecuted, res.Crashed = r.failedKernels()
	res.Forgotten = r.ownKernels.err
	var err error
	if r.flight != nil {
		if r.ending == "" {
			r.ending = ending(res)
		}
		res.Sealed, err = r.flight.end(r.ending)
		r.out.moved = r.flight.keeper.moved
		if r.unsealed = err != nil; r.unsealed && len(res.Sealed) == 0 {
			if res.NoFile = err.Error(); !host.Exists(filepath.Dir(r.o.Output)) {
				res.NoFile = r.out.missing(r.o.Output)
			}
		}
		res.OlderKept = len(res.Sealed) == 0 && err == nil
	} else {
		res.OlderKept, err = r.settle()
		err = errors.Join(err, r.close(res))
		if res.Unwritten = b.seg.w.Lost(); !res.OlderKept {
			res.NoFile = r.out.missing(r.o.Output)
		}
		if b.seg.w.Calls() == 0 && r.full {
			res.NoRoom, res.DiskFull = r.o.MaxSize, r.tenth
		}
	}
	r.pruning.Wait()
	if res.Incomplete = errors.Join(res.Incomplete, r.unnamed); res.Incomplete == nil {
		res.Incomplete = err
	}
	res.Full, res.Missed = r.full, r.chooser.missed()
	res.Died = slices.DeleteFunc(b.died, func(d Died) bool { return d.PID == r.root })
	res.Calls, res.Failed, res.Unfinished, res.Lost, res.Processes = b.calls, b.failed, b.unfinished, b.lost, len(b.procs)
	res.Nested = b.nested
	if r.flight == nil {
		res.Calls = b.seg.w.Calls() - res.Unwritten
	}
	res.Output, res.Moved = r.o.Output, r.out.moved
	if st, err := os.Stat(r.o.Output); err == nil && res.NoFile == "" && !res.OlderKept {
		res.Bytes = st.Size()
	}
	if st, err := os.Stat(r.o.BlobFile); err == nil {
		res.BlobFile, res.BlobBytes = r.o.BlobFile, st.Size()
	}
	b.following.end(m.EndNS)
	return res, nil
}

// ending is how a program has ended.
func ending(res *Result) string {
	if res.Signal != 0 {
		return fmt.Sprintf("the program was ended by signal %d", res.Signal)
	}
	return fmt.Sprintf("the program ended with code %d", res.ExitCode)
}

// describe fills in what a recording has learnt of the program and the machine.
func (r *recorder) describe(m *format.Meta) {
	b := r.b
	m.Libraries = nil
	for path, seen := range b.libraries {
		if path == r.o.Model.Simulator.Symbol { // which the process has told of
			m.Simulated = true
			continue
		}
		l := format.Library{Path: path}
		if seen {
			l.BuildID = elffile.BuildID(path)
		}
		m.Libraries = append(m.Libraries, l)
		if seen && artifacts.Simulates(r.o.Model, path) {
			m.Simulated = true
		}
	}
	slices.SortFunc(m.Libraries, func(a, b format.Library) int { return strings.Compare(a.Path, b.Path) })
	if m.Device.Name = b.device; m.Simulated {
		m.Device.Name = "simulator"
	}
	r.kernelLibraries(m)
	r.rememberKernels()
	m.TakenEarly, m.HostVisibleMissing = b.early, b.unkept
	if m.Tracer.PayloadNS = b.payloadNS; b.copies.Count > 0 {
		copies := b.copies
		m.Tracer.Copies = &copies
	}
	m.Coverage.Unsized, m.Coverage.CutArguments = b.unsized, b.cutArguments
	if r.hooked != nil {
		m.Coverage.Hooked = *r.hooked
		return
	}
	m.Coverage.Hooked = 0
	for i := range r.o.Model.Funcs {
		if f := &r.o.Model.Funcs[i]; f.Modelled && f.Form == nil {
			m.Coverage.Hooked++
		}
	}
}

// close writes what is known only at the end.
func (r *recorder) close(res *Result) error {
	b, m := r.b, &r.meta
	w := b.seg.w
	if r.o.NoSmall || b.cut || b.unkept > 0 || b.lost > 0 || b.lacks != format.NoReason || res.Incomplete != nil || res.Refused > 0 || len(r.damaged) > 0 {
		m.Replayable = false
	}
	if res.Incomplete != nil && b.last < m.EndNS {
		// What came after can't be counted.
		_ = w.Gap(format.Gap{Thread: format.NoThread, From: b.last, To: m.EndNS, Reason: format.WriteFailed})
	}
	return errors.Join(w.SetMeta(m), w.Close())
}

// expendable makes this process the first that the kernel kills where memory runs out, rather than the program, until the
// returned function is called.
func expendable() (restore func()) {
	const file = "/proc/self/oom_score_adj"
	was, err := os.ReadFile(file)
	if err != nil || os.WriteFile(file, []byte("1000"), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(file, was, 0) }
}

// RunSimulated runs a command on the simulator, without recording, and returns its exit code.
func RunSimulated(m *api.Model, command []string, stdout, stderr *os.File) (int, error) {
	dir, err := artifacts.SimulatorDir(m)
	if err != nil {
		return 0, err
	}
	path, err := host.FindProgram(command[0])
	if err != nil {
		return 0, err
	}
	r := recorder{o: Options{Command: command, Stdout: stdout, Stderr: stderr}, path: path}
	cmd := r.command(context.Background(), inject.Simulate(m, os.Environ(), dir))
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer forwardSignals(cmd.Process)()
	_ = cmd.Wait()
	return r.result(cmd.ProcessState).ExitCode, nil
}
