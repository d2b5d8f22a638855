// Package uprobe records calls with uprobes: eBPF programs (probe/bpf) that the kernel runs at the entry and the return of a
// runtime's functions.
//
// Package record calls Try to choose a way to attach, Load, Add for each library file or Follow, then Run, which delivers the
// calls to a probe.Sink until its context ends. The doctor command prints the results of Try and the table Features.
//
// The package never writes to the recorded process and never writes a file.
package uprobe

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotPermitted: the process may not use uprobes.
	ErrNotPermitted = errors.New("uprobes need CAP_BPF and CAP_PERFMON")
	// ErrNotSupported: the kernel lacks a feature that uprobes need.
	ErrNotSupported = errors.New("the kernel does not support this")
	// ErrRefused: the file has functions to record, but the kernel accepts probes on none of them.
	ErrRefused = errors.New("the kernel puts no uprobe on its functions, which begin with a LOCK or segment prefix")
	// ErrNoFunction: the file has no function to record.
	ErrNoFunction = errors.New("it exports no function to record")
)

// Options select calls and payloads. The zero value records all functions of the model, in all processes that use the
// library, without payloads. A probe sits on the file, so it slows down other processes too, without recording them.
type Options struct {
	// PIDs are the processes to record, with the children that they create from then on. A process that gives its own PID
	// records all programs that it will start. nil: all processes, unless Name or Cgroup is set.
	PIDs []int
	// Name selects present and future processes by name, as in /proc/PID/comm. After exec a process is recorded if its new name
	// matches.
	Name string
	// Cgroup selects the processes in the control group with this folder, and in its descendants.
	Cgroup string
	// Functions are the names of the functions to record. nil: the whole model.
	Functions []string
	// NoOperators leaves out the boundaries of operators.
	NoOperators bool
	// PayloadLimit is the largest payload to capture from a copy's host memory, in bytes.
	PayloadLimit uint64
	// CountOnly counts calls and records nothing. It includes nested calls and functions that uprobes can't record.
	CountOnly bool
	// Sample skips calls while the ring is more than half full, more of them the fuller it is. They count as lost.
	Sample bool
	// RingBytes is the size of the ring between kernel and reader, rounded up to a power of two. 0: 8 MiB.
	RingBytes int

	// Meanwhile is called by Run about every 20 ms. If it fails, Run ends with its error. May be nil.
	Meanwhile func() error

	// OneByOne attaches a perf event for each probe, even if the kernel can attach all probes at once.
	OneByOne bool

	// Tests leave out features that older kernels lack, and parameter layouts.
	noSleep, noCookie, noLayouts bool
}

// Probes are uprobes on the functions of a runtime's libraries. They record from Add until Run ends or Close.
type Probes struct {
	model     *api.Model
	opts      Options
	selection selection
	programs  programs
	probed    probed
	reader    *ringbuf.Reader // nil with CountOnly
	decoder   decoder
	operators paths
	tidied    time.Time // last run of tidy
	ended     int64     // see Ended
}

// Load loads the programs and maps. Add attaches them.
func Load(m *api.Model, opts *Options) (*Probes, error) {
	u, err := newProbes(m, opts)
	if err != nil {
		return nil, err
	}
	if err := u.load(); err != nil {
		u.Close()
		return nil, kernelError(fmt.Errorf("load uprobes: %w", err))
	}
	return u, nil
}

func newProbes(m *api.Model, opts *Options) (*Probes, error) {
	u := &Probes{model: m}
	if opts != nil {
		u.opts = *opts
	}
	u.probed.files, u.probed.functions, u.probed.refused = map[fileID]bool{}, map[api.ID]bool{}, map[string][]site{}
	u.probed.endless = map[api.ID]bool{}
	var err error
	u.selection, err = u.opts.selection()
	return u, err
}

// kernelError wraps a kernel error in ErrNotPermitted or ErrNotSupported if that is the cause.
func kernelError(err error) error {
	var rejected *ebpf.VerifierError
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES) && !errors.As(err, &rejected):
		return fmt.Errorf("%w: %w", ErrNotPermitted, err)
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w", ErrNotSupported, err)
	}
	return err
}

// Add puts probes on the functions in a library file, once for each file. A program may use several layers or copies of the
// runtime: its outermost layer records a call.
func (u *Probes) Add(library string) error {
	file, err := identify(library)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", library, err)
	}
	u.probed.Lock()
	defer u.probed.Unlock()
	if _, ok := u.probed.files[file]; ok {
		return nil
	}
	sites, refused, err := u.sites(library)
	if err != nil {
		return err
	}
	if err := u.attachSites(library, sites); err != nil {
		return kernelError(fmt.Errorf("attach to %s: %w", library, err))
	}
	calls := false
	for _, s := range sites {
		u.probed.functions[s.id()] = true
		calls = calls || !u.model.Func(s.id()).EntryMark()
		if s.cookie&noEnd != 0 {
			u.probed.endless[s.id()] = true
		}
	}
	u.probed.files[file] = calls
	if len(refused) > 0 {
		u.probed.refused[library] = refused
	}
	return nil
}

// Hooked returns the number of functions with a probe. refused has, for each file, the functions without one because the
// kernel refuses it.
func (u *Probes) Hooked() (functions int, refused map[string][]string) {
	u.probed.Lock()
	defer u.probed.Unlock()
	refused = map[string][]string{}
	for file, sites := range u.probed.refused {
		for _, s := range sites {
			if !u.probed.functions[s.id()] {
				refused[file] = append(refused[file], s.symbol)
			}
		}
	}
	return len(u.probed.functions), refused
}

