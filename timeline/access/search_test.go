package access_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// A Search finds accesses by an argument, by an address in a table, and by an address in a copy of the table.
func TestSearchFollowsTablesOfAddresses(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(devA, 4096) // the table
	s.Malloc(devB, 4096) // the target
	s.Malloc(data, 4096) // a copy of the table
	s.in(devA, strA, testtrace.Words(7, devB+8))
	s.in(devA, strA, testtrace.Words(7, devB+8)) // holds it already
	s.withArgs(strA, devA)
	s.Then("aclrtMemcpyAsync", testtrace.A(data, 16, devA, 16, 3, strA))
	s.withArgs(strA, data)
	s.withArgs(strA, devB+16, devA)
	s.Then("aclrtMemcpyAsync", testtrace.A(host, 64, devB, 64, 2, strA))
	s.withArgs(strA, 5)
	got := s.search(devB)
	want := []string{
		"4 points to +0 via 0x124000000000", "6 names +0 via 0x124000000000", "7 points to +0 via 0x124000200000", "8 names +0 via 0x124000200000", "9 names +16",
		"10 reads +0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A Search finds accesses after the target was freed, by an argument and by an address in a table, and those of calls that had not returned.
func TestSearchOfFreedMemory(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Malloc(devA, 4096)
	s.Malloc(devB, 4096)
	s.Then("aclrtFree", testtrace.A(devB))
	s.in(devA, strA, testtrace.Words(7, devB))
	s.withArgs(strA, devA)
	s.Then("aclrtMemsetAsync", testtrace.A(devB+16, 64, 0, 64, strA), func(_ *api.Func, c *format.Call) { c.Flags = format.Unfinished })
	got := s.search(devB)
	want := []string{"4 points to +0 via 0x124000000000", "5 names +0 via 0x124000000000", "6 writes +16"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// search returns the hits of a Search for the allocation at an address.
func (s *sequence) search(addr uint64) (got []string) {
	s.t.Helper()
	t := s.t
	r := s.Load().Reader
	var target *timeline.Object
	st := timeline.NewState(acl.Model)
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e := st.Apply(0, c); target == nil && len(e.Uses) == 1 && e.Uses[0].Object.Handle == addr {
			target = e.Uses[0].Object
		}
	}
	x, err := access.NewSearch(r, acl.Model, []*timeline.Object{target})
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		e, hits := x.Apply(0, c)
		for _, h := range hits {
			text := fmt.Sprintf("%d %s +%d", e.Call.Index, h.Kind, h.Offset)
			if h.Via != nil {
				text += fmt.Sprintf(" via %#x", h.Via.Handle)
			}
			got = append(got, text)
		}
	}
	return got
}

// A graph's run accesses what its tasks do. It was said that it may change all memory of all graphs, for example weights.
func TestSearchOfAGraphsRun(t *testing.T) {
	const weights, other = devB, data
	graphs := func(kernel func(s *sequence)) *sequence {
		s := newSequence(t)
		s.Stream(strA)
		for _, addr := range []uint64{devA, weights, other} {
			s.Malloc(addr, 4096)
		}
		for i, addr := range []uint64{weights, other} {
			s.Then("aclmdlRICaptureBegin", testtrace.A(strA, 0))
			s.operator(testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(addr+64, block.In, 0, 4), testtrace.Contiguous(devA, block.Out, 0, 4)))
			if i == 0 && kernel != nil {
				kernel(s)
			}
			s.Then("aclmdlRICaptureEnd", testtrace.A(strA, host), testtrace.Outs("modelRI", uint64(0x77+i)))
		}
		s.Then("aclmdlRIExecuteAsync", testtrace.A(0x77, strA))
		s.Then("aclmdlRIExecuteAsync", testtrace.A(0x78, strA))
		s.Then("aclmdlRIExecuteAsync", testtrace.A(0x79, strA)) // captured before the trace
		return s
	}
	for _, c := range []struct {
		name   string
		kernel func(s *sequence)
		addr   uint64
		want   []string
	}{
		{"read by one graph", nil, weights, []string{"5 reads +64", "10 reads +64", "12 names +0"}},
		{"written by both", nil, devA, []string{"5 writes +0", "8 writes +0", "10 writes +0", "11 writes +0", "12 names +0"}},
		{"read at two places", func(s *sequence) {
			s.operator(testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(weights, block.In, 0, 4), testtrace.Contiguous(devA, block.Out, 0, 4)))
		}, weights, []string{"5 reads +64", "6 reads +0", "11 reads +0", "13 names +0"}},
		{"given to a kernel without declared operands", func(s *sequence) { s.withArgs(strA, weights) }, weights, []string{"5 reads +64", "6 names +0", "11 names +0", "13 names +0"}},
		{"read in a task group, where an update may replace the task", func(s *sequence) {
			s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(strA))
			s.operator(testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(other, block.In, 0, 4), testtrace.Contiguous(devA, block.Out, 0, 4)))
			s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(strA, host), testtrace.Outs("handle", 0x99))
		}, other, []string{"7 reads +0", "11 reads +64", "14 reads +64", "15 names +0"}},
	} {
		if got := graphs(c.kernel).search(c.addr); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
