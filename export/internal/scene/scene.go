// Package scene draws a trace as slices on rows over time, for the Perfetto and Chrome exporters. It chooses the row,
// name and arguments for every call, task, range, step and gap, and every counter's points, so that all viewers show
// the same.
//
// On a host row slices nest: the next slice lies within an open one or starts after it. On a device row slices do not
// overlap. Slices that break the rule go to a further row: calls that continue after one that never returned, and
// measured tasks that overlap, if clocks jitter. If they overlap more than MaxRows deep, the rest become moments
// (Slice.Moment) on one row.
//
// A lane has one row for all its bracketed tasks, apart from the measured ones. Brackets that end at one wait overlap, so a
// bracketed task is drawn from its earliest begin to the earliest begin of the next one. An argument has the end of its
// bracket.
//
// An exporter calls New, then Walk once, from one goroutine. A Scene only reads the trace. Its memory grows with
// threads, streams and distinct names, not with calls. It writes no output.
package scene

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Options select the events; nil means everything.
type Options struct {
	// Select chooses the calls, and their tasks. From and To apply to tasks by their own times. Events that overlap the
	// window are drawn whole.
	Select   *timeline.Selection
	NoArgs   bool                  // leave out call arguments
	Progress func(done, total int) // called now and then with the call count
}

// ArgKind is an Arg's type.
type ArgKind uint8

// The argument types.
const (
	Int ArgKind = iota
	Uint
	Pointer
	Text
	True
	Handle // of an object; Scene.AppendHandle names it. The first objects are Text instead
)

// Arg is a named slice property.
type Arg struct {
	Value uint64 // a number, a pointer, a text's Sym, or an object; 0 for True
	Key   Sym
	Kind  ArgKind
}

// Slice is a named interval or moment on a row. It is valid until the viewer returns.
type Slice struct {
	Row      *Row
	Name     Sym
	Numbered bool // the name ends with Number, see Scene.AppendName
	Number   int
	Category Sym
	From, To int64  // nanoseconds since the trace began, From <= To
	Moment   bool   // a point: From equals To
	Flow     uint64 // arrow that starts or ends here, 0 if none; normally from a call to its task, reversed if the device clock puts the task first
	FlowEnd  bool   // the arrow ends here
	Args     []Arg
	Task     *timeline.Task     // nil unless a task
	Call     *timeline.HostCall // nil unless a call
}

// Viewer receives the drawing. An error ends the walk.
type Viewer interface {
	Slice(s *Slice) error
	// Point reports a counter's value from a moment on. A counter's moments increase.
	Point(c *Counter, at int64, value float64) error
}

// A GraphViewer is a Viewer that gets each graph before its tasks, and again after changes.
type GraphViewer interface {
	Graph(o *timeline.Object, g timeline.Graph)
}

// A Scene draws one trace.
type Scene struct {
	W         *timeline.Walk
	Processes []format.Process // at least one
	Threads   []format.Thread  // the last one stands for unknown threads
	Drawn     Drawn

	o        Options
	v        Viewer
	pids     []int    // by process
	names    []string // by process
	texts    texts
	rows     rows
	counters counters
	gaps     []format.Gap // by start, those not drawn yet
	funcs    map[*api.Func]*function
	graphs   map[*timeline.Object]uint64 // task count by graph
	kinds    []api.Object                // of objects that were drawn as handles
	handles  []Sym                       // their names by id, for the first objects; 0 for none
	slice    Slice
}

// Drawn counts the events passed to the viewer.
type Drawn struct {
	Calls, Tasks, Ranges, Operators, Steps, Gaps, Points int
	Bracketed                                            int // counted in Tasks too
	Moments                                              int // counted in Tasks too
}

// Events returns the total.
func (d *Drawn) Events() int {
	return d.Calls + d.Tasks + d.Ranges + d.Operators + d.Steps + d.Gaps + d.Points
}

// New prepares a walk through a trace.
func New(r *format.Reader, m *api.Model, o *Options) (*Scene, error) {
	s := &Scene{texts: newTexts(m.Name), counters: newCounters(), funcs: map[*api.Func]*function{}, graphs: map[*timeline.Object]uint64{}}
	if o != nil {
		s.o = *o
	}
	sel, err := timeline.NewSelector(r, m, s.o.Select)
	if err != nil {
		return nil, err
	}
	s.W = timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, OwnTimes: true, Shapes: true, Progress: s.o.Progress})
	if err := s.W.FindSteps(); err != nil {
		return nil, err
	}
	s.Processes = r.Processes()
	if len(s.Processes) == 0 {
		s.Processes = []format.Process{{Argv: r.Meta().Argv}}
	}
	s.identify()
	s.Threads = append(slices.Clone(r.Threads()), format.Thread{})
	for i := range s.Threads {
		if int(s.Threads[i].Process) >= len(s.Processes) {
			s.Threads[i].Process = 0
		}
	}
	s.gaps = slices.Clone(r.Gaps())
	slices.SortStableFunc(s.gaps, func(a, b format.Gap) int { return cmp.Compare(a.From, b.From) })
	s.rows.host = make([][]*Row, len(s.Threads))
	s.rows.ranges = make([][]*Row, len(s.Processes))
	return s, nil
}

// Walk passes every event in the window to the viewer: each row's slices by start, and each call before its task.
func (s *Scene) Walk(v Viewer) error {
	s.v = v
	err := s.W.Run(&timeline.Visitor{
		Call: s.call, Task: s.task, Range: s.rangeOf, Operator: s.operator, Step: s.step, Memory: s.memoryPoint, Depth: s.depthPoint,
		Graph: func(o *timeline.Object, g timeline.Graph) error {
			s.graphs[o] = g.Size()
			if v, ok := v.(GraphViewer); ok {
				v.Graph(o, g)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	for i := range s.rows.lanes {
		if err := s.drawHeld(&s.rows.lanes[i], math.MaxInt64); err != nil {
			return err
		}
	}
	return s.until(math.MaxInt64)
}

// until draws gaps that start before a moment and copy rates that change before it.
func (s *Scene) until(now int64) error {
	for len(s.gaps) > 0 && s.gaps[0].From < now {
		g := &s.gaps[0]
		s.gaps = s.gaps[1:]
		if err := s.gap(g); err != nil {
			return err
		}
	}
	if err := s.pass(now); err != nil {
		return err
	}
	if from, _ := s.W.Selector().Window(); now < from {
		return nil
	}
	return s.release()
}

func (s *Scene) within(from, to int64) bool {
	first, end := s.W.Selector().Window()
	return from < end && to >= first
}
