package acl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Random programs order conflicting work, so each has one result in any interleaving. A reference without the engine
// computes it.

type opKind uint8

const (
	opMalloc   opKind = iota // allocate device buffer a of n bytes
	opPinned                 // in pinned host memory
	opPageable               // in the program's own
	opMap                    // in physical memory b, mapped for a while
	opFree                   // free a buffer
	opWrite                  // the host writes the value into host buffer a
	opRead                   // host reads buffer a
	opCopy                   // n bytes of b at y to a at x, in stream order
	opCopyNow
	opStaged // the host's bytes are taken at the call
	opCopy2d // n bytes of three rows, with pitches 64 and 96
	opFill
	opFillNow
	opFill32
	opMix    // kernel: each byte of a from one of b
	opTwist  // kernel: bytes of a in place, by several blocks
	opReduce // add numbers of b to those of a
	opHost   // a program function changes host buffer a
	opOrder  // stream b waits for stream a
	opSync
	opSyncAll
	opCapture // keep later tasks on the stream …
	opCaptured
	opExecute // … and done, as often as it is executed
)

// randomOp is one step of a program.
type randomOp struct {
	kind    opKind
	stream  int
	a, b    int
	x, y, n uint64
	value   byte
}

const (
	randomStreams = 4
	mappedSize    = 4096 // used bytes of a mapping
	physicals     = 3
)

// drawn is a program that is being drawn.
type drawn struct {
	*rand.Rand
	ops  []randomOp
	bufs []drawnBuffer
	live []int
	phys [physicals]bool // mapped
}

type drawnBuffer struct {
	size uint64
	kind opKind
	last int // stream of the last access; -1 if the host is up to date
	phys int
}

func (d *drawn) host(b int) bool { return d.bufs[b].kind == opPinned || d.bufs[b].kind == opPageable }

// pick returns a live buffer.
func (d *drawn) pick(ok func(b int) bool) int {
	for range 20 {
		if b := d.live[d.IntN(len(d.live))]; ok(b) {
			return b
		}
	}
	return -1
}

func (d *drawn) add(o randomOp) { d.ops = append(d.ops, o) }

// touch orders a stream after the last access to a buffer.
func (d *drawn) touch(b, stream int) {
	if l := d.bufs[b].last; l >= 0 && l != stream {
		d.add(randomOp{kind: opOrder, a: l, b: stream, value: byte(d.IntN(3))})
	}
	d.bufs[b].last = stream
}

// settle waits until a buffer is as the host sees it.
func (d *drawn) settle(b int) {
	l := d.bufs[b].last
	if l < 0 {
		return
	}
	d.add(randomOp{kind: opSync, stream: l})
	for i := range d.bufs {
		if d.bufs[i].last == l {
			d.bufs[i].last = -1
		}
	}
}

func (d *drawn) part(b int, unit uint64) (x, n uint64) {
	size := d.bufs[b].size / unit
	n = 1 + d.Uint64N(size)
	return d.Uint64N(size-n+1) * unit, n * unit
}

func (d *drawn) make() {
	o := randomOp{kind: opMalloc, a: len(d.bufs), n: 512 + 4*d.Uint64N(4096)}
	buf := drawnBuffer{last: -1}
	switch d.IntN(8) {
	case 0, 1:
		o.kind = opPinned
	case 2:
		o.kind = opPageable
	case 3:
		if i := d.IntN(physicals); !d.phys[i] {
			d.phys[i], buf.phys = true, i
			o.kind, o.b, o.n = opMap, i, mappedSize
		}
	}
	buf.size, buf.kind = o.n, o.kind
	d.bufs, d.live = append(d.bufs, buf), append(d.live, o.a)
	d.add(o)
	if o.kind == opPinned || o.kind == opPageable {
		d.add(randomOp{kind: opWrite, a: o.a, value: byte(d.Uint32())})
	}
}

