// Package uprobe records calls by uprobes: eBPF programs (probe/bpf) that the kernel runs at the entry and the return of a
// runtime's functions.
//
// Package record calls Load, then Add for each library file, then Run, which hands what the probes see to a probe.Sink
// until its context ends. The doctor command calls Try. Nothing here changes the recorded program or writes a file.
package uprobe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
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

// Probes are probes in the kernel on the functions of a runtime's libraries. They are on from Attach until Run
// ends or Close.
type Probes struct {
	model       *api.Model
	opts        Options
	whose       selection
	coll        *ebpf.Collection
	multi       bool
	sleepable   bool      // the programs wait for pages
	cookies     bool      // the kernel knows the cookie of a probe
	stubs       *ebpf.Map // without cookies: the programs that those of the probes go on to
	attached    map[fileID]bool
	adding      sync.Mutex // libraries are added while others are read
	enters      []link.Link
	leaves      []link.Link
	life        []link.Link // tracepoints of processes
	tidied      time.Time   // when processes that are gone were last looked for
	functions   map[api.ID]bool
	refused     map[string][]site // by file
	entry, exit string            // programs
	reader      *ringbuf.Reader

	ended     int64 // when Run began to take the probes away
	sink      probe.Sink
	processes map[int]*knownProcess
	parts     map[int]*partial // by thread
	seqs      map[int]uint64   // number of the last call, by thread
	gaps      uint64           // calls that gaps were delivered for
	kernels   *kernels
}

// partial is a payload of which parts are to come.
type partial struct {
	f      *api.Func
	pid    int
	pieces []probe.Piece
	seq    uint64
	have   []uint64
	at     int            // the piece of the last part
	arrays map[int][]byte // content of arrays of buffers, by parameter, as far as it has come
}

// As in uprobe.bpf.c.
const (
	maxWords       = 16
	maxReaders     = 16
	maxPlaces      = 32
	referred       = 16
	maxItems       = 1 << 16
	inlineBytes    = 4096
	none           = 255
	headSize       = 40
	eventSize      = 32
	partSize       = 64
	pieceSize      = 24
	shortPieceSize = 8
	headAt         = 4*8 + 4*4 + 2*4 + 2*8 + 8*maxPlaces // in struct thread

	eventCall, eventPayload, eventThread = 1, 2, 3

	kindBytes, kindString, kindList, kindPayload, kindItems, kindBuffers        = 1, 2, 3, 4, 5, 6
	kindImage, kindPacked, kindBlock, kindParams                                = 7, 8, 9, 10
	readEntry, readOut, readLater, readField, readStored, readStored32          = 1, 2, 4, 8, 16, 32
	readValue, readAlways                                                       = 64, 128
	pieceOut, pieceFollows, pieceShort, pieceParams                             = 1, 2, 4, 8
	funcRetError, funcRetVoid, funcRet32, funcWake                              = 1, 2, 4, 8
	funcOuter, funcCalled, funcItems, funcHold                                  = 16, 32, 64, 128
	argsReset, argsStored, argsBuffer, argsBufferStored                         = 1, 2, 4, 8
	argsKernel                                                                  = 16
	countRingFull, countNoThread, countNoProcess, countSampled           uint32 = 0, 1, 2, 3
	filterAll, filterPIDs, filterCgroup                                  uint8  = 0, 1, 2
	pidLives, pidLeaderGone                                              uint8  = 1, 2
)

type reader struct {
	Param, Kind, Flags, Word, Mul0, Mul1, Pitch, Item uint8
	Unit                                              uint64
	At, CountAt, UnlessAt                             uint16
	CountWidth, UnlessWidth                           uint8
}

