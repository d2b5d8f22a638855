package ring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/probe"
)

// processFile is the layout of the file `process.N`, as in probe/shim/ring.h.
type processFile struct {
	pid, ppid                           uint32
	namespace, start, program           uint64
	ready, ended                        atomic.Uint32
	untraced                            uint32
	exe, args, variables, librariesSize uint32
	code                                atomic.Uint32
	forkedFrom                          uint32
	filtered                            atomic.Uint32
	filters, _                          uint32
	text                                [processBytes - 80]byte
}

const processBytes = 16384

// stillborn is after how long a process that has begun to say who it is, and holds no lock, has died of it.
const stillborn = 10 * time.Second

var _ [processBytes]byte = [unsafe.Sizeof(processFile{})]byte{}

// member is a process of a session. It may run where its number means nothing to this process, and be out of sight.
type member struct {
	number uint32 // 1 + that of its file
	file   *os.File
	live   *processFile // the file, which the process writes; nil: not mapped
	said   *processFile // a copy from when it was complete; nil before
	pid    int          // in the trace
	local  int          // as this process sees it, 0 where it does not
	ns     uint64
	rings  []int
	since  time.Time // that it is known of
	shown  bool      // to the sink
	gone   bool
	filter filter
	handle *os.File // of a process that this one sees, for how it ended; nil where the kernel gives none
}

var ownNamespace = namespace("/proc/self/ns/pid")

func namespace(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// look finds the processes that have come.
func (s *Session) look() {
	for n := uint32(len(s.members)); n < min(s.ctl.nextProcess.Load(), maxProcesses); n++ {
		s.members = append(s.members, &member{number: n + 1, since: time.Now(), gone: n < s.ctl.reaped})
	}
	for s.unread < len(s.members) && s.members[s.unread].said != nil {
		s.unread++
	}
	for _, m := range s.members[s.unread:] {
		if m.said == nil && !m.gone {
			s.read(m)
		}
	}
}

// member returns a process of the session once it has said who it is, nil before.
func (s *Session) member(number uint32) *member {
	if number == 0 {
		return nil
	}
	if int(number) > len(s.members) {
		s.look()
	}
	if int(number) > len(s.members) {
		return nil
	}
	m := s.members[number-1]
	if m.said == nil && !m.gone {
		s.read(m)
	}
	return m
}

// read maps what a process says of itself.
func (s *Session) read(m *member) {
	if m.file == nil {
		f, err := os.OpenFile(s.path("process.", m.number-1), os.O_RDWR, 0)
		if err != nil {
			m.gone = time.Since(m.since) > stillborn // or else it is just being made
			return
		}
		m.file = f
	}
	if st, err := m.file.Stat(); err != nil || st.Size() < processBytes {
		m.gone = time.Since(m.since) > stillborn && !locked(m.file)
		return
	}
	if m.live == nil {
		p, err := unix.MmapPtr(int(m.file.Fd()), 0, nil, processBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return
		}
		m.live = (*processFile)(p)
	}
	if m.live.ready.Load() == 0 {
		m.gone = time.Since(m.since) > stillborn && !locked(m.file)
		return
	}
	said := new(processFile)
	copy(said.bytes(), m.live.bytes())
	s.join(m, said)
}

// join notes who a process is.
func (s *Session) join(m *member, said *processFile) {
	m.said, m.ns = said, said.namespace
	m.local = localPID(m.ns, int(said.pid))
	m.pid = s.identify(m)
	if m.local != 0 {
		m.handle = handle(m.local)
	}
	if said.untraced != 0 {
		s.passed = append(s.passed, s.ended(m))
	}
}

func (p *processFile) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), processBytes) }

func (m *member) unmap() {
	if m.live != nil {
		unix.MunmapPtr(unsafe.Pointer(m.live), processBytes)
		m.live = nil
	}
}

// Untraceds returns the processes that have come since the last time and that the guard keeps from being recorded.
func (s *Session) Untraceds() []probe.End {
	s.touch(s.look)
	p := s.passed
	s.passed = nil
	return p
}

// locked reports whether another process holds the lock on a file.
func locked(f *os.File) bool {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk) == nil && lk.Type != unix.F_UNLCK
}

// alive reports whether a process is there, wherever it runs.
func (m *member) alive() bool {
	if !m.gone && m.said != nil {
		m.gone = !locked(m.file)
	}
	return !m.gone
}

type identity struct {
	namespace uint64
	pid       int
}

// identify gives a process a number that no other of the trace has: the one by which this process sees it, else the one
// that it has itself. Where two of different containers have one number, the later one gets a number beyond all that a
// kernel gives.
func (s *Session) identify(m *member) int {
	pid := m.local
	if pid == 0 {
		pid = int(m.said.pid)
	}
	k := identity{m.ns, int(m.said.pid)}
	if id, ok := s.ids[k]; ok {
		return id
	}
	const beyond = 1 << 22
	for s.taken[pid] {
		pid += beyond
	}
	s.ids[k], s.taken[pid] = pid, true
	return pid
}

