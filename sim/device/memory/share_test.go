package memory

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// offer shares an object, as another process would.
func offer(t *testing.T, s *Shares, kind SlotKind, anyone bool, fill func(*Slot)) *Shared {
	t.Helper()
	x, f := s.Offer(kind, 3, anyone, fill)
	if f != nil {
		t.Fatal(f)
	}
	return x
}

// An object that a process shares is found by its ticket, once, until the sharing ends.
func TestSharedObjectIsFoundByTicket(t *testing.T) {
	mine, other := &Shares{}, &Shares{}
	defer other.Close()
	if f := mine.Allow(&Shared{Slot: &Slot{}}, make([]int32, SlotPids+1)); f == nil {
		t.Error("too many processes were allowed")
	}
	x := offer(t, mine, SlotNotify, true, func(l *Slot) { l.Size = 77 })
	if mine.Mine(x.Ticket, SlotNotify) != x || mine.Mine(x.Ticket, SlotEvent) != nil || mine.Mine(x.Ticket+1, SlotNotify) != nil || !x.Own || x.DeviceID != 3 || x.InUse() {
		t.Error("the owner does not find it")
	}
	for name, c := range map[string]struct {
		s      *Shares
		ticket uint64
		kind   SlotKind
		code   fail.Code
		text   string
	}{
		"its own":         {mine, x.Ticket, SlotNotify, fail.Invalid, "belongs to this process"},
		"another kind":    {other, x.Ticket, SlotEvent, fail.Invalid, "it is a notify, not a event"},
		"another number":  {other, x.Ticket ^ 1, SlotNotify, fail.PeerLost, "shares no such notify"},
		"another slot":    {other, x.Ticket + 1<<TicketRandom, SlotNotify, fail.PeerLost, "shares no such notify"},
		"another process": {other, (1<<22-1)<<(TicketRandom+TicketSlot) | 1, SlotNotify, fail.PeerLost, "has ended"},
	} {
		if got, f := c.s.Take(c.ticket, c.kind); got != nil || !isFailure(f, c.code, c.text) {
			t.Errorf("%s: %v", name, f)
		}
	}
	y, f := other.Take(x.Ticket, SlotNotify)
	if f != nil || y.Size != 77 || y.DeviceID != 3 || y.Own || y.Pid != os.Getpid() || other.Imported(x.Ticket) != y || !x.InUse() {
		t.Fatalf("%+v: %v", y, f)
	}
	if _, f := other.Take(x.Ticket, SlotNotify); !isFailure(f, fail.Invalid, "is imported already") {
		t.Error(f)
	}
	// Both see one word.
	x.Set(5)
	if y.Word.Load() != 5 || !y.live() {
		t.Error("the import is another object")
	}
	mine.Withdraw(x)
	mine.Withdraw(x)
	if y.live() || mine.Mine(x.Ticket, SlotNotify) != nil {
		t.Error("the sharing goes on")
	}
	// The slot of an object in use is not used again.
	if z := offer(t, mine, SlotNotify, true, nil); z.Slot == x.Slot || z.Size != 0 {
		t.Error("a slot in use was taken")
	}
	mine.next = 0
	if z := offer(t, mine, SlotNotify, true, nil); z.Slot == x.Slot {
		t.Error("a slot in use was taken")
	}
	if !other.GiveBack(y) || other.GiveBack(y) || x.InUse() || other.Imported(x.Ticket) != nil {
		t.Error("the import goes on")
	}
	mine.next = 0
	z := offer(t, mine, SlotEvent, false, nil)
	if z.Slot != x.Slot || z.Size != 0 || z.Word.Load() != 0 || z.Anyone.Load() != 0 {
		t.Errorf("a free slot was not cleared: %+v", z.Slot)
	}
	// Processes are allowed one by one, up to the limit.
	if _, f := other.Take(z.Ticket, SlotEvent); !isFailure(f, fail.Denied, "does not allow process") {
		t.Error(f)
	}
	if f := mine.Allow(z, []int32{1, 2}); f != nil {
		t.Error(f)
	}
	if _, f := other.Take(z.Ticket, SlotEvent); !isFailure(f, fail.Denied, "does not allow process") {
		t.Error(f)
	}
	if f := mine.Allow(z, []int32{int32(os.Getpid())}); f != nil || z.pids[1] != 2 {
		t.Error(f)
	}
	if _, f := other.Take(z.Ticket, SlotEvent); f != nil {
		t.Error(f)
	}
	if f := mine.Allow(z, make([]int32, SlotPids-2)); !isFailure(f, fail.Invalid, "3 processes may import it: want at most 512") {
		t.Error("too many processes were allowed")
	}
	if f := mine.Allow(z, make([]int32, SlotPids-3)); f != nil {
		t.Error(f)
	}
	mine.Close()
	if _, f := (&Shares{}).Take(z.Ticket, SlotEvent); !isFailure(f, fail.PeerLost, "closed, or the key is wrong") {
		t.Error(f)
	}
}

