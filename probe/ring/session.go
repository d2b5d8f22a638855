// Package ring is the recorder's side of the shared memory that the shim (probe/shim) writes.
//
// A session is a folder on a tmpfs with a control file, a file for each process, and a ring for each thread that calls the
// runtime. Package record creates a Session, or opens one that an earlier recorder has left. It calls Drain until the
// programs have ended, Reap for processes that ended, then Finish and Close. The records go to a probe.Sink.
//
// Programs can damage the shared files. The package gives up a damaged ring and counts the loss; it never crashes on it.
// It never loads the shim into a program and never writes a trace.
package ring

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// How a program behaves if its ring is full.
const (
	drop  = 0 // lose the call and count it
	block = 1 // wait while the recorder is alive
)

// DefaultDir is the parent folder of sessions. Files there are in memory.
const DefaultDir = "/dev/shm"

// MostFrames is the largest number of return addresses for a call. The shim has the same (record/stack.c).
const MostFrames = 64

// Operators is what the shim records of operators.
type Operators uint32

// The levels, as in ring.h.
const (
	OperatorNames  Operators = iota // their boundaries, with names; descriptions where the runtime wants them, in captured graphs
	NoOperators                     // descriptions where the runtime wants them
	OperatorShapes                  // as OperatorNames, and a description of each launch: the shim tells operators that the runtime wants it
	OperatorsAll                    // as OperatorNames, and the calls that make their arguments
)

// Calls selects what the shim records of each call, apart from payloads.
type Calls struct {
	// Armed records nothing until Resume.
	Armed bool
	// NoTaskIDs leaves out the runtime's stream and task ids, which take a query for each task.
	NoTaskIDs bool
	// Stacks limits the return addresses kept for each call, at most MostFrames; 0 keeps none.
	Stacks int
	// Operators selects what is recorded of operators.
	Operators Operators
	// DeviceTime measures one of this many tasks of a thread by the device's clock, on average; 0 measures none, 1 all.
	DeviceTime int
	// DeviceTimeGap is the minimum time between two measured tasks of a thread.
	DeviceTimeGap time.Duration
}

// Buffers are the rings between programs and the recorder.
type Buffers struct {
	// Block makes a program wait if its ring is full, while the recorder is alive. Otherwise it loses the call.
	Block bool
	// RingBytes is the size of each thread's ring, rounded up to a power of two; 0 means 8 MiB. If memory is short, new rings are
	// smaller, down to 64 KiB.
	RingBytes int
	// MemoryLimit bounds all rings together, in bytes. 0 means a quarter of the memory left in the tmpfs and in the recorder's
	// memory cgroup, at most 4 GiB. A program whose own cgroup has less makes smaller and fewer rings.
	MemoryLimit uint64
}

// Options are the parameters of a Session. A nil *Options means the defaults.
type Options struct {
	Calls
	Buffers
	// PayloadLimit is the largest payload to capture, in bytes; 0 captures none.
	PayloadLimit uint64
	// PayloadLeast is the smallest payload to capture, in bytes. It keeps out token ids, for example.
	PayloadLeast uint64
	// VisibleLimit is the largest range, in bytes, to capture at synchronizations from memory that program and device
	// access without a call; 0 captures none.
	VisibleLimit uint64
	// VirtualFrom starts a simulator's virtual time at this CLOCK_MONOTONIC time; 0 means real time.
	VirtualFrom int64
	// Dir is the parent folder for Create; "" means DefaultDir.
	Dir string
	// Mode is the file mode; 0 means 0600.
	Mode os.FileMode
}

// Session is the recorder's end of a session. One goroutine calls Drain until the programs have ended, then Finish, then
// Close. Others may call Heartbeat, Paused, Pause and Resume.
type Session struct {
	// Handed is the number of calls that earlier recorders had read when Open returned.
	Handed uint64

	model     *api.Model
	files     files
	clock     clock
	rings     rings
	processes processes
	losses    losses
	pace      pace
	quiet     int64 // last heartbeat of the earlier recorder, CLOCK_MONOTONIC; 0 after Create
}

func newSession(m *api.Model, dir string, o *Options) *Session {
	s := &Session{model: m, files: files{dir: dir, mode: o.Mode}}
	if o.Mode == 0 {
		s.files.mode = 0o600
	}
	s.rings.names, s.rings.nextSeq = map[threadID]string{}, map[threadID]uint64{}
	s.processes.ids, s.processes.used = map[identity]int{}, map[int]bool{}
	return s
}