// localPID is the number by which this process sees a process that has a number in a namespace, 0 where it does not see it.
func localPID(ns uint64, pid int) int {
	if ns == 0 || ns == ownNamespace {
		return pid
	}
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), "\nNSpid:")
		line, _, _ := strings.Cut(rest, "\n")
		ids := strings.Fields(line)
		if len(ids) < 2 || ids[len(ids)-1] != strconv.Itoa(pid) || namespace(filepath.Join(filepath.Dir(f), "ns/pid")) != ns {
			continue
		}
		if local, err := strconv.Atoi(ids[0]); err == nil {
			return local
		}
	}
	return 0
}

func (m *member) describe() *probe.Process {
	said := m.said
	text := said.text[:]
	cut := func(n uint32) string {
		n = min(n, uint32(len(text)))
		part := string(text[:n])
		text = text[n:]
		return part
	}
	list := func(part string) []string {
		if part = strings.TrimSuffix(part, "\x00"); part == "" {
			return nil
		}
		return strings.Split(part, "\x00")
	}
	p := &probe.Process{PID: m.pid, Local: m.local, PPID: int(said.ppid)}
	p.Exe = strings.TrimSuffix(cut(said.exe), "\x00")
	p.Argv, p.Variables, p.Libraries = list(cut(said.args)), list(cut(said.variables)), list(cut(said.librariesSize))
	return p
}

// Alive reports whether a process is left that has called the runtime.
func (s *Session) Alive() bool {
	s.touch(s.look)
	alive := false
	for _, m := range s.members {
		alive = m.alive() || alive
	}
	return alive
}

// Processes returns the ids of the processes that have called the runtime, those that have ended too.
func (s *Session) Processes() []int {
	s.touch(s.look)
	var pids []int
	seen := map[int]bool{}
	for _, m := range s.members {
		if m.said != nil && !seen[m.pid] {
			seen[m.pid] = true
			pids = append(pids, m.pid)
		}
	}
	return pids
}

// Reap hands on what processes that are gone have left, gives back the memory of their rings and says how they ended.
func (s *Session) Reap(sink probe.Sink) (ends []probe.End, err error) {
	s.touch(func() { err = s.reap(sink, &ends) })
	return ends, err
}

func (s *Session) reap(sink probe.Sink, ends *[]probe.End) error {
	s.look()
	for _, m := range s.members {
		if m.file == nil {
			continue
		}
		if m.alive() {
			s.watchFilter(m)
			continue
		}
		s.watchFilter(m)
		// Rings that have come since the last look.
		if err := errors.Join(s.open(sink), s.finish(sink, m.rings)); err != nil {
			return err
		}
		for _, i := range m.rings {
			s.release(i)
		}
		s.dropPool(m)
		if m.said != nil {
			*ends = append(*ends, s.ended(m))
		}
		m.unmap()
		os.Remove(m.file.Name())
		m.file.Close()
		if m.handle != nil {
			m.handle.Close()
		}
		m.file, m.rings, m.handle = nil, nil, nil
	}
	for n := s.ctl.reaped; int(n) < len(s.members) && s.members[n].gone && s.members[n].file == nil; n++ {
		s.ctl.reaped = n + 1
	}
	return nil
}

func (s *Session) ended(m *member) probe.End {
	p := m.describe()
	e := probe.End{PID: m.pid, Exe: p.Exe, Args: p.Argv, Program: m.said.program, Untraced: m.said.untraced != 0, Code: probe.NoCode, Seen: probe.Now()}
	if m.live != nil {
		e.Clean, e.Code = m.live.ended.Load() != 0, int(m.live.code.Load())-1 // 0: NoCode
	}
	if lived := probe.Now() - s.clock.nanoseconds(m.said.start); lived > 0 {
		e.Lived = time.Duration(lived)
	}
	// A process that has become another program by exec has the same number, and says so anew.
	for _, o := range s.members[m.number:] {
		if o.said != nil && o.file != nil && o.ns == m.ns && o.said.pid == m.said.pid {
			e.Clean, e.Replaced = true, true
		}
	}
	if st := stat(m.local); m.local != 0 && !e.Clean && st.startedBefore(s.clock.nanoseconds(m.said.start)) && !st.gone() {
		e.Clean, e.Replaced = true, true
	}
	if status, known := m.status(s); known && !e.Replaced {
		e.Signal = 0
		if status.Signaled() {
			e.Clean, e.Code, e.Signal = false, probe.NoCode, int(status.Signal())
		} else {
			e.Clean, e.Code = true, status.ExitStatus() // also by _exit, of which the shim does not learn
		}
	}
	return e
}

