package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/story"
)

// A Scan tells what a Load has, each thing when it is known: a task ends once, after its call, in the order of its lane.
func TestScan(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"small": story.Small(t), "long": story.Long(t, 6_000)} {
		t.Run(name, func(t *testing.T) {
			var calls []timeline.HostCall
			var tasks []timeline.Task
			ended := make([]*timeline.Span, len(tl.Tasks))
			last := map[int]int{}
			open, most := 0, 0
			totals, err := timeline.Scan(tl.Reader, acl.Model, &timeline.Visitor{
				Call: func(h *timeline.HostCall, k *timeline.Task) {
					calls = append(calls, *h)
					if (k != nil) != (h.Task >= 0) {
						t.Fatalf("call %d has task %d and %v", h.Index, h.Task, k)
					}
					if k != nil {
						open++
						tasks = append(tasks, *k)
					}
				},
				Ended: func(i int, s *timeline.Span) {
					most = max(most, open)
					open--
					if i >= len(tasks) || ended[i] != nil {
						t.Fatalf("task %d of %d has ended: %+v after %+v", i, len(tasks), s, ended[i])
					}
					if i < last[s.Lane] {
						t.Errorf("task %d has ended after %d on lane %d", i, last[s.Lane], s.Lane)
					}
					last[s.Lane] = i
					one := *s
					ended[i] = &one
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range tasks {
				if ended[i] == nil {
					t.Fatalf("task %d has not ended", i)
				}
				tasks[i].From, tasks[i].To, tasks[i].Open = ended[i].From, ended[i].To, ended[i].Open
			}
			if open != 0 || len(calls) != len(tl.Calls) || len(tasks) != len(tl.Tasks) || totals.End != tl.End || totals.Start != tl.Calls[0].Start {
				t.Fatalf("%d calls, %d tasks, %d open, %d to %d", len(calls), len(tasks), open, totals.Start, totals.End)
			}
			for i := range tasks {
				a, b := tasks[i], tl.Tasks[i]
				a.Object, b.Object = nil, nil // of two readings
				if a != b {
					t.Errorf("task %d is %+v, want %+v", i, a, b)
				}
			}
			for i := range calls {
				if calls[i] != tl.Calls[i] {
					t.Errorf("call %d is %+v, want %+v", i, calls[i], tl.Calls[i])
				}
			}
			t.Logf("%d tasks, at most %d not ended", len(tasks), most)
		})
	}
}
