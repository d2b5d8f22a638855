package report_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// A step was listed without the times between its calls, so that a stall of 80 ms looked like any other line.
func TestLinesShowGaps(t *testing.T) {
	b := testtrace.New(t)
	call := func(thread uint32, from, to int64) {
		b.Call(thread, from, to, "aclrtGetDevice", testtrace.A(0x7ffe0000))
	}
	call(0, 1_000, 2_000)
	call(1, 1_500, 9_000)
	call(0, 5_000, 6_000)
	call(1, 10_000, 11_000)
	call(0, 80_006_000, 80_007_000)
	call(2, 80_008_000, 80_009_000)
	r := b.Load().Reader
	list := func(o *report.LineOptions) string {
		var out bytes.Buffer
		if err := report.Lines(&out, r, acl.Model, o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	period := timeline.Selection{Calls: &human.Numbers{First: 1, Last: 5}}
	var got []string
	for line := range strings.Lines(list(&report.LineOptions{Selection: period})) {
		gap := regexp.MustCompile(`\+\S+ \w+`).FindString(line)
		got = append(got, gap)
	}
	if want := []string{"", "+3.00 us", "+1.00 us", "+80.0 ms", ""}; !slices.Equal(got, want) {
		t.Errorf("gaps %q, want %q", got, want)
	}
	if text := list(&report.LineOptions{Selection: period, JSON: true}); strings.Count(text, `"gap_ns"`) != 3 || !strings.Contains(text, `"gap_ns":80000000,`) {
		t.Error(text)
	}
	if text := list(&report.LineOptions{Selection: timeline.Selection{Funcs: []string{"aclrtGetDevice"}}}); strings.Contains(text, "+") || strings.Count(text, "\n") != 6 {
		t.Error(text)
	}
}
