package timeline_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// A tool that collects no marks gives every range the number 0. Such ranges had no end, so they were no steps.
func TestRangesWithoutNumbers(t *testing.T) {
	b := testtrace.New(t)
	at := int64(1000)
	call := func(thread uint32, f string, args []uint64, mods ...testtrace.Mod) {
		b.Call(thread, at, at+10, f, args, mods...)
		at += 100
	}
	begin := func(thread uint32, name string) {
		call(thread, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", name))
	}
	end := func(thread uint32) { call(thread, "mstxRangeEnd", testtrace.A(0)) }
	end(0) // of a range before the trace
	begin(0, "never ended")
	for i := range 3 {
		begin(0, fmt.Sprint("step ", i))
		begin(1, fmt.Sprint("load ", i))
		begin(0, fmt.Sprint("forward ", i))
		end(1)
		end(0)
		end(0)
	}
	tl := b.Load()
	want := map[string]int64{"never ended": -1}
	for i := range 3 {
		want[fmt.Sprint("step ", i)], want[fmt.Sprint("load ", i)], want[fmt.Sprint("forward ", i)] = 510, 210, 210
	}
	check := func(how string, ranges []timeline.Range) {
		got := map[string]int64{}
		for _, r := range ranges {
			if got[r.Name] = r.To - r.From; r.Open {
				got[r.Name] = -1
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", how, got, want)
		}
	}
	check("in whole", tl.Ranges)
	delete(want, "never ended") // a live walk reports ranges at their ends
	var seen []timeline.Range
	live := timeline.NewLiveWalk(acl.Model, &timeline.Visitor{Range: func(r *timeline.Range) error { seen = append(seen, *r); return nil }}, nil)
	for _, th := range tl.Reader.Threads() {
		live.Thread(th)
	}
	for c, err := range tl.Reader.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if err := live.Call(c); err != nil {
			t.Fatal(err)
		}
	}
	check("live", seen)
}
