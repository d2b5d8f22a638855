// Package ring is the recorder's side of the shared memory that the shim (probe/shim) writes.
//
// Package record creates a Session, or opens one that another recorder has left, calls Drain until the programs have
// ended, then Finish and Close. The records go to a probe.Sink. The package never loads the shim into a program and never
// writes a trace.
package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// The layout of probe/shim/ring.h. The sizes are asserted on both sides.
const (
	layoutMagic   = 0x31474e4952544c41
	layoutVersion = 5
	headerBytes   = 4096
	maxSlots      = 4096
	// maxProcesses is how many processes of a session are looked at.
	maxProcesses = 1 << 20
	arenaChunk   = 1 << 20
	arenaWords   = 64

	recCall, recPayload, recLost = 1, 2, 3
	recBegin, recEnd, recTime    = 5, 6, 7
	lostNested                   = 1
	stateEntered, stateDone      = 1, 2 // what is neither was left by a longjmp: it never returned
	pieceOut, pieceBytes, far    = 1, 2, 4
	pieceEarly                   = 8

	recordingTicks = 16

	slotTaken, slotLive, slotGiven, slotDead, slotReady = 1, 2, 3, 4, 5

	offEnded, offWaiting         = 1, 2
	quietNo, quietAll, quietSome = 0, 1, 2

	untimedReasons = probe.UntimedFailed + 1
)

type slot struct {
	state          atomic.Uint32
	pid, tid, ppid uint32
	ringBytes      uint64
	start          uint64
	generation     atomic.Uint32
	off            atomic.Uint32
	process        uint32
	name           [16]byte
	rng            uint32 // 1 + that of its ring in the process's pool, 0 for a file of its own
}

type control struct {
	magic                uint64
	version              uint32
	policy               atomic.Uint32
	heartbeat            atomic.Int64
	ringBytes            uint64
	payloadLimit         uint64
	memoryLimit          uint64
	memoryUsed           atomic.Uint64
	deviceFrom, deviceTo uint64
	clock                uint32
	off                  atomic.Uint32
	nextSlot             atomic.Uint32
	refused              atomic.Uint32
	maxSlots             uint32
	nextProcess          atomic.Uint32
	taskIDs              uint32
	arenaChunks          uint32
	payloadLeast         uint64
	stackFrames          uint32
	cost                 atomic.Uint32
	timeEvery, timeGap   uint32
	only, quiet          atomic.Uint32
	handed               uint64
	functions            uint64
	stranger             atomic.Uint32
	reaped               uint32
	resumed              atomic.Uint32
	shutOut              atomic.Uint32
	visibleLimit         uint64
	offered, filtered    atomic.Uint32
	_                    [2]uint32
	arenaFree            [arenaWords]atomic.Uint64
	slots                [maxSlots]slot
}

type header struct {
	head                 atomic.Uint64
	lost                 atomic.Uint64
	lostSince, lostUntil uint64
	seq                  atomic.Uint64
	untimed              [4]atomic.Uint64
	_                    uint64
	nested               atomic.Uint64
	nestedSince          uint64
	_                    [4]uint64
	tail                 atomic.Uint64
	mark                 [2]mark
	givenUp              atomic.Uint64
	_                    [8]uint64
}

// mark is how many calls of a ring lie before a place in it, and how many of them were lost.
type mark struct{ pos, seq, lost uint64 }

// Sizes of records without what follows.
const (
	callHeader, payloadHeader         = 40, 72
	lostBytes, timeBytes, pieceHeader = 32, 80, 8
)

var (
	_ [64]byte                               = [unsafe.Sizeof(slot{})]byte{}
	_ [192 + 8*arenaWords + 64*maxSlots]byte = [unsafe.Sizeof(control{})]byte{}
	_ [256]byte                              = [unsafe.Sizeof(header{})]byte{}

	le      = binary.LittleEndian
	errRing = errors.New("a ring holds what the shim does not write")
)

// Policy is what a program does when its ring is full.
type Policy uint32

const (
	Drop  Policy = 0 // the call is lost, and counted
	Block Policy = 1 // the program waits while the recorder is alive
)

// DefaultDir is where sessions are made: their files are memory there.
const DefaultDir = "/dev/shm"

