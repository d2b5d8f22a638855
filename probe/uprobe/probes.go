// Package uprobe records calls by uprobes: eBPF programs (probe/bpf) that the kernel runs at the entry and the return of a
// runtime's functions.
//
// Package record calls Load, then Add for each library file, then Run, which hands what the probes see to a probe.Sink
// until its context ends. The doctor command calls Try. Nothing here changes the recorded program or writes a file.
package uprobe

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotPermitted says that the process may not use uprobes.
	ErrNotPermitted = errors.New("uprobes need CAP_BPF and CAP_PERFMON")
	// ErrNotSupported says that the kernel lacks what uprobes need.
	ErrNotSupported = errors.New("the kernel does not support this")
	// ErrRefused says that a file has functions to record, and that the kernel puts a probe on none of them.
	ErrRefused = errors.New("the kernel puts no uprobe on its functions, which begin with a LOCK or segment prefix: --probe shim records them")
	// ErrNoFunction says that a file has no function to put a probe on.
	ErrNoFunction = errors.New("it exports no function to record")
)

// Options says what uprobes see. The zero value means all functions of the model, in all processes that use the library,
// without payloads. A probe lies on the file, so other processes that use it pay for it too, but are not recorded.
type Options struct {
	// PIDs are the processes to record, with the children that they make from then on: with its own, a process records
	// all that it will start. nil: all processes, unless one of the next two says otherwise.
	PIDs []int
	// Name is what the processes to record are called, those that there are and those to come, as /proc/PID/comm has it. A process
	// that becomes another program is recorded while that has the name too.
	Name string
	// Cgroup is the folder of a control group whose processes are recorded, with those of the groups below it.
	Cgroup string
	// Functions are the names of the functions to record. nil: all that the model knows.
	Functions []string
	// PayloadLimit is the size in bytes up to which host memory that a copy reads or writes is kept.
	PayloadLimit uint64
	// CountOnly counts the calls and records nothing. Calls inside other calls count as well, and so do those of functions that
	// uprobes can't record.
	CountOnly bool
	// Sample leaves out calls while the ring is more than half full, the more the fuller it is. They are counted like lost ones.
	Sample bool
	// RingBytes is the size of the ring between kernel and reader, rounded up to a power of two. 0: 8 MiB.
	RingBytes int

	// Meanwhile is called now and then by Run, however much or little there is to read; an error ends it. nil: nothing is.
	Meanwhile func() error

	// OneByOne attaches by a perf event for each probe, as older kernels do, where all at once is possible too.
	OneByOne bool

	// Older kernels lack ways that newer ones have; tests go without them, or without telling the programs in the kernel of kernels' parameters.
	noSleep, noCookie, noLayouts bool
}

// Probes are uprobes on the functions of a runtime's libraries. They record from Add until Run ends or Close.
type Probes struct {
	model    *api.Model
	opts     Options
	whose    selection
	programs programs
	probed   probed
	reader   *ringbuf.Reader // nil with CountOnly
	decoder  decoder
	tidied   time.Time // when tidy last looked for processes that have ended
	ended    int64     // when Run began to detach
}

// Attach puts probes on the functions of model m in the library file at path.
func Attach(m *api.Model, library string, opts *Options) (*Probes, error) {
	u, err := newProbes(m, opts)
	if err != nil {
		return nil, err
	}
	// What needs no privilege is found first.
	if _, _, err := u.sites(library); err != nil {
		return nil, err
	}
	if err := u.load(); err != nil {
		return nil, kernelError(fmt.Errorf("load uprobes: %w", err))
	}
	if err := u.Add(library); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// Load makes ready for probes on libraries that are named later, by Add.
func Load(m *api.Model, opts *Options) (*Probes, error) {
	u, err := newProbes(m, opts)
	if err != nil {
		return nil, err
	}
	if err := u.load(); err != nil {
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
	var err error
	u.whose, err = u.opts.selection()
	return u, err
}

// kernelError makes what the kernel says matchable.
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

// Add puts probes on the functions in one more library file, for programs that have several layers or copies. A call
// is recorded once, by its outermost layer.
func (u *Probes) Add(library string) error {
	file, err := identify(library)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", library, err)
	}
	u.probed.Lock()
	defer u.probed.Unlock()
	if u.probed.files[file] {
		return nil
	}
	sites, refused, err := u.sites(library)
	if err != nil {
		return err
	}
	if err := u.put(library, sites); err != nil {
		return kernelError(fmt.Errorf("attach to %s: %w", library, err))
	}
	for _, s := range sites {
		u.probed.functions[s.id()] = true
	}
	u.probed.files[file] = true
	if len(refused) > 0 {
		u.probed.refused[library] = refused
	}
	return nil
}

// Hooked returns how many functions of the model have a probe. refused names those that have none since the kernel puts none on them,
// by the file that has them.
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

// Pause has the probes see nothing until Resume: it is a while until the kernel has all of them, in which it has some and not others,
// even where it is given them at once.
func (u *Probes) Pause() error { return u.shut(true) }

// Resume ends a pause.
func (u *Probes) Resume() error { return u.shut(false) }

func (u *Probes) shut(yes bool) error {
	if err := u.programs.coll.Variables[bpf.UprobeVarShut].Set(toByte(yes)); err != nil {
		return fmt.Errorf("pause uprobes: %w", err)
	}
	return nil
}

// Ended returns when the last calls were seen, as of Now: it may be a while until Run returns after that, where the kernel takes the
// probes away one by one. 0: they are seen still.
func (u *Probes) Ended() int64 { return u.ended }

// Libraries returns how many files have probes.
func (u *Probes) Libraries() int {
	u.probed.Lock()
	defer u.probed.Unlock()
	return len(u.probed.files)
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
			if f.Modelled && !f.HostCallback && f.Form == nil && u.readable(f) == nil {
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

// readable returns why the probes can't do what is asked for with a function, nil where they can: whatever its arguments are, and
// whether it encloses other calls or not, its entries can be counted.
func (u *Probes) readable(f *api.Func) error {
	if u.opts.CountOnly {
		return nil
	}
	_, err := functionTable(u.model, f, runtime.GOARCH)
	return err
}

// Counts returns the calls of each function that probes which only count have seen.
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

// Lost returns the number of calls that were counted and not recorded, and how many of these sampling has left out.
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

// Close takes the probes away and frees everything.
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
