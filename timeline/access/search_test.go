package access_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// A Search finds accesses by an argument, by an address in a table, and by an address in a copy of the table.
func TestSearch(t *testing.T) {
	s := tell(t)
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
	s := tell(t)
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
func (s *teller) search(addr uint64) (got []string) {
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