// Options are the parameters of a Session; nil means the defaults.
type Options struct {
	Policy Policy
	// RingBytes is the size of a thread's ring, rounded up to a power of two; 0 means 8 MiB.
	RingBytes int
	// MemoryLimit is the size of all rings together; 0 means a quarter of what the tmpfs and the memory cgroup of the
	// recorder have left, at most 4 GiB. A program whose own cgroup has less makes fewer rings.
	MemoryLimit uint64
	// ArenaBytes is the memory for large payloads on their way, shared by all threads, rounded down to MiB; 0 means 256 MiB
	// where PayloadLimit lets large payloads through, but at most a quarter of MemoryLimit. -1 means none.
	ArenaBytes int64
	// PayloadLimit is the size in bytes up to which a payload is captured; 0 captures none.
	PayloadLimit uint64
	// VirtualFrom has calls take place in the virtual time of a simulator, which begins at this moment of CLOCK_MONOTONIC; 0 for real time.
	VirtualFrom int64
	// NoTaskIDs leaves out the runtime's own ids of streams and tasks, which take a query of the runtime for each task.
	NoTaskIDs bool
	// PayloadLeast is the size in bytes below which payloads are not captured: with it, token ids and the like stay out.
	PayloadLeast uint64
	// VisibleLimit is the size in bytes up to which memory that the program and the device access without a call is captured at
	// synchronizations; 0 captures none of it.
	VisibleLimit uint64
	// StackFrames is how much to keep of the stack that each call was made from, at most 64; 0 means nothing.
	StackFrames int
	// TimeEvery is of how many tasks of a thread one has its time on the device measured, on average; 0 measures none.
	TimeEvery int
	// TimeGap is the least time between two such tasks of a thread.
	TimeGap time.Duration
	// Dir is the folder to make the session in; "" means DefaultDir.
	Dir string
	// Mode is that of the files; 0 means 0600, for the user of this process alone.
	Mode os.FileMode
	// Waiting makes a session in which nothing is recorded until Go.
	Waiting bool
}

// A Session reads what the shim writes. One goroutine calls Drain until the program has ended, then Finish, then Close.
type Session struct {
	// Handed is how many calls had been taken out of the rings when this process opened the session.
	Handed uint64

	model     *api.Model
	dir       string
	mode      os.FileMode
	keep      bool     // the folder, at the end
	lock      *os.File // of dir
	ctl       *control
	mem       []byte
	ringBytes uint64 // of each
	arena     []byte
	rings     []*ring // by slot; nil: not there yet
	opened    int     // of these, from the first on
	clock     clock
	members   []*member // processes, by number
	unread    int       // of these, the first that has not said who it is
	ids       map[identity]int
	taken     map[int]bool         // numbers that processes have in the trace
	names     map[[2]uint32]string // of threads
	threads   map[[2]uint32]uint64 // next sequence number of a thread, over its rings
	untimed   [untimedReasons]uint64
	filtered  []*member   // processes that make no system calls for the recording
	said      uint32      // how many had said so at the last look
	quiet     int64       // since when no other recorder has read
	passed    []probe.End // processes that are not recorded, to be told of
	began     int64       // CLOCK_MONOTONIC; 0 if another process has made the session
	scratch   []byte      // copy of the record at hand
	part      []byte      // copy of the part of a payload at hand

	uncontrolled atomic.Bool // the control file was truncated
	arenaGone    bool        // so was the arena
	damage       []Damage

	work   uint64 // bytes that were read since the core was last offered to others
	behind bool   // with the work, so that it is not offered
}

func newReader(m *api.Model, dir string, o *Options) *Session {
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	return &Session{model: m, dir: dir, mode: o.Mode, ids: map[identity]int{}, taken: map[int]bool{}, names: map[[2]uint32]string{}, threads: map[[2]uint32]uint64{}}
}

// Create makes a session in a new folder.
func Create(m *api.Model, opts *Options) (*Session, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	dir, err := os.MkdirTemp(o.Dir, "acltrace-")
	if err != nil {
		return nil, fmt.Errorf("memory for the session: %w", err)
	}
	s, err := create(m, dir, &o)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// create makes the files of a session in a folder. Programs find it once it is complete.
func create(m *api.Model, dir string, o *Options) (*Session, error) {
	if o.RingBytes == 0 {
		o.RingBytes = 8 << 20
	}
	size := 64 << 10
	for size < o.RingBytes {
		size *= 2
	}
	if o.MemoryLimit == 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return nil, fmt.Errorf("memory for the session: %s: %w", dir, err)
		}
		o.MemoryLimit = min(fs.Bavail*uint64(fs.Bsize)/4, memoryLeft()/4, 4<<30)
	}
	s := newReader(m, dir, o)
	var err error
	// The lock tells others that the folder is in use; it ends with this process, however that ends.
	if s.lock, err = os.Open(dir); err == nil {
		err = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, fmt.Errorf("memory for the session: %s: %w", dir, err)
	}
	if exists(filepath.Join(dir, "control")) {
		s.lock.Close()
		return nil, fmt.Errorf("session %s: %w", dir, os.ErrExist)
	}
	fail := func(err error) (*Session, error) {
		s.unmap()
		s.lock.Close()
		return nil, fmt.Errorf("memory for the session: %w", err)
	}
	if err := errors.Join(s.makeControl(), s.makePassed()); err != nil {
		return fail(err)
	}
	s.began = probe.Now()
	c := s.ctl
	c.version, c.maxSlots, c.functions = layoutVersion, maxSlots, m.Checksum()
	s.ringBytes = uint64(size)
	c.ringBytes, c.memoryLimit = s.ringBytes, o.MemoryLimit
	if err := s.makeArena(o); err != nil {
		return fail(err)
	}
	c.deviceFrom, c.deviceTo = m.Device.From, m.Device.To
	s.clock.virtual, s.clock.now.ns = o.VirtualFrom != 0, o.VirtualFrom
	s.clock.start()
	c.clock = s.clock.kind()
	s.configure(o)
	if o.Waiting {
		s.Wait(0)
	}
	c.heartbeat.Store(probe.Now())
	c.magic = layoutMagic
	if err := os.Rename(filepath.Join(dir, controlMaking), filepath.Join(dir, "control")); err != nil {
		return fail(err)
	}
	return s, nil
}

