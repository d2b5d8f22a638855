package timeline

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Selection chooses calls, with their tasks. A call is selected if all conditions hold that are set. The zero value selects every call.
type Selection struct {
	// From and To are nanoseconds since the trace began. A call that ends before From, or that starts at To or later, is not selected. To is 0 for
	// no limit.
	From, To  int64
	Calls     *human.Numbers // only calls with these numbers
	Steps     *human.Numbers // only calls that start in these steps
	Slowest   int            // of these steps, or of all, only the so many longest; 0 for no such choice
	Funcs     []string       // only these functions; * and ? are wildcards
	Kernels   []string       // only launches of these kernels; * and ? are wildcards
	Operators []string       // only calls in these operators, with the marks of each; * and ? are wildcards
	Failed    bool           // only calls that returned an error
	Longer    time.Duration  // only calls that took longer; a call that never returned lasts until the end of the trace
	Thread    int            // only calls of the thread with this id, 0 for all
	Stream    int            // only calls on the stream with this Object.ID, 0 for all
	Lane      string         // only calls on the lanes with this Lane.Name, one in each process; "" for all
	Task      *format.TaskID // only calls that made this task
	Graph     int            // only calls that put tasks into the graph with this Object.ID, and the latest updates of these; 0 for all
	Most      int            // only the first calls, 0 for all
}

// String returns the conditions as flags of acltrace, for a shell; "" if every call is selected.
func (s *Selection) String() string {
	var b strings.Builder
	add := func(set bool, name string, value any) {
		if set {
			fmt.Fprintf(&b, " %s %s", name, shell.Quote(strings.ReplaceAll(fmt.Sprint(value), "µ", "u")))
		}
	}
	add(s.Calls != nil, "--call", s.Calls)
	add(s.Steps != nil, "--step", s.Steps)
	add(s.Slowest > 0, "--slowest", s.Slowest)
	add(s.From != 0, "--from", time.Duration(s.From))
	add(s.To != 0, "--to", time.Duration(s.To))
	for _, f := range s.Funcs {
		add(true, "--func", f)
	}
	for _, k := range s.Kernels {
		add(true, "--kernel", k)
	}
	for _, o := range s.Operators {
		add(true, "--operator", o)
	}
	if s.Failed {
		b.WriteString(" --failed")
	}
	add(s.Longer > 0, "--longer-than", s.Longer)
	add(s.Thread != 0, "--thread", s.Thread)
	add(s.Stream != 0, "--stream", s.Stream)
	add(s.Lane != "", "--stream", s.Lane)
	if s.Task != nil {
		fmt.Fprintf(&b, " --task %d:%d", s.Task.Stream, s.Task.Task)
	}
	add(s.Graph != 0, "--graph", s.Graph)
	add(s.Most > 0, "-n", s.Most)
	return strings.TrimPrefix(b.String(), " ")
}

// Contiguous reports whether every call and task of a period is selected.
func (s *Selection) Contiguous() bool {
	return s.Calls == nil && s.Slowest == 0 && s.Funcs == nil && s.Kernels == nil && s.Operators == nil && !s.Failed && s.Longer == 0 && s.Thread == 0 && s.Stream == 0 && s.Lane == "" && s.Task == nil && s.Graph == 0 && s.Most == 0
}

// A Selector applies a Selection to a trace. It belongs to one pass through the calls, in the order of their starts.
type Selector struct {
	Selection
	// No selected call ends before from, or starts at to or later.
	from, to int64

	all       bool
	end       int64 // of the trace
	calls     human.Numbers
	schema    *format.Schema
	model     *api.Model
	threads   []format.Thread
	funcs     []bool // by id; nil for all
	kernels   []*regexp.Regexp
	operators []*regexp.Regexp
	steps     []period // of the steps, in the order of time
	slowest   []uint64 // numbers of the steps, if Slowest is set
	lanes     []laneID // with the name
	graph     graphCalls
	state     *State
	taken     uint64
}

// period is a time between two moments.
type period struct{ from, to int64 }