// A ticket is found while its process opens and closes other processes' files, as it does to import their objects.
func TestFilesThatCloseAreSkipped(t *testing.T) {
	mine, others := &Shares{}, &Shares{}
	defer mine.Close()
	defer others.Close()
	offer(t, others, SlotNotify, true, nil)
	x := offer(t, mine, SlotNotify, true, nil)
	// Descriptors are searched in the order of their names: "100" is before "900".
	last, err := unix.FcntlInt(uintptr(mine.fd), unix.F_DUPFD_CLOEXEC, 900)
	if err != nil {
		t.Fatal(err)
	}
	space.CloseKept(mine.fd)
	mine.fd = last
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if fd, err := unix.FcntlInt(uintptr(others.fd), unix.F_DUPFD_CLOEXEC, 100); err == nil {
					unix.Close(fd)
				}
			}
		}
	}()
	for range 2000 {
		l, err := findSlot(os.Getpid(), x.Ticket)
		if err != nil {
			t.Error(err)
			break
		}
		space.Unmap(space.AddressOf(l), slotSize)
	}
	close(stop)
	<-done
}

// A process that imports has files of others open for a moment. Their slots were taken for its own if the random numbers were equal, as they
// were in processes that had been forked before they loaded the library.
func TestSlotsOfOtherFiles(t *testing.T) {
	stranger, mine, other := &Shares{}, &Shares{}, &Shares{}
	defer stranger.Close()
	defer mine.Close()
	defer other.Close()
	z := offer(t, stranger, SlotNotify, true, nil) // its file is found first
	x := offer(t, mine, SlotNotify, true, nil)
	z.ticket.Store(x.Ticket + 1<<(TicketRandom+TicketSlot)) // the next process
	y, f := other.Take(x.Ticket, SlotNotify)
	if f != nil {
		t.Fatal(f)
	}
	if y.Word.Store(7); x.Word.Load() != 7 || z.Word.Load() != 0 {
		t.Error("it is the stranger's slot")
	}
}

// As many objects are shared, and as many processes import one, as there is room for.
func TestShareLimits(t *testing.T) {
	s := &Shares{}
	defer s.Close()
	x := offer(t, s, SlotNotify, true, nil)
	for i := range x.users {
		x.users[i].Store(userOf(os.Getpid(), startOf(os.Getpid())))
	}
	other := &Shares{}
	defer other.Close()
	if _, f := other.Take(x.Ticket, SlotNotify); !isFailure(f, fail.TooMany, "64 processes have imported the notify already") {
		t.Error(f)
	}
	x.users[60].Store(userOf(os.Getpid(), 1)) // has died, and another process has its number
	if y, f := other.Take(x.Ticket, SlotNotify); f != nil || y.me != &y.users[60] {
		t.Error(f)
	}
	for n := range uint64(maxSlots) {
		l := (*Slot)(space.Pointer(s.addr + n*slotSize))
		l.ticket.Store(1)
	}
	if _, f := s.Offer(SlotNotify, 0, true, nil); !isFailure(f, fail.TooMany, "16384 objects are shared already") {
		t.Error(f)
	}
	(*Slot)(space.Pointer(s.addr + 7*slotSize)).ticket.Store(0)
	if y := offer(t, s, SlotNotify, true, nil); y.Ticket>>TicketRandom&(maxSlots-1) != 7 {
		t.Errorf("ticket %#x", y.Ticket)
	}
}