type function struct {
	Words, Readers, Flags, Stack      uint8
	Args, ArgsHow, Buffer, BufferSize uint8
	Refer, Referred, Before, Block    uint8
	Plain                             uint8
	Behind                            [2]uint8
	_                                 uint8
	Place                             [maxWords]uint8
	Mask                              [maxWords]uint64
	Reader                            [maxReaders]reader
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
	u := &Probes{model: m, functions: map[api.ID]bool{}, refused: map[string][]site{}, attached: map[fileID]bool{}, processes: map[int]*knownProcess{}, parts: map[int]*partial{}, seqs: map[int]uint64{}}
	if opts != nil {
		u.opts = *opts
	}
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

// load brings programs and maps into the kernel, in the best way that it has.
func (u *Probes) load() error {
	// Kernels since 5.11 account differently and need no limit; where it matters, loading fails and says so.
	_ = rlimit.RemoveMemlock()
	u.multi = !u.opts.OneByOne && !OneByOne()
	u.cookies = u.multi || !u.opts.noCookie && features.HaveProgramHelper(ebpf.Kprobe, asm.FnGetAttachCookie) == nil
	var failed error
	for _, sleepable := range []bool{true, false} {
		if sleepable && u.opts.noSleep {
			continue
		}
		err := u.loadAs(sleepable)
		if err == nil {
			return u.fill()
		}
		if errors.Is(err, unix.EPERM) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// OneByOne reports whether this kernel takes no more than one uprobe at a time, which it asks more rights for.
func OneByOne() bool {
	err := features.HaveBPFLinkUprobeMulti()
	if errors.Is(err, unix.EPERM) {
		version, err := features.LinuxVersionCode()
		return err == nil && version < 6<<16|6<<8
	}
	return err != nil
}

func (u *Probes) loadAs(sleepable bool) error {
	spec, err := bpf.LoadUprobe()
	if err != nil {
		return err
	}
	last := u.model.Funcs[len(u.model.Funcs)-1].ID
	spec.Maps[bpf.UprobeMapFunctions].MaxEntries = uint32(last) + 1
	spec.Maps[bpf.UprobeMapCounts].MaxEntries = uint32(last) + 1
	spec.Maps[bpf.UprobeMapEvents].MaxEntries = u.ringBytes()
	for name, v := range map[string]any{
		bpf.UprobeVarCookies:     toByte(u.cookies),
		bpf.UprobeVarFilter:      u.whose.filter,
		bpf.UprobeVarByName:      toByte(u.opts.Name != ""),
		bpf.UprobeVarName:        u.whose.name,
		bpf.UprobeVarCgroup:      u.whose.cgroup,
		bpf.UprobeVarCgroupLevel: u.whose.level,
		bpf.UprobeVarSample:      toByte(u.opts.Sample),
		bpf.UprobeVarRingSize:    uint64(u.ringBytes()),
		bpf.UprobeVarWakeAt:      uint64(u.ringBytes() / 8),
		bpf.UprobeVarLimit:       min(u.opts.PayloadLimit, 1<<62), // a limit that no length passes stops the verifier of Linux 6.18
		bpf.UprobeVarDeviceFrom:  u.model.Device.From,
		bpf.UprobeVarDeviceTo:    u.model.Device.To,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if old, err := features.LinuxVersionCode(); u.opts.noSleep || err == nil && old < 6<<16|1<<8 {
		// Before Linux 6.1 a probe may come when the kernel is about to allocate memory, so that it can't be had there: it warns of
		// programs that want it. A thread takes 15 KiB.
		for _, name := range []string{bpf.UprobeMapThreads, bpf.UprobeMapPids, bpf.UprobeMapNewborn, bpf.UprobeMapArguments, bpf.UprobeMapKernels, bpf.UprobeMapLayouts} {
			spec.Maps[name].Flags &^= unix.BPF_F_NO_PREALLOC
		}
		spec.Maps[bpf.UprobeMapThreads].MaxEntries = 2048
		spec.Maps[bpf.UprobeMapKernels].MaxEntries, spec.Maps[bpf.UprobeMapLayouts].MaxEntries = 16384, 4096
	}
	u.entry, u.exit = bpf.UprobeProgEnter, bpf.UprobeProgLeave
	if sleepable {
		u.entry, u.exit = bpf.UprobeProgEnterLoops, bpf.UprobeProgLeaveLoops
	}
	want := []string{u.entry, u.exit}
	if u.opts.CountOnly {
		u.entry, u.exit = bpf.UprobeProgTally, ""
		want = []string{u.entry}
	}
	for _, name := range want {
		p := spec.Programs[name]
		if u.multi {
			p.AttachType = ebpf.AttachTraceUprobeMulti
		}
		if sleepable && !u.opts.CountOnly {
			p.Flags |= unix.BPF_F_SLEEPABLE
		}
	}
	want = append(want, bpf.UprobeProgExited, bpf.UprobeProgExeced)
	if u.whose.filter == filterPIDs {
		want = append(want, bpf.UprobeProgBorn)
	}
	for name := range spec.Programs {
		if !slices.Contains(want, name) {
			delete(spec.Programs, name)
		}
	}
	u.coll, err = ebpf.NewCollection(spec)
	u.sleepable = sleepable
	return err
}

func toByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (u *Probes) ringBytes() uint32 {
	n := u.opts.RingBytes
	if n <= 0 {
		n = 8 << 20
	}
	size := uint32(os.Getpagesize())
	for size < uint32(n) && size < 1<<30 {
		size *= 2
	}
	return size
}

// fill writes the tables and follows the life of processes, so that all is ready for the first probe.
func (u *Probes) fill() error {
	fail := func(err error) error {
		u.Close()
		return err
	}
	for i := range u.model.Funcs {
		f := &u.model.Funcs[i]
		if f.Form != nil {
			continue // a probe is at the function, and tells no form
		}
		if t, err := functionTable(u.model, f, runtime.GOARCH); err == nil {
			if err := u.coll.Maps[bpf.UprobeMapFunctions].Put(uint32(f.ID), t); err != nil {
				return fail(fmt.Errorf("%s: %w", f.Name, err))
			}
		}
	}
	// Those that are there are put in before what follows the life of processes, and once more after it: what one of them made in
	// between is among them then.
	if err := u.choose(); err != nil {
		return fail(err)
	}
	for _, p := range []struct{ program, at string }{
		{bpf.UprobeProgBorn, "task_newtask"}, {bpf.UprobeProgExeced, "sched_process_exec"}, {bpf.UprobeProgExited, "sched_process_exit"}} {
		if program := u.coll.Programs[p.program]; program != nil {
			l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: p.at, Program: program})
			if err != nil {
				return fail(fmt.Errorf("tracepoint %s: %w", p.at, err))
			}
			u.life = append(u.life, l)
		}
	}
	if err := u.choose(); err != nil {
		return fail(err)
	}
	if !u.cookies {
		if err := u.prepareStubs(); err != nil {
			return fail(err)
		}
	}
	if !u.opts.CountOnly {
		r, err := ringbuf.NewReader(u.coll.Maps[bpf.UprobeMapEvents])
		if err != nil {
			return fail(err)
		}
		u.reader = r
	}
	u.kernels = newKernels(u.coll.Maps[bpf.UprobeMapKernels], u.coll.Maps[bpf.UprobeMapLayouts])
	u.kernels.silent = u.opts.noLayouts
	return nil
}

// Add puts probes on the functions in one more library file, for programs that have several layers or copies. A call
// is recorded once, by its outermost layer.
func (u *Probes) Add(library string) error {
	file, err := identify(library)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", library, err)
	}
	u.adding.Lock()
	defer u.adding.Unlock()
	if u.attached[file] {
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
		u.functions[s.id()] = true
	}
	u.attached[file] = true
	if len(refused) > 0 {
		u.refused[library] = refused
	}
	return nil
}

// Hooked returns how many functions of the model have a probe. refused names those that have none since the kernel puts none on them,
// by the file that has them.
func (u *Probes) Hooked() (functions int, refused map[string][]string) {
	u.adding.Lock()
	defer u.adding.Unlock()
	refused = map[string][]string{}
	for file, sites := range u.refused {
		for _, s := range sites {
			if !u.functions[s.id()] {
				refused[file] = append(refused[file], s.symbol)
			}
		}
	}
	return len(u.functions), refused
}

// Pause has the probes see nothing until Resume: it is a while until the kernel has all of them, in which it has some and not others,
// even where it is given them at once.
func (u *Probes) Pause() error { return u.shut(true) }

// Resume ends a pause.
func (u *Probes) Resume() error { return u.shut(false) }

func (u *Probes) shut(yes bool) error {
	if err := u.coll.Variables[bpf.UprobeVarShut].Set(toByte(yes)); err != nil {
		return fmt.Errorf("pause uprobes: %w", err)
	}
	return nil
}

// Ended returns when the last calls were seen, as of Now: it may be a while until Run returns after that, where the kernel takes the
// probes away one by one. 0: they are seen still.
func (u *Probes) Ended() int64 { return u.ended }

// put puts probes on places in a file.
func (u *Probes) put(path string, sites []site) error {
	if err := u.room(len(sites)); err != nil {
		return err
	}
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	// The return first: an entry that is seen has its return seen too.
	if u.exit != "" {
		ls, err := u.attach(ex, u.coll.Programs[u.exit], sites, true)
		u.leaves = append(u.leaves, ls...)
		if err != nil {
			return err
		}
	}
	ls, err := u.attach(ex, u.coll.Programs[u.entry], sites, false)
	u.enters = append(u.enters, ls...)
	return err
}

// room lets this process have as many files as probes on so many more functions take: two for the entry and two for the return of each,
// where the kernel takes probes one by one.
func (u *Probes) room(functions int) error {
	var limit unix.Rlimit
	if u.multi || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return nil
	}
	need := uint64(2*(len(u.enters)+len(u.leaves)) + 4*functions + 256)
	if limit.Cur >= need {
		return nil
	}
	for _, most := range []uint64{1 << 20, need} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: max(most, limit.Max)}) == nil {
			return nil
		}
	}
	return fmt.Errorf("this kernel takes probes one by one, %d files in all, and this process may have no more than %d: raise the limit, as by ulimit -n %[1]d", need, limit.Max)
}

