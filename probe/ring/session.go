// Package ring is the recorder's side of the shared memory that the shim (probe/shim) writes.
//
// Package record creates a Session, or opens one that another recorder has left, calls Drain until the programs have
// ended, then Finish and Close. The records go to a probe.Sink. The package never loads the shim into a program and never
// writes a trace.
package ring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
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

// A Session is the recorder's end of a session. One goroutine calls Drain until the programs have ended, then Finish, then
// Close. Another may call Beat and Waiting.
type Session struct {
	// Handed is how many calls earlier recorders had taken out of the rings when this one opened the session.
	Handed uint64

	model     *api.Model
	files     files
	clock     clock
	rings     rings
	processes processes
	losses    losses
	pace      pace
	quiet     int64 // Open: when the recorder before was last alive, CLOCK_MONOTONIC
}

func newSession(m *api.Model, dir string, o *Options) *Session {
	s := &Session{model: m, files: files{dir: dir, mode: o.Mode}}
	if o.Mode == 0 {
		s.files.mode = 0o600
	}
	s.rings.names, s.rings.nextSeq = map[threadID]string{}, map[threadID]uint64{}
	s.processes.ids, s.processes.taken = map[identity]int{}, map[int]bool{}
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

// Open takes over a session that Prepare has made or that an earlier recorder has left. The options replace those of the
// earlier recorder, except for the sizes of rings and memory.
func Open(m *api.Model, dir string, opts *Options) (*Session, error) {
	o := opts.orDefaults()
	s := newSession(m, dir, o)
	s.files.keep = true
	switch free, err := s.files.acquire(); {
	case err != nil:
		return nil, fmt.Errorf("session: %w", err)
	case !free:
		return nil, fmt.Errorf("session %s: %w", dir, ErrTaken)
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

// create makes the files of a session. Programs find the session once its control file has its name.
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
	s := newSession(m, dir, o)
	free, err := s.files.acquire()
	if err == nil && !free {
		err = unix.EWOULDBLOCK
	}
	if err != nil {
		return nil, fmt.Errorf("memory for the session: %s: %w", dir, err)
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
	c := s.files.ctl
	c.version, c.maxSlots, c.functions = layoutVersion, maxSlots, m.Checksum()
	s.rings.bytes = uint64(size)
	c.ringBytes, c.memoryLimit = s.rings.bytes, o.MemoryLimit
	if err := s.files.makeArena(o); err != nil {
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
	s.rings.bytes = c.ringBytes
	s.clock.take(c.clock)
	s.Handed = c.handed
	s.configure(o)
	c.off.CompareAndSwap(offEnded, 0)
	s.quiet = c.heartbeat.Swap(probe.Now())
	return nil
}

// configure says what programs are to write from here on.
func (s *Session) configure(o *Options) {
	c := s.files.ctl
	c.policy.Store(uint32(o.Policy))
	c.payloadLimit, c.payloadLeast, c.visibleLimit = o.PayloadLimit, o.PayloadLeast, o.VisibleLimit
	c.stackFrames = uint32(max(0, min(o.StackFrames, 64)))
	c.taskIDs = 1
	if o.NoTaskIDs {
		c.taskIDs = 0
	}
	c.timeEvery, c.timeGap = uint32(o.TimeEvery), s.clock.ticks(o.TimeGap)
}

// Dir is the session's folder, which the environment of the program names in ACLTRACE_SESSION.
func (s *Session) Dir() string { return s.files.dir }

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
	return touched(s, func() Policy { return Policy(s.files.ctl.policy.Load()) })
}

// Cost is what recording adds to a launch with 64 bytes of arguments, in nanoseconds, as the first process of the session has
// measured it; 0 where none has.
func (s *Session) Cost() float64 {
	ticks := touched(s, func() float64 { return float64(s.files.ctl.cost.Load()) })
	if s.clock.counter {
		return ticks * s.clock.rate
	}
	return ticks
}

// ClockJumps is how often the processor's counter was found to have jumped.
func (s *Session) ClockJumps() int { return s.clock.jumps }

// Off ends the recording; programs run on without it.
func (s *Session) Off() {
	s.touch(func() {
		s.files.ctl.policy.Store(uint32(Drop))
		s.files.ctl.off.Store(offEnded)
	})
}

// Wait has programs record nothing from here on, but the process with the id where that is not 0. A call that has begun
// is still recorded. It may be called from any goroutine that no other does so from at the time.
func (s *Session) Wait(but int) {
	s.touch(func() {
		s.files.ctl.only.Store(uint32(but))
		s.files.ctl.off.CompareAndSwap(0, offWaiting)
		s.still()
	})
}

// Go has programs record again after Wait.
func (s *Session) Go() {
	s.touch(func() {
		s.files.ctl.off.CompareAndSwap(offWaiting, 0)
		s.files.ctl.only.Store(0)
		s.still()
	})
}

// Waiting reports whether programs record nothing for now, but the process with the id.
func (s *Session) Waiting() (but int, waiting bool) {
	s.touch(func() { but, waiting = int(s.files.ctl.only.Load()), s.files.ctl.off.Load() == offWaiting })
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
	for i := range min(s.files.ctl.nextSlot.Load(), maxSlots) {
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

// Beat tells the programs that the recorder is alive. It must be called at least four times a second, whatever else
// the recorder does, or programs that wait for it stop waiting.
func (s *Session) Beat() { s.touch(func() { s.files.ctl.heartbeat.Store(probe.Now()) }) }

// Keep has Close leave the session's files, for Open, with nothing recorded any more.
func (s *Session) Keep() {
	s.Off()
	s.files.keep = true
}

// Close gives the memory back. Programs that still run record nothing any more; but the memory of a session
// that was opened by Open stays as it is, for who opens it next.
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

// ErrTaken is returned, wrapped, where another recorder drains a session.
var ErrTaken = errors.New("another recorder has it")

// ErrVersion is returned, wrapped, for a session that an acltrace made whose rings look otherwise, or whose functions
// are numbered otherwise, as those of another runtime are.
var ErrVersion = errors.New("it was made by another version of acltrace, or for another runtime (--api): make it anew")

// Begun is when what the rings hold may have begun, on CLOCK_MONOTONIC in nanoseconds: when the first process came, or
// when another recorder has read them last.
func (s *Session) Begun() int64 {
	s.touch(s.look)
	first := probe.Now()
	for _, m := range s.processes.members {
		if m.said != nil && m.file != nil {
			first = min(first, max(s.clock.nanoseconds(m.said.start), s.quiet))
		}
	}
	return first
}
