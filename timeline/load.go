package timeline

import (
	"sort"
	"sync"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Timeline is a small trace in memory, for callers that do not go through it in the order of time. Other callers use a Walk.
type Timeline struct {
	Reader  *format.Reader
	Model   *api.Model
	Start   int64      // as in a Walk
	End     int64      //
	Lanes   []Lane     //
	Calls   []HostCall // by start
	Tasks   []Task     // in the order of their calls
	Objects []*Object  // allocations, streams, events, functions …, by ID
	Ranges  []Range    // by begin
	// Graphs are the tasks in each graph, in the order of their calls.
	Graphs map[*Object][]GraphTask

	stepsOnce sync.Once
	steps     Steps
}

// Load reads a whole trace. It needs about 110 bytes per call, and 130 more per task.
func Load(r *format.Reader, m *api.Model) (*Timeline, error) {
	w := NewWalk(r, m, nil)
	t := &Timeline{Reader: r, Model: m, Graphs: map[*Object][]GraphTask{}, Calls: make([]HostCall, 0, min(w.Calls, 1<<20))} // a file may claim any number of calls
	err := w.Run(&Visitor{
		Marks: true,
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

// Steps are the steps in a trace, in the order of time.
type Steps struct {
	step.Rule
	List []step.Step
}

// At returns the index of the step at a moment, -1 for none.
func (s *Steps) At(t int64) int {
	i := sort.Search(len(s.List), func(i int) bool { return s.List[i].To > t })
	if i < len(s.List) && s.List[i].From <= t {
		return i
	}
	return -1
}

// Steps returns the steps that have ended. The first call reads the trace. Several goroutines may call it.
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