// has reports whether there are probes on a file.
func (u *Probes) has(path string) bool {
	file, err := identify(path)
	return err == nil && u.hasFile(file)
}

func (u *Probes) hasFile(file fileID) bool {
	u.adding.Lock()
	defer u.adding.Unlock()
	return u.attached[file]
}

// Libraries returns how many files have probes.
func (u *Probes) Libraries() int {
	u.adding.Lock()
	defer u.adding.Unlock()
	return len(u.attached)
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

func (u *Probes) attach(ex *link.Executable, p *ebpf.Program, sites []site, ret bool) ([]link.Link, error) {
	if u.multi {
		o := &link.UprobeMultiOptions{}
		for _, s := range sites {
			o.Addresses = append(o.Addresses, s.offset)
			o.Cookies = append(o.Cookies, s.cookie)
		}
		attach := ex.UprobeMulti
		if ret {
			attach = ex.UretprobeMulti
		}
		l, err := attach(nil, p, o)
		if err != nil {
			return nil, err
		}
		return []link.Link{l}, nil
	}
	attach := ex.Uprobe
	if ret {
		attach = ex.Uretprobe
	}
	var ls []link.Link
	own := p
	for _, s := range sites {
		o := &link.UprobeOptions{Address: s.offset, Cookie: s.cookie}
		if !u.cookies {
			o.Cookie = 0
			var err error
			if own, err = u.stub(s.cookie, ret); err != nil {
				return ls, fmt.Errorf("%s: %w", s.symbol, err)
			}
		}
		l, err := attach("", own, o)
		if !u.cookies {
			own.Close() // the probe keeps it
		}
		if errors.Is(err, unix.EACCES) {
			return ls, fmt.Errorf("%s: this kernel attaches one by one, which takes CAP_SYS_ADMIN too: %w", s.symbol, err)
		}
		if err != nil {
			return ls, fmt.Errorf("%s: %w", s.symbol, err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// Counts returns the calls of each function that probes which only count have seen.
func (u *Probes) Counts() (map[string]uint64, error) {
	u.adding.Lock()
	defer u.adding.Unlock()
	counts := make(map[string]uint64, len(u.functions))
	for id := range u.functions {
		n, err := perCPU(u.coll.Maps[bpf.UprobeMapCounts], uint32(id))
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
		n, err := perCPU(u.coll.Maps[bpf.UprobeMapCounters], why)
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

// detach takes the probes away, entries first, so that no call is seen half. The kernel waits for programs that run.
func (u *Probes) detach() error {
	u.adding.Lock()
	defer u.adding.Unlock()
	var errs []error
	for _, ls := range []*[]link.Link{&u.enters, &u.leaves, &u.life} {
		for _, l := range *ls {
			errs = append(errs, l.Close())
		}
		*ls = nil
	}
	return errors.Join(errs...)
}

// Close takes the probes away and frees everything.
func (u *Probes) Close() error {
	err := u.detach()
	if u.reader != nil {
		err = errors.Join(err, u.reader.Close())
	}
	if u.stubs != nil {
		u.stubs.Close()
	}
	if u.coll != nil {
		u.coll.Close()
	}
	for _, p := range u.processes {
		p.close()
	}
	if err != nil {
		return fmt.Errorf("close uprobes: %w", err)
	}
	return nil
}
