package stream

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/format"
)

// A Train resembles training for a language model with 28 layers. It follows the profile of one step on one rank: 2,463
// launches, which mostly use 20 kernels. The profile determines the kernel order, the input, output and block counts, the
// other calls in a step, and the launch times.
//
// Assumptions: the tiling data lengths, a pool with 32 argument blocks, a second thread for the backward pass, and a caching
// allocator that gives 2% of the outputs a new address in each step.
type Train struct {
	launch, create, record, wait, destroy, sync, copy, query uint16

	rng  *rand.Rand
	ops  []op
	at   int
	now  int64
	task uint64 // last task id
	slot uint64 // in the argument block pool

	args  [8]uint64
	outs  [1]format.Out
	data  [1]format.Data
	block []byte
	ahead uint64 // buffer that the previous launch wrote
}

// An op is one call in a step.
type op struct {
	fn      uint16
	thread  uint32
	args    []uint64
	kernel  *kernel
	handle  uint64
	blocks  uint64
	buffers []uint64 // addresses of inputs and outputs
	shape   uint64   // determines the tiling data
	event   uint64   // made by the call
}

type kernel struct {
	name    string
	blocks  uint64
	in, out int
	tiling  int // bytes; assumed
}

var kernels = []kernel{
	{"Add", 40, 2, 1, 96},
	{"Cast", 40, 1, 1, 72},
	{"MatMulV3", 20, 2, 1, 384},
	{"Mul", 40, 2, 1, 96},
	{"Slice", 40, 3, 1, 160},
	{"RmsNorm", 40, 2, 2, 136},
	{"RmsNormGrad", 40, 4, 2, 152},
	{"TensorMove", 40, 1, 1, 72},
	{"LpNormV2", 40, 1, 1, 120},
	{"Pows", 1, 2, 1, 96},
	{"ZerosLike", 40, 1, 1, 72},
	{"Sub", 1, 2, 1, 96},
	{"ApplyAdamWV2", 40, 5, 3, 176},
	{"Cos", 40, 1, 1, 72},
	{"Sin", 40, 1, 1, 72},
	{"RotaryPositionEmbedding", 40, 3, 1, 224},
	{"RotaryPositionEmbeddingGrad", 40, 4, 3, 256},
	{"MatMulV2", 20, 2, 1, 320},
	{"ConcatD", 38, 3, 1, 144},
	{"FlashAttentionScore", 20, 15, 4, 1600},
	{"SwiGlu", 40, 1, 1, 96},
	{"SwiGluGrad", 40, 2, 1, 96},
	{"FlashAttentionScoreGrad", 20, 15, 6, 2048},
	{"MemSet", 40, 1, 1, 64},
	{"Greater", 1, 2, 1, 96},
	{"NonZero", 4, 1, 1, 128},
}

// The kernels that a step launches, with the block count if it is unusual.
const (
	forward = `FlashAttentionScore MatMulV3 Add RmsNorm MatMulV3 SwiGlu MatMulV3 Add RmsNorm MatMulV3 Slice RmsNorm Slice RmsNorm
		Cos Mul Cast Sin Mul Cast RotaryPositionEmbedding TensorMove Cos Mul Cast Sin Mul Cast RotaryPositionEmbedding TensorMove Slice`
	backward = `FlashAttentionScoreGrad RotaryPositionEmbeddingGrad ZerosLike Add RotaryPositionEmbeddingGrad ZerosLike Add Slice
		RmsNormGrad Cast:1 Add:1 RmsNormGrad Cast:1 Add:1 ConcatD MatMulV2 MatMulV2 Add RmsNormGrad Cast:1 Add Add:1
		MatMulV3 MatMulV3 Add SwiGluGrad MatMulV3 MatMulV3 Add RmsNormGrad Cast:1 Add Add:1 MatMulV3 MatMulV3 Add`
	check  = `MemSet Greater NonZero Slice:1`
	norm   = `LpNormV2 Pows Add:1`
	update = `Cast Mul Sub ApplyAdamWV2`
)

// The count per step.
const (
	layers     = 28
	checks     = 24
	parameters = 57
)

// Quantiles, in nanoseconds: the launch time and the time to the next call. They match the profile's mean, extremes and
// variance for the first, and its sums for the second.
var (
	takes = quantiles{{0, 2960}, {0.05, 4300}, {0.25, 4900}, {0.5, 5500}, {0.75, 6200}, {0.95, 7900}, {0.995, 15000}, {1, 50580}}
	gaps  = quantiles{{0, 3800}, {0.05, 8000}, {0.25, 12500}, {0.5, 17000}, {0.75, 29000}, {0.95, 75000}, {0.995, 250000}, {1, 700000}}
)

type quantiles []struct{ p, v float64 }

func (q quantiles) draw(rng *rand.Rand) int64 {
	p := rng.Float64()
	k := 1
	for p > q[k].p {
		k++
	}
	a, b := q[k-1], q[k]
	return int64(a.v + (b.v-a.v)*(p-a.p)/(b.p-a.p))
}

const (
	computeStream = 0xaaaac0001000
	otherStream   = 0xaaaac0002400
	deviceHeap    = 0x124000000000
	argPool       = 0xffff80100000
)

