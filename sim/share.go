package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
	"golang.org/x/sys/unix"
)

// What a process shares with others (memory, notifies, events) it describes in slots of a file in memory, which the others
// open through /proc: nothing has a name in a file system, and everything ends with the last process that uses it. A
// ticket names a slot: the owner's process id, the number of the slot and a random number that tells one use of it from
// the next. Keys and handles are tickets in the form that each function wants.
//
// Both sides have the slot's page mapped. The owner writes the description; the words that change are atomic.
const (
	slotFile  = "aclsim-shared"
	slotSize  = device.PageSize
	maxSlots  = 1 << 14
	slotPids  = 512
	slotUsers = 64

	ticketRandom = 28 // bits
	ticketSlot   = 14

	// keySize is the length of a key with its NUL: 65 is what the documents want.
	keySize = 65
	keyMark = "aclsim-"
)

// slotKind is what a slot describes.
type slotKind uint32

const (
	slotMemory slotKind = 1 + iota
	slotPhysical
	slotNotify
	slotEvent
)

func (k slotKind) String() string {
	return [...]string{"", "memory", "physical memory", "notify", "event"}[k]
}

// slot is the page of one shared object.
type slot struct {
	random atomic.Uint32 // of the ticket; 0 when nothing is shared here any more
	kind   slotKind
	anyone atomic.Uint32 // 1: every process may import it
	device int32         // on which the object lies

	// Memory: where it lies in a file of the owner's.
	fd           int32
	_            int32
	offset, size uint64
	prop         [32]byte // of physical memory

	// A notify: 1 while it is set. An event: the number of the last record that is done. Waiters sleep on it.
	word     atomic.Uint32
	issued   atomic.Uint32 // records ordered so far
	code     atomic.Int32  // error of the stream before the record that is done
	recorder atomic.Int32  // process that ordered the last record

	// The kernel that no library knows and that may have written the memory: 0 for none, 1 while its name is written, 2 when it is there.
	stainState atomic.Uint32
	stainName  [64]byte // NUL-terminated

	numPids atomic.Uint32
	pids    [slotPids]int32 // that may import it
	users   [slotUsers]user // that have imported it
}

// user is a process that has an object of another's. start tells it from a later process of the same number.
type user struct {
	pid   atomic.Int32
	_     int32
	start atomic.Uint64
}

var _ [slotSize - unsafe.Sizeof(slot{})]byte

// shares are the slots of this process.
type shares struct {
	mu     sync.Mutex
	fd     int
	addr   uint64
	next   int
	own    map[uint64]*shared // by ticket
	others map[uint64]*shared // imported
	pages  map[page]*slot     // of other processes; they stay mapped, since a task may still look at one
}

// page names a slot of another process.
type page struct {
	pid   int
	start uint64
	slot  uint64
}

// shared is one side of a shared object.
type shared struct {
	*slot
	ticket uint64
	memory device.Span // this side's; of memory only
	dev    *npu
	own    bool
	pid    int
	start  uint64 // of the owner
	me     *user  // of the other side
}

func (s *shares) open() error {
	if s.own != nil {
		return nil
	}
	fd, err := device.MemFile(slotFile, maxSlots*slotSize)
	if err != nil {
		return err
	}
	p, err := unix.MmapPtr(fd, 0, nil, maxSlots*slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		device.CloseKept(fd)
		return err
	}
	s.fd, s.addr = fd, uint64(uintptr(p))
	s.own = map[uint64]*shared{}
	if s.others == nil {
		s.others = map[uint64]*shared{}
	}
	return nil
}

func (s *shares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.others {
		x.leave()
	}
	if s.own != nil {
		for _, x := range s.own {
			x.random.Store(0)
		}
		device.Unmap(s.addr, maxSlots*slotSize)
		device.CloseKept(s.fd)
	}
	for _, l := range s.pages {
		device.Unmap(device.AddressOf(l), slotSize)
	}
	s.own, s.others, s.pages = nil, nil, nil
}

// offer makes a slot for an object of this process. fill completes it before anybody can find it.
func (s *shares) offer(kind slotKind, d *npu, anyone bool, fill func(*slot)) (*shared, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, failed(acl.ACL_ERROR_RT_IPC_ERROR, "nothing can be shared with other processes: %v", err)
	}
	for range maxSlots {
		n := s.next
		s.next = (s.next + 1) % maxSlots
		l := (*slot)(device.Pointer(s.addr + uint64(n)*slotSize))
		if l.random.Load() != 0 || l.inUse() {
			continue
		}
		*(*[slotSize]byte)(unsafe.Pointer(l)) = [slotSize]byte{}
		l.kind, l.device = kind, d.id
		if anyone {
			l.anyone.Store(1)
		}
		if fill != nil {
			fill(l)
		}
		r := uint32(1 + rand.Uint32N(1<<ticketRandom-1))
		ticket := uint64(os.Getpid())<<(ticketRandom+ticketSlot) | uint64(n)<<ticketRandom | uint64(r)
		l.random.Store(r)
		x := &shared{slot: l, ticket: ticket, dev: d, own: true, pid: os.Getpid()}
		s.own[ticket] = x
		return x, nil
	}
	return nil, failed(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%d objects are shared already", maxSlots)
}