// A process maps memory of another one, until either gives it up.
func TestSharedMemory(t *testing.T) {
	m := newMemory(t)
	at := alloc(t, m, 3<<20, 0) + 100
	copy(space.Bytes(at, 5), "hello")
	share := func() *Shared {
		x := offer(t, m.shares, SlotMemory, true, func(l *Slot) { l.FD, l.Offset, l.Size = int32(m.FD), at-m.Base, 1<<20 })
		x.Memory = space.Span{Addr: at, Size: 1 << 20}
		return x
	}
	x := share()
	if m.shares.MemoryAt(space.Span{Addr: at, Size: 1 << 20}) != x || m.shares.MemoryAt(space.Span{Addr: at, Size: 1<<20 - 1}) != nil {
		t.Error("shared memory is not found by its range")
	}
	n := &Memory{}
	n.Init(1, &Shares{}, testBase+ArenaStride, testBase+4*ArenaStride+ReserveStride, testLimit, space.Span{})
	defer n.Close()
	y, f := n.shares.Take(x.Ticket, SlotMemory)
	if f != nil {
		t.Fatal(f)
	}
	to, f := n.MapShared(y)
	if f != nil || string(space.Bytes(to, 5)) != "hello" || to%4096 != at%4096 || !n.Has.Shared.Load() || !n.Owns(to) {
		t.Fatalf("at %#x: %v", to, f)
	}
	space.Bytes(at+1<<20-1, 1)[0] = 9
	if space.Bytes(to+1<<20-1, 1)[0] != 9 {
		t.Error("the import has other bytes")
	}
	if n.shares.ImportedAt(to) != y || n.shares.ImportedAt(to+1) != nil || n.Check(to, 1<<20, space.Read|space.Write) != nil || n.Check(to, 1<<20+1, space.Read) == nil || n.Free(to, ByMalloc) {
		t.Error("the import is not found")
	}
	if !m.Free(at-100, ByMalloc) || x.live() || m.shares.MemoryAt(x.Memory) != nil {
		t.Error("freed memory is shared")
	}
	if err := n.Check(to, 1, space.Read); !isError(err, "the process that shares the memory has freed it or closed its key") {
		t.Error(err)
	}
	y.Unmap()
	y.Unmap()
	if n.Owns(to) || !isError(n.Check(to, 1, space.Read), "in freed memory") || len(n.Taken.All()) != 0 {
		t.Error("the mapping is left")
	}
	// An import ends with all memory of the device, too.
	x = share()
	y, f = n.shares.Take(x.Ticket, SlotMemory)
	if f != nil {
		t.Fatal(f)
	}
	to, _ = n.MapShared(y)
	n.FreeAll()
	if n.Owns(to) || len(n.Live.All()) != 0 || n.Placed() != (space.Span{}) {
		t.Error("the import is left")
	}
	m.FreeAll()
	if !x.live() { // its allocation had ended before
		t.Error("sharing of other memory ended")
	}
	// A file that is gone is an error.
	y.FD = 1 << 20
	if _, f := n.MapShared(y); !isFailure(f, fail.PeerLost, "open memory of process") {
		t.Error(f)
	}
}