// configure says what programs are to write from here on.
func (s *Session) configure(o *Options) {
	c := s.ctl
	c.policy.Store(uint32(o.Policy))
	c.payloadLimit, c.payloadLeast, c.visibleLimit = o.PayloadLimit, o.PayloadLeast, o.VisibleLimit
	c.stackFrames = uint32(max(0, min(o.StackFrames, 64)))
	c.taskIDs = 1
	if o.NoTaskIDs {
		c.taskIDs = 0
	}
	c.timeEvery, c.timeGap = uint32(o.TimeEvery), s.clock.ticks(o.TimeGap)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// controlMaking is the name of the file `control` before it is complete.
const controlMaking = "control.new"

// create makes a file of the session, allocated in full.
func (s *Session) create(name string, size int64) (*os.File, error) {
	path := filepath.Join(s.dir, name)
	os.Remove(path) // what one who was killed has left
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, s.mode)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(s.mode), fill(f, 0, size)); err != nil {
		f.Close()
		os.Remove(path)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// fill makes a part of a file that is empty, by parts: before Linux 6.0 a signal, of which a Go program has many, undoes the one at hand.
func fill(f *os.File, from, size int64) error {
	const part = 1 << 20
	for at := from; at < from+size; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, min(part, from+size-at)); {
		case err == nil:
			at += part
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return nil
}

func (s *Session) makeControl() error {
	n := int(unsafe.Sizeof(control{}))
	f, err := s.create(controlMaking, int64(n))
	if err != nil {
		return err
	}
	defer f.Close()
	if s.mem, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	s.ctl = (*control)(unsafe.Pointer(&s.mem[0]))
	return nil
}

// makeArena makes the memory for large payloads. A session without it works, more slowly.
func (s *Session) makeArena(o *Options) error {
	size := o.ArenaBytes
	if size == 0 && o.PayloadLimit >= arenaChunk/4 {
		size = 256 << 20
	}
	size = min(size, int64(o.MemoryLimit/4), arenaWords*64*arenaChunk)
	chunks := max(size, 0) / arenaChunk
	if chunks == 0 {
		return nil
	}
	f, err := s.create("arena", chunks*arenaChunk)
	if errors.Is(err, unix.ENOSPC) {
		return nil // less memory than there seemed to be
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if s.arena, err = unix.Mmap(int(f.Fd()), 0, int(chunks*arenaChunk), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	for i := range chunks {
		s.ctl.arenaFree[i/64].Or(1 << (i % 64))
	}
	s.ctl.arenaChunks = uint32(chunks)
	return nil
}

// Dir is the session's folder, which the environment of the program names in ACLTRACE_SESSION.
func (s *Session) Dir() string { return s.dir }

// Refused is the number of threads that could not be recorded, for want of memory for their rings.
func (s *Session) Refused() int {
	return touched(s, func() int { return int(s.clamp(uint64(s.ctl.refused.Load()))) })
}

// Stranger is a process whose shim is of another build of acltrace than this program, so that it records nothing; 0 for none.
func (s *Session) Stranger() int { return touched(s, func() int { return int(s.ctl.stranger.Load()) }) }

// CheckShim returns an error where a shim, the content of its file, is of another build than this program: what it wrote would
// not be understood, and it writes nothing.
func CheckShim(shim []byte, m *api.Model) error {
	build := fmt.Sprintf("acltrace shim: ring %d, functions %016x", layoutVersion, m.Checksum())
	if !bytes.Contains(shim, []byte(build)) {
		return fmt.Errorf("the shim is of another build of acltrace than this program, which needs %q in it: build both with `make build`", build)
	}
	return nil
}

// Policy is what programs do when a ring is full: Drop, too, after a program has waited in vain.
func (s *Session) Policy() Policy {
	return touched(s, func() Policy { return Policy(s.ctl.policy.Load()) })
}

// Cost is what recording adds to a launch with 64 bytes of arguments, in nanoseconds, as the first process of the session has
// measured it; 0 where none has.
func (s *Session) Cost() float64 {
	ticks := touched(s, func() float64 { return float64(s.ctl.cost.Load()) })
	if s.clock.counter {
		return ticks * s.clock.rate
	}
	return ticks
}

// Untimed counts the tasks whose time on the device was to be measured and was not, by why. Valid after Finish, and before Close.
func (s *Session) Untimed() map[probe.Untimed]uint64 {
	n := map[probe.Untimed]uint64{}
	for i := range untimedReasons {
		n[i] = s.untimed[i]
		for _, r := range s.rings {
			if r != nil && r.mem != nil {
				n[i] += r.unmeasured(s, i)
			}
		}
	}
	return n
}

// unmeasured returns how many tasks of a ring's threads were to be measured and were not, for one reason.
func (r *ring) unmeasured(s *Session, why probe.Untimed) uint64 {
	return s.clamp(touched(s, func() uint64 { return r.head.untimed[why].Load() }))
}

// ClockJumps is how often the processor's counter was found to have jumped.
func (s *Session) ClockJumps() int { return s.clock.jumps }

// Off ends the recording; programs run on without it.
func (s *Session) Off() {
	s.touch(func() {
		s.ctl.policy.Store(uint32(Drop))
		s.ctl.off.Store(offEnded)
	})
}

// Wait has programs record nothing from here on, but the process with the id where that is not 0. A call that has begun
// is still recorded. It may be called from any goroutine that no other does so from at the time.
func (s *Session) Wait(but int) {
	s.touch(func() {
		s.ctl.only.Store(uint32(but))
		s.ctl.off.CompareAndSwap(0, offWaiting)
		s.still()
	})
}

// Go has programs record again after Wait.
func (s *Session) Go() {
	s.touch(func() {
		s.ctl.off.CompareAndSwap(offWaiting, 0)
		s.ctl.only.Store(0)
		s.still()
	})
}

// Waiting reports whether programs record nothing for now, but the process with the id.
func (s *Session) Waiting() (but int, waiting bool) {
	s.touch(func() { but, waiting = int(s.ctl.only.Load()), s.ctl.off.Load() == offWaiting })
	return but, waiting
}

// still tells the threads that have rings whether they record.
func (s *Session) still() {
	only, waiting := s.Waiting()
	quiet := uint32(quietNo)
	switch {
	case waiting && only == 0:
		quiet = quietAll
	case waiting:
		quiet = quietSome
	}
	for i := range min(s.ctl.nextSlot.Load(), maxSlots) {
		sl := &s.ctl.slots[i]
		off := uint32(0)
		if waiting && int(sl.pid) != only {
			off = 1
		}
		sl.off.Store(off)
	}
	if s.ctl.quiet.Load() != quietNo {
		s.ctl.resumed.Add(1)
	}
	s.ctl.quiet.Store(quiet)
}

// Beat tells the programs that the recorder is alive. It must be called at least four times a second, whatever else
// the recorder does, or programs that wait for it stop waiting.
func (s *Session) Beat() { s.touch(func() { s.ctl.heartbeat.Store(probe.Now()) }) }

// Load says how much there was to drain.
type Load int

const (
	Idle    Load = iota // nothing
	Light               // rings were mostly empty: the programs are better left alone for a while, since reading what they write next costs them
	Pressed             // a ring was more than a quarter full
)

// Interval is how long rings that are lightly used may be left alone: one that suddenly gets 1 GB/s, more than ten million calls a
// second, is half full then.
func (s *Session) Interval() time.Duration {
	return max(time.Duration(s.ringBytes/2), 200*time.Microsecond)
}

// Drain hands on what has been written since the last time.
func (s *Session) Drain(sink probe.Sink) (load Load, err error) {
	s.touch(func() { load, err = s.drain(sink) })
	return load, err
}

func (s *Session) drain(sink probe.Sink) (Load, error) {
	s.clock.adjust()
	s.behind = s.pressed()
	if err := s.open(sink); err != nil {
		return Idle, err
	}
	s.refill()
	load := Idle
	for _, r := range s.rings {
		if r == nil {
			continue
		}
		n, err := r.drain(s, sink, false)
		if err != nil {
			return load, err
		}
		switch {
		case n > r.size/4:
			load = Pressed
		case n > 0:
			load = max(load, Light)
		}
	}
	return load, nil
}

// Finish hands on what programs that have died have left: their last calls, finished or not, and what they lost.
func (s *Session) Finish(sink probe.Sink) error {
	for {
		load, err := s.Drain(sink)
		if err != nil {
			return err
		}
		if load == Idle {
			break
		}
	}
	all := make([]int, len(s.rings))
	for i := range all {
		all[i] = i
	}
	return touched(s, func() error { return s.finish(sink, all) })
}

// finish hands on all that some rings hold.
func (s *Session) finish(sink probe.Sink, rings []int) error {
	for _, i := range rings {
		r := s.rings[i]
		if r == nil || r.mem == nil {
			continue
		}
		if _, err := r.drain(s, sink, true); err != nil {
			return err
		}
		if r.truncated {
			continue
		}
		lost := r.head.lost.Load()
		if !s.possible(lost - r.lost) {
			if !r.done {
				if err := r.giveUp(s, sink, writtenOver); err != nil {
					return err
				}
			}
			continue
		}
		if all, most := r.head.seq.Load()-r.seq, lost-r.lost+r.size/callHeader; r.done && all <= most {
			lost = r.lost + all // with what lay in a ring that was given up
			r.seq += all
		}
		if n := r.head.nested.Swap(0); n > 0 && !r.done && s.possible(n) {
			r.seq += n
			if err := sink.Gap(&probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(r.head.nestedSince), To: probe.Now(), Calls: n, Reason: probe.Nested}); err != nil {
				return err
			}
		}
		if lost > r.lost {
			g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(r.head.lostSince), To: s.clock.nanoseconds(r.head.lostUntil),
				Calls: lost - r.lost, Reason: "ring full"}
			if r.done {
				g.From, g.To, g.Reason = r.gone, probe.Now(), writtenOver
			}
			s.ctl.handed += lost - r.lost
			r.lost = lost
			if err := sink.Gap(&g); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keep has Close leave the session's files, for Open, with nothing recorded any more.
func (s *Session) Keep() {
	s.Off()
	s.keep = true
}

// Close gives the memory back. Programs that still run record nothing any more; but the memory of a session
// that was opened by Open stays as it is, for who opens it next.
func (s *Session) Close() error {
	if s.keep {
		s.unmap()
		return s.lock.Close()
	}
	s.touch(func() {
		s.ctl.off.Store(offEnded)
		s.ctl.quiet.Store(quietAll)
	})
	s.unmap()
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

func (s *Session) unmap() {
	for _, r := range s.rings {
		if r != nil {
			r.close()
		}
	}
	for _, m := range s.members {
		m.unmap()
		if m.file != nil {
			m.file.Close()
		}
		m.closePool()
	}
	for _, b := range [][]byte{s.mem, s.arena} {
		if b != nil {
			unix.Munmap(b)
		}
	}
}

// open maps the rings that have appeared.
func (s *Session) open(sink probe.Sink) error {
	for n := int(min(s.ctl.nextSlot.Load(), maxSlots)); len(s.rings) < n; {
		s.rings = append(s.rings, nil)
	}
	for s.opened < len(s.rings) && s.rings[s.opened] != nil && !s.rings[s.opened].given {
		s.opened++
	}
	for i := s.opened; i < len(s.rings); i++ {
		if r := s.rings[i]; r != nil && !r.given {
			continue
		}
		sl := &s.ctl.slots[i]
		switch sl.state.Load() {
		case slotLive:
		case slotDead:
			s.rings[i] = &ring{} // there was no memory
			continue
		default:
			continue
		}
		m := s.member(sl.process)
		if m == nil || m.file == nil {
			continue
		}
		if m.said == nil {
			// A process makes a ring after it has written its file, which is truncated now.
			s.join(m, &processFile{pid: sl.pid, ppid: sl.ppid, start: sl.start})
		}
		if err := s.show(m, sink); err != nil {
			return err
		}
		r, err := s.mapRing(i, m)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) && m.gone {
				s.rings[i] = &ring{}
				continue
			}
			return fmt.Errorf("ring of thread %d: %w", sl.tid, err)
		}
		m.rings = append(m.rings, i)
		r.start(s)
	}
	return nil
}

// show tells the sink of a process, once.
func (s *Session) show(m *member, sink probe.Sink) error {
	if m.shown {
		return nil
	}
	m.shown = true
	for _, o := range s.members {
		if o != m && o.shown && o.pid == m.pid {
			return nil // by exec it has become another program
		}
	}
	p := m.describe()
	p.Start = s.clock.nanoseconds(m.said.start)
	if n := m.said.forkedFrom; n > 0 && int(n) <= len(s.members) {
		p.ForkedFrom = s.members[n-1].pid
	}
	return sink.Process(p)
}

type ring struct {
	slot     *slot
	member   *member
	pid, tid uint32 // of the thread that has it now
	owners   []owner
	head     *header
	mem      unsafe.Pointer // of the whole mapping
	length   uintptr
	data     []byte // the records, twice
	size     uint64
	pos      uint64
	lost     uint64      // as handed on
	seq      uint64      // of the next call in this ring
	outer    *probe.Call // that encloses those to come, nil for none
	done     bool
	gone     int64 // since when it is done, where it was given up
	// truncated is set once the program has truncated the file. seen is the number of the next call when the ring was last drained.
	truncated bool
	seen      uint64
	taken     uint64     // the first call that this process has got
	handed    uint64     // calls that the session's count has
	given     bool       // back, so that another thread may have the slot
	last      int64      // when the latest call began or ended, as far as that is known
	at        probe.Call // the call at hand, kept for its memory
	// recording is how many nanoseconds payloads have taken the thread since its latest call.
	recording int64
}

// owner is a thread that has, or has had, a ring: its calls are those from the number first on, and the thread had made
// base calls before.
type owner struct {
	pid, tid    uint32
	generation  uint32
	first, base uint64
}

// number returns the owner of a call of the ring and the call's number in that thread.
func (r *ring) number(seq uint64) (owner, uint64) {
	for i := len(r.owners) - 1; i > 0; i-- {
		if o := r.owners[i]; seq >= o.first {
			return o, o.base + seq - o.first
		}
	}
	o := r.owners[0]
	return o, o.base + seq - o.first
}

// change notes that the ring, which was empty then, has changed hands.
func (r *ring) change(s *Session, sink probe.Sink) error {
	if r.mem == nil || r.done || r.generation(s) == r.owners[len(r.owners)-1].generation {
		return nil
	}
	if err := r.leave(sink); err != nil {
		return err
	}
	r.own(s)
	return nil
}

// generation returns how many threads have had the ring before the one that has it now.
func (r *ring) generation(s *Session) uint32 {
	n := r.slot.generation.Load()
	if s.uncontrolled.Load() {
		return r.owners[len(r.owners)-1].generation
	}
	return n
}

// own notes that a thread has got the ring.
func (r *ring) own(s *Session) {
	r.pid, r.tid, r.recording = uint32(r.member.pid), r.slot.tid, 0
	key := [2]uint32{r.pid, r.tid}
	name, _, _ := bytes.Cut(r.slot.name[:], []byte{0})
	if len(name) == 0 && r.member.local != 0 { // a thread that could not ask
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", r.member.local, r.tid))
		name = bytes.TrimSpace(comm)
	}
	s.names[key] = string(name)
	r.owners = append(r.owners, owner{r.pid, r.tid, r.slot.generation.Load(), r.seq, s.threads[key]})
}

func (s *Session) mapRing(i int, m *member) (*ring, error) {
	sl := &s.ctl.slots[i]
	path, from := s.path("ring.", uint32(i)), int64(0)
	size := uintptr(s.ringBytes)
	if sl.rng != 0 {
		path, from = s.path("pool.", m.number-1), int64(sl.rng-1)*s.rangeBytes()
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	whole, err := unix.MmapPtr(-1, 0, nil, headerBytes+2*size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	r := &ring{slot: sl, member: m, pid: uint32(m.pid), tid: sl.tid, mem: whole, length: headerBytes + 2*size, size: uint64(size)}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	if _, err = unix.MmapPtr(int(f.Fd()), from, whole, headerBytes+size, rw, unix.MAP_SHARED|unix.MAP_FIXED); err == nil {
		_, err = unix.MmapPtr(int(f.Fd()), from+headerBytes, unsafe.Add(whole, headerBytes+size), size, rw, unix.MAP_SHARED|unix.MAP_FIXED)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	r.head = (*header)(whole)
	r.data = unsafe.Slice((*byte)(unsafe.Add(whole, headerBytes)), 2*size)
	s.rings[i] = r
	return r, nil
}

// start takes the ring over from another recorder, which may have read some of it.
func (r *ring) start(s *Session) {
	r.pos = r.head.tail.Load()
	for _, k := range r.head.mark {
		if k.pos == r.pos && r.pos != 0 {
			r.seq, r.lost = k.seq, k.lost
		}
	}
	r.taken = r.seq
	r.handed = r.seq
	r.own(s)
}

func (r *ring) close() {
	if r.mem != nil {
		unix.MunmapPtr(r.mem, r.length)
		r.mem = nil
	}
}

// drain hands on the finished records of a ring, and returns their bytes; with final, the unfinished one too.
func (r *ring) drain(s *Session, sink probe.Sink, final bool) (uint64, error) {
	if r.mem == nil || r.done {
		return 0, nil
	}
	if r.truncated {
		return 0, r.giveUp(s, sink, truncated)
	}
	head := r.head.head.Load()
	r.seen = r.head.seq.Load()
	if err := r.change(s, sink); err != nil {
		return 0, err
	}
	if first := &r.owners[0]; r.pos == 0 && head > 0 {
		// After an exec the thread had another ring, which comes first here: its calls are counted by now.
		first.base = s.threads[[2]uint32{first.pid, first.tid}]
	}
	start := r.pos
	for r.pos < head {
		b := r.data[r.pos&(r.size-1):]
		// The state lies in the last byte of the second word of the header, and is stored last.
		state := byte(atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[4]))) >> 24)
		if state == stateEntered && !final {
			break
		}
		size := uint64(le.Uint32(b))
		if size < 8 || size%8 != 0 || size > r.size {
			return 0, r.giveUp(s, sink, writtenOver)
		}
		s.scratch = append(s.scratch[:0], b[:size]...)
		if err := r.record(s, sink, s.scratch, state); err != nil {
			if errors.Is(err, errRing) {
				return 0, r.giveUp(s, sink, writtenOver)
			}
			return 0, err
		}
		r.pos += size
		s.share(size)
		// Space is given back now and then, so that a program that waits does not wait for the whole ring.
		if r.pos-r.head.tail.Load() > r.size/8 {
			r.giveBack(s)
			s.Beat()
		}
		if r.pos >= head {
			// A ring that was empty for a moment may have another owner.
			if head = r.head.head.Load(); r.generation(s) != r.owners[len(r.owners)-1].generation {
				break
			}
		}
	}
	r.giveBack(s)
	if r.pos != start {
		o, next := r.number(r.seq)
		s.threads[[2]uint32{o.pid, o.tid}] = next
	}
	if final {
		return r.pos - start, r.leave(sink)
	}
	return r.pos - start, nil
}

// quantum is how many bytes of records and payloads are read before others are let at the core: some tens of microseconds of work.
// Without it a thread of the program that wakes up on the recorder's core may wait there for milliseconds.
const quantum = 16 << 10

// giveBack gives the space of what was read back to the program, and notes what whoever takes the ring over must know.
func (r *ring) giveBack(s *Session) {
	if r.pos == r.head.tail.Load() {
		return
	}
	i := 0
	if r.head.mark[0].pos == r.head.tail.Load() {
		i = 1
	}
	atomic.StoreUint64(&r.head.mark[i].seq, r.seq)
	atomic.StoreUint64(&r.head.mark[i].lost, r.lost)
	atomic.StoreUint64(&r.head.mark[i].pos, r.pos)
	r.head.tail.Store(r.pos)
	atomic.AddUint64(&s.ctl.handed, r.seq-r.handed)
	r.handed = r.seq
}

// share notes that n bytes have been read, and now and then lets whoever waits for this core run first, so that recording takes
// what the program leaves of the cores. A recorder that falls behind, since the program leaves nothing, takes its full share.
func (s *Session) share(n uint64) {
	if s.work += n; s.work < quantum || s.behind {
		return
	}
	s.work = 0
	before := probe.Now()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if time.Duration(probe.Now()-before) > s.Interval()/4 {
		s.behind = s.pressed()
	}
}

// pressed reports whether a ring is more than a quarter full, or the arena more than half.
func (s *Session) pressed() bool {
	for _, r := range s.rings {
		if r != nil && r.mem != nil && !r.done && r.head.head.Load()-r.pos > r.size/4 {
			return true
		}
	}
	if s.arena == nil {
		return false
	}
	free := 0
	for i := range s.ctl.arenaFree {
		free += bits.OnesCount64(s.ctl.arenaFree[i].Load())
	}
	return free < int(s.ctl.arenaChunks)/2
}

// leave hands on the enclosing call that never returned.
func (r *ring) leave(sink probe.Sink) error {
	c := r.outer
	if r.outer = nil; c == nil {
		return nil
	}
	return sink.Call(c)
}

const (
	writtenOver = "ring overwritten by the program"
	truncated   = "ring truncated by the program"
)

// giveUp reads no more of a ring that the program has damaged. Its thread does not wait for room there. Of a truncated ring at
// least one call is lost, and those that were seen in it. Calls that an overwritten ring still holds are counted in finish.
func (r *ring) giveUp(s *Session, sink probe.Sink, why string) error {
	r.head.givenUp.Store(1)
	r.done, r.gone = true, probe.Now()
	s.damage = append(s.damage, Damage{PID: int(r.pid), TID: int(r.tid), Exe: r.member.describe().Exe, What: why})
	g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: r.gone, To: r.gone, Reason: why}
	if r.truncated {
		g.Calls = 1
		if n := r.seen - min(r.seq, r.seen); n <= r.size/callHeader {
			g.Calls = max(n, 1)
		}
		r.seq += g.Calls
	}
	return sink.Gap(&g)
}

func (r *ring) record(s *Session, sink probe.Sink, b []byte, state byte) error {
	switch b[6] {
	case recCall:
		c, err := r.call(s, b, state)
		if err != nil {
			return err
		}
		return sink.Call(c)
	case recBegin:
		c, err := r.call(s, b, stateEntered)
		if err != nil {
			return err
		}
		if err := r.leave(sink); err != nil {
			return err
		}
		outer := copyCall(c) // the record is overwritten before its call ends
		r.outer = &outer
	case recEnd:
		return r.end(s, sink, b)
	case recPayload:
		return r.payload(s, sink, b)
	case recTime:
		return r.time(s, sink, b)
	case recLost:
		if len(b) < lostBytes {
			return errRing
		}
		n := le.Uint64(b[8:])
		if !s.possible(n) {
			return errRing
		}
		g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(le.Uint64(b[16:])), To: s.clock.nanoseconds(le.Uint64(b[24:])), Calls: n, Reason: "ring full"}
		if le.Uint16(b[4:]) == lostNested {
			g.Reason = probe.Nested
		}
		r.lost += n
		r.seq += n
		return sink.Gap(&g)
	default:
		return errRing
	}
	return nil
}

// end completes the enclosing call.
func (r *ring) end(s *Session, sink probe.Sink, b []byte) error {
	c := r.outer
	if len(b) < callHeader || c == nil || le.Uint16(b[4:]) != uint16(c.Func) {
		return errRing
	}
	c.End, c.Ret = max(behind(s.clock.nanoseconds(le.Uint64(b[16:])), r.last), c.Start, 1), le.Uint64(b[24:])
	r.last, r.recording = c.End, 0 // which was within the call
	if err := readPieces(c, s.model.Func(c.Func), b[callHeader:]); err != nil {
		return err
	}
	return r.leave(sink)
}

// call reads a record of a call, whose memory the call refers to.
func (r *ring) call(s *Session, b []byte, state byte) (*probe.Call, error) {
	if len(b) < callHeader {
		return nil, errRing
	}
	words := int(b[32])
	f := s.model.Func(api.ID(le.Uint16(b[4:])))
	if f == nil || words != int(f.Words) || len(b) < callHeader+8*words {
		return nil, errRing
	}
	_, seq := r.number(r.seq)
	c := &r.at
	*c = probe.Call{PID: int(r.pid), TID: int(r.tid), Seq: seq, Func: f.ID, Start: behind(s.clock.nanoseconds(le.Uint64(b[8:])), r.last), Recording: r.recording, Pieces: c.Pieces[:0]}
	r.last, r.recording = c.Start, 0
	if end := le.Uint64(b[16:]); state == stateDone {
		c.End, c.Ret = max(s.clock.nanoseconds(end), c.Start), le.Uint64(b[24:])
		if c.End == 0 {
			c.End = 1
		}
		r.last = c.End
	}
	r.seq++
	c.Words = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b[callHeader:]))), words)
	return c, readPieces(c, f, b[callHeader+8*words:])
}

