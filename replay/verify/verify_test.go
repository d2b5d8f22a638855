package verify

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestVerdictFollowsFromTheStates(t *testing.T) {
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

		otherBytes uint64
	}{
		{nil, 0, Unproved, "nothing differs; the trace has no results, so nothing is proved", 0},
		{[]add{{IsProved, "", 16}}, 0, Identical, "identical: 16 results", 0},
		{[]add{{IsProved, "", 1}, {IsTolerated, "", 1}}, 0, Identical, "identical: 2 results (1 within the tolerance)", 0},
		{[]add{{IsProved, "", 4}, {IsUnproved, Kernel, 12}}, 0, Unproved, "nothing differs; 12 of 16 results are unproved: computed by kernels that no library here implements", 0},
		{[]add{{IsUnproved, Data, 1}, {IsUnproved, Kernel, 2}}, 0, Unproved, "nothing differs; 3 of 3 results are unproved: computed by kernels that no library here implements (2); it depends on data that the trace lacks (1)", 0},
		{[]add{{IsProved, "", 3}, {IsUnproved, Kernel, 1}, {IsDifferent, "", 1}}, 0, Different, "different: 1 of 5 results differs; 1 of 5 results is unproved: computed by kernels that no library here implements", 0},
		{[]add{{IsProved, "", 3}}, 2, Different, "different: 2 returned values or outputs differ", 0},
		{nil, 1, Different, "different: 1 returned value or output differs", 0},
		{[]add{{IsProved, "", 4}, {IsUnproved, Before, 2}}, 0, Unproved, "nothing that could be proved differs; 2 of 6 results are unproved (1 with other bytes): they depend on calls from before the recorded window", 1},
	} {
		var tally Tally
		for _, a := range c.adds {
			for range a.n {
				tally.Add(a.s, a.why)
			}
		}
		tally.OtherBytes = c.otherBytes
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

// The page that scripts are written by must list every reason.
func TestReasonsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	verdict, _, _ := strings.Cut(string(b), "\n## Addresses\n") // the section has a table of evidence
	var got []Reason
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (?:was|depends|is) ").FindAllStringSubmatch(verdict, -1) {
		got = append(got, Reason(m[1]))
	}
	if !slices.Equal(got, Reasons) {
		t.Errorf("docs/reference/replay.md lists %q, want %q", got, Reasons)
	}
}