// Below returns how many files of processes refer to a function under or beside the runtime, by name. It must not be called during Run.
func (u *Probes) Below() map[string]uint64 { return u.decoder.callers.below.counts }

// Endless returns the functions whose calls have no end in a library: they may run callbacks, and their return instructions are
// unknown.
func (u *Probes) Endless() (functions []string) {
	u.probed.Lock()
	defer u.probed.Unlock()
	for id := range u.probed.endless {
		functions = append(functions, u.model.Func(id).Name)
	}
	slices.Sort(functions)
	return functions
}

// Pause stops recording until Resume. The kernel takes a while to attach or detach all probes, also with uprobe_multi. A pause
// keeps a half-attached set from recording.
func (u *Probes) Pause() error { return u.setPaused(true) }

// Resume ends a pause.
func (u *Probes) Resume() error { return u.setPaused(false) }

func (u *Probes) setPaused(yes bool) error {
	if err := u.programs.coll.Variables[bpf.UprobeVarShut].Set(toByte(yes)); err != nil {
		return fmt.Errorf("pause uprobes: %w", err)
	}
	return nil
}

// Ended returns the time when recording ended, CLOCK_MONOTONIC, 0 while it runs. Run returns later, since some kernels detach
// probes one by one.
func (u *Probes) Ended() int64 { return u.ended }

// Libraries returns the number of files of the runtime with probes.
func (u *Probes) Libraries() (n int) {
	u.probed.Lock()
	defer u.probed.Unlock()
	for _, calls := range u.probed.files {
		if calls {
			n++
		}
	}
	return n
}

func (u *Probes) sites(library string) (sites, refused []site, err error) {
	want, err := u.wanted()
	if err != nil {
		return nil, nil, err
	}
	sites, refused, err = findSites(library, want, runtime.GOARCH)
	switch {
	case err != nil:
	case len(sites) > 0:
		for i := range sites {
			if s := &sites[i]; s.cookie&implementation == 0 && u.model.Func(s.id()).Layer == u.model.Layers[0].Name {
				s.cookie |= public
			}
		}
		return sites, refused, nil
	case len(refused) > 0:
		err = ErrRefused
	default:
		err = ErrNoFunction
	}
	return nil, nil, fmt.Errorf("attach to %s: %w", library, err)
}

func (u *Probes) wanted() ([]*api.Func, error) {
	var want []*api.Func
	if u.opts.Functions == nil {
		for i := range u.model.Funcs {
			f := &u.model.Funcs[i]
			if f.Modelled && !f.HostCallback && f.Operand == api.NoOperand && (!f.EntryMark() || u.marks()) && f.Form == nil && u.readable(f) == nil {
				want = append(want, f)
			}
		}
		return want, nil
	}
	for _, name := range u.opts.Functions {
		f := u.model.Lookup(name)
		if f == nil {
			return nil, fmt.Errorf("%s: no such function", name)
		}
		if err := u.readable(f); err != nil {
			return nil, err
		}
		want = append(want, f)
	}
	return want, nil
}

// marks reports whether the boundaries of operators are recorded.
func (u *Probes) marks() bool { return !u.opts.NoOperators && !u.opts.CountOnly }

// readable returns an error if the probes can't record a function as the options ask. Any function can be counted.
func (u *Probes) readable(f *api.Func) error {
	if u.opts.CountOnly {
		return nil
	}
	_, err := functionTable(u.model, f, runtime.GOARCH)
	return err
}

// Counts returns the calls of each function. Valid with CountOnly.
func (u *Probes) Counts() (map[string]uint64, error) {
	u.probed.Lock()
	defer u.probed.Unlock()
	counts := make(map[string]uint64, len(u.probed.functions))
	for id := range u.probed.functions {
		n, err := perCPU(u.programs.coll.Maps[bpf.UprobeMapCounts], uint32(id))
		if err != nil {
			return nil, fmt.Errorf("count of %s: %w", u.model.Func(id).Name, err)
		}
		counts[u.model.Func(id).Name] = n
	}
	return counts, nil
}

// Lost returns the calls that were counted but not recorded, and how many of them sampling skipped.
func (u *Probes) Lost() (calls, sampled uint64, err error) {
	for _, why := range []uint32{countRingFull, countNoThread, countSampled} {
		n, err := perCPU(u.programs.coll.Maps[bpf.UprobeMapCounters], why)
		if err != nil {
			return 0, 0, fmt.Errorf("lost calls: %w", err)
		}
		calls += n
		sampled = n
	}
	return calls, sampled, nil
}

func perCPU(m *ebpf.Map, key uint32) (uint64, error) {
	var each []uint64
	if err := m.Lookup(key, &each); err != nil {
		return 0, err
	}
	var sum uint64
	for _, n := range each {
		sum += n
	}
	return sum, nil
}

// Close detaches the probes and frees all resources.
func (u *Probes) Close() error {
	err := u.detach()
	if u.reader != nil {
		err = errors.Join(err, u.reader.Close())
	}
	if u.programs.stubs != nil {
		u.programs.stubs.Close()
	}
	if u.programs.coll != nil {
		u.programs.coll.Close()
	}
	for _, p := range u.decoder.processes {
		p.close()
	}
	if err != nil {
		return fmt.Errorf("close uprobes: %w", err)
	}
	return nil
}
