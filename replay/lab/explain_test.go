package lab

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// A call that failed wrote nothing: it is not in the history of a byte, and hides no earlier write.
func TestExplainSkipsFailedCalls(t *testing.T) {
	const memory, size, host = 0x124000000000, 64, 0x7f0000000000
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Malloc(memory, size)
	s.Then("aclrtMemset", testtrace.A(memory, size, 1, size))
	s.Then("aclrtMemcpy", testtrace.A(memory, size, host, size, 1), testtrace.Reads("src", 0, make([]byte, size)), testtrace.Fails(507015))
	s.Then("aclrtMemset", testtrace.A(memory, size/2, 2, size/2), testtrace.Fails(507015))
	s.Then("aclrtMemcpy", testtrace.A(host, size, memory, size, 2))
	r := s.Load().Reader
	histories, err := Explain(t.Context(), r, acl.Model, []Byte{{Call: 5}})
	if err != nil {
		t.Fatal(err)
	}
	h := histories[0]
	if len(h.Chain) != 1 || h.Chain[0].Call != 2 || h.ChainTotal != 1 {
		t.Errorf("%+v, want call 2 alone", h)
	}
}

// Explain kept an entry for each launch and object, and read on after the last call that shows a byte.
func TestExplainKeepsNoLogOfTheTrace(t *testing.T) {
	const from, to, size, host, copies = 0x124000000000, 0x124000100000, 64, 0x7f0000000000, 50_000
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Malloc(from, size)
	s.Malloc(to, size)
	for range copies {
		s.Then("aclrtMemcpy", testtrace.A(to, size, from, size, 3))
	}
	s.Then("aclrtMemcpy", testtrace.A(host, size, to, size, 2))
	for range 2 * copies {
		s.Then("aclrtMemcpy", testtrace.A(to, size, from, size, 3))
	}
	ctx := &counted{Context: t.Context()}
	histories, err := Explain(ctx, s.Load().Reader, acl.Model, []Byte{{Call: copies + 3}})
	if err != nil {
		t.Fatal(err)
	}
	if h := histories[0]; len(h.Chain) != maxChain || h.ChainTotal != copies || h.Chain[maxChain-1].Call != copies+2 {
		t.Errorf("%d calls of %d, want the last %d of %d", len(h.Chain), h.ChainTotal, maxChain, copies)
	}
	if most := 2 * (copies + 10); ctx.calls > most {
		t.Errorf("%d calls read, want at most %d", ctx.calls, most)
	}
	if grown := ctx.grown(); grown > 1<<20 {
		t.Errorf("the memory has grown by %d bytes", grown)
	}
}

// counted counts the calls that ask it for an error. It notes the memory in use at every 10,000th of them.
type counted struct {
	context.Context
	calls int
	heap  []int64
}

func (c *counted) Err() error {
	if c.calls++; c.calls%10_000 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.heap = append(c.heap, int64(m.HeapAlloc))
	}
	return nil
}

// grown returns by how much the least memory in the last quarter of the calls exceeds the most in the first. A reader's buffers come and go.
func (c *counted) grown() int64 {
	n := len(c.heap) / 4
	return slices.Min(c.heap[3*n:]) - slices.Max(c.heap[:n])
}
