package stats

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// Operators are summed up with their launches, also those in graphs, and marks are no calls.
func TestSumsByOperator(t *testing.T) {
	tl := testtrace.Operators(t)
	s, err := New(tl.Reader, acl.Model, &Options{By: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range s.Groups {
		got = append(got, fmt.Sprintf("%s: %d calls, %d ns, %d launches, %d in graphs", g.Name, g.Calls, g.HostNS, g.Launches, g.InGraphs))
	}
	want := []string{
		"aclnnAdd: 3 calls, 240 ns, 1 launches, 6 in graphs",
		"aclnnMul: 2 calls, 140 ns, 2 launches, 0 in graphs",
		"Cast: 1 calls, 50 ns, 1 launches, 0 in graphs",
		"no operator: 0 calls, 0 ns, 1 launches, 3 in graphs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	all := uint64(0)
	for _, f := range s.Functions {
		all += f.Calls
	}
	if s.Marks != 24 || s.Calls != all || int(s.Calls+s.Marks) != len(tl.Calls) {
		t.Errorf("%d calls, %d of them by function, and %d marks, want %d in all", s.Calls, all, s.Marks, len(tl.Calls))
	}
}

// By shape, an operator has a group for each kernel type with its tensors, and one for launches that the trace does not describe.
func TestSumsByShape(t *testing.T) {
	s, err := New(testtrace.Shapes(t).Reader, acl.Model, &Options{By: "shape"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range s.Groups {
		got = append(got, fmt.Sprintf("%s %s: %d calls, %d ns, %d in graphs", g.Name, g.Shapes, g.Calls, g.HostNS, g.InGraphs))
	}
	want := []string{
		"aclnnMul Mul(float16[2,16]) -> float16[2,16]: 2 calls, 20 ns, 0 in graphs",
		"aclnnAdd AddMine(float16[1,16]) -> float16[1,16]: 1 calls, 10 ns, 6 in graphs",
		"no operator : 1 calls, 10 ns, 3 in graphs",
		"Cast : 1 calls, 10 ns, 0 in graphs",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