// everything is a Selector for all calls.
func everything() *Selector {
	return &Selector{all: true, from: math.MinInt64, to: math.MaxInt64, calls: human.Numbers{Last: math.MaxUint64}}
}

// NewSelector prepares a Selection. It reads few chunks for numbers of calls, the trace up to the last step for numbers of steps, and the trace for
// the name of a lane. A nil Selection selects every call.
func NewSelector(r *format.Reader, m *api.Model, s *Selection) (*Selector, error) {
	x := everything()
	if s == nil || s.String() == "" {
		return x, nil
	}
	x.Selection, x.all, x.schema, x.model, x.threads, x.end = *s, false, r.Schema(), m, r.Threads(), r.Meta().EndNS
	if x.from = s.From; s.From == 0 {
		x.from = math.MinInt64
	}
	if s.To != 0 {
		x.to = s.To
	}
	for c := range r.Chunks() {
		x.end = max(x.end, c.TMax)
	}
	if err := x.functions(); err != nil {
		return nil, err
	}
	for _, k := range s.Kernels {
		x.kernels = append(x.kernels, glob(k))
	}
	for _, o := range s.Operators {
		x.operators = append(x.operators, glob(o))
	}
	if s.Calls != nil {
		x.calls = *s.Calls
		if err := x.callTimes(r); err != nil {
			return nil, err
		}
	}
	if s.Slowest > 0 && s.Steps == nil {
		x.Steps = &human.Numbers{Last: math.MaxInt64}
	}
	if x.Steps != nil {
		if err := x.stepTimes(r, m); err != nil {
			return nil, err
		}
	}
	if s.Lane != "" {
		if err := x.namedLanes(r, m); err != nil {
			return nil, err
		}
	}
	if s.Graph != 0 {
		if err := x.graphTasks(r, m); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// glob compiles a pattern in which * and ? are wildcards.
func glob(pattern string) *regexp.Regexp {
	p := regexp.QuoteMeta(pattern)
	p = strings.ReplaceAll(strings.ReplaceAll(p, `\*`, `.*`), `\?`, `.`)
	return regexp.MustCompile(`^(?s:` + p + `)$`)
}

// functions finds the functions. A function with variants has names such as NAME:VARIANT, which NAME matches too.
func (x *Selector) functions() error {
	if len(x.Funcs) == 0 {
		return nil
	}
	x.funcs = make([]bool, 1<<16)
	for _, pattern := range x.Funcs {
		g, found := glob(pattern), false
		for _, f := range x.schema.Functions {
			name, _, _ := strings.Cut(f.Name, ":")
			if g.MatchString(f.Name) || g.MatchString(name) {
				x.funcs[f.ID], found = true, true
			}
		}
		if !found {
			return fmt.Errorf("no function of the trace is named %s", pattern)
		}
	}
	return nil
}

// narrow limits the window.
func (x *Selector) narrow(from, to int64) { x.from, x.to = max(x.from, from), min(x.to, to) }

// callTimes limits the window to the calls with the numbers.
func (x *Selector) callTimes(r *format.Reader) error {
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for b, err := range r.Batches(&format.Filter{Chunk: x.byNumber}, format.StartColumn|format.DurColumn) {
		if err != nil {
			return err
		}
		for i := range b.N {
			if x.calls.Holds(b.First + uint64(i)) {
				from, to = min(from, b.Start[i]), max(to, b.Start[i]+b.Dur[i]+1)
			}
		}
	}
	x.narrow(from, to)
	return nil
}

// stepTimes finds the times of the steps.
func (x *Selector) stepTimes(r *format.Reader, m *api.Model) error {
	w := NewWalk(r, m, nil)
	w.o.Untimed = true
	if err := w.FindSteps(); err != nil {
		return err
	}
	count := uint64(0)
	var found []step.Step
	err := w.Run(&Visitor{Step: func(s *step.Step) error {
		n := uint64(s.Index)
		if s.Open || n > x.Steps.Last {
			return ErrEnough
		}
		count = n + 1
		if !x.Steps.Holds(n) {
			return nil
		}
		if x.Slowest == 0 {
			x.addStep(s)
		} else if found = append(found, *s); len(found) >= 2*x.Slowest+1024 {
			found = x.longest(found)
		}
		if n == x.Steps.Last {
			return ErrEnough
		}
		return nil
	}})
	for _, s := range x.longest(found) {
		x.slowest = append(x.slowest, uint64(s.Index))
		x.addStep(&s)
	}
	switch {
	case err != nil:
		return err
	case len(x.steps) > 0:
		x.narrow(x.steps[0].from, x.steps[len(x.steps)-1].to)
		return nil
	case count == 0 && x.Slowest > 0:
		return fmt.Errorf("no slowest step: the trace has no steps: %s", w.StepRule().Why)
	case count == 0:
		return fmt.Errorf("no step %v: the trace has no steps: %s", x.Steps, w.StepRule().Why)
	}
	return fmt.Errorf("no step %v: the trace has the steps 0 to %d", x.Steps, count-1)
}

// longest returns the Slowest longest steps in the order of time.
func (x *Selector) longest(steps []step.Step) []step.Step {
	slices.SortFunc(steps, func(a, b step.Step) int {
		return cmp.Or(cmp.Compare(b.To-b.From, a.To-a.From), cmp.Compare(a.Index, b.Index))
	})
	steps = steps[:min(x.Slowest, len(steps))]
	slices.SortFunc(steps, func(a, b step.Step) int { return cmp.Compare(a.Index, b.Index) })
	return steps
}

// addStep notes the time of a step, in the order of time.
func (x *Selector) addStep(s *step.Step) {
	if last := len(x.steps) - 1; last >= 0 && x.steps[last].to == s.From {
		x.steps[last].to = s.To
	} else {
		x.steps = append(x.steps, period{s.From, s.To})
	}
}

// namedLanes finds the lanes with the name.
func (x *Selector) namedLanes(r *format.Reader, m *api.Model) error {
	w := NewWalk(r, m, nil)
	w.o.Untimed = true
	if err := w.Run(&Visitor{}); err != nil {
		return err
	}
	var names []string
	for i, ln := range w.lanes.list {
		name := w.Lanes[i].Name
		if name == x.Lane {
			x.lanes = append(x.lanes, ln.key.id())
		}
		if len(names) <= maxNamed && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(x.lanes) > 0 {
		return nil
	}
	if len(names) > maxNamed {
		names[maxNamed] = "more"
	}
	if len(names) == 0 {
		return fmt.Errorf("no stream %q: no stream of the trace has a task", x.Lane)
	}
	return fmt.Errorf("no stream %q: the trace has %s", x.Lane, strings.Join(names, ", "))
}

// maxNamed is the number of streams that an error names.
const maxNamed = 8

// Use sets the State to which the calls of this pass are applied. A Walk calls it.
func (x *Selector) Use(s *State) { x.state = s }

// Window returns the period with all selected calls. It shrinks when the last call is selected.
func (x *Selector) Window() (from, to int64) { return x.from, x.to }

// Taken returns the number of calls selected so far.
func (x *Selector) Taken() uint64 { return x.taken }

// byNumber reports whether a chunk may hold calls with the numbers, according to the index.
func (x *Selector) byNumber(c *format.ChunkInfo) bool {
	return !c.Known || c.Calls > 0 && c.First <= x.calls.Last && c.First+c.Calls-1 >= x.calls.First
}

// MayHold reports whether a chunk may hold selected calls, according to the index. It ignores Stream and Lane.
func (x *Selector) MayHold(c *format.ChunkInfo) bool {
	if c.TMax < x.from || c.TMin >= x.to || !x.byNumber(c) || x.Task != nil && !c.Task(x.Task.Stream, x.Task.Task) {
		return false
	}
	if !c.Known {
		return true
	}
	return (x.funcs == nil || slices.ContainsFunc(c.Funcs, func(id uint32) bool { return id <= math.MaxUint16 && x.funcs[id] })) &&
		(x.Thread == 0 || slices.ContainsFunc(c.Threads, x.onThread))
}

func (x *Selector) onThread(i uint32) bool {
	return int(i) < len(x.threads) && x.threads[i].TID == x.Thread
}

// MayBe reports whether a call may be selected, before its meaning is known.
func (x *Selector) MayBe(c *format.Call) bool { return x.all || x.timed(c) && x.plain(c) }

// timed compares a call with From and To.
func (x *Selector) timed(c *format.Call) bool {
	return c.Start < x.to && (c.End >= x.From || c.Flags&format.Unfinished != 0)
}

// inTime compares a task with From and To.
func (x *Selector) inTime(t *Task) bool { return t.To >= x.From && (x.To == 0 || t.From < x.To) }

// plain compares a call with the conditions on its own fields.
func (x *Selector) plain(c *format.Call) bool {
	done := c.Flags&format.Unfinished == 0
	took := c.End - c.Start
	if !done {
		took = x.end - c.Start
	}
	switch {
	case x.Calls != nil && !x.calls.Holds(c.Index),
		x.Graph != 0 && !x.graph.has(c.Index),
		x.funcs != nil && !x.funcs[c.Func],
		x.Thread != 0 && !x.onThread(c.Thread),
		x.Longer > 0 && took <= x.Longer.Nanoseconds(),
		x.Steps != nil && !x.inStep(c.Start):
		return false
	case x.Failed:
		f := x.model.Func(api.ID(c.Func))
		return done && x.schema.Func(c.Func).Failed(c.Ret) && (f == nil || !f.Answered(c.Ret))
	}
	return true
}

// inStep reports whether a moment is in one of the steps.
func (x *Selector) inStep(t int64) bool {
	i := sort.Search(len(x.steps), func(i int) bool { return x.steps[i].to > t })
	return i < len(x.steps) && x.steps[i].from <= t
}

// is compares a call with the conditions on its meaning.
func (x *Selector) is(e *Event) bool {
	if x.Stream != 0 && (e.Stream == nil || e.Stream.ID != x.Stream) {
		return false
	}
	if x.Lane != "" && !x.onLane(e) {
		return false
	}
	if x.kernels != nil && (e.Fn == nil || e.Fn.Task != api.Kernel || !x.launches(e.Kernel)) {
		return false
	}
	if x.operators != nil && !slices.ContainsFunc(x.operators, func(o *regexp.Regexp) bool { return e.Operator != "" && o.MatchString(e.Operator) }) {
		return false
	}
	if x.Task == nil {
		return true
	}
	stream, task, ok := e.TaskID()
	return ok && *x.Task == format.TaskID{Stream: stream, Task: task}
}

// launches reports whether a kernel's symbol, or the name that viewers show for it, is selected.
func (x *Selector) launches(symbol string) bool {
	return slices.ContainsFunc(x.kernels, func(k *regexp.Regexp) bool {
		return k.MatchString(symbol) || k.MatchString(human.Kernel(symbol))
	})
}

// onLane reports whether a call is about one of the lanes: it names the stream, or its task is there.
func (x *Selector) onLane(e *Event) bool {
	if e.Fn == nil {
		return false
	}
	var k LaneKey
	switch {
	case e.Fn.Sync.Wait() == api.SyncStream:
		k = x.state.WaitedLane(e)
	case e.Fn.Stream >= 0 || e.Fn.Task != api.NoTask:
		k = x.state.LaneKey(e)
	default:
		return false
	}
	return slices.Contains(x.lanes, k.id())
}

// Is reports whether a call is selected, if MayBe is true for it. It counts the call.
func (x *Selector) Is(e *Event) bool {
	if !x.is(e) || x.full() {
		return false
	}
	if x.taken++; x.full() {
		x.to = min(x.to, e.Call.Start+1)
	}
	return true
}

// full reports whether enough calls are selected.
func (x *Selector) full() bool { return x.Most > 0 && x.taken >= uint64(x.Most) }

// step reports whether a step is selected, or overlaps the window if the Selection has no steps.
func (x *Selector) step(s *step.Step) bool {
	if x.Steps != nil {
		n := uint64(s.Index)
		return x.Steps.Holds(n) && !s.Open && (x.Slowest == 0 || slices.Contains(x.slowest, n))
	}
	return s.From < x.to && s.To >= x.from
}