// withdraw ends an object of this process for those who have not imported it yet.
func (s *shares) withdraw(x *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[x.ticket] == x {
		delete(s.own, x.ticket)
		x.random.Store(0)
	}
}

// unshare ends one side of a shared object; nil is none.
func (s *Sim) unshare(x *shared) {
	switch {
	case x == nil:
	case x.own:
		s.shares.withdraw(x)
	default:
		s.shares.giveBack(x)
	}
}

// mine returns an object that this process shares.
func (s *shares) mine(ticket uint64, kind slotKind) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.own[ticket]; x != nil && x.kind == kind {
		return x
	}
	return nil
}

// memoryAt returns the memory of this process that others may import and that lies in a range, nil if there is none.
func (s *shares) memoryAt(r device.Span) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.own {
		if x.kind == slotMemory && r.Holds(x.memory.Addr, x.memory.Size) {
			return x
		}
	}
	return nil
}

// ending withdraws the memory that lies in a range.
func (s *shares) ending(r device.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, x := range s.own {
		if x.kind == slotMemory && r.Holds(x.memory.Addr, x.memory.Size) {
			delete(s.own, t)
			x.random.Store(0)
		}
	}
}

// allow adds processes to those that may import an object.
func (s *shares) allow(x *shared, pids []int32) *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := x.numPids.Load()
	if int(n)+len(pids) > slotPids {
		return failed(acl.ACL_ERROR_RT_PARAM_INVALID, "%d processes may import it already, the limit is %d", n, slotPids)
	}
	copy(x.pids[n:], pids)
	x.numPids.Store(n + uint32(len(pids)))
	return nil
}

// take imports an object of another process. Once for each process: another import of the same ticket is refused.
func (s *shares) take(ticket uint64, kind slotKind) (*shared, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.own[ticket] != nil:
		return nil, failed(acl.ACL_ERROR_RT_PARAM_INVALID, "the %s is of this process, which can't import it", kind)
	case s.others[ticket] != nil:
		return nil, failed(acl.ACL_ERROR_RT_PARAM_INVALID, "the %s is imported already", kind)
	}
	pid := int(ticket >> (ticketRandom + ticketSlot))
	start := startOf(pid)
	if start == 0 {
		return nil, failed(acl.ACL_ERROR_RT_IPC_ERROR, "process %d, which shares the %s, has ended or can't be seen from here", pid, kind)
	}
	at := page{pid, start, ticket >> ticketRandom & (maxSlots - 1)}
	l := s.pages[at]
	if l == nil || !l.has(ticket) {
		var err error
		if l, err = findSlot(pid, ticket); err != nil {
			return nil, failed(acl.ACL_ERROR_RT_IPC_ERROR, "process %d shares no such %s: %v", pid, kind, err)
		}
		if s.pages == nil {
			s.pages = map[page]*slot{}
		}
		s.pages[at] = l
	}
	x := &shared{slot: l, ticket: ticket, pid: pid, start: start}
	if l.kind != kind {
		return nil, failed(acl.ACL_ERROR_RT_PARAM_INVALID, "it is a %s, not a %s", l.kind, kind)
	}
	if !l.allows(int32(os.Getpid())) {
		return nil, failed(acl.ACL_ERROR_RT_NO_PERMISSION, "process %d does not let process %d import the %s", pid, os.Getpid(), kind)
	}
	if x.me = l.join(); x.me == nil {
		return nil, failed(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%d processes have the %s already", slotUsers, kind)
	}
	if s.others == nil {
		s.others = map[uint64]*shared{}
	}
	s.others[ticket] = x
	return x, nil
}

// imported returns what this process has imported by a ticket.
func (s *shares) imported(ticket uint64) *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others[ticket]
}

// giveBack ends an import.
func (s *shares) giveBack(x *shared) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others[x.ticket] != x {
		return false
	}
	delete(s.others, x.ticket)
	x.leave()
	return true
}

// leave tells the owner that this process no longer uses the object.
func (x *shared) leave() { x.me.pid.Store(0) }

// has tells whether the slot is the one of a ticket still.
func (l *slot) has(ticket uint64) bool { return l.random.Load() == uint32(ticket&(1<<ticketRandom-1)) }

// live tells whether the owner still shares the object.
func (x *shared) live() bool { return x.has(x.ticket) }

func (l *slot) allows(pid int32) bool {
	if l.anyone.Load() != 0 {
		return true
	}
	for _, p := range l.pids[:min(l.numPids.Load(), slotPids)] {
		if p == pid {
			return true
		}
	}
	return false
}

