package device

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// reaching has a machine whose unknown kernels find addresses in memory.
type reaching struct {
	t *testing.T
	*Machine
}

func newReaching(t *testing.T) *reaching { return &reaching{t, newMachine(t, io.Discard, false)} }

// store writes a word.
func (x *reaching) store(at, word uint64) {
	x.written(space.Span{Addr: at, Size: 8})
	binary.LittleEndian.PutUint64(space.Bytes(at, 8), word)
}

// launch launches a kernel that does not run, with words as its argument block in memory of the program.
func (x *reaching) launch(kernel string, words ...uint64) {
	b := page(x.t)
	copy(b, words)
	x.TaintReached(space.Span{Addr: space.AddressOf(&b[0]), Size: 8 * uint64(len(words))}, true, kernel)
}

// want compares what is known of allocations: their marks, "" for none.
func (x *reaching) want(want ...any) {
	x.t.Helper()
	for i := 0; i < len(want); i += 2 {
		if got, _ := x.Unknown(want[i].(uint64), 8); got != want[i+1] {
			x.t.Errorf("memory %d is %q, want %q", i/2, got, want[i+1])
		}
	}
}

// register registers host memory.
func (x *reaching) register(b []uint64, access uint32) uint64 {
	at := space.Span{Addr: space.AddressOf(&b[0]), Size: 8 * uint64(len(b))}
	x.Host.Registered.Insert(space.Region[memory.Registration]{Span: at, Value: memory.Registration{Access: access}})
	return at.Addr
}

func (x *reaching) known(all ...uint64) {
	for _, at := range all {
		x.MarkKnown(at, 4096)
	}
}

// An unknown kernel may have written all memory to which addresses lead, over any number of levels, but none that it can't write.
func TestReachFollowsAddresses(t *testing.T) {
	x := newReaching(t)
	var m [6]uint64
	for i := range m {
		m[i] = alloc(t, x.Machine, 4096, both)
	}
	read := alloc(t, x.Machine, 4096, space.Read)
	x.store(m[0]+8, m[1]+100)    // within
	x.store(m[1]+4, read+4096)   // one past the end, at half a word
	x.store(read+4088, m[2])     // the last word
	x.store(m[2]+21, m[3])       // a start, at an odd address
	x.store(m[2]+41, m[4]+8)     // within, at an odd address: no address
	x.store(m[5], m[0])          // leads there, but nothing leads to it
	x.launch("k", 7, m[0]+16, 0) // the block has other words too
	x.want(m[0], "k", m[1], "k", m[2], "k", m[3], "k", m[4], "", m[5], "", read, "")
}

// Content that was written or freed since is searched again.
func TestReachSeesChanges(t *testing.T) {
	x := newReaching(t)
	a, b, c := alloc(t, x.Machine, 3<<20, both), alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both)
	x.store(a+2<<20-4, b) // extends into the next piece
	x.launch("k", a)
	x.want(b, "k", c, "")
	x.MarkKnown(a, 3<<20)
	x.known(b)
	x.launch("l", a)
	x.want(b, "l", c, "")
	x.MarkKnown(a, 3<<20)
	x.known(b)
	x.store(a+2<<20-4, 0)
	x.store(a+1<<20-3, c)
	x.launch("m", a)
	x.want(b, "", c, "m")
	x.MarkKnown(a, 3<<20)
	x.known(c)
	binary.LittleEndian.PutUint64(space.Bytes(a+64, 8), b) // by a kernel that declares less than it writes
	x.Unknowns.rescan()
	x.launch("n", a)
	x.want(b, "n")
}

// Memory that an unknown kernel has reached may hold any address that the kernel knew, until known data is there. Freed memory does not count.
func TestReachFollowsGroups(t *testing.T) {
	x := newReaching(t)
	a, b, c, d := alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both)
	x.launch("k", a, b, c)
	x.known(b, c)
	x.launch("l", a) // which may hold the addresses of b and c
	x.want(a, "l", b, "l", c, "l", d, "")
	x.known(a, b, c)
	x.launch("m", a)
	x.want(a, "m", b, "", c, "")
	x.launch("n", d, b)
	x.launch("o", a, d) // joins both
	x.known(b)
	x.launch("p", a)
	x.want(b, "p", d, "o", c, "") // d has not changed since
	if !x.Devices[0].Memory.Free(d, memory.ByMalloc) {
		t.Fatal("not freed")
	}
	x.known(b)
	x.store(a, 0)
	x.launch("q", a)
	x.want(a, "q", b, "q")
}

// If the content of reached memory is unknown for another reason, the kernel may have written all memory.
func TestReachOfUnknownContent(t *testing.T) {
	for _, c := range []struct {
		name string
		mark func(x *reaching, at uint64)
		all  string
	}{
		{"a caller's reason", func(x *reaching, at uint64) { x.Mark(at+8, 8, 7) }, "k"},
		{"a weak reason", func(x *reaching, at uint64) { x.Mark(at+8, 8, 200) }, ""},
		{"a kernel that declares what it writes", func(x *reaching, at uint64) { x.taint(at+8, 8, "d") }, "k"},
	} {
		x := newReaching(t)
		a, b := alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both)
		read := alloc(t, x.Machine, 4096, space.Read)
		managed, host := x.Managed.Alloc(memory.Granularity, 0), x.Host.Alloc(4096)
		own := page(t)
		registered, fixed := x.register(own[:128], both), x.register(own[256:384], space.Read)
		c.mark(x, a)
		x.launch("k", a)
		t.Log(c.name)
		x.want(a, "k", b, c.all, read, "", managed, c.all, host, c.all, registered, c.all, fixed, "")
	}
}

// Addresses of all kinds of memory are found.
func TestReachOfHostMemory(t *testing.T) {
	x := newReaching(t)
	managed, host := x.Managed.Alloc(memory.Granularity, 0), x.Host.Alloc(4096)
	a, b := alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both)
	own := page(t)
	registered, fixed := x.register(own[:128], both), x.register(own[256:384], space.Read)
	x.store(managed+16, host+8)
	x.store(host+16, fixed)
	own[256+3] = registered + 8
	own[1] = a
	x.launch("k", managed+100)
	x.want(managed, "k", host, "k", registered, "k", fixed, "", a, "k")
	x.known(a)
	own[2] = b // by the program, unseen
	x.launch("l", registered)
	x.want(a, "l", b, "l", registered, "l")
}

// An argument block in memory of the runtime is reached itself, with what is known of its content.
func TestReachOfADeviceBlock(t *testing.T) {
	x := newReaching(t)
	a, b, c := alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both), alloc(t, x.Machine, 4096, both)
	x.store(a, b)
	x.store(a+64, c)
	x.TaintReached(space.Span{Addr: a, Size: 8}, true, "own")
	x.want(a, "", b, "own", c, "")
	x.TaintReached(space.Span{Addr: a, Size: 8}, false, "k")
	x.want(a, "k", b, "k", c, "k")
}