// work appends a task for a stream on buffers that are allowed.
func (d *drawn) work(stream int, captured bool, ok func(b int) bool) {
	device := func(b int) bool { return ok(b) && !d.host(b) }
	known := func(b int) bool { return ok(b) && d.bufs[b].kind != opPageable }
	o := randomOp{stream: stream, value: byte(d.Uint32())}
	kinds := []opKind{opCopy, opCopy, opFill, opFill32, opMix, opMix, opTwist, opReduce, opHost, opStaged, opCopy2d}
	if captured {
		kinds = kinds[:9]
	}
	o.kind = kinds[d.IntN(len(kinds))]
	o.a, o.b = d.pick(device), -1
	switch o.kind {
	case opCopy, opCopy2d, opStaged:
		if o.a = d.pick(known); captured || o.kind != opCopy {
			o.a = d.pick(device)
		}
		from := ok
		switch {
		case o.kind != opCopy:
			from = d.host
			if captured {
				from = func(b int) bool { return ok(b) && d.bufs[b].kind == opPinned }
			}
		case o.a >= 0 && d.host(o.a):
			from = device
		case captured:
			from = known
		}
		o.b = d.pick(from)
	case opMix, opReduce:
		o.b = d.pick(device)
	case opHost:
		o.a = d.pick(func(b int) bool { return ok(b) && d.bufs[b].kind == opPinned })
	}
	if o.a < 0 || o.b == o.a || o.b < 0 && (o.kind == opCopy || o.kind == opCopy2d || o.kind == opStaged || o.kind == opMix || o.kind == opReduce) {
		return
	}
	unit := uint64(1)
	if o.kind == opReduce || o.kind == opFill32 {
		unit = 4
	}
	o.x, o.n = d.part(o.a, unit)
	if o.b >= 0 {
		var n uint64
		o.y, n = d.part(o.b, unit)
		o.n = min(o.n, n)
	}
	if o.kind == opCopy2d {
		o.x, o.y, o.n = 0, 0, 1+d.Uint64N(64)
	}
	if !captured {
		if o.kind == opStaged {
			d.settle(o.b) // the host's bytes are taken at once
		} else if o.b >= 0 {
			d.touch(o.b, stream)
		}
		d.touch(o.a, stream)
		if o.b >= 0 && d.bufs[o.b].kind == opPageable && o.kind != opStaged || d.bufs[o.a].kind == opPageable {
			for i := range d.bufs { // the call waits for the stream
				if d.bufs[i].last == stream {
					d.bufs[i].last = -1
				}
			}
		}
	}
	d.add(o)
}

// drawProgram draws a program.
func drawProgram(seed uint64) []randomOp {
	d := &drawn{Rand: rand.New(rand.NewPCG(seed, 77))}
	for range 5 {
		d.make()
	}
	any := func(int) bool { return true }
	for range 30 + d.IntN(60) {
		s := d.IntN(randomStreams)
		switch r := d.IntN(24); {
		case r == 0:
			d.make()
		case r == 1 && len(d.live) > 4:
			i := d.IntN(len(d.live))
			b := d.live[i]
			d.settle(b)
			d.add(randomOp{kind: opFree, a: b})
			if d.bufs[b].kind == opMap {
				d.phys[d.bufs[b].phys] = false
			}
			d.live = append(d.live[:i], d.live[i+1:]...)
		case r == 2:
			b := d.pick(any)
			d.settle(b)
			d.add(randomOp{kind: opRead, a: b})
		case r == 3:
			if b := d.pick(d.host); b >= 0 {
				d.settle(b)
				d.add(randomOp{kind: opWrite, a: b, value: byte(d.Uint32())})
			}
		case r == 4:
			b, c := d.pick(any), d.pick(any)
			if b != c && !(d.host(b) && d.host(c)) {
				d.settle(b)
				d.settle(c)
				o := randomOp{kind: opCopyNow, a: b, b: c}
				o.x, o.n = d.part(b, 1)
				var n uint64
				o.y, n = d.part(c, 1)
				o.n = min(o.n, n)
				d.add(o)
			}
		case r == 5:
			if b := d.pick(func(b int) bool { return d.bufs[b].kind != opPageable }); b >= 0 {
				d.settle(b)
				o := randomOp{kind: opFillNow, a: b, value: byte(d.Uint32())}
				o.x, o.n = d.part(b, 1)
				d.add(o)
			}
		case r == 6:
			d.add(randomOp{kind: opSyncAll})
			for i := range d.bufs {
				d.bufs[i].last = -1
			}
		case r == 7: // a graph, on buffers that belong to the stream
			mine := map[int]bool{}
			for range 4 {
				if b := d.pick(func(b int) bool { return d.bufs[b].kind != opPageable }); b >= 0 {
					d.touch(b, s)
					mine[b] = true
				}
			}
			d.add(randomOp{kind: opCapture, stream: s})
			for range 1 + d.IntN(6) {
				d.work(s, true, func(b int) bool { return mine[b] })
			}
			d.add(randomOp{kind: opCaptured, stream: s})
			for range d.IntN(3) {
				d.add(randomOp{kind: opExecute, stream: s})
			}
		default:
			d.work(s, false, any)
		}
	}
	d.add(randomOp{kind: opSyncAll})
	for _, b := range d.live {
		d.add(randomOp{kind: opRead, a: b})
	}
	return d.ops
}

