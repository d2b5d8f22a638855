package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// each returns the regions of each call that a replay makes, as "call: HANDLE kind, …".
func (s *teller) each() (calls []string) {
	s.t.Helper()
	err := access.Each(s.Load().Reader, acl.Model, func(q *access.Call) error {
		var all []string
		for _, r := range q.Regions {
			text := fmt.Sprintf("%#x %s", r.Object.Handle, r.Kind)
			if r.Lo < r.Hi {
				text += fmt.Sprintf(" %d:%d", r.Lo, r.Hi)
			}
			if r.Via != nil {
				text += fmt.Sprintf(" via %#x", r.Via.Handle)
			}
			all = append(all, text)
		}
		calls = append(calls, fmt.Sprintf("%d: %s", q.Event.Call.Index, strings.Join(all, ", ")))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return calls
}

// memoryContent adds the content that host-visible memory has before the call.
func memoryContent(addr uint64, b []byte) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: api.MemoryParam, Addr: addr, Len: uint64(len(b)), Bytes: b, Time: c.Start})
	}
}

// A kernel reaches memory through an address that the program has stored in registered memory, which no call copies.
func TestAddressInVisibleMemory(t *testing.T) {
	const mapped = 0x124100000000
	s := tell(t)
	s.Stream(strA)
	s.Malloc(devA, 4096)
	s.Then("aclrtHostRegister", testtrace.A(host, 64, 0, 0x7ffe0000), testtrace.Outs("devPtr", mapped))
	s.withArgs(strA, mapped)
	s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 1, strA, 0, 1, 8, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(mapped)),
		memoryContent(host, testtrace.Words(7, devA+8, 0, 0, 0, 0, 0, 0)))
	got := s.each()
	want := []string{"0: ", "1: ", "2: ",
		"3: 0x124100000000 names",
		"4: 0x124100000000 names, 0x124000000000 names via 0x7f0000001000"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A copy of rows ends with the last byte of the last row, and a batch has as many ranges as its count says. A kernel without arguments accesses no
// memory.
func TestRangesEndAtTheLastByte(t *testing.T) {
	var s *teller
	program := func() {
		s = tell(t)
		s.Malloc(devA, 4096)
		s.Malloc(devB, 4096)
		s.Then("aclrtMemcpy2d", testtrace.A(devA, 64, devB, 128, 16, 3, 3))
		s.Then("aclrtMemcpyBatch", testtrace.A(host, host, host+64, host+128, 1, 0, 0, 0, 0), testtrace.Reads("dsts", 0, testtrace.Words(devA, devA+512)),
			testtrace.Reads("srcs", 0, testtrace.Words(devB, devB+512)), testtrace.Reads("sizes", 0, testtrace.Words(8, 8)))
		s.run(0, 0, 0)
	}
	program()
	want := []string{"0: ", "1: ",
		"2: 0x124000000000 writes 0:144, 0x124000100000 reads 0:272",
		"3: 0x124000000000 writes 0:8, 0x124000100000 reads 0:8", "4: "}
	if got := s.each(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	program()
	var all []string
	s.events(func(tr *access.Tracker, e *timeline.Event) {
		accesses, _ := tr.Of(e)
		for _, a := range accesses {
			all = append(all, fmt.Sprintf("%d: %s %#x+%d", e.Call.Index, a.Kind, a.Addr, a.Size))
		}
	})
	want = []string{"2: writes 0x124000000000+144", "2: reads 0x124000100000+272", "3: writes 0x124000000000+8", "3: reads 0x124000100000+8"}
	if !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
}