// inUse tells whether a process that lives has the object imported.
func (l *slot) inUse() bool {
	for i := range l.users {
		if l.users[i].alive() {
			return true
		}
	}
	return false
}

// join notes this process among the users; nil where there is no room.
func (l *slot) join() *user {
	for i := range l.users {
		u := &l.users[i]
		if old := u.pid.Load(); (old == 0 || !u.alive()) && u.pid.CompareAndSwap(old, int32(os.Getpid())) {
			u.start.Store(startOf(os.Getpid()))
			return u
		}
	}
	return nil
}

func (u *user) alive() bool {
	pid := int(u.pid.Load())
	return pid != 0 && startOf(pid) == u.start.Load()
}

// abandoned tells whether all other processes that had the object have died, at least one without giving it back: nobody is
// left who could wake a waiter here.
func (x *shared) abandoned() bool {
	dead := false
	if !x.own {
		if startOf(x.pid) == x.start {
			return false
		}
		dead = true
	}
	for i := range x.users {
		u := &x.users[i]
		switch {
		case u == x.me || u.pid.Load() == 0:
		case u.alive():
			return false
		default:
			dead = true
		}
	}
	return dead
}

// startOf returns when a process began, in ticks since the boot; 0 where there is none, or only what is left of it.
func startOf(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:]) // the name before it may hold anything
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0
	}
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}

// findSlot maps the page of a ticket.
func findSlot(pid int, ticket uint64) (*slot, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	n := ticket >> ticketRandom & (maxSlots - 1)
	for _, f := range files {
		path := dir + "/" + f.Name()
		if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(to, "/memfd:"+slotFile) {
			continue
		}
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		p, err := unix.MmapPtr(fd, int64(n*slotSize), nil, slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		if l := (*slot)(p); l.has(ticket) {
			return l, nil
		}
		device.Unmap(uint64(uintptr(p)), slotSize)
	}
	return nil, errors.New("it was closed, or the key is wrong")
}

// openFile opens the file that memory lies in.
func (x *shared) openFile() (int, error) {
	return unix.Open(fmt.Sprintf("/proc/%d/fd/%d", x.pid, x.fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
}

func ticketKey(ticket uint64) string { return fmt.Sprintf("%s%016x", keyMark, ticket) }

// keyTicket reads a key; 0 for what is none.
func keyTicket(key string) uint64 {
	h, ok := strings.CutPrefix(key, keyMark)
	if !ok || len(h) != 16 {
		return 0
	}
	t, err := strconv.ParseUint(h, 16, 64)
	if err != nil {
		return 0
	}
	return t
}

const (
	// sleepAtMost is how long a waiter sleeps before it looks whether it has to stop.
	sleepAtMost = 5 * time.Millisecond
	// lookEvery is how often a waiter looks whether anybody is left who could wake it.
	lookEvery = 100 * time.Millisecond
)

// set changes the word and wakes all who wait for it, in all processes.
func (l *slot) set(v uint32) {
	l.word.Store(v)
	l.wakeAll()
}

func (l *slot) wakeAll() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&l.word)), 1 /* FUTEX_WAKE */, 1<<30, 0, 0, 0)
}

// wait waits until the word is as wanted. It tells whether that was before the timer, and returns a failure where nobody is
// left to change it. gone says so beside abandoned; nil for never.
func (x *shared) wait(met func(v uint32) bool, gone func() bool, stop <-chan struct{}, expired <-chan time.Time) (bool, *failure) {
	looked := time.Now()
	for {
		v := x.word.Load()
		if met(v) {
			return true, nil
		}
		select {
		case <-stop:
			return true, nil
		case <-expired:
			return false, nil
		default:
		}
		if time.Since(looked) > lookEvery {
			looked = time.Now()
			if gone() && !met(x.word.Load()) {
				return true, failed(acl.ACL_ERROR_RT_IPC_ERROR, "the process that would have signalled the %s has died", x.kind)
			}
		}
		ts := unix.NsecToTimespec(int64(sleepAtMost))
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&x.word)), 0 /* FUTEX_WAIT */, uintptr(v), uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
}

// pidList checks a list of processes.
func (t *Thread) pidList(pid *int32, num uint64) ([]int32, acl.Error) {
	if pid == nil || num == 0 || num > slotPids {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d processes at %#x: 1 to %d can be let in", num, device.AddressOf(pid), slotPids)
	}
	pids := device.List(pid, num)
	for _, p := range pids {
		if p <= 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d is no process", p)
		}
	}
	return pids, acl.ACL_SUCCESS
}

// ticketOf reads a key of the program's.
func (t *Thread) ticketOf(key *byte) (uint64, acl.Error) {
	if key == nil {
		return 0, t.null("key")
	}
	ticket := keyTicket(device.GoString(key))
	if ticket == 0 {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%.64q is no key", device.GoString(key))
	}
	return ticket, acl.ACL_SUCCESS
}
