package ring

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/probe"
)

// startTimeout is the age at which a process without a complete file and without a lock on it counts as dead.
const startTimeout = 10 * time.Second

// processes holds the data about each process.
type processes struct {
	members       []*member // by number
	unread        int       // index of the first member whose file was not read
	ids           map[identity]int
	used          map[int]bool // values of ids
	filtered      []*member    // members that filter system calls
	filterReports uint32       // control.filtered at the last look
	excluded      []probe.End  // members that the crash guard excluded, until NewlyExcluded returns them
}

// member is a process of a session. It may run in another PID namespace and be invisible here.
type member struct {
	number    uint32 // 1 + number of its file
	file      *os.File
	shared    *processFile // the file, mapped; nil: not yet
	info      *processFile // a copy of the complete file; nil: not yet complete
	pid       int          // in the trace
	local     int          // PID in this process's namespace, 0 if not visible
	namespace uint64
	rings     []int
	since     time.Time // first seen
	announced bool      // delivered to the sink
	inShim    bool      // it died in code of the shim
	gone      bool
	filter    filter
	handle    *os.File // pidfd, nil if there is none
	outside   int64    // last look at the calls of its threads without a ring, CLOCK_MONOTONIC
}

var ownNamespace = namespace("/proc/self/ns/pid")

func namespace(path string) uint64 {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// findProcesses finds new processes.
func (s *Session) findProcesses() {
	for n := uint32(len(s.processes.members)); n < min(s.files.ctl.nextProcess.Load(), maxProcesses); n++ {
		s.processes.members = append(s.processes.members, &member{number: n + 1, since: time.Now(), gone: n < s.files.ctl.reaped})
	}
	for s.processes.unread < len(s.processes.members) && s.processes.members[s.processes.unread].info != nil {
		s.processes.unread++
	}
	for _, m := range s.processes.members[s.processes.unread:] {
		if m.info == nil && !m.gone {
			s.readProcess(m)
		}
	}
}

// member returns a process by number, nil if it is unknown. Its said is nil until its file is complete.
func (s *Session) member(number uint32) *member {
	if number == 0 {
		return nil
	}
	if int(number) > len(s.processes.members) {
		s.findProcesses()
	}
	if int(number) > len(s.processes.members) {
		return nil
	}
	m := s.processes.members[number-1]
	if m.info == nil && !m.gone {
		s.readProcess(m)
	}
	return m
}

// readProcess maps the process's file and copies it once it is complete.
func (s *Session) readProcess(m *member) {
	if m.file == nil {
		f, err := os.OpenFile(s.files.path("process.", m.number-1), os.O_RDWR, 0)
		if err != nil {
			// A number is published after its file was created: the process could not complete the file.
			m.gone = errors.Is(err, os.ErrNotExist) || time.Since(m.since) > startTimeout
			return
		}
		m.file = f
	}
	if st, err := m.file.Stat(); err != nil || st.Size() < processBytes {
		m.gone = time.Since(m.since) > startTimeout && !locked(m.file)
		return
	}
	if m.shared == nil {
		p, err := unix.MmapPtr(int(m.file.Fd()), 0, nil, processBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return
		}
		m.shared = (*processFile)(p)
	}
	if m.shared.ready.Load() == 0 {
		m.gone = time.Since(m.since) > startTimeout && !locked(m.file)
		return
	}
	said := new(processFile)
	copy(said.bytes(), m.shared.bytes())
	s.join(m, said)
}

// join completes a member from its file.
func (s *Session) join(m *member, said *processFile) {
	m.info, m.namespace = said, said.namespace
	m.local = localPID(m.namespace, int(said.pid))
	m.pid = s.identify(m)
	if m.local != 0 {
		m.handle = handle(m.local)
	}
	if said.untraced != 0 {
		s.processes.excluded = append(s.processes.excluded, s.ended(m))
	}
}

func (p *processFile) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), processBytes) }

func (m *member) unmap() {
	if m.shared != nil {
		unix.MunmapPtr(unsafe.Pointer(m.shared), processBytes)
		m.shared = nil
	}
}

// locked reports whether another process holds the lock on a file.
func locked(f *os.File) bool {
	lk := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk) == nil && lk.Type != unix.F_UNLCK
}

// alive reports whether the process runs. A process holds a lock on its file until it ends, in every namespace.
func (m *member) alive() bool {
	if !m.gone && m.info != nil {
		m.gone = !locked(m.file)
	}
	return !m.gone
}

type identity struct {
	namespace uint64
	pid       int
}

// identify assigns a PID that is unique in the trace: the PID here, else the process's own. If another process has that PID
// already, in another container, it adds a number above the kernel's largest PID.
func (s *Session) identify(m *member) int {
	pid := m.local
	if pid == 0 {
		pid = int(m.info.pid)
	}
	k := identity{m.namespace, int(m.info.pid)}
	if id, ok := s.processes.ids[k]; ok {
		return id
	}
	const beyond = 1 << 22
	for s.processes.used[pid] {
		pid += beyond
	}
	s.processes.ids[k], s.processes.used[pid] = pid, true
	return pid
}

// localPID translates a PID from another namespace to this process's namespace. It returns 0 if the process is not visible.
func localPID(ns uint64, pid int) int {
	if ns == 0 || ns == ownNamespace {
		return pid
	}
	all, _ := procstat.PIDs()
	for _, local := range all {
		status, _ := procstat.Text(local, "status")
		ids := strings.Fields(procstat.Field(status, "NSpid"))
		if len(ids) > 1 && ids[len(ids)-1] == strconv.Itoa(pid) && namespace(fmt.Sprintf("/proc/%d/ns/pid", local)) == ns {
			return local
		}
	}
	return 0
}

// began returns when the process began. The first recorder decides, so that processes in parts of a trace by two recorders are equal.
func (m *member) began(c *clock) int64 {
	if m.info.began == 0 {
		m.info.began = c.nanoseconds(m.info.start)
		if m.shared != nil {
			m.shared.began = m.info.began
		}
	}
	return m.info.began
}

func (m *member) describe() *probe.Process {
	p := m.info.describe()
	p.PID, p.Local = m.pid, m.local
	return p
}

func (said *processFile) describe() *probe.Process {
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
	p := &probe.Process{PPID: int(said.ppid)}
	p.Exe = strings.TrimSuffix(cut(said.exe), "\x00")
	p.Argv, p.Variables, p.Libraries = procstat.Args(cut(said.args)), list(cut(said.variables)), list(cut(said.librariesSize))
	return p
}

// Alive reports whether any process still runs.
func (s *Session) Alive() bool {
	s.touch(s.findProcesses)
	alive := false
	for _, m := range s.processes.members {
		alive = m.alive() || alive
	}
	return alive
}

// Processes returns the session's PIDs, dead processes included.
func (s *Session) Processes() []int {
	s.touch(s.findProcesses)
	var pids []int
	seen := map[int]bool{}
	for _, m := range s.processes.members {
		if m.info != nil && !seen[m.pid] {
			seen[m.pid] = true
			pids = append(pids, m.pid)
		}
	}
	return pids
}
