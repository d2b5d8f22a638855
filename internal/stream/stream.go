// Package stream generates endless, reproducible call sequences for benchmarks: LLM decoding (New) and training (NewTrain).
//
// The benchmarks for recorder, file format and exporters use it, and internal/cmd/benchtrace. A Source belongs to one
// goroutine. The calls match a schema but name no real objects, so they can't be replayed.
package stream

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/acltrace/acltrace/format"
)

// A Stream resembles LLM decoding: an iteration with 400 launches of 40 kernels, copies and synchronizations, repeated with
// jitter in time. Argument blocks have 64 bytes. Their pointers differ by layer, most other words repeat per kernel.
type Stream struct {
	calls []format.Call
	rng   *rand.Rand
	now   int64
	at    int
	step  uint64
}

// A Source generates calls without end.
type Source interface {
	// Next returns the next call. It is valid until the next Next.
	Next(c *format.Call)
	// Now returns a time in nanoseconds at which all calls so far have ended.
	Now() int64
}

// Shapes are the kinds of sources, by name.
var Shapes = map[string]func(*format.Schema) Source{
	"decode": func(s *format.Schema) Source { return New(s) },
	"train":  func(s *format.Schema) Source { return NewTrain(s) },
}

// Launch is the function that most calls use.
const Launch = "aclrtLaunchKernelWithHostArgs"

// Schema returns a minimal schema for a Stream. Traces with it are not meant for viewers.
func Schema() *format.Schema {
	return &format.Schema{API: "acl", Functions: []format.Function{
		{ID: 1, Name: Launch, Ret: "aclError", Words: 8},
		{ID: 2, Name: "aclrtMemcpyAsync", Ret: "aclError", Words: 6},
		{ID: 3, Name: "aclrtSynchronizeStream", Ret: "aclError", Words: 1},
		{ID: 4, Name: "aclrtRecordEvent", Ret: "aclError", Words: 2},
		{ID: 5, Name: "aclrtCreateEventExWithFlag", Ret: "aclError", Words: 2},
		{ID: 6, Name: "aclrtStreamWaitEvent", Ret: "aclError", Words: 2},
		{ID: 7, Name: "aclrtDestroyEvent", Ret: "aclError", Words: 1},
		{ID: 8, Name: "aclrtSynchronizeStreamWithTimeout", Ret: "aclError", Words: 2},
		{ID: 9, Name: "aclrtQueryEventStatus", Ret: "aclError", Words: 2},
	}}
}

// New returns a Stream. The schema must have all functions of Schema.
func New(schema *format.Schema) *Stream {
	s := &Stream{rng: rand.New(rand.NewPCG(7, 1))}
	const heap = 0x124000000000
	const queue = 0xaaaa1000
	add := func(name string, args ...uint64) *format.Call {
		f := schema.FuncByName(name)
		c := format.Call{Func: f.ID, Args: make([]uint64, f.Words)}
		copy(c.Args, args)
		s.calls = append(s.calls, c)
		return &s.calls[len(s.calls)-1]
	}
	for i := range 400 {
		kernel := uint64(i % 10)
		if i%40 >= 30 {
			kernel = uint64(10 + i%30)
		}
		c := add(Launch, 0x55550000+kernel*192, 1+kernel*3%32, queue, 0, 0x7ffc1000, 64)
		block := make([]byte, 64)
		layer := uint64(i / 10)
		for k, v := range []uint64{
			heap + layer<<24, heap + 1<<32 + layer<<21, heap + 1<<36 + uint64(i%4)<<20, heap + 1<<37, 4096, 128<<32 | 64, kernel, 0x3f800000,
		} {
			binary.LittleEndian.PutUint64(block[k*8:], v)
		}
		c.Data = []format.Data{{Param: 4, Addr: 0x7ffc2000, Group: kernel, Len: 64, Bytes: block}}
		if i%25 == 24 {
			add("aclrtRecordEvent", 0xbbbb0000+uint64(i%7)*64, queue)
		}
		if i%100 == 99 {
			add("aclrtMemcpyAsync", 0x7f1200000000+uint64(i)*4096, 8192, heap+1<<37, 8192, 2, queue)
		}
	}
	add("aclrtSynchronizeStream", queue)
	for i := range s.calls {
		s.calls[i].End = 900 + int64(s.rng.IntN(300)) // duration
		s.calls[i].Start = 300 + int64(s.rng.IntN(2000))
	}
	return s
}

// Next implements Source.
func (s *Stream) Next(c *format.Call) {
	t := &s.calls[s.at]
	noise := s.rng.Uint64()
	*c = *t
	s.now += t.Start + int64(noise&255)
	c.Start = s.now
	s.now += t.End + int64(noise>>8&127)
	c.End = s.now
	if len(t.Data) > 0 {
		t.Data[0].Time = 0
		// One word counts the steps, like the position in a sequence.
		binary.LittleEndian.PutUint64(t.Data[0].Bytes[32:], 4096+s.step)
	}
	if s.at++; s.at == len(s.calls) {
		s.at = 0
		s.step++
	}
}

// Now implements Source.
func (s *Stream) Now() int64 { return s.now }