// Create makes a session in a new folder.
func Create(m *api.Model, opts *Options) (*Session, error) {
	o := opts.orDefaults()
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	dir, err := os.MkdirTemp(o.Dir, "acltrace-")
	if err != nil {
		return nil, fmt.Errorf("memory for the session: %w", err)
	}
	s, err := create(m, dir, o)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// Prepare makes a session in an existing folder, for a recorder that opens it later. It fails with os.ErrExist if the folder
// holds a session.
func Prepare(m *api.Model, dir string, opts *Options) error {
	s, err := create(m, dir, opts.orDefaults())
	if err != nil {
		return err
	}
	s.files.keep = true
	return s.Close()
}

// Open takes over a session from Prepare or from an earlier recorder. The options replace those of the earlier recorder,
// except for the sizes of rings and memory. It fails with ErrTaken or ErrVersion.
func Open(m *api.Model, dir string, opts *Options) (*Session, error) {
	o := opts.orDefaults()
	s := newSession(m, dir, o)
	s.files.keep = true
	if err := s.files.acquire(); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	if err := s.attach(o); err != nil {
		s.files.lock.Close()
		return nil, fmt.Errorf("session %s: %w", dir, err)
	}
	return s, nil
}

func (o *Options) orDefaults() *Options {
	if o == nil {
		return &Options{}
	}
	own := *o
	return &own
}

// create makes the files of a session. Programs find the session when the control file gets its final name.
func create(m *api.Model, dir string, o *Options) (*Session, error) {
	if o.RingBytes == 0 {
		o.RingBytes = 8 << 20
	}
	size := leastRing
	for size < o.RingBytes {
		size *= 2
	}
	if o.MemoryLimit == 0 {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return nil, fmt.Errorf("memory for the session: %s: %w", dir, err)
		}
		left := fs.Bavail * uint64(fs.Bsize)
		if fs.Blocks == 0 {
			left = math.MaxUint64 // a tmpfs without a limit
		}
		o.MemoryLimit = min(left/4, memoryLeft()/4, 4<<30)
	}
	s := newSession(m, dir, o)
	if err := s.files.acquire(); err != nil {
		return nil, fmt.Errorf("memory for the session: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "control")); err == nil {
		s.files.lock.Close()
		return nil, fmt.Errorf("session %s: %w", dir, os.ErrExist)
	}
	fail := func(err error) (*Session, error) {
		s.unmap()
		s.files.lock.Close()
		return nil, fmt.Errorf("memory for the session: %w", err)
	}
	if err := errors.Join(s.files.makeControl(), s.files.makePassed()); err != nil {
		return fail(err)
	}
	s.losses.since = probe.Now()
	s.losses.outside = s.losses.since
	c := s.files.ctl
	c.version, c.maxSlots, c.functions = layoutVersion, maxSlots, m.Checksum()
	s.rings.bytes, s.rings.least = uint64(size), uint64(size)
	c.ringBytes, c.memoryLimit = s.rings.bytes, o.MemoryLimit
	if err := s.files.makeArena(o); err != nil {
		return fail(err)
	}
	c.deviceFrom, c.deviceTo = m.Device.From, m.Device.To
	s.clock.virtual, s.clock.now.ns, s.clock.kept = o.VirtualFrom != 0, o.VirtualFrom, &c.reading
	s.clock.start()
	c.clock = s.clock.kind()
	s.configure(o)
	if o.Armed {
		s.Pause(0)
	}
	c.heartbeat.Store(probe.Now())
	c.magic = layoutMagic
	if err := os.Rename(filepath.Join(dir, controlMaking), filepath.Join(dir, "control")); err != nil {
		return fail(err)
	}
	return s, nil
}

// attach maps the files of an existing session.
func (s *Session) attach(o *Options) error {
	f, err := os.OpenFile(filepath.Join(s.files.dir, "control"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return err
	} else if st.Size() != controlBytes {
		return ErrVersion
	}
	if err := s.files.mapControl(f); err != nil {
		return err
	}
	return touched(s, func() error { return s.take(o) })
}

// take continues the session of another recorder.
func (s *Session) take(o *Options) error {
	c := s.files.ctl
	if c.magic != layoutMagic || c.version != layoutVersion || c.maxSlots != maxSlots || c.functions != s.model.Checksum() {
		s.files.unmap()
		return ErrVersion
	}
	if c.arenaChunks > 0 {
		if err := s.files.openArena(); err != nil {
			s.files.unmap()
			return fmt.Errorf("arena: %w", err)
		}
	}
	s.rings.bytes, s.rings.least = c.ringBytes, c.ringBytes
	s.clock.kept = &c.reading
	s.clock.take(c.clock)
	s.Handed = s.taken()
	s.configure(o)
	c.off.CompareAndSwap(offEnded, 0)
	s.quiet = c.heartbeat.Swap(probe.Now())
	s.losses.outside = s.quiet
	return nil
}

// configure sets the options that programs read from the control file.
func (s *Session) configure(o *Options) {
	c := s.files.ctl
	c.policy.Store(drop)
	if o.Block {
		c.policy.Store(block)
	}
	c.payloadLimit, c.payloadLeast, c.visibleLimit = o.PayloadLimit, o.PayloadLeast, o.VisibleLimit
	c.stackFrames = uint32(max(0, min(o.Stacks, MostFrames)))
	c.taskIDs, c.operators = 1, uint32(o.Operators)
	if o.NoTaskIDs {
		c.taskIDs = 0
	}
	c.timeEvery, c.timeGap, c.gap = uint32(o.DeviceTime), s.clock.ticks(o.DeviceTimeGap), s.clock.ticks(probe.GapNS)
}

// Dir returns the session's folder. Programs get it in ACLTRACE_SESSION.
func (s *Session) Dir() string { return s.files.dir }

// CheckShim returns an error if shim, the content of the library, is from another build than this program. Such a shim
// records nothing, because its layout or its function numbers differ.
func CheckShim(shim []byte, m *api.Model) error {
	build := fmt.Sprintf("acltrace shim: ring %d, functions %016x", layoutVersion, m.Checksum())
	if !bytes.Contains(shim, []byte(build)) {
		return fmt.Errorf("the shim is of another build of acltrace than this program, which needs %q in it: build both with `make build`", build)
	}
	return nil
}

// Cost returns the nanoseconds that recording adds to a launch with 64 bytes of arguments. The first process measures it; 0
// means not yet measured.
func (s *Session) Cost() float64 {
	ticks := touched(s, func() float64 { return float64(s.files.ctl.cost.Load()) })
	if s.clock.counter {
		return ticks * s.clock.rate
	}
	return ticks
}

// ClockJumps returns how many jumps of the processor's counter were detected.
func (s *Session) ClockJumps() int { return s.clock.jumps }

// Off ends the recording. Programs run on.
func (s *Session) Off() {
	s.touch(func() {
		s.files.ctl.policy.Store(drop)
		s.files.ctl.off.Store(offEnded)
	})
}

// Pause stops recording in all processes except the one with PID but (0: in all). Calls in progress are still recorded.
// Pause and Resume must not run concurrently.
func (s *Session) Pause(but int) {
	s.touch(func() {
		s.files.ctl.only.Store(uint32(but))
		s.files.ctl.off.CompareAndSwap(0, offWaiting)
		s.publishPause()
	})
}

// Resume ends a pause.
func (s *Session) Resume() {
	s.touch(func() {
		s.files.ctl.off.CompareAndSwap(offWaiting, 0)
		s.files.ctl.only.Store(0)
		s.publishPause()
	})
}

// Paused reports whether recording is paused, and the PID that is exempt.
func (s *Session) Paused() (but int, waiting bool) {
	s.touch(func() { but, waiting = int(s.files.ctl.only.Load()), s.files.ctl.off.Load() == offWaiting })
	return but, waiting
}

// publishPause updates the flags that running threads read.
func (s *Session) publishPause() {
	only, waiting := s.Paused()
	quiet := uint32(quietNo)
	switch {
	case waiting && only == 0:
		quiet = quietAll
	case waiting:
		quiet = quietSome
	}
	for i := range s.files.ctl.taken() {
		sl := &s.files.ctl.slots[i]
		off := uint32(0)
		if waiting && int(sl.pid) != only {
			off = 1
		}
		sl.off.Store(off)
	}
	if s.files.ctl.quiet.Load() != quietNo {
		s.files.ctl.resumed.Add(1)
	}
	s.files.ctl.quiet.Store(quiet)
}

// Heartbeat is the recorder's heartbeat. Call it at least four times a second, or programs stop waiting for room in their rings.
func (s *Session) Heartbeat() { s.touch(func() { s.files.ctl.heartbeat.Store(probe.Now()) }) }

// Keep ends the recording and lets Close leave the files, for a later Open.
func (s *Session) Keep() {
	s.Off()
	s.files.keep = true
}

// Close unmaps and removes the session; programs record nothing from then on. After Open, Prepare or Keep it leaves the
// files for the next recorder.
func (s *Session) Close() error {
	if s.files.keep {
		s.unmap()
		return s.files.lock.Close()
	}
	s.touch(func() {
		s.files.ctl.off.Store(offEnded)
		s.files.ctl.quiet.Store(quietAll)
	})
	s.unmap()
	return errors.Join(os.RemoveAll(s.files.dir), s.files.lock.Close())
}

func (s *Session) unmap() {
	for _, r := range s.rings.bySlot {
		if r != nil {
			r.close()
		}
	}
	for _, m := range s.processes.members {
		m.unmap()
		if m.file != nil {
			m.file.Close()
		}
		m.closePool()
	}
	s.files.unmap()
}

// ErrTaken is returned, wrapped, if another recorder has the session.
var ErrTaken = errors.New("another recorder has it")

// ErrVersion is returned, wrapped, if the session has another layout or other function numbers. Another version of acltrace
// made it, or it is for another runtime.
var ErrVersion = errors.New("it was made by another version of acltrace, or for another runtime")

// Begun returns the earliest possible time of a record, CLOCK_MONOTONIC: the first process's start, or the earlier
// recorder's last heartbeat.
func (s *Session) Begun() int64 {
	s.touch(s.findProcesses)
	first := probe.Now()
	for _, m := range s.processes.members {
		if m.info != nil && m.file != nil {
			first = min(first, max(m.began(&s.clock), s.quiet))
		}
	}
	return first
}
