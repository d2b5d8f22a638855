package path

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	tt "github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// BenchmarkFinder finds the paths of steps of 400 launches, without the walk. In every other step the host is slower than the device.
func BenchmarkFinder(b *testing.B) {
	p := newProgram(b)
	now, end := int64(1000), int64(0)
	for n := range 50 {
		p.Call(0, now, now+10, "mstxRangeStartA", tt.A(0x10, 0), tt.Text("message", fmt.Sprint("step ", n)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(n + 1) })
		for i := range 400 {
			now += 150
			start := max(end+10, now+110)
			end = start + int64(40+200*(n%2))
			p.launch(0, now, now+100, string("abc"[i%3]), tt.StreamA, measured(start, end))
		}
		p.Call(0, now+120, end+20, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		now = end + 100
		p.Call(0, now, now+10, "mstxRangeEnd", tt.A(uint64(n+1)))
		now += 50
	}
	tl := p.Load()
	w := timeline.NewWalk(tl.Reader, acl.Model, nil)
	if err := w.FindSteps(); err != nil {
		b.Fatal(err)
	}
	var events []func(f *Finder)
	err := w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			call, task := *h, (*timeline.Task)(nil)
			if k != nil {
				t := *k
				task = &t
			}
			made := w.Links()
			events = append(events, func(f *Finder) { f.Call(&call, task, made, 0) })
			return nil
		},
		Step: func(s *step.Step) error {
			ended := *s
			events = append(events, func(f *Finder) { f.Step(&ended).Entries(5) })
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	for name, saves := range map[string]bool{"paths": false, "savings": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			calls, began := 0, testenv.CPUTime()
			for b.Loop() {
				f := NewFinder(w)
				f.saves = saves
				for _, e := range events {
					e(f)
				}
				calls += len(tl.Calls)
			}
			b.ReportMetric(float64((testenv.CPUTime()-began).Nanoseconds())/float64(calls), "cpu-ns/call")
		})
	}
}