// release gives back a ring whose process is gone and whose records were handed on.
func (s *Session) release(i int) {
	r := s.rings[i]
	if r == nil || r.mem == nil {
		return
	}
	for k := range untimedReasons {
		s.untimed[k] += r.unmeasured(s, k)
	}
	r.close()
	if r.slot.rng == 0 {
		os.Remove(s.path("ring.", uint32(i)))
	}
	s.ctl.memoryUsed.Add(-r.size)
	r.done, r.given = true, true
	s.opened = min(s.opened, i)
	r.slot.state.Store(slotGiven)
}

func (s *Session) path(name string, n uint32) string {
	return filepath.Join(s.dir, name+strconv.FormatUint(uint64(n), 10))
}

// ThreadName is what a thread was called when it made its first call, "" where that is not known.
func (s *Session) ThreadName(pid, tid int) string {
	return s.names[[2]uint32{uint32(pid), uint32(tid)}]
}

// Untrace has the next starts of a program run without being recorded, or be recorded again. See End.Program.
func (s *Session) Untrace(program uint64, why string) error {
	path := filepath.Join(s.dir, "guard."+strconv.FormatUint(program, 10))
	if why == "" {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.WriteFile(path, []byte(why), s.mode); err != nil {
		return err
	}
	return os.Chmod(path, s.mode) // whatever the umask is
}

// Untraced returns why programs of the session are not recorded, by program.
func (s *Session) Untraced() map[uint64]string {
	files, _ := filepath.Glob(filepath.Join(s.dir, "guard.*"))
	why := map[uint64]string{}
	for _, f := range files {
		n, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(f), "guard."), 10, 64)
		b, err2 := os.ReadFile(f)
		if err == nil && err2 == nil {
			why[n] = string(b)
		}
	}
	return why
}

// ErrTaken is returned, wrapped, where another recorder drains a session.
var ErrTaken = errors.New("another recorder has it")

// ErrVersion is returned, wrapped, for a session that an acltrace made whose rings look otherwise, or whose functions
// are numbered otherwise, as those of another runtime are.
var ErrVersion = errors.New("it was made by another version of acltrace, or for another runtime (--api): make it anew")

// Prepare makes a session in a folder that is there, for a recorder that comes later: see Open. os.ErrExist
// means that there is one.
func Prepare(m *api.Model, dir string, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Dir = dir
	s, err := create(m, dir, &o)
	if err != nil {
		return err
	}
	s.keep = true
	return s.Close()
}

// Open takes a session over: from Prepare, or from a recorder that is gone. What the options say of the kind
// of payloads, the policy and the like holds from here on; the size of rings and their memory is that of the session.
func Open(m *api.Model, dir string, opts *Options) (*Session, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	s := newReader(m, dir, &o)
	s.keep = true
	var err error
	if s.lock, err = os.Open(dir); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	if unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		s.lock.Close()
		return nil, fmt.Errorf("session %s: %w", dir, ErrTaken)
	}
	if err := s.attach(&o); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("session %s: %w", dir, err)
	}
	return s, nil
}

func (s *Session) attach(o *Options) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "control"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	n := int(unsafe.Sizeof(control{}))
	if st, err := f.Stat(); err != nil {
		return err
	} else if st.Size() != int64(n) {
		return ErrVersion
	}
	if s.mem, err = unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	s.ctl = (*control)(unsafe.Pointer(&s.mem[0]))
	return touched(s, func() error { return s.take(o) })
}

// take continues the session of another recorder.
func (s *Session) take(o *Options) error {
	if s.ctl.magic != layoutMagic || s.ctl.version != layoutVersion || s.ctl.maxSlots != maxSlots || s.ctl.functions != s.model.Checksum() {
		unix.Munmap(s.mem)
		return ErrVersion
	}
	if chunks := int(s.ctl.arenaChunks); chunks > 0 {
		a, err := os.OpenFile(filepath.Join(s.dir, "arena"), os.O_RDWR, 0)
		if err == nil {
			s.arena, err = unix.Mmap(int(a.Fd()), 0, chunks*arenaChunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			a.Close()
		}
		if err != nil {
			unix.Munmap(s.mem)
			return fmt.Errorf("arena: %w", err)
		}
	}
	s.ringBytes = s.ctl.ringBytes
	s.clock.take(s.ctl.clock)
	s.Handed = s.ctl.handed
	s.configure(o)
	s.ctl.off.CompareAndSwap(offEnded, 0)
	s.quiet = s.ctl.heartbeat.Swap(probe.Now())
	return nil
}

// Begun is when what the rings hold may have begun, on CLOCK_MONOTONIC in nanoseconds: when the first process came, or
// when another recorder has read them last.
func (s *Session) Begun() int64 {
	s.touch(s.look)
	first := probe.Now()
	for _, m := range s.members {
		if m.said != nil && m.file != nil {
			first = min(first, max(s.clock.nanoseconds(m.said.start), s.quiet))
		}
	}
	return first
}