// NewTrain returns a Train. The schema must have all functions from Schema.
func NewTrain(schema *format.Schema) *Train {
	id := func(name string) uint16 { return schema.FuncByName(name).ID }
	t := &Train{
		launch: id(Launch), create: id("aclrtCreateEventExWithFlag"), record: id("aclrtRecordEvent"), wait: id("aclrtStreamWaitEvent"),
		destroy: id("aclrtDestroyEvent"), sync: id("aclrtSynchronizeStreamWithTimeout"), copy: id("aclrtMemcpyAsync"), query: id("aclrtQueryEventStatus"),
		rng: rand.New(rand.NewPCG(28, 2463)),
	}
	for layer := range layers {
		t.add(forward, 0, uint64(layer))
	}
	t.other(t.sync, otherStream, 0)
	for layer := range layers {
		t.add(backward, 1, uint64(layers-1-layer))
	}
	for i := range checks {
		t.add(check, 0, uint64(i%2))
		t.other(t.copy, 0xffff81000000+uint64(i%4)*64, 8, deviceHeap+uint64(i%2)<<20, 8, 2, computeStream)
		t.other(t.sync, computeStream, 0)
	}
	for i := range parameters {
		t.add(norm, 0, uint64(i))
	}
	t.other(t.sync, computeStream, 0)
	for i := range parameters {
		t.add(update, 0, uint64(i))
	}
	return t
}

func (t *Train) other(fn uint16, args ...uint64) { t.ops = append(t.ops, op{fn: fn, args: args}) }

// add adds a layer's or parameter's launches, and sometimes an event between two streams.
func (t *Train) add(names string, thread uint32, number uint64) {
	last := uint64(0)
	for at, name := range strings.Fields(names) {
		name, blocks, special := strings.Cut(name, ":")
		o := op{fn: t.launch, thread: thread, shape: uint64(at) % 3}
		for i := range kernels {
			if kernels[i].name == name {
				o.kernel, o.blocks, o.handle = &kernels[i], kernels[i].blocks, 0xaaab00000000+uint64(i)*0x1c0
			}
		}
		if special {
			n, err := strconv.ParseUint(blocks, 10, 32)
			if err != nil {
				panic(err) // the tables above are wrong
			}
			o.blocks = n
		}
		for i := range o.kernel.in + o.kernel.out {
			switch {
			case i == 0 && last != 0:
				o.buffers = append(o.buffers, last)
			case i == 1:
				o.buffers = append(o.buffers, deviceHeap+number<<26+uint64(at)<<20) // a weight
			case i >= 5 && i < o.kernel.in:
				o.buffers = append(o.buffers, 0) // an optional input
			case t.rng.Uint32N(2) == 0:
				o.buffers = append(o.buffers, deviceHeap+4<<30+t.rng.Uint64N(24)<<23) // free again soon
			default:
				o.buffers = append(o.buffers, deviceHeap+5<<30+t.rng.Uint64N(1<<14)<<21) // kept for the way back
			}
		}
		last = o.buffers[o.kernel.in]
		t.ops = append(t.ops, o)
		if len(t.ops)%28 == 0 {
			event := 0xaaaad0000000 + t.rng.Uint64N(96)*0x60
			t.ops = append(t.ops, op{fn: t.create, thread: thread, args: []uint64{0x7ffc0000e0f8, 8}, event: event},
				op{fn: t.record, thread: thread, args: []uint64{event, computeStream}}, op{fn: t.wait, thread: thread, args: []uint64{otherStream, event}})
			if len(t.ops)%3 == 0 {
				t.ops = append(t.ops, op{fn: t.query, thread: thread, args: []uint64{event, 0x7ffc0000e108}})
			}
			t.ops = append(t.ops, op{fn: t.destroy, thread: thread, args: []uint64{event}})
		}
	}
}

// Next implements Source.
func (t *Train) Next(c *format.Call) {
	o := &t.ops[t.at]
	t.at = (t.at + 1) % len(t.ops)
	*c = format.Call{Func: o.fn, Thread: o.thread, Start: t.now, Args: o.args}
	c.End = c.Start + takes.draw(t.rng)
	t.now = c.End + gaps.draw(t.rng)
	if o.event != 0 {
		t.outs[0] = format.Out{Param: 0, Value: o.event}
		c.Outs = t.outs[:]
	}
	if o.kernel == nil {
		return
	}
	t.slot = (t.slot + 1) % 32
	t.task++
	block := argPool + t.slot*0x2000
	k := o.kernel
	t.block = t.block[:0]
	word := func(x uint64) { t.block = binary.LittleEndian.AppendUint64(t.block, x) }
	for i, addr := range o.buffers {
		switch {
		case i == 0 && t.ahead != 0:
			addr, t.ahead = t.ahead, 0
		case i == k.in && t.rng.Uint32N(50) == 0:
			addr += (1 + t.rng.Uint64N(3)) << 21 // another free block
			t.ahead = addr
		}
		word(addr)
	}
	head := uint64(len(o.buffers)+2) * 8
	word(deviceHeap + 2<<30) // workspace
	word(block + head)
	for i := range uint64(k.tiling / 8) {
		word((i*0x9E3779B97F4A7C15>>40)%(64<<(i%4*4)) + o.shape*(i%5)*16)
	}
	t.args = [...]uint64{o.handle, o.blocks, computeStream, 0x7ffc0000e000, block, uint64(len(t.block)), 0x7ffc0000e040, 1}
	c.Args = t.args[:]
	t.outs[0] = format.Out{Param: format.TaskParam, Value: 2<<32 | t.task}
	c.Outs = t.outs[:]
	t.data[0] = format.Data{Param: 4, Addr: block, Len: uint64(len(t.block)), Group: o.handle, Bytes: t.block}
	c.Data = t.data[:]
}

// Now implements Source: the next call starts then.
func (t *Train) Now() int64 { return t.now }