// pieces reads the pieces that follow a call.
func readPieces(c *probe.Call, f *api.Func, rest []byte) error {
	for len(rest) > 0 {
		if len(rest) < pieceHeader {
			return errRing
		}
		flags, n := rest[1], int(le.Uint32(rest[4:]))
		p := probe.Piece{Param: rest[0], Missing: probe.Missing(rest[2]), Len: uint64(n)}
		if flags&pieceOut != 0 {
			p.Dir = probe.Out
		}
		rest = rest[pieceHeader:]
		if flags&far != 0 {
			if len(rest) < 24 {
				return errRing
			}
			p.Addr, p.Len, p.Item = le.Uint64(rest), le.Uint64(rest[8:]), le.Uint32(rest[16:])
			rest = rest[24:]
		} else if int(p.Param) < len(f.Params) {
			p.Addr = c.Words[f.Params[p.Param].Word]
		}
		if flags&pieceBytes != 0 {
			padded := (n + 7) &^ 7
			if padded > len(rest) {
				return errRing
			}
			p.Bytes = rest[:n:n]
			rest = rest[padded:]
		}
		c.Pieces = append(c.Pieces, p)
	}
	return nil
}

// ringOf is the ring that has a call of a thread; nil for a call that another recorder has got. The thread may be one that has got its
// ring since the last look.
func (s *Session) ringOf(sink probe.Sink, slot int, seq uint64) (*ring, error) {
	if slot >= maxSlots {
		return nil, errRing
	}
	if slot >= len(s.rings) || s.rings[slot] == nil || s.rings[slot].given {
		if err := s.open(sink); err != nil {
			return nil, err
		}
	}
	if slot >= len(s.rings) || s.rings[slot] == nil || len(s.rings[slot].owners) == 0 {
		return nil, errRing
	}
	r := s.rings[slot]
	if err := r.change(s, sink); err != nil || seq < r.taken {
		return nil, err
	}
	return r, nil
}

