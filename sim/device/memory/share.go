package memory

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// A process describes each shared object (memory, notify, event) in a slot, which is a page in a memory file. Other
// processes open the file through /proc, so no name in a file system exists, and everything ends with its last user.
// A ticket names a slot by the owner's process id, the slot number and a random number for this use. Keys and handles
// are tickets in the format that each function needs.
//
// All processes map the slot's page. The owner writes the description; words that change are atomic.
const (
	slotFile  = "aclsim-shared"
	slotSize  = space.PageSize
	maxSlots  = 1 << 14
	SlotPids  = 512
	slotUsers = 64

	TicketRandom = 28 // bits
	TicketSlot   = 14

	// KeySize is the length of a key with its NUL (documented).
	KeySize = 65
	keyMark = "aclsim-"
)

// SlotKind says which kind is shared.
type SlotKind uint32

const (
	SlotMemory SlotKind = 1 + iota
	SlotPhysical
	SlotNotify
	SlotEvent
)

func (k SlotKind) String() string {
	return [...]string{"", "memory", "physical memory", "notify", "event"}[k]
}

// Slot is the page for one shared object.
type Slot struct {
	ticket   atomic.Uint64 // 0 after the sharing ended
	Kind     SlotKind
	Anyone   atomic.Uint32 // 1: every process may import it
	DeviceID int32         // the object's device

	// Memory: its range in the owner's file.
	FD           int32
	_            int32
	Offset, Size uint64
	Prop         [32]byte // of physical memory

	// Notify: 1 while it is set. Event: the last finished record's number. Waiters sleep on this word.
	Word     atomic.Uint32
	Issued   atomic.Uint32 // submitted records
	Code     atomic.Int32  // stream error at the last finished record
	Recorder atomic.Int32  // process that submitted the last record

	// Name of the unknown kernel that may have written the memory. State 0: none; 1: being written; 2: valid.
	stainState atomic.Uint32
	stainName  [64]byte // NUL-terminated

	numPids atomic.Uint32
	pids    [SlotPids]int32 // processes that may import it
	users   [slotUsers]user // processes that have imported it
}

// user is a process that imported an object, 0 for none. Its id is in the low bits. Its start time, above them, distinguishes it from a
// later process with the same id. One word has both, so no process sees half an entry.
type user struct{ atomic.Uint64 }

const pidBits = 22 // Linux has at most 1<<22 process ids

func userOf(pid int, start uint64) uint64 { return start<<pidBits | uint64(pid) }

var _ [slotSize - unsafe.Sizeof(Slot{})]byte

// Shares holds this process's slots.
type Shares struct {
	mu     sync.Mutex
	fd     int
	addr   uint64
	next   int
	own    map[uint64]*Shared // by ticket
	others map[uint64]*Shared // imported
	pages  map[page]*Slot     // slots of other processes; never unmapped, since a task may still read them
}

// page identifies a slot of another process.
type page struct {
	pid   int
	start uint64
	slot  uint64
}

// Shared is one side of a shared object.
type Shared struct {
	*Slot
	Ticket uint64
	Memory space.Span // this side's range; for memory only
	mapped *Memory    // memory that maps it
	Own    bool
	Pid    int
	start  uint64 // the owner's start time
	me     *user  // this process's entry in the slot, for imports
}

func (s *Shares) open() error {
	if s.own != nil {
		return nil
	}
	fd, err := space.MemFile(slotFile, maxSlots*slotSize)
	if err != nil {
		return err
	}
	p, err := unix.MmapPtr(fd, 0, nil, maxSlots*slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		space.CloseKept(fd)
		return err
	}
	s.fd, s.addr = fd, uint64(uintptr(p))
	s.own = map[uint64]*Shared{}
	if s.others == nil {
		s.others = map[uint64]*Shared{}
	}
	return nil
}

func (s *Shares) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.others {
		x.leave()
	}
	if s.own != nil {
		for _, x := range s.own {
			x.ticket.Store(0)
		}
		space.Unmap(s.addr, maxSlots*slotSize)
		space.CloseKept(s.fd)
	}
	for _, l := range s.pages {
		space.Unmap(space.AddressOf(l), slotSize)
	}
	s.own, s.others, s.pages = nil, nil, nil
}

// Offer creates a slot for an object. fill completes the slot before others can find it.
func (s *Shares) Offer(kind SlotKind, device int32, anyone bool, fill func(*Slot)) (*Shared, *fail.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, fail.New(fail.PeerLost, "share memory with other processes: %v", err)
	}
	for range maxSlots {
		n := s.next
		s.next = (s.next + 1) % maxSlots
		l := (*Slot)(space.Pointer(s.addr + uint64(n)*slotSize))
		if l.ticket.Load() != 0 || l.InUse() {
			continue
		}
		*(*[slotSize]byte)(unsafe.Pointer(l)) = [slotSize]byte{}
		l.Kind, l.DeviceID = kind, device
		if anyone {
			l.Anyone.Store(1)
		}
		if fill != nil {
			fill(l)
		}
		ticket := uint64(os.Getpid())<<(TicketRandom+TicketSlot) | uint64(n)<<TicketRandom | random()
		l.ticket.Store(ticket)
		x := &Shared{Slot: l, Ticket: ticket, Own: true, Pid: os.Getpid()}
		s.own[ticket] = x
		return x, nil
	}
	return nil, fail.New(fail.TooMany, "%d objects are shared already, the limit", maxSlots)
}

