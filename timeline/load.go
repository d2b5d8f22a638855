package timeline

import (
	"sort"
	"sync"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Timeline is a whole trace with its meaning, in memory: for those who go through a small one in another order than that of time. A Walk
// is for all others.
type Timeline struct {
	Reader  *format.Reader
	Model   *api.Model
	Start   int64      // as those of a Walk
	End     int64      //
	Lanes   []Lane     //
	Calls   []HostCall // by start
	Tasks   []Task     // in the order of their calls
	Objects []*Object  // allocations, streams, events, functions …, by ID
	Ranges  []Range    // by their beginnings
	// Graphs are the tasks of graphs, in the order of their calls.
	Graphs map[*Object][]GraphTask

	stepsOnce sync.Once
	steps     Steps
}

// Load reads a whole trace. Its memory grows with the number of calls, about 110 bytes for each and 130 more for its task.
func Load(r *format.Reader, m *api.Model) (*Timeline, error) {
	w := NewWalk(r, m, nil)
	t := &Timeline{Reader: r, Model: m, Graphs: map[*Object][]GraphTask{}, Calls: make([]HostCall, 0, min(w.Calls, 1<<20))} // a file may claim any number
	err := w.Run(&Visitor{
		Call: func(h *HostCall, task *Task) error {
			t.Calls = append(t.Calls, *h)
			t.Calls[len(t.Calls)-1].Raw = nil
			if task != nil {
				t.Tasks = append(t.Tasks, *task)
			}
			return nil
		},
		Task:   func(k *Task) error { t.Tasks[k.Index] = *k; return nil },
		Object: func(o *Object) error { t.Objects = append(t.Objects, o); return nil },
		Range:  func(r *Range) error { t.Ranges = append(t.Ranges, *r); return nil },
		Graph:  func(o *Object, g Graph) error { t.Graphs[o] = g.Tasks(); return nil },
	})
	if err != nil {
		return nil, err
	}
	t.Start, t.End, t.Lanes = w.Start, w.End, w.Lanes
	return t, nil
}

// Steps are the steps of a trace, in the order of time.
type Steps struct {
	step.Rule
	List []step.Step
}

// At returns the index of the step that holds a moment, -1 for none.
func (s *Steps) At(t int64) int {
	i := sort.Search(len(s.List), func(i int) bool { return s.List[i].To > t })
	if i < len(s.List) && s.List[i].From <= t {
		return i
	}
	return -1
}

// Steps returns the steps that have ended. The first call reads the trace; it may be made from several goroutines.
func (t *Timeline) Steps() *Steps {
	t.stepsOnce.Do(func() {
		w := NewWalk(t.Reader, t.Model, nil)
		err := w.FindSteps()
		if err == nil {
			t.steps.Rule = *w.StepRule()
			err = w.Run(&Visitor{Step: func(s *step.Step) error {
				if !s.Open {
					t.steps.List = append(t.steps.List, *s)
				}
				return nil
			}})
		}
		if err != nil {
			t.steps = Steps{Rule: step.Rule{Source: step.None, Why: err.Error()}}
		}
	})
	return &t.steps
}