// pattern returns host data.
func pattern(b []byte, value byte) {
	for i := range b {
		b[i] = value + byte(i*7)
	}
}

// reference executes a program step by step on plain memory, and returns the host's reads.
func reference(ops []randomOp) []byte {
	var read []byte
	bufs := map[int][]byte{}
	var phys [physicals][mappedSize]byte
	var kept []randomOp
	capturing := false
	var do func(o randomOp)
	do = func(o randomOp) {
		a, b := bufs[o.a], bufs[o.b]
		switch o.kind {
		case opMalloc, opPinned, opPageable:
			bufs[o.a] = make([]byte, o.n)
		case opMap:
			bufs[o.a] = phys[o.b][:]
		case opFree:
			delete(bufs, o.a)
		case opWrite:
			pattern(a, o.value)
		case opRead:
			read = append(read, a...)
		case opCopy, opCopyNow, opStaged:
			for i := range o.n {
				a[o.x+i] = b[o.y+i]
			}
		case opCopy2d:
			for row := range uint64(3) {
				for i := range o.n {
					a[row*96+i] = b[row*64+i]
				}
			}
		case opFill, opFillNow:
			for i := range o.n {
				a[o.x+i] = o.value
			}
		case opFill32:
			for i := range o.n {
				a[o.x+i] = [4]byte{o.value, 1, 2, 3}[i%4]
			}
		case opMix:
			for i := range o.n {
				a[o.x+i] = 3*b[o.y+i] + o.value
			}
		case opTwist:
			for i := range o.n {
				a[o.x+i] = a[o.x+i]<<1 ^ a[o.x+i]>>7 ^ o.value
			}
		case opReduce:
			for i := uint64(0); i < o.n; i += 4 {
				carry := uint(0)
				for j := i; j < i+4; j++ {
					carry += uint(a[o.x+j]) + uint(b[o.y+j])
					a[o.x+j] = byte(carry)
					carry >>= 8
				}
			}
		case opHost:
			for i := range o.n {
				a[o.x+i] ^= o.value
			}
		case opExecute:
			for _, k := range kept {
				do(k)
			}
		}
	}
	for _, o := range ops {
		switch {
		case o.kind == opCapture:
			capturing, kept = true, nil
		case o.kind == opCaptured:
			capturing = false
		case capturing:
			kept = append(kept, o)
		default:
			do(o)
		}
	}
	return read
}