// Nobody can wake a waiter if the others have died. One that gave the object back does not count.
func TestDeadProcessesCannotWakeAWaiter(t *testing.T) {
	self := startOf(os.Getpid())
	for _, c := range []struct {
		name  string
		own   bool
		start uint64      // of the owner
		users [][2]uint64 // pid and start
		want  bool
	}{
		{"own, nobody has imported it", true, 0, nil, false},
		{"own, a live user", true, 0, [][2]uint64{{uint64(os.Getpid()), self}}, false},
		{"own, a dead user", true, 0, [][2]uint64{{1 << 22, 1}}, true},
		{"own, a dead user and a live one", true, 0, [][2]uint64{{1 << 22, 1}, {0, 0}, {uint64(os.Getpid()), self}}, false},
		{"own, another process with the number", true, 0, [][2]uint64{{uint64(os.Getpid()), self + 1}}, true},
		{"a live owner", false, self, [][2]uint64{{1 << 22, 1}}, false},
		{"a dead owner", false, self + 1, nil, true},
		{"a dead owner, a live user", false, self + 1, [][2]uint64{{uint64(os.Getpid()), self}}, false},
	} {
		x := &Shared{Slot: &Slot{}, Own: c.own, Pid: os.Getpid(), start: c.start}
		for i, u := range c.users {
			x.users[i].Store(userOf(int(u[0]), u[1]))
		}
		if got := x.Abandoned(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if !c.own { // its own entry does not count
			x.me = &x.users[63]
			x.me.Store(userOf(os.Getpid(), self))
			if got := x.Abandoned(); got != c.want {
				t.Errorf("%s, with an own entry: %v", c.name, got)
			}
		}
	}
}

// A waiter ends when the word is right, when it is stopped, when its time is over, or when nobody is left.
func TestWaitEndsIfNobodyIsLeft(t *testing.T) {
	x := &Shared{Slot: &Slot{}}
	set := func(v uint32) bool { return v == 1 }
	never := func() bool { return false }
	closed, over := make(chan struct{}), make(chan time.Time, 1)
	close(closed)
	over <- time.Time{}
	if ok, f := x.Wait(set, never, closed, nil); !ok || f != nil {
		t.Errorf("a stopped waiter: %v, %v", ok, f)
	}
	if ok, f := x.Wait(set, never, nil, over); ok || f != nil {
		t.Errorf("a late waiter: %v, %v", ok, f)
	}
	if ok, f := x.Wait(set, func() bool { return true }, nil, nil); !ok || f == nil || f.Code != fail.PeerLost {
		t.Errorf("a lonely waiter: %v, %v", ok, f)
	}
	if ok, f := x.Wait(set, func() bool { x.Word.Store(1); return true }, nil, nil); !ok || f != nil {
		t.Errorf("a waiter whose word was set by a process that has died: %v, %v", ok, f)
	}
	x.Word.Store(0)
	done := make(chan bool)
	go func() {
		ok, _ := x.Wait(set, never, nil, nil)
		done <- ok
	}()
	x.Set(1)
	if !<-done {
		t.Error("the waiter has failed")
	}
}

// Records of an event end in any order. The newest one counts, also after the numbers begin again.
func TestNewestRecordCounts(t *testing.T) {
	x := &Shared{Slot: &Slot{}}
	for _, c := range [][2]uint32{{1, 1}, {3, 3}, {2, 3}, {3, 3}} {
		if x.Recorded(c[0], int32(c[0])); x.Word.Load() != c[1] || x.Code.Load() != int32(c[0]) {
			t.Errorf("record %d: %d, want %d", c[0], x.Word.Load(), c[1])
		}
	}
	x.Word.Store(1<<32 - 1)
	if x.Recorded(2, 0); x.Word.Load() != 2 {
		t.Errorf("after the highest number: %d", x.Word.Load())
	}
}

func TestTicketsAreReadFromKeys(t *testing.T) {
	for _, ticket := range []uint64{1, 0x0123456789abcdef, 1<<64 - 1} {
		key := TicketKey(ticket)
		if KeyTicket(key) != ticket || len(key) >= KeySize {
			t.Errorf("%#x: %q", ticket, key)
		}
	}
	for _, key := range []string{"", "aclsim-", "aclsim-1", "aclsim-000000000000000g", "other-0000000000000001", "aclsim-00000000000000011"} {
		if got := KeyTicket(key); got != 0 {
			t.Errorf("%q: %#x", key, got)
		}
	}
	for k, want := range map[SlotKind]string{SlotMemory: "memory", SlotPhysical: "physical memory", SlotNotify: "notify", SlotEvent: "event"} {
		if fmt.Sprint(k) != want {
			t.Errorf("%v, want %s", k, want)
		}
	}
}

// The first kernel whose results are unknown gives its name to the memory.
func TestFirstStainNamesTheKernel(t *testing.T) {
	l := &Slot{}
	if name, ok := l.StainedBy(); ok || name != "" {
		t.Errorf("%q", name)
	}
	l.stainState.Store(1)
	if name, ok := l.StainedBy(); !ok || name != "of another process" {
		t.Errorf("%q", name)
	}
	l.stainState.Store(0)
	long := fmt.Sprintf("%063d", 7)
	l.Stain(long + "too long")
	l.Stain("second")
	if name, ok := l.StainedBy(); !ok || name != long {
		t.Errorf("%q", name)
	}
}
