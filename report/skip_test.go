package report_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// blocks writes a trace with many chunks. Streams come and go, events are older than the trace, and most chunks have
// only launches.
func blocks(t *testing.T, schema *format.Schema) *format.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.aclt")
	w, err := format.Create(path, &format.Meta{API: acl.Model.Name}, schema, nil)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	_, err = w.Process(format.Process{PID: 7})
	check(err)
	for tid := range 2 {
		_, err = w.Thread(format.Thread{TID: 70 + tid})
		check(err)
	}
	now, made := int64(0), uint64(0)
	call := func(thread uint32, name string, args []uint64, outs ...format.Out) {
		f := acl.Model.Lookup(name)
		c := &format.Call{Func: uint16(f.ID), Thread: thread, Start: now, End: now + 10, Args: make([]uint64, f.Words), Outs: outs}
		copy(c.Args, args)
		now += 20
		_, err := w.Call(c)
		check(err)
	}
	streams := []uint64{0x5000, 0x5100, 0x5200}
	for _, s := range streams {
		call(0, "aclrtCreateStream", []uint64{1}, format.Out{Param: 0, Value: s})
	}
	for block := range 60 {
		check(w.Flush())
		s := streams[block/7%3]
		for i := range 20 {
			made++
			call(uint32(block%2), "aclrtLaunchKernel", []uint64{0x6000 + uint64(block/20), 8, 0, 0, s}, format.Out{Param: format.TaskParam, Value: 3<<32 | made})
			if block == 33 && i == 5 {
				call(0, "aclrtRecordEvent", []uint64{0x7000, s}) // an event from before the trace
			}
		}
		if block%25 == 24 {
			call(0, "aclrtDestroyStream", []uint64{streams[1]})
			call(0, "aclrtCreateStream", []uint64{1}, format.Out{Param: 0, Value: streams[1]})
		}
	}
	check(w.Close())
	r, err := format.Open(path, nil)
	check(err)
	t.Cleanup(func() { r.Close() })
	return r
}

// cat shows the same lines for a window as for the whole trace, though it reads few chunks.
func TestWindowShowsTheSameLines(t *testing.T) {
	indexed := schema.Of(acl.Model)
	plain := schema.Of(acl.Model)
	plain.Handles = nil
	for i := range plain.Functions {
		for k := range plain.Functions[i].Params {
			plain.Functions[i].Params[k].Handle = 0
		}
	}
	fast, slow := blocks(t, indexed), blocks(t, plain)
	for name, o := range map[string]report.LineOptions{
		"all": {}, "window": {Selection: timeline.Selection{From: 10000, To: 11000}}, "late window": {Selection: timeline.Selection{From: 23000}},
		"stream": {Selection: timeline.Selection{Stream: 2}}, "stream made anew": {Selection: timeline.Selection{Stream: 6}}, "thread": {Selection: timeline.Selection{Thread: 71}},
		"function": {Selection: timeline.Selection{Funcs: []string{"aclrtRecordEvent"}}}, "task": {Selection: timeline.Selection{Task: &report.TaskID{Stream: 3, Task: 777}}},
		"calls": {Selection: timeline.Selection{Calls: &human.Numbers{First: 700, Last: 790}}}, "first calls": {Selection: timeline.Selection{From: 10000, Most: 7}},
		"kernel": {Selection: timeline.Selection{Kernels: []string{"*"}, From: 10000}}, "tail": {Tail: 30}, "tail of a thread": {Tail: 3, Selection: timeline.Selection{Thread: 70}},
	} {
		for _, asJSON := range []bool{false, true} {
			o.JSON = asJSON
			var got, want bytes.Buffer
			if err := report.Lines(&got, fast, acl.Model, &o); err != nil {
				t.Fatal(err)
			}
			if err := report.Lines(&want, slow, acl.Model, &o); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() || got.Len() == 0 {
				t.Errorf("%s: got\n%swant\n%s", name, got.String(), want.String())
			}
		}
	}
}

// A State needs few chunks from before a window.
func TestSkipReadsLittle(t *testing.T) {
	r := blocks(t, schema.Of(acl.Model))
	read := 0
	s := timeline.NewState(acl.Model)
	skip := s.Skipper(r)
	for c, err := range r.CallsByStart(&format.Filter{Chunk: func(c *format.ChunkInfo) bool {
		if skip.Skip(c) {
			return false
		}
		read++
		return true
	}}) {
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(0, c)
	}
	// First launches by kernel and stream, those with a new event, and those with temporary streams.
	if read < 5 || read > 20 {
		t.Errorf("%d chunks read for the state alone", read)
	}
}

// A tail equals the last lines of the whole list, even if they are early in the trace. The progress reaches its end.
func TestTailEqualsTheLastLines(t *testing.T) {
	r := blocks(t, schema.Of(acl.Model))
	lines := func(o report.LineOptions) []string {
		done, total := -1, 0
		o.Progress = func(d, t int) { done, total = d, t }
		var b bytes.Buffer
		if err := report.Lines(&b, r, acl.Model, &o); err != nil {
			t.Fatal(err)
		}
		if done != total || total == 0 {
			t.Errorf("%+v: the progress ends at %d of %d", o, done, total)
		}
		return strings.SplitAfter(b.String(), "\n")
	}
	for name, o := range map[string]report.LineOptions{
		"all": {}, "function": {Selection: timeline.Selection{Funcs: []string{"aclrtRecordEvent"}}}, "old stream": {Selection: timeline.Selection{Stream: 2}},
		"thread": {Selection: timeline.Selection{Thread: 71}}, "until": {Selection: timeline.Selection{To: 5000}}, "window": {Selection: timeline.Selection{From: 3000, To: 5000}},
		"calls": {Selection: timeline.Selection{Calls: &human.Numbers{First: 700, Last: 790}}},
	} {
		all := lines(o)
		for _, n := range []int{1, 7, 300, 100000} {
			o.Tail = n
			want := all[max(0, len(all)-1-n):] // the last element is empty
			if got := lines(o); !slices.Equal(got, want) {
				t.Errorf("%s: the last %d are %d lines, want %d", name, n, len(got)-1, len(want)-1)
			}
		}
	}
}
