package report_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
	"github.com/rogpeppe/go-internal/txtar"
)

const (
	dev    = 0x124000000000
	pinned = 0x7f0000001000
	heap   = 0x55550000
	stream = 0x5501
	fn     = 0x6601
)

func le(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

func reads(name string, item uint32, b []byte) testtrace.Mod {
	return func(f *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param(name)), Item: item, Len: uint64(len(b)), Bytes: b, Time: c.Start})
	}
}

func task(stream, id uint64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: timeline.TaskParam, Value: stream<<32 | id})
	}
}

// deep is a trace with every structure that reports show; its story is in testdata/deep.txtar.
func deep(t *testing.T) *timeline.Timeline {
	b := testtrace.New(t)
	b.Call(0, 1000, 2000, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3000, 4000, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<19, 0), testtrace.Outs("devPtr", dev))
	b.Call(0, 4500, 4600, "aclrtMallocHost", testtrace.A(0x7ffe0000, 4096), testtrace.Outs("hostPtr", pinned))
	b.Call(0, 5000, 6000, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", stream))
	b.Call(0, 7000, 8000, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", "Add<1>"), testtrace.Outs("funcHandle", fn))
	b.Call(0, 9000, 9500, "aclrtMemcpyAsync", testtrace.A(dev, 16, pinned, 16, 1, stream), reads("src", 0, le([]uint64{dev + 64, 7})), task(47, 1))
	attrs := slices.Concat(le(uint32(1)), le(uint64(1)), make([]byte, 8), le(uint32(2)), le(uint64(4096)), make([]byte, 8), le(uint32(77)), le([]uint64{0xaa, 0xbb}))
	b.Call(0, 10000, 10500, "aclrtLaunchKernelV2", testtrace.A(fn, 8, dev, 16, 0x30, stream), reads("cfg", 0, attrs), task(47, 1564<<16|23064))
	b.Call(0, 11000, 11500, "aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 4, stream, 0, 0x40, 80, 0x50, 2), testtrace.Fails(107017),
		reads("hostArgs", 0, le(make([]uint64, 10))), reads("placeHolderArray", 0, le([]uint32{8, 32, 16, 64})))
	b.Call(0, 12000, 12500, "aclrtLaunchKernelWithHostArgs", testtrace.A(fn, 4, stream, 0, 0x40, 80, 0x50, 2),
		reads("hostArgs", 0, le([]uint64{dev, 1, 2, 3, 4, 5, 6, 7, 8, 9})), reads("placeHolderArray", 0, le([]uint32{8, 32, 16, 64})))
	b.Call(0, 13000, 13500, "aclrtLaunchKernel", testtrace.A(fn, 2, dev, 16, stream), task(47, 3))
	b.Call(0, 14000, 14700, "aclrtMemcpyBatch", testtrace.A(1, 2, 3, 4, 3, 0, 0, 0, 0), reads("dsts", 0, le([]uint64{dev + 0x10000, dev + 0x18000, dev + 0x20000})),
		reads("srcs", 0, le([]uint64{heap, heap + 64, heap + 128})), reads("sizes", 0, le([]uint64{32768, 32768, 32768})))
	b.Call(0, 15000, 15900, "aclrtMemcpyAsync", testtrace.A(heap, 64, dev, 64, 2, stream))
	b.Call(0, 16000, 30000, "aclrtSynchronizeStream", testtrace.A(stream))
	b.Call(1, 31000, 31500, "aclrtMalloc", testtrace.A(0x7ffe0000, 1<<20, 0), testtrace.Outs("devPtr", 0x124000100000))
	return b.Load()
}

// golden compares with a file of a txtar archive; UPDATE_GOLDEN=1 writes it anew.
func golden(t *testing.T, archive, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", archive)
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if i < 0 {
			a.Files = append(a.Files, txtar.File{Name: name})
			i = len(a.Files) - 1
		}
		a.Files[i].Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if i < 0 || string(a.Files[i].Data) != got {
		t.Errorf("%s of %s is\n%s", name, path, got)
	}
}

func lines(t *testing.T, tl *timeline.Timeline, o *report.LineOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.Lines(&b, tl.Reader, acl.Model, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func stats(t *testing.T, tl *timeline.Timeline, by string) *report.Stats {
	t.Helper()
	s, err := report.NewStats(tl.Reader, acl.Model, &report.StatsOptions{By: by})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGolden(t *testing.T) {
	tl := deep(t)
	golden(t, "deep.txtar", "cat", lines(t, tl, nil))
	golden(t, "deep.txtar", "cat --json", lines(t, tl, &report.LineOptions{JSON: true}))
	s := stats(t, tl, "")
	var b bytes.Buffer
	if err := s.Text(&b, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "deep.txtar", "stats", b.String())
	for _, by := range report.By {
		groups := stats(t, tl, by).Groups
		b.Reset()
		if err := report.Groups(&b, by, groups, nil); err != nil {
			t.Fatal(err)
		}
		golden(t, "deep.txtar", "stats --by "+by, b.String())
		b.Reset()
		list, err := report.NewGroupWriter(&b, by, true)
		for i := range groups {
			err = errors.Join(err, list.Group(&groups[i]))
		}
		if err := errors.Join(err, list.Close()); err != nil {
			t.Fatal(err)
		}
		golden(t, "deep.txtar", "stats --csv --by "+by, b.String())
	}
	b.Reset()
	if err := s.CSV(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "deep.txtar", "stats --csv", b.String())
	if _, err := report.NewStats(tl.Reader, acl.Model, &report.StatsOptions{By: "day"}); err == nil {
		t.Error("sums by day")
	}
}

// TestGoldenSteps has steps, idle times, device times that were measured, and names that are too long for a terminal.
func TestGoldenSteps(t *testing.T) {
	tl := testtrace.Steps(t, 6, 12, func(step, launch int) int64 {
		if step == 3 && launch == 5 {
			return 40_000
		}
		return 2_000 + int64(100*step+launch*7%50)
	})
	s := stats(t, tl, "step")
	var b bytes.Buffer
	if err := s.Text(&b, nil); err != nil {
		t.Fatal(err)
	}
	if err := report.Groups(&b, "step", s.Groups, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "steps.txtar", "stats, and stats --by step", b.String())
	for _, l := range strings.Split(b.String(), "\n") {
		if len(l) > 120 {
			t.Errorf("%d columns: %s", len(l), l)
		}
	}
	j, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "steps.txtar", "stats --json", string(j)+"\n")
}

func TestChosenCalls(t *testing.T) {
	tl := deep(t)
	for _, c := range []struct {
		name string
		o    report.LineOptions
		want []string // numbers of the calls
	}{
		{"task", report.LineOptions{Task: &report.TaskID{Stream: 47, Task: 1564<<16 | 23064}}, []string{"6"}},
		{"no such task", report.LineOptions{Task: &report.TaskID{Stream: 46, Task: 3}}, nil},
		{"a call without a task has not task 0", report.LineOptions{Task: &report.TaskID{}}, nil},
		{"tail", report.LineOptions{Tail: 2}, []string{"12", "13"}},
		{"tail of few", report.LineOptions{Tail: 20, Funcs: []string{"aclrtMalloc"}}, []string{"1", "13"}},
		{"tail of one function", report.LineOptions{Tail: 1, Funcs: []string{"aclrtLaunchKernel"}}, []string{"9"}},
		{"thread", report.LineOptions{TID: 4011}, []string{"13"}},
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

func TestStats(t *testing.T) {
	s := stats(t, deep(t), "")
	if s.PeakDeviceBytes != 1<<19+1<<20 || s.Peak == nil || s.Peak.Call != 13 || s.Peak.Func != "aclrtMalloc" || s.Peak.Time != 31000 {
		t.Errorf("peak %d, %+v", s.PeakDeviceBytes, s.Peak)
	}
	if want := []report.HiddenSync{{Func: "aclrtMemcpyAsync", Name: "copy DtoH", Count: 1, Bytes: 64, HostNS: 900, First: 11}}; !slices.Equal(s.HiddenSyncs, want) {
		t.Errorf("hidden synchronizations %+v", s.HiddenSyncs)
	}
	if want := []report.RetryStats{{Kernel: "Add<1>", Code: 107017, Name: acl.Model.ErrorName(107017), Count: 1, First: 7}}; !slices.Equal(s.Retries, want) {
		t.Errorf("retries %+v", s.Retries)
	}
	i := slices.IndexFunc(s.Streams, func(l report.LaneStats) bool { return l.Stream == "stream 1" })
	// From the first task at 9000 to the synchronization's end at 30000, which has waited for 14000.
	if l := s.Streams[i]; l.BusyAtMostNS != 21000 || l.IdleAtLeastNS != 0 || l.WaitedNS != 14000 || l.Bound != "device" || l.Device != 0 {
		t.Errorf("%+v", l)
	}
}

// TestHostBound has a stream wait for the host.
func TestHostBound(t *testing.T) {
	b := testtrace.New(t)
	for i := range int64(3) {
		b.Call(0, 1000+i*10000, 1100+i*10000, "aclrtLaunchKernel", testtrace.A(fn, 1, dev, 0, stream))
		b.Call(0, 1200+i*10000, 2000+i*10000, "aclrtSynchronizeStream", testtrace.A(stream))
	}
	s := stats(t, b.Load(), "")
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

// Steps one by one are the steps of the list, and the longest are those of it that took longest.
func TestSteps(t *testing.T) {
	tl := testtrace.Steps(t, 60, 4, func(step, launch int) int64 { return 1_000 + int64(step*37%61) })
	all := stats(t, tl, "step").Groups
	var b bytes.Buffer
	list, err := report.NewGroupWriter(&b, "step", false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := report.NewStats(tl.Reader, acl.Model, &report.StatsOptions{By: "step", Step: list.Group})
	if err != nil || len(s.Groups) != 1 || s.Groups[0].Name != "no step" {
		t.Fatalf("%v %+v", err, s)
	}
	if err := errors.Join(list.Group(&s.Groups[0]), list.Close()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		By     string
		Groups []report.Group
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.By != "step" || len(got.Groups) != len(all) || len(all) != 61 {
		t.Fatalf("%v, %d of %d groups: %s", err, len(got.Groups), len(all), b.String())
	}
	for i := range all {
		if fmt.Sprintf("%+v", plain(got.Groups[i])) != fmt.Sprintf("%+v", plain(all[i])) {
			t.Errorf("%+v, want %+v", got.Groups[i], all[i])
		}
	}
	const top = 7
	s, err = report.NewStats(tl.Reader, acl.Model, &report.StatsOptions{By: "step", Top: top})
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

// plain is a group without its place in a list.
func plain(g report.Group) string {
	b, err := json.Marshal(g)
	return fmt.Sprint(string(b), err)
}

// Of a trace with its results among the calls, info said that it had "0 blobs, 0 B" of the program's data.
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