func (r *ring) payload(s *Session, sink probe.Sink, b []byte) error {
	if len(b) < payloadHeader {
		return errRing
	}
	n := int(le.Uint32(b[60:]))
	slot := int(le.Uint32(b[8:]))
	bytes := b[payloadHeader:]
	if chunk := int(le.Uint32(b[64:])) - 1; chunk >= 0 {
		if n > arenaChunk || (chunk+1)*arenaChunk > len(s.arena) {
			return errRing
		}
		s.part = append(s.part[:0], s.arena[chunk*arenaChunk:][:n]...)
		bytes = s.part
		s.ctl.arenaFree[chunk/64].Or(1 << (chunk % 64))
		defer s.share(uint64(n))
	}
	if n > len(bytes) {
		return errRing
	}
	of, err := s.ringOf(sink, slot, le.Uint64(b[16:]))
	if err != nil || of == nil {
		return err
	}
	o, seq := of.number(le.Uint64(b[16:]))
	p := probe.Payload{PID: int(o.pid), TID: int(o.tid), Seq: seq, Offset: le.Uint64(b[40:]), Time: s.clock.nanoseconds(le.Uint64(b[48:]))}
	p.Piece = probe.Piece{Param: b[12], Missing: probe.Missing(b[14]), Addr: le.Uint64(b[24:]), Len: le.Uint64(b[32:]), Item: le.Uint32(b[56:]), Bytes: bytes[:n:n]}
	if b[13]&pieceOut != 0 {
		p.Dir = probe.Out
	}
	p.Early = b[13]&pieceEarly != 0
	if s.arenaGone && le.Uint32(b[64:]) != 0 {
		p.Missing, p.Bytes = probe.Unreadable, nil
	}
	// The time is that of the thread that wrote the record, which is another one than that of the call if it has waited for its result.
	p.Recording = s.clock.duration(uint64(le.Uint32(b[68:])) * recordingTicks)
	r.recording += p.Recording
	return sink.Payload(&p)
}

func (r *ring) time(s *Session, sink probe.Sink, b []byte) error {
	slot := int(le.Uint32(b[8:]))
	if len(b) < timeBytes {
		return errRing
	}
	of, err := s.ringOf(sink, slot, le.Uint64(b[16:]))
	if of == nil {
		return err
	}
	o, seq := of.number(le.Uint64(b[16:]))
	t := probe.TaskTime{PID: int(o.pid), TID: int(o.tid), Seq: seq, Device: int(int32(le.Uint32(b[12:]))) - 1, Stream: le.Uint64(b[24:]),
		Issued: s.clock.nanoseconds(le.Uint64(b[32:])), Closed: s.clock.nanoseconds(le.Uint64(b[40:])), Seen: s.clock.nanoseconds(le.Uint64(b[48:])),
		From: int64(le.Uint64(b[56:])) * 1000, To: int64(le.Uint64(b[64:])) * 1000, Elapsed: int64(math.Round(float64(math.Float32frombits(le.Uint32(b[72:]))) * 1e6))}
	return sink.TaskTime(&t)
}