// randomKernels are the kernels. Their arguments are two addresses, a size and a value.
func randomKernels() kernelMap {
	le := binary.LittleEndian
	args := []device.Arg{{Name: "out", Kind: device.ArgInout, Size: 8}, {Name: "in", Kind: device.ArgInput, Size: 8}, {Name: "n", Kind: device.ArgScalar, Size: 8}, {Name: "value", Kind: device.ArgScalar, Size: 8}}
	return kernelMap{
		"mix": {Name: "mix", Args: args,
			Extents: func(l *device.Launch, to []space.Extent) []space.Extent {
				n := le.Uint64(l.Args[16:])
				return append(to, space.Extent{Addr: le.Uint64(l.Args), Size: n, Access: space.Write, Arg: 0}, space.Extent{Addr: le.Uint64(l.Args[8:]), Size: n, Access: space.Read, Arg: 1})
			},
			Run: func(l *device.Launch) {
				n := le.Uint64(l.Args[16:])
				out, in := space.Bytes(le.Uint64(l.Args), n), space.Bytes(le.Uint64(l.Args[8:]), n)
				for i := range out {
					out[i] = 3*in[i] + l.Args[24]
				}
			}},
		"twist": {Name: "twist", Args: args,
			Extents: func(l *device.Launch, to []space.Extent) []space.Extent {
				// More than it touches, so that small ones run on several goroutines as well.
				return append(to, space.Extent{Addr: le.Uint64(l.Args), Size: le.Uint64(l.Args[16:]), Access: space.Read | space.Write, Arg: 0})
			},
			Blocks: func(l *device.Launch, from, to uint32) {
				b := space.Bytes(le.Uint64(l.Args), le.Uint64(l.Args[16:]))
				for i := len(b) * int(from) / int(l.NumBlocks); i < len(b)*int(to)/int(l.NumBlocks); i++ {
					b[i] = b[i]<<1 ^ b[i]>>7 ^ l.Args[24]
				}
			}},
	}
}

