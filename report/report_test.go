package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

func lines(t *testing.T, tl *timeline.Timeline, o *report.LineOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.Lines(&b, tl.Reader, acl.Model, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sums(t *testing.T, tl *timeline.Timeline, by string) *stats.Stats {
	t.Helper()
	s, err := stats.New(tl.Reader, acl.Model, &stats.Options{By: by})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReportsOfADeepTrace(t *testing.T) {
	tl := testtrace.Deep(t)
	testenv.Golden(t, "deep.txtar", "cat", lines(t, tl, nil))
	testenv.Golden(t, "deep.txtar", "cat --json", lines(t, tl, &report.LineOptions{JSON: true}))
	s := sums(t, tl, "")
	var b bytes.Buffer
	if err := report.StatsText(&b, "deep.aclt", s, nil); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "deep.txtar", "stats", b.String())
	for _, by := range stats.By {
		s := sums(t, tl, by)
		groups := s.Groups
		b.Reset()
		if err := report.Groups(&b, by, s, nil); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "deep.txtar", "stats --by "+by, b.String())
		b.Reset()
		list, err := report.NewGroupWriter(&b, by, true)
		for i := range groups {
			err = errors.Join(err, list.Group(&groups[i]))
		}
		if err := errors.Join(err, list.Close(s)); err != nil {
			t.Fatal(err)
		}
		testenv.Golden(t, "deep.txtar", "stats --csv --by "+by, b.String())
	}
	b.Reset()
	if err := report.StatsCSV(&b, s); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "deep.txtar", "stats --csv", b.String())
	if _, err := stats.New(tl.Reader, acl.Model, &stats.Options{By: "day"}); err == nil {
		t.Error("sums by day")
	}
}

