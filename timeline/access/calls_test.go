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
	"github.com/acltrace/acltrace/timeline/access"
)

// each returns the regions of each call that a replay makes, as "call: HANDLE kind, …".
func (s *sequence) each() (calls []string) {
	s.t.Helper()
	err := access.Each(s.Load().Reader, acl.Model, func(q *access.Call) error {
		calls = append(calls, regions(q))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return calls
}

// regions returns the regions of a call, as "call: HANDLE kind, …".
func regions(q *access.Call) string {
	var all []string
	for _, r := range q.Regions() {
		text := fmt.Sprintf("%#x %s", r.Object.Handle, r.Kind)
		if r.Lo < r.Hi {
			text += fmt.Sprintf(" %d:%d", r.Lo, r.Hi)
		}
		if r.Via != nil {
			text += fmt.Sprintf(" via %#x", r.Via.Handle)
		}
		all = append(all, text)
	}
	return fmt.Sprintf("%d: %s", q.Event.Call.Index, strings.Join(all, ", "))
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
	s := newSequence(t)
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
	var s *sequence
	program := func() {
		s = newSequence(t)
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
	s.calls(func(q *access.Call) {
		e := q.Event
		accesses, _ := q.Addresses()
		for _, a := range accesses {
			all = append(all, fmt.Sprintf("%d: %s %#x+%d", e.Call.Index, a.Kind, a.Addr, a.Size))
		}
	})
	want = []string{"2: writes 0x124000000000+144", "2: reads 0x124000100000+272", "3: writes 0x124000000000+8", "3: reads 0x124000100000+8"}
	if !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
}

// What a call accesses does not depend on the calls before of which the caller asked, nor on how often it asks. Calls that a replay does not make have no regions.
func TestRegionsAreFoundWhenAskedFor(t *testing.T) {
	const table = devA + 0x1000
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(devA, 4096)
	s.Malloc(devB, 4096)
	s.Malloc(table, 64)
	s.Then("aclrtMemcpy", testtrace.A(table, 16, host, 16, 1), testtrace.Reads("src", 0, testtrace.Words(devB, devA+8)))
	s.Then("mstxMarkA", testtrace.A(0x7ffe0000, 0))
	s.withArgs(strA, table)
	s.Then("aclrtSynchronizeStream", testtrace.A(strA))
	s.Then("aclrtFree", testtrace.A(table))
	s.Malloc(table, 64)
	s.withArgs(strA, table)
	r := s.Load().Reader
	sorted := func(q *access.Call) string { // what a kernel reaches has no order
		_, list, _ := strings.Cut(regions(q), ": ")
		all := strings.Split(list, ", ")
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	want := map[uint64]string{}
	err := access.Each(r, acl.Model, func(q *access.Call) error {
		want[q.Event.Call.Index] = sorted(q)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(want[6], "0x124000100000 names via") || strings.Contains(want[10], "via") || want[5] != "" {
		t.Fatalf("%v", want)
	}
	for asked := range uint64(11) {
		x, err := access.New(r, acl.Model, &access.Options{Objects: true})
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range r.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			q := x.Apply(0, c)
			if c.Index != asked {
				continue
			}
			for range 2 {
				if got := sorted(q); got != want[asked] { // nothing for the mark, which a replay does not make
					t.Errorf("call %d: %q, want %q", asked, got, want[asked])
				}
			}
		}
	}
}
