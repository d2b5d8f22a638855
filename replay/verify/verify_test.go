package verify

import (
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	type add struct {
		s   State
		why Reason
		n   int
	}
	for _, c := range []struct {
		adds  []add
		other uint64
		want  Verdict
		text  string
	}{
		{nil, 0, Unproved, "nothing differs; the trace has no results, so nothing is proved"},
		{[]add{{IsProved, "", 16}}, 0, Identical, "identical: 16 results"},
		{[]add{{IsProved, "", 1}, {IsTolerated, "", 1}}, 0, Identical, "identical: 2 results (1 within the tolerance)"},
		{[]add{{IsProved, "", 4}, {IsUnproved, Kernel, 12}}, 0, Unproved, "nothing differs; 12 of 16 results are unproved: computed by kernels that no library here implements"},
		{[]add{{IsUnproved, Data, 1}, {IsUnproved, Kernel, 2}}, 0, Unproved, "nothing differs; 3 of 3 results are unproved: 2: computed by kernels that no library here implements; 1: they depend on data that the trace lacks"},
		{[]add{{IsProved, "", 3}, {IsUnproved, Kernel, 1}, {IsDifferent, "", 1}}, 0, Different, "different: 1 of 5 results differs; 1 of 5 results is unproved: computed by kernels that no library here implements"},
		{[]add{{IsProved, "", 3}}, 2, Different, "different: 2 returned values or outputs differ"},
		{nil, 1, Different, "different: 1 returned value or output differs"},
	} {
		var tally Tally
		for _, a := range c.adds {
			for range a.n {
				tally.Add(a.s, a.why)
			}
		}
		tally.Other = c.other
		if v := tally.Verdict(); v != c.want || tally.String() != c.text {
			t.Errorf("%+v: %s, %q; want %s, %q", c.adds, v, &tally, c.want, c.text)
		}
	}
}

// A reason without a code or a text would reach a report as an empty string.
func TestReasonsHaveCodesAndTexts(t *testing.T) {
	for i, r := range Reasons {
		if r.Code() != uint8(i+1) || ByCode(r.Code()) != r || r.Text() == "" || strings.ToLower(string(r)) != string(r) {
			t.Errorf("%q: code %d, text %q", r, r.Code(), r.Text())
		}
	}
	if len(texts) != len(Reasons) || ByCode(0) != "" || ByCode(uint8(len(Reasons)+1)) != "" {
		t.Errorf("%d texts for %d reasons", len(texts), len(Reasons))
	}
}