// TestGoldenSteps has steps, idle times, measured device times, and names that are too long for a terminal.
func TestGoldenSteps(t *testing.T) {
	tl := testtrace.Steps(t, 6, 12, func(step, launch int) int64 {
		if step == 3 && launch == 5 {
			return 40_000
		}
		return 2_000 + int64(100*step+launch*7%50)
	})
	s := sums(t, tl, "step")
	var b bytes.Buffer
	o := &report.TextOptions{Width: 120}
	if err := report.StatsText(&b, "steps.aclt", s, o); err != nil {
		t.Fatal(err)
	}
	if err := report.Groups(&b, "step", s, o); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "steps.txtar", "stats, and stats --by step", b.String())
	for _, l := range strings.Split(b.String(), "\n") {
		if len(l) > 120 {
			t.Errorf("%d columns: %s", len(l), l)
		}
	}
	j, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "steps.txtar", "stats --json", string(j)+"\n")
	var text, paths bytes.Buffer
	list, err := report.NewPathWriter(&paths)
	if err != nil {
		t.Fatal(err)
	}
	var third *path.Path
	p, err := path.New(tl.Reader, acl.Model, &path.Options{Each: func(p *path.Path) error {
		if p.Step.Index != 3 {
			return nil
		}
		third = p.Clone()
		return list.Path(p)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(list.Close(p), report.PathsText(&text, "steps.aclt", p, nil, nil), report.PathsText(&text, "steps.aclt", p, third, nil)); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(paths.Bytes()) {
		t.Errorf("not JSON: %s", &paths)
	}
	testenv.Golden(t, "steps.txtar", "stats --critical-path, and --step 3", text.String())
	testenv.Golden(t, "steps.txtar", "stats --critical-path --json --step 3", paths.String())
}

func TestChosenCalls(t *testing.T) {
	tl := testtrace.Deep(t)
	for _, c := range []struct {
		name string
		o    report.LineOptions
		want []string // call numbers
	}{
		{"task", report.LineOptions{Selection: timeline.Selection{Task: &report.TaskID{Stream: 47, Task: 1564<<16 | 23064}}}, []string{"6"}},
		{"no such task", report.LineOptions{Selection: timeline.Selection{Task: &report.TaskID{Stream: 46, Task: 3}}}, nil},
		{"a call without a task has not task 0", report.LineOptions{Selection: timeline.Selection{Task: &report.TaskID{}}}, nil},
		{"tail", report.LineOptions{Tail: 2}, []string{"12", "13"}},
		{"tail of few", report.LineOptions{Tail: 20, Selection: timeline.Selection{Funcs: []string{"aclrtMalloc"}}}, []string{"1", "13"}},
		{"tail of one function", report.LineOptions{Tail: 1, Selection: timeline.Selection{Funcs: []string{"aclrtLaunchKernel"}}}, []string{"9"}},
		{"thread", report.LineOptions{Selection: timeline.Selection{Thread: 4011}}, []string{"13"}},
	} {
		var got []string
		for _, l := range strings.Split(strings.TrimSpace(lines(t, tl, &c.o)), "\n") {
			if f := strings.Fields(l); len(f) > 0 {
				got = append(got, f[0])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: calls %v, want %v", c.name, got, c.want)
		}
	}
}

func TestParseTaskID(t *testing.T) {
	for s, want := range map[string]report.TaskID{
		"47:12": {Stream: 47, Task: 12}, "47:1564:23064": {Stream: 47, Task: 1564<<16 | 23064}, "1:4294967295": {Stream: 1, Task: 1<<32 - 1}, "0x2f:0:3": {Stream: 47, Task: 3},
	} {
		if got, err := report.ParseTaskID(s); err != nil || *got != want {
			t.Errorf("%s is %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "47", "47:", "47:x", "1:65536:1", "1:2:3:4", "4294967296:1", "1:-1"} {
		if got, err := report.ParseTaskID(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestStatsOfADeepTrace(t *testing.T) {
	s := sums(t, testtrace.Deep(t), "")
	if s.PeakDeviceBytes != 1<<19+1<<20 || s.Peak == nil || s.Peak.Call != 13 || s.Peak.Func != "aclrtMalloc" || s.Peak.Time != 31000 {
		t.Errorf("peak %d, %+v", s.PeakDeviceBytes, s.Peak)
	}
	if want := []stats.HiddenSync{{Func: "aclrtMemcpyAsync", Name: "copy DtoH", Count: 1, Bytes: 64, HostNS: 900, First: 11}}; !slices.Equal(s.HiddenSyncs, want) {
		t.Errorf("hidden synchronizations %+v", s.HiddenSyncs)
	}
	if want := []stats.Retry{{Kernel: "Add<1>", Code: 107017, Name: acl.Model.ErrorName(107017), Count: 1, First: 7}}; !slices.Equal(s.Retries, want) {
		t.Errorf("retries %+v", s.Retries)
	}
	i := slices.IndexFunc(s.Streams, func(l stats.Lane) bool { return l.Stream == "stream 1" })
	// From the first task at 9000 to the end of the synchronization at 30000, which waited 14000.
	if l := s.Streams[i]; l.BusyAtMostNS != 21000 || l.IdleAtLeastNS != 0 || l.WaitedNS != 14000 || l.Bound != "device" || l.Device != 0 {
		t.Errorf("%+v", l)
	}
}

// TestHostBound has a stream that waits for the host.
func TestHostBound(t *testing.T) {
	b := testtrace.New(t)
	for i := range int64(3) {
		b.Call(0, 1000+i*10000, 1100+i*10000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		b.Call(0, 1200+i*10000, 2000+i*10000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	}
	s := sums(t, b.Load(), "")
	if l := s.Streams[0]; l.Bound != "host" || l.BusyAtMostNS != 3000 || l.IdleAtLeastNS != 18000 || l.WaitedNS != 2400 {
		t.Errorf("%+v", l)
	}
	if s.Peak != nil {
		t.Errorf("a peak of nothing: %+v", s.Peak)
	}
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"peak":null`, `"hidden_synchronizations":[]`, `"retries":[]`, `"bound":"host"`, `"peak_device_bytes":0`} {
		if !strings.Contains(string(j), key) {
			t.Errorf("no %s in %s", key, j)
		}
	}
}

// Steps one by one equal the steps in the list, and Top selects the longest ones.
func TestTopSelectsTheLongestSteps(t *testing.T) {
	tl := testtrace.Steps(t, 60, 4, func(step, launch int) int64 { return 1_000 + int64(step*37%61) })
	all := sums(t, tl, "step").Groups
	var b bytes.Buffer
	list, err := report.NewGroupWriter(&b, "step", false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stats.New(tl.Reader, acl.Model, &stats.Options{By: "step", Step: list.Group})
	if err != nil || len(s.Groups) != 1 || s.Groups[0].Name != "no step" {
		t.Fatalf("%v %+v", err, s)
	}
	if err := errors.Join(list.Group(&s.Groups[0]), list.Close(s)); err != nil {
		t.Fatal(err)
	}
	var got struct {
		By       string
		Groups   []stats.Group
		Complete bool
		Window   string
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.By != "step" || !got.Complete || got.Window != "whole" || len(got.Groups) != len(all) || len(all) != 61 {
		t.Fatalf("%v, %d of %d groups: %s", err, len(got.Groups), len(all), b.String())
	}
	for i := range all {
		if fmt.Sprintf("%+v", plain(got.Groups[i])) != fmt.Sprintf("%+v", plain(all[i])) {
			t.Errorf("%+v, want %+v", got.Groups[i], all[i])
		}
	}
	const top = 7
	s, err = stats.New(tl.Reader, acl.Model, &stats.Options{By: "step", Top: top})
	if err != nil || len(s.Groups) != top+2 || s.Groups[top].Name != "53 others" {
		t.Fatalf("%v, %d groups", err, len(s.Groups))
	}
	var calls uint64
	least := int64(math.MaxInt64)
	for i, g := range s.Groups {
		calls += g.Calls
		if i < top {
			least = min(least, g.SpanNS)
		}
	}
	if calls != s.Calls {
		t.Errorf("%d of %d calls", calls, s.Calls)
	}
	longer := 0
	for _, g := range all {
		if g.SpanNS > least {
			longer++
		}
	}
	if longer >= top {
		t.Errorf("%d steps took longer than the shortest of the %d longest", longer, top)
	}
}

// plain formats a group without its position in a list.
func plain(g stats.Group) string {
	b, err := json.Marshal(g)
	return fmt.Sprint(string(b), err)
}

// info reported "0 blobs, 0 B" for a trace whose data is stored in the calls.
func TestInfoCountsDataAmongCalls(t *testing.T) {
	r, err := format.Open(filepath.Join("..", "testdata", "traces", "v1.0.aclt"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := uint64(0)
	for _, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	in, err := report.NewInfo(r.Path(), r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 || in.Payload.Pieces != n || in.Payload.Blobs >= n {
		t.Errorf("%+v of a trace with %d pieces of data", in.Payload, n)
	}
}

// The line about a complete trace says what it is complete of. It said "yes" beside lines about functions and processes that were not recorded.
func TestInfoSaysOfWhatATraceIsComplete(t *testing.T) {
	of := func(c report.InfoCoverage, complete bool) string {
		in := &report.Info{Coverage: c, Scope: format.Scope{Complete: complete, Window: format.WindowWhole}}
		var b bytes.Buffer
		if err := in.Text(&b, nil); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if rest, ok := strings.CutPrefix(line, "complete"); ok {
				return strings.TrimSpace(rest)
			}
		}
		return ""
	}
	called, asked := map[string]uint64{"aclNew": 2, "aclOther": 1, "drvAsked": 1}, []string{"drvAsked"}
	unseen := []format.Unhooked{{Exe: "static"}}
	for want, c := range map[string]report.InfoCoverage{
		"yes": {PassedBy: map[string]uint64{"drvAsked": 1}, AskedFor: asked},
		"yes: every call of the functions that acltrace knows; calls of 2 others are counted by name":                                         {PassedBy: called, AskedFor: asked},
		"in part: every call of the functions that acltrace knows; 1 program or library file not seen":                                        {Unhooked: unseen},
		"in part: every call of the functions that acltrace knows; calls of 2 others are counted by name; 1 program or library file not seen": {PassedBy: called, AskedFor: asked, Unhooked: unseen},
	} {
		if got := of(c, true); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
		if got := of(c, false); strings.HasPrefix(got, "yes") {
			t.Errorf("not complete: %q", got)
		}
	}
}