// random returns a number for a ticket. The kernel makes it: math/rand has the same seed in all processes that were forked from one, if
// they load this library later.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return 1 + binary.LittleEndian.Uint64(b[:])%(1<<TicketRandom-1)
}

// Withdraw ends the sharing. Processes that have imported the object keep it.
func (s *Shares) Withdraw(x *Shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own[x.Ticket] == x {
		delete(s.own, x.Ticket)
		x.ticket.Store(0)
	}
}

// Mine returns an object that this process shares.
func (s *Shares) Mine(ticket uint64, kind SlotKind) *Shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.own[ticket]; x != nil && x.Kind == kind {
		return x
	}
	return nil
}

// MemoryAt returns the shared memory of this process in a range; nil for none.
func (s *Shares) MemoryAt(r space.Span) *Shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.own {
		if x.Kind == SlotMemory && r.Holds(x.Memory.Addr, x.Memory.Size) {
			return x
		}
	}
	return nil
}

// ending withdraws shared memory in a range.
func (s *Shares) ending(r space.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, x := range s.own {
		if x.Kind == SlotMemory && r.Holds(x.Memory.Addr, x.Memory.Size) {
			delete(s.own, t)
			x.ticket.Store(0)
		}
	}
}

// Allow lets more processes import an object.
func (s *Shares) Allow(x *Shared, pids []int32) *fail.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := x.numPids.Load()
	if int(n)+len(pids) > SlotPids {
		return fail.New(fail.Invalid, "%d processes may import it: want at most %d", n, SlotPids)
	}
	copy(x.pids[n:], pids)
	x.numPids.Store(n + uint32(len(pids)))
	return nil
}

// Take imports an object of another process. A process can import a ticket once.
func (s *Shares) Take(ticket uint64, kind SlotKind) (*Shared, *fail.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.own[ticket] != nil:
		return nil, fail.New(fail.Invalid, "the %s belongs to this process: only other processes can import it", kind)
	case s.others[ticket] != nil:
		return nil, fail.New(fail.Invalid, "the %s is imported already", kind)
	}
	pid := int(ticket >> (TicketRandom + TicketSlot))
	start := startOf(pid)
	if start == 0 {
		return nil, fail.New(fail.PeerLost, "process %d, which shares the %s, has ended or is in another pid namespace", pid, kind)
	}
	at := page{pid, start, ticket >> TicketRandom & (maxSlots - 1)}
	l := s.pages[at]
	if l == nil || !l.has(ticket) {
		var err error
		if l, err = findSlot(pid, ticket); err != nil {
			return nil, fail.New(fail.PeerLost, "process %d shares no such %s: %v", pid, kind, err)
		}
		if s.pages == nil {
			s.pages = map[page]*Slot{}
		}
		s.pages[at] = l
	}
	x := &Shared{Slot: l, Ticket: ticket, Pid: pid, start: start}
	if l.Kind != kind {
		return nil, fail.New(fail.Invalid, "it is a %s, not a %s", l.Kind, kind)
	}
	if !l.allows(int32(os.Getpid())) {
		return nil, fail.New(fail.Denied, "process %d does not allow process %d to import the %s", pid, os.Getpid(), kind)
	}
	if x.me = l.join(); x.me == nil {
		return nil, fail.New(fail.TooMany, "%d processes have imported the %s already, the limit", slotUsers, kind)
	}
	if !x.live() { // the owner may have used the slot for another object before it saw this user
		x.leave()
		return nil, fail.New(fail.PeerLost, "process %d has ended the sharing of the %s", pid, kind)
	}
	if s.others == nil {
		s.others = map[uint64]*Shared{}
	}
	s.others[ticket] = x
	return x, nil
}

// Imported returns the import with a ticket.
func (s *Shares) Imported(ticket uint64) *Shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others[ticket]
}

// ImportedAt returns the memory that was imported to an address, nil for none.
func (s *Shares) ImportedAt(addr uint64) *Shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.others {
		if x.Kind == SlotMemory && x.mapped != nil && x.Memory.Addr == addr {
			return x
		}
	}
	return nil
}

// GiveBack ends an import.
func (s *Shares) GiveBack(x *Shared) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.others[x.Ticket] != x {
		return false
	}
	delete(s.others, x.Ticket)
	x.leave()
	return true
}

// leave removes this process from the users.
func (x *Shared) leave() { x.me.Store(0) }

