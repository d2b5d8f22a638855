package testtrace

import (
	"encoding/binary"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Sequence writes calls one after the other, each 10 ns long, 10 ns apart.
type Sequence struct {
	*Builder
	Now    int64  // start of the last call
	Thread uint32 // of the following calls
}

// NewSequence starts a trace like New.
func NewSequence(tb testing.TB) *Sequence {
	tb.Helper()
	return &Sequence{Builder: New(tb)}
}

// Then adds a call.
func (s *Sequence) Then(name string, args []uint64, mods ...Mod) {
	s.tb.Helper()
	s.Now += 20
	s.Call(s.Thread, s.Now, s.Now+10, name, args, mods...)
}

// Malloc allocates device memory.
func (s *Sequence) Malloc(addr, size uint64) {
	s.tb.Helper()
	s.Then("aclrtMalloc", A(0x7ffe0000, size, 0), Outs("devPtr", addr))
}

// Stream creates a stream.
func (s *Sequence) Stream(handle uint64) {
	s.tb.Helper()
	s.Then("aclrtCreateStream", A(0x7ffe0008), Outs("stream", handle))
}

// Reads adds input data to a parameter of the call.
func Reads(name string, item uint32, b []byte) Mod {
	return func(f *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param(name)), Item: item, Len: uint64(len(b)), Bytes: b, Time: c.Start})
	}
}

// Words returns words as a program has them in memory.
func Words(v ...uint64) []byte {
	var b []byte
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
