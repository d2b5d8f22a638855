package report_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// A trace's summary has each fact that the trace has, and what is missing.
func TestGoldenInfo(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"deep": testtrace.Deep(t), "rich": testtrace.Rich(t), "ranks": testtrace.Ranks(t), "nothing": testtrace.New(t).Load()} {
		in, err := report.NewInfo("run.aclt", tl.Reader, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := in.Text(&b, &report.TextOptions{Width: 120}); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "findings.txtar", "info "+name, b.String())
	}
}

// Two runs are compared in one sentence, with the changes that explain it.
func TestGoldenDiff(t *testing.T) {
	run := func(at int64, launches int) *timeline.Timeline {
		return testtrace.Steps(t, 12, launches, func(step, launch int) int64 {
			time := 2_000 + int64(10*step+launch*7%50)
			if launch%3 == 0 {
				time += at
			}
			return time
		})
	}
	same, slower, more := run(0, 12), run(9_000, 12), run(0, 15)
	for _, c := range []struct {
		name string
		b    *timeline.Timeline
		all  bool
		o    *diff.Options
	}{
		{"same", same, false, nil}, {"slower", slower, false, nil}, {"slower -v", slower, true, nil}, {"more launches", more, false, nil}, {"another program", testtrace.Deep(t), false, nil},
		{"selected", slower, false, &diff.Options{Select: &timeline.Selection{Funcs: []string{"*Launch*"}}}},
	} {
		d, err := diff.New(same.Reader, c.b.Reader, acl.Model, c.o)
		if err != nil {
			t.Fatal(err)
		}
		d.A.Path, d.B.Path = "a.aclt", "b.aclt"
		var b bytes.Buffer
		if err := report.DiffText(&b, d, c.all, &report.TextOptions{Width: 120}); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "findings.txtar", "diff "+c.name, b.String())
	}
}

// broken is a trace whose launch uses memory that was freed, and whose wait then fails.
func broken(t *testing.T) *timeline.Timeline {
	b := testtrace.New(t)
	at := int64(1000)
	call := func(name string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, at, at+100, name, args, mods...)
		at += 1000
	}
	call("aclrtSetDevice", testtrace.A(0))
	call("aclrtMalloc", testtrace.A(1, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	call("aclrtMalloc", testtrace.A(1, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceB))
	call("aclrtCreateStream", testtrace.A(1), testtrace.Outs("stream", testtrace.StreamA))
	call("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 4096, testtrace.HostA, 4096, 1, testtrace.StreamA))
	call("aclrtMemsetAsync", testtrace.A(testtrace.DeviceB, 4096, 7, 4096, testtrace.StreamA))
	call("aclrtFree", testtrace.A(testtrace.DeviceA))
	call("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceB, 4096, testtrace.DeviceA+64, 2048, 3, testtrace.StreamA))
	call("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507015))
	call("aclrtResetDevice", testtrace.A(0))
	return b.Load()
}

// The page about a failure names the failed call, the suspects with the evidence against them, and their memory.
func TestGoldenBlame(t *testing.T) {
	tl, o := broken(t), &report.TextOptions{Width: 120}
	seven := uint64(7)
	for name, c := range map[string]struct {
		tl *timeline.Timeline
		o  *blame.Options
	}{"a device error": {tl, nil}, "an address": {tl, &blame.Options{Addr: testtrace.DeviceA + 128}}, "deep": {testtrace.Deep(t), nil}, "rich": {testtrace.Rich(t), nil}} {
		rep, err := blame.Blame(c.tl.Reader, acl.Model, c.o)
		if err != nil {
			t.Fatal(err)
		}
		rep.Trace = "run.aclt"
		var b bytes.Buffer
		if err := report.BlameText(&b, rep, o); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "findings.txtar", "blame "+name, b.String())
	}
	for name, addr := range map[string]uint64{"freed": testtrace.DeviceA + 128, "live": testtrace.DeviceB, "unknown": 5} {
		x, err := blame.Where(tl.Reader, acl.Model, addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := report.WhereText(&b, "run.aclt", x, o); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "findings.txtar", "where "+name, b.String())
	}
	for name, o2 := range map[string]*blame.WhereOptions{"at the end": nil, "before a call": {Call: &seven}} {
		x, err := blame.MapAt(tl.Reader, acl.Model, o2)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := report.MapText(&b, "run.aclt", x, o); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "findings.txtar", "map "+name, b.String())
	}
}

// What a trace lacks is said in one line. Calls outside a window that somebody asked for are not lost.
func TestMissingPartsInOneLine(t *testing.T) {
	gaps := func(n ...uint64) (all []format.Gap) {
		for _, calls := range n {
			all = append(all, format.Gap{Calls: calls, Reason: format.Outdated})
		}
		return all
	}
	for _, c := range []struct {
		c    format.Completeness
		want string
	}{
		{format.Completeness{Window: format.WindowWhole}, ""},
		{format.Completeness{Window: format.WindowRing}, ""},
		{format.Completeness{Window: format.WindowRing, Outside: gaps(2, 3)}, "5 calls from before the ring's oldest call are not in the trace"},
		{format.Completeness{Window: format.WindowSteps, Outside: gaps(1)}, "1 call outside the chosen steps were not recorded"},
		{format.Completeness{Window: format.WindowAttached}, "calls before acltrace attached were not recorded"},
		{format.Completeness{Window: "later", Outside: gaps(7)}, "7 calls outside the window later were not recorded"},
	} {
		if got := report.Completeness(&c.c); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := report.Completeness(&format.Completeness{Window: format.WindowArmed, Recording: true}); !slices.Equal(strings.Split(got, "; ")[:2], []string{"calls while recording was off were not recorded", format.BeingRecorded}) {
		t.Errorf("%q", got)
	}
}