// has reports whether the slot still has a ticket.
func (l *Slot) has(ticket uint64) bool { return l.ticket.Load() == ticket }

// live reports whether the owner still shares the object.
func (x *Shared) live() bool { return x.has(x.Ticket) }

func (l *Slot) allows(pid int32) bool {
	return l.Anyone.Load() != 0 || slices.Contains(l.pids[:min(l.numPids.Load(), SlotPids)], pid)
}

// InUse reports whether a live process has imported the object.
func (l *Slot) InUse() bool {
	for i := range l.users {
		if l.users[i].alive() {
			return true
		}
	}
	return false
}

// join adds this process to the users; nil if the list is full.
func (l *Slot) join() *user {
	self := userOf(os.Getpid(), startOf(os.Getpid()))
	for i := range l.users {
		u := &l.users[i]
		if old := u.Load(); !isAlive(old) && u.CompareAndSwap(old, self) {
			return u
		}
	}
	return nil
}

func (u *user) alive() bool { return isAlive(u.Load()) }

func isAlive(user uint64) bool {
	pid := int(user & (1<<pidBits - 1))
	return pid != 0 && userOf(pid, startOf(pid)) == user
}

// Abandoned reports whether all other users have died, at least one of them without giving the object back. Nobody
// can wake a waiter then.
func (x *Shared) Abandoned() bool {
	dead := false
	if !x.Own {
		if startOf(x.Pid) == x.start {
			return false
		}
		dead = true
	}
	for i := range x.users {
		u := &x.users[i]
		switch {
		case u == x.me || u.Load() == 0:
		case u.alive():
			return false
		default:
			dead = true
		}
	}
	return dead
}

// startOf returns when a process started, 0 if it does not exist or is a zombie.
func startOf(pid int) uint64 {
	if st := procstat.Read(pid); st.Lives() {
		return uint64(st.Start)
	}
	return 0
}

// findSlot maps a ticket's page. It skips a descriptor that is closed meanwhile: while the owner imports an object itself, it has other
// processes' files open.
func findSlot(pid int, ticket uint64) (*Slot, error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	n := ticket >> TicketRandom & (maxSlots - 1)
	for _, f := range files {
		fd, err := openFile(pid, f.Name(), slotFile)
		if err != nil {
			continue
		}
		p, err := unix.MmapPtr(fd, int64(n*slotSize), nil, slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		if l := (*Slot)(p); l.has(ticket) {
			return l, nil
		}
		space.Unmap(uint64(uintptr(p)), slotSize)
	}
	return nil, errors.New("it was closed, or the key is wrong")
}

// openFile opens a memory file of a process. The process may reuse the descriptor's number at any time, so the check of the name and the
// opening use one reference to the file.
func openFile(pid int, fd, name string) (int, error) {
	ref, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%s", pid, fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(ref)
	path := fmt.Sprintf("/proc/self/fd/%d", ref)
	if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(to, "/memfd:"+name) {
		return -1, errors.New("it was closed")
	}
	return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// OpenFile opens the file of shared memory.
func (x *Shared) OpenFile() (int, error) {
	return openFile(x.Pid, strconv.Itoa(int(x.FD)), "aclsim-")
}

func TicketKey(ticket uint64) string { return fmt.Sprintf("%s%016x", keyMark, ticket) }

// KeyTicket parses a key; 0 if it is invalid.
func KeyTicket(key string) uint64 {
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
	// sleepAtMost is the longest sleep of a waiter between two checks of its stop channel.
	sleepAtMost = 5 * time.Millisecond
	// lookEvery is the interval at which a waiter checks for dead processes.
	lookEvery = 100 * time.Millisecond
)

// Set changes the word and wakes all waiters, in all processes.
func (l *Slot) Set(v uint32) {
	l.Word.Store(v)
	l.wakeAll()
}

func (l *Slot) wakeAll() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&l.Word)), 1 /* FUTEX_WAKE */, 1<<30, 0, 0, 0)
}

// Wait waits until met accepts the word. It returns false if the timer expired first, and a failure if gone reports
// that nobody can change the word.
func (x *Shared) Wait(met func(v uint32) bool, gone func() bool, stop <-chan struct{}, expired <-chan time.Time) (bool, *fail.Failure) {
	looked := time.Now()
	for {
		v := x.Word.Load()
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
			if gone() && !met(x.Word.Load()) {
				return true, fail.New(fail.PeerLost, "the process that would have signalled the %s has died", x.Kind)
			}
		}
		ts := unix.NsecToTimespec(int64(sleepAtMost))
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&x.Word)), 0 /* FUTEX_WAIT */, uintptr(v), uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
}

// Recorded marks a record as finished.
func (x *Shared) Recorded(n uint32, code int32) {
	x.Code.Store(code)
	for {
		v := x.Word.Load()
		if int32(v-n) >= 0 || x.Word.CompareAndSwap(v, n) {
			break
		}
	}
	x.wakeAll()
}