// runProgram runs a program on the simulator and returns the host's reads.
func runProgram(t *testing.T, ops []randomOp, o Options) []byte {
	c := &calls{}
	o.Caller, o.Kernels = c, randomKernels()
	e := newEnv(t, o)
	th := e.th
	bin := e.load(testBinary(9, "mix", "twist"))
	mix, twist := e.function(bin, "mix"), e.function(bin, "twist")
	var streams [randomStreams]acl.Stream
	for i := range streams {
		streams[i] = e.stream()
	}
	sync := e.event()
	var flag acl.Notify
	e.ok(th.CreateNotify(&flag, 0))
	words := e.malloc(8 * 4096)
	scratch := e.pinned(1 << 20)
	var reserved acl.Addr
	e.ok(th.ReserveMemAddress(&reserved, 256*memory.Granularity, 0, 0, 0))
	var phys [physicals]acl.DrvMemHandle
	for i := range phys {
		e.ok(th.MallocPhysical(&phys[i], memory.Granularity, deviceProp(), 0))
	}
	type buffer struct {
		addr acl.Addr
		kind opKind
		size uint64
	}
	bufs := map[int]buffer{}
	var read []byte
	var graph acl.MdlRI
	var graphs []acl.MdlRI
	values := uint64(0)
	for n, o := range ops {
		s := streams[o.stream]
		a, b := bufs[o.a], bufs[o.b]
		dst, src := a.addr+o.x, b.addr+o.y
		launch := func(f acl.FuncHandle) {
			args := make([]byte, 32)
			for i, v := range []uint64{dst, src, o.n, uint64(o.value)} {
				binary.LittleEndian.PutUint64(args[8*i:], v)
			}
			p := scratch + 1<<19
			copy(space.Bytes(p, 32), args)
			e.ok(th.LaunchKernelWithHostArgs(f, 1+uint32(o.n%7), s, nil, p, 32, nil, 0))
		}
		switch o.kind {
		case opMalloc:
			bufs[o.a] = buffer{e.malloc(o.n), o.kind, o.n}
		case opPinned:
			bufs[o.a] = buffer{e.pinned(o.n), o.kind, o.n}
		case opPageable:
			bufs[o.a] = buffer{e.pageable(o.n), o.kind, o.n}
		case opMap:
			at := reserved + uint64(o.a)*memory.Granularity
			e.ok(th.MapMem(at, memory.Granularity, 0, phys[o.b], 0))
			bufs[o.a] = buffer{at, o.kind, o.n}
		case opFree:
			switch a.kind {
			case opMalloc:
				e.ok(th.Free(a.addr))
			case opPinned:
				e.ok(th.FreeHost(a.addr))
			case opMap:
				e.ok(th.UnmapMem(a.addr))
			}
		case opWrite:
			pattern(space.Bytes(a.addr, a.size), o.value)
		case opRead:
			from := a.addr
			if a.kind == opMalloc || a.kind == opMap {
				e.ok(th.Memcpy(scratch, a.size, a.addr, a.size, acl.ACL_MEMCPY_DEVICE_TO_HOST))
				from = scratch
			}
			read = append(read, space.Bytes(from, a.size)...)
		case opCopy:
			e.ok(th.MemcpyAsync(dst, o.n, src, o.n, acl.ACL_MEMCPY_DEFAULT, s))
		case opCopyNow:
			e.ok(th.Memcpy(dst, o.n, src, o.n, acl.ACL_MEMCPY_DEFAULT))
		case opStaged:
			e.ok(th.MemcpyAsync(dst, o.n, src, o.n, acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, s))
			pattern(space.Bytes(scratch, 64), 0)
		case opCopy2d:
			e.ok(th.Memcpy2dAsync(dst, 96, src, 64, o.n, 3, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
		case opFill:
			e.ok(th.MemsetAsync(dst, o.n, int32(o.value), o.n, s))
		case opFillNow:
			e.ok(th.Memset(dst, o.n, int32(o.value), o.n))
		case opFill32:
			e.ok(th.MemsetD32Async(dst, o.n, uint32(o.value)|0x03020100, o.n/4, s))
		case opMix:
			launch(mix)
		case opTwist:
			launch(twist)
		case opReduce:
			e.ok(th.ReduceAsync(dst, src, o.n, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT32, s, 0))
		case opHost:
			e.ok(th.LaunchHostFunc(s, c.fn(func(uint64) {
				for i := range space.Bytes(dst, o.n) {
					space.Bytes(dst, o.n)[i] ^= o.value
				}
			}), 0))
		case opOrder:
			from, to := streams[o.a], streams[o.b]
			switch o.value {
			case 0:
				e.ok(th.RecordEvent(sync, from))
				e.ok(th.StreamWaitEvent(to, sync))
			case 1:
				// Set and taken before the next one: a notify that is set twice is one.
				e.ok(th.RecordNotify(flag, from))
				e.ok(th.WaitAndResetNotify(flag, to, 0))
				e.ok(th.SynchronizeStream(to))
			case 2:
				values++
				e.ok(th.ValueWrite(words+8*values, values, 0, from))
				e.ok(th.ValueWait(words+8*values, values, acl.ACL_STREAM_WAIT_VALUE_EQ, to))
			}
		case opSync:
			e.ok(th.SynchronizeStream(s))
		case opSyncAll:
			e.ok(th.SynchronizeDevice())
		case opCapture:
			e.ok(th.MdlRICaptureBegin(s, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL))
		case opCaptured:
			e.ok(th.MdlRICaptureEnd(s, &graph))
			graphs = append(graphs, graph)
		case opExecute:
			e.ok(th.MdlRIExecuteAsync(graph, s))
		default:
			t.Fatalf("step %d: what is %d?", n, o.kind)
		}
		if t.Failed() {
			t.Fatalf("step %d: %+v", n, o)
		}
	}
	for _, g := range graphs {
		e.ok(th.MdlRIDestroy(g))
	}
	for _, f := range e.sim.Findings() {
		t.Error(f.Text(0, false))
	}
	e.sim.Close()
	return read
}

// checkProgram runs a program in real and in virtual time and compares it with the reference.
func checkProgram(t *testing.T, seed uint64) {
	ops := drawProgram(seed)
	want := reference(ops)
	for _, virtual := range []bool{false, true} {
		t.Run(fmt.Sprintf("seed %d, virtual %t", seed, virtual), func(t *testing.T) {
			o := Options{Virtual: virtual}
			if virtual == (seed%2 == 0) {
				o.Strict = &Strict{} // they have no races
			}
			if !virtual {
				o.Model = preset(t, "instant")
			}
			if got := runProgram(t, ops, o); !bytes.Equal(got, want) {
				i := 0
				for i < len(got) && i < len(want) && got[i] == want[i] {
					i++
				}
				t.Errorf("of %d bytes that the host reads, the first other than the reference's %d is %d", len(got), len(want), i)
			}
		})
	}
}

func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(100) {
		checkProgram(t, seed)
	}
}

func TestSoakRandomPrograms(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("a thousand programs take too long: make soak runs them")
	}
	for seed := range uint64(2000) {
		checkProgram(t, 1000+seed)
	}
}
