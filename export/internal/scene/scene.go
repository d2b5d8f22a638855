// Package scene goes through a trace for viewers that draw slices on rows over time: which row a call, a task or a range of the
// program's is drawn on, with what name and arguments, and how counters go. It decides for all of them, so that they show
// the same.
//
// On a row of the host slices nest: a later one lies within an earlier one or begins behind its end. On a row of a device
// no two slices overlap. What would break that rule (calls that run on behind one that never returned, tasks whose
// brackets overlap) is drawn on a further row of the same thread or stream. Tasks whose times were measured and those with a bracket
// are never on one row. Of tasks that overlap more than MaxRows deep the rest are moments (Slice.Moment) on a row of their own: a
// bracket of which only the beginning is drawn claims nothing, while hundreds of rows could not be looked at.
//
// A Scene stands on a timeline.Walk: it is walked by one goroutine, once, only reads the trace, and its memory does not
// grow with the number of calls, but with threads, streams and different names.
package scene

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/minheap"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// MaxRows is how many rows the tasks of a stream may take that overlap.
const MaxRows = 16

// Options select what is walked; nil stands for all of it.
type Options struct {
	// From and To bound what is drawn, in nanoseconds since the beginning of the trace: what ends before From or begins
	// at To or later is left out, the rest is drawn whole. To is 0 for no limit.
	From, To int64
	// NoArgs leaves the arguments of the calls out.
	NoArgs   bool
	Progress func(done, total int) // called now and then with the number of calls
}

// Kind says what a row shows.
type Kind uint8

// The kinds of rows.
const (
	Host      Kind = iota // calls and ranges of a thread
	Ranges                // ranges that began on one thread and ended on another
	Measured              // tasks of a lane with measured times
	Bracketed             // tasks of a lane whose times are brackets
	Steps                 // steps of the program, as package timeline knows them
	Lost                  // gaps that concern all threads
)

// A Row is one line of slices.
type Row struct {
	ID      int // from 0, in the order of their first slices
	Kind    Kind
	Process int
	Thread  int // of a Host row, else -1
	Lane    int // of a device's row, else -1
	Device  int // of a device's row, timeline.NoDevice where it is not known
	N       int // from 0: further rows of the same thread or lane
	Moments bool
	Name    string

	open []int64 // ends of the slices that have not ended
	end  int64   // of the last slice
}

// Sym is the number of a text, from 1. Few texts make up a trace.
type Sym uint32

// ArgKind says what an Arg is.
type ArgKind uint8

// The kinds of arguments.
const (
	Int ArgKind = iota
	Uint
	Pointer
	Text
	True
)

// Arg is one thing that is known of a slice.
type Arg struct {
	Value uint64 // what it is by Kind: a number, a pointer, the Sym of a text; nothing for True
	Key   Sym
	Kind  ArgKind
}

// Slice is something with a name on a row. It is valid until the viewer returns.
type Slice struct {
	Row      *Row
	Name     Sym
	Category Sym
	From, To int64  // nanoseconds since the beginning of the trace, From <= To
	Moment   bool   // a point at From, which then is To
	Flow     uint64 // not 0: an arrow goes from the call with the number to the task with it, or back where the device's clock has the task begin before its call
	FlowEnd  bool   // the arrow ends here
	Args     []Arg
	Task     *timeline.Task     // of a task, else nil
	Call     *timeline.HostCall // of a call, else nil
}

// Unit is what a counter counts.
type Unit uint8

// The units of counters.
const (
	Count Unit = iota
	Bytes
	BytesPerSecond
)

// A Counter has a value at each moment, 0 before its first point.
type Counter struct {
	ID      int // from 0
	Process int
	Device  int
	Name    string
	Unit    Unit

	rate float64 // of copies, at the moment
}

// Viewer draws. An error ends the walk.
type Viewer interface {
	Slice(s *Slice) error
	// Point says that a counter has the value from a moment on. The moments of a counter rise.
	Point(c *Counter, at int64, value float64) error
}

// A Scene is a trace as rows.
type Scene struct {
	W         *timeline.Walk
	Processes []format.Process // at least one
	Threads   []format.Thread  // the last stands for those that have no row
	Drawn     Drawn

	o      Options
	v      Viewer
	pids   []int // by process
	names  []string
	gaps   []format.Gap
	texts  []string // by Sym
	syms   map[string]Sym
	recent [64]struct { // of syms, by where the text lies
		at  *byte
		n   int
		sym Sym
	}
	funcs    map[*api.Func]*function
	host     [][]*Row // by thread
	lanes    []lane
	ranges   [][]*Row // by process
	lost     *Row
	stepRow  *Row
	gapped   int // gaps
	rows     int
	counters int
	memory   map[[2]int]*Counter         // by process and device
	rates    map[[2]int]*Counter         // of copies, the same
	graphs   map[*timeline.Object]uint64 // tasks
	moving   minheap.Heap[copying]
	moved    int // pushed so far

	slice Slice
	keys  keys
}

// Drawn counts what a walk has given to the viewer.
type Drawn struct {
	Calls, Tasks, Ranges, Steps, Gaps, Points int
	Bracketed                                 int // of Tasks
	Moments                                   int // of Tasks
}

// Events is the sum of it.
func (d *Drawn) Events() int { return d.Calls + d.Tasks + d.Ranges + d.Steps + d.Gaps + d.Points }

// function is what is needed of each call of a function.
type function struct {
	name   Sym
	params []param
}

type param struct {
	key  Sym
	word int
	kind ArgKind
	size uint8 // of an integer, in bytes
	enum string
}

type keys struct {
	call, kernel, stream, task, bytes, ret, err, unfinished, truncated, retries, bracketed, open, until, blocks, pageable, streamID, taskID, event, graph, tasks,
	lost, reason, domain, end, step, source, untypical, catStep Sym
	catCall, catTask, catBracketed, catRange, catGap, callsLost, notRecorded Sym
	kinds                                                                    [32]Sym
}

// New prepares a walk through a trace.
func New(r *format.Reader, m *api.Model, o *Options) (*Scene, error) {
	s := &Scene{syms: map[string]Sym{}, texts: []string{""}, funcs: map[*api.Func]*function{}, memory: map[[2]int]*Counter{}, rates: map[[2]int]*Counter{},
		graphs: map[*timeline.Object]uint64{}}
	if o != nil {
		s.o = *o
	}
	if s.o.To == 0 {
		s.o.To = math.MaxInt64
	}
	s.W = timeline.NewWalk(r, m, &timeline.WalkOptions{From: s.o.From, To: s.o.To, Progress: s.o.Progress})
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
	s.host = make([][]*Row, len(s.Threads))
	s.ranges = make([][]*Row, len(s.Processes))
	s.setKeys()
	return s, nil
}

// lane is what is known of one of the Walk's lanes.
type lane struct {
	rows    [2][]*Row // of measured tasks, of others
	moments [2]*Row
	name    Sym
	queue   *Counter
}

func (s *Scene) lane(i int) *lane {
	for i >= len(s.lanes) {
		s.lanes = append(s.lanes, lane{name: s.Sym(s.W.Lanes[len(s.lanes)].Name)})
	}
	return &s.lanes[i]
}

func (s *Scene) setKeys() {
	k := &s.keys
	for _, x := range []struct {
		key string
		at  *Sym
	}{
		{"acl.call", &k.call}, {"acl.kernel", &k.kernel}, {"acl.stream", &k.stream}, {"acl.task", &k.task}, {"acl.bytes", &k.bytes}, {"acl.ret", &k.ret},
		{"acl.error", &k.err}, {"acl.unfinished", &k.unfinished}, {"acl.truncated", &k.truncated}, {"acl.retries", &k.retries}, {"acl.bracketed", &k.bracketed},
		{"acl.open", &k.open}, {"acl.not_after_ns", &k.until}, {"acl.blocks", &k.blocks}, {"acl.pageable", &k.pageable}, {"acl.stream_id", &k.streamID},
		{"acl.task_id", &k.taskID}, {"acl.event", &k.event}, {"acl.graph", &k.graph}, {"acl.graph_tasks", &k.tasks}, {"acl.lost", &k.lost}, {"acl.reason", &k.reason},
		{"acl.step", &k.step}, {"acl.step_source", &k.source}, {"acl.untypical", &k.untypical}, {"step", &k.catStep}, {"acl.domain", &k.domain}, {"acl.end_thread", &k.end},
		{"call", &k.catCall}, {"task", &k.catTask}, {"bracketed", &k.catBracketed}, {"range", &k.catRange}, {"gap", &k.catGap}, {"calls lost", &k.callsLost}, {"not recorded", &k.notRecorded},
	} {
		*x.at = s.Sym(x.key)
	}
}

// Sym returns the number of a text.
func (s *Scene) Sym(text string) Sym {
	// Most texts are those of a kernel's or a function's object, again and again.
	at := unsafe.StringData(text)
	r := &s.recent[uintptr(unsafe.Pointer(at))>>4%uintptr(len(s.recent))]
	if r.at != at || r.n != len(text) || at == nil {
		r.at, r.n, r.sym = at, len(text), s.sym(text)
	}
	return r.sym
}

func (s *Scene) sym(text string) Sym {
	if y, ok := s.syms[text]; ok {
		return y
	}
	y := Sym(len(s.texts))
	s.syms[text] = y
	s.texts = append(s.texts, strings.ToValidUTF8(text, "\uFFFD"))
	return y
}

// Text returns the text of a number, in valid UTF-8.
func (s *Scene) Text(y Sym) string { return s.texts[y] }

func (s *Scene) process(p uint32) int {
	if int(p) >= len(s.Processes) {
		return 0
	}
	return int(p)
}

// thread returns the row of a thread in Threads.
func (s *Scene) thread(t uint32) int { return min(int(t), len(s.Threads)-1) }

// noPID is the greatest number that Linux gives a process.
const noPID = 1 << 22

// identify finds a number and a name for each process. Ranks that ran in containers, or on several hosts, may have the same ones.
func (s *Scene) identify() {
	taken, times := map[int]bool{}, map[string]int{}
	ranks := map[int]bool{}
	for i := range s.Processes {
		p := &s.Processes[i]
		pid, name := p.PID, "program"
		if pid <= 0 || taken[pid] {
			pid = noPID + 1 + i
		}
		taken[pid] = true
		switch {
		case p.Exe != "":
			name = filepath.Base(p.Exe)
		case len(p.Argv) > 0:
			name = filepath.Base(p.Argv[0])
		}
		s.pids, s.names = append(s.pids, pid), append(s.names, strings.ToValidUTF8(name, "\uFFFD"))
		times[s.names[i]]++
		ranks[p.Rank] = true
	}
	if len(ranks) < len(s.Processes) {
		return
	}
	for i, name := range s.names {
		if times[name] > 1 {
			s.names[i] = fmt.Sprintf("%s:%d", name, s.Processes[i].Rank)
		}
	}
}

// PID returns the number of a process, which no other has: its own, unless one before it has the same, or it is not known.
func (s *Scene) PID(i int) int { return s.pids[i] }

// ProcessName returns the name of a process's program, with its rank where several run the same.
func (s *Scene) ProcessName(i int) string { return s.names[i] }

// DeviceName returns the name of a device, as "npu:0"; without a number where that is not known.
func (s *Scene) DeviceName(device int) string {
	name := cmp.Or(s.W.Model.Accelerator.Kind, "device")
	if device != timeline.NoDevice {
		name += ":" + strconv.Itoa(device)
	}
	return name
}

// Walk gives everything in the window to the viewer: slices of one row in the order of their beginnings, each call before
// its task.
func (s *Scene) Walk(v Viewer) error {
	s.v = v
	err := s.W.Run(&timeline.Visitor{
		Call: s.call, Task: s.task, Range: s.rangeOf, Step: s.step, Memory: s.memoryPoint, Depth: s.depthPoint,
		Graph: func(o *timeline.Object, g timeline.Graph) error {
			s.graphs[o] = g.Size()
			return nil
		},
	})
	if err != nil {
		return err
	}
	return s.until(math.MaxInt64)
}

// until walks over the gaps up to a moment, and shows what counters did before it.
func (s *Scene) until(now int64) error {
	for s.gapped < len(s.gaps) && s.gaps[s.gapped].From < now {
		s.gapped++
		if err := s.gap(&s.gaps[s.gapped-1]); err != nil {
			return err
		}
	}
	return s.pass(now)
}

func (s *Scene) within(from, to int64) bool { return from < s.o.To && to >= s.o.From }

func (s *Scene) begin(row *Row, name, category Sym, from, to int64) *Slice {
	l := &s.slice
	*l = Slice{Row: row, Name: name, Category: category, From: from, To: to, Args: l.Args[:0]}
	return l
}

func (l *Slice) num(key Sym, v uint64) { l.Args = append(l.Args, Arg{Key: key, Value: v, Kind: Uint}) }
func (l *Slice) int(key Sym, v int64) {
	l.Args = append(l.Args, Arg{Key: key, Value: uint64(v), Kind: Int})
}
func (l *Slice) text(key Sym, text Sym) {
	l.Args = append(l.Args, Arg{Key: key, Value: uint64(text), Kind: Text})
}
func (l *Slice) yes(key Sym) { l.Args = append(l.Args, Arg{Key: key, Kind: True}) }

func (s *Scene) call(c *timeline.HostCall, t *timeline.Task) error {
	if err := s.until(c.Start); err != nil {
		return err
	}
	if t != nil {
		s.copies(c, t)
	}
	end := s.W.CallEnd(c)
	f := s.function(c)
	k := &s.keys
	l := s.begin(s.hostRow(s.thread(c.Thread), c.Start, end), f.name, k.catCall, c.Start, end)
	l.Call = c
	l.num(k.call, c.Index)
	if c.Kernel != "" {
		l.text(k.kernel, s.Sym(c.Kernel))
	}
	if t != nil {
		if t.Fn.Stream >= 0 {
			l.text(k.stream, s.lane(t.Lane).name)
		}
		l.Flow, l.FlowEnd = c.Index+1, early(t)
	}
	switch {
	case c.Flags&format.Unfinished != 0:
		l.yes(k.unfinished)
	case c.Fn == nil || !c.Fn.RetError && !c.Fn.RetVoid:
		l.num(k.ret, c.Ret)
	case c.Fn.RetError && uint32(c.Ret) != 0:
		l.int(k.ret, int64(int32(c.Ret)))
		l.text(k.err, s.Sym(s.W.Model.ErrorName(int64(int32(c.Ret)))))
	}
	if c.Retries != timeline.NoCall {
		l.num(k.retries, c.Retries)
	}
	if c.Flags&format.Truncated != 0 {
		l.yes(k.truncated)
	}
	if !s.o.NoArgs {
		s.arguments(l, f, c.Raw)
	}
	s.Drawn.Calls++
	return s.v.Slice(l)
}

func (s *Scene) function(c *timeline.HostCall) *function {
	if f := s.funcs[c.Fn]; f != nil && c.Fn != nil {
		return f
	}
	f := &function{name: s.Sym(c.Name)}
	if c.Fn == nil {
		return f // each unknown one has its own name
	}
	for i := range c.Fn.Params {
		p := &c.Fn.Params[i]
		if p.Words != 1 {
			continue
		}
		q := param{key: s.Sym("arg." + p.Name), word: int(p.Word), kind: Pointer, size: 8}
		if p.Role == api.Value && !strings.HasSuffix(p.Type, "*") {
			q.kind = Uint
			switch p.Type {
			case "int32_t", "int":
				q.kind, q.size = Int, 4
			case "uint32_t", "unsigned int":
				q.size = 4
			case "int64_t", "long", "long long":
				q.kind = Int
			}
			for e := range s.W.Model.Enums {
				if s.W.Model.Enums[e].Type == p.Type {
					q.kind, q.size, q.enum = Int, 4, p.Type
				}
			}
		}
		f.params = append(f.params, q)
	}
	s.funcs[c.Fn] = f
	return f
}

func (s *Scene) arguments(l *Slice, f *function, c *format.Call) {
	for i := range f.params {
		p := &f.params[i]
		if p.word >= len(c.Args) {
			return
		}
		a := Arg{Key: p.key, Value: c.Args[p.word], Kind: p.kind}
		if p.size == 4 {
			if a.Value = uint64(uint32(a.Value)); p.kind == Int {
				a.Value = uint64(int64(int32(a.Value)))
			}
		}
		if p.enum != "" {
			if name := s.W.Model.EnumName(p.enum, int64(a.Value)); name != "" {
				a.Kind, a.Value = Text, uint64(s.Sym(name))
			}
		}
		l.Args = append(l.Args, a)
	}
}

// early reports whether a task has begun before its call, as the clocks of a profile have it that are some microseconds
// apart: no viewer draws an arrow back in time.
func early(t *timeline.Task) bool { return t.Measured && t.From < t.Issued }

func (s *Scene) task(t *timeline.Task) error {
	row, moment := s.laneRow(t)
	category := s.keys.catTask
	if !t.Measured {
		category = s.keys.catBracketed
	}
	k := &s.keys
	l := s.begin(row, s.Sym(t.Name), category, t.From, max(t.From, t.To))
	l.Task = t
	if moment {
		l.Moment, l.To = true, l.From
		l.int(k.until, t.To)
		s.Drawn.Moments++
	}
	if s.within(t.Issued, t.Returned) {
		l.Flow, l.FlowEnd = t.Call+1, !early(t)
	}
	l.num(k.call, t.Call)
	if k.kinds[t.Kind] == 0 {
		k.kinds[t.Kind] = s.Sym(t.Kind.String())
	}
	l.text(k.task, k.kinds[t.Kind])
	switch t.Kind {
	case api.Copy, api.Fill:
		l.num(k.bytes, t.Bytes)
		if t.Pageable {
			l.yes(k.pageable)
		}
	case api.Kernel:
		if t.Blocks > 0 {
			l.num(k.blocks, uint64(t.Blocks))
		}
	case api.GraphRun:
		if t.Object != nil {
			l.num(k.graph, uint64(t.Object.ID))
			l.num(k.tasks, s.graphs[t.Object])
		}
	default:
		if t.Object != nil {
			l.num(k.event, uint64(t.Object.ID))
		}
	}
	if t.HasID {
		l.num(k.streamID, uint64(t.StreamID))
		l.num(k.taskID, uint64(t.TaskID))
	}
	if !t.Measured {
		l.yes(k.bracketed)
		s.Drawn.Bracketed++
	}
	if t.Open {
		l.yes(k.open)
	}
	s.Drawn.Tasks++
	return s.v.Slice(l)
}

// hostRow returns the first row of a thread on which a slice nests.
func (s *Scene) hostRow(thread int, from, to int64) *Row {
	for _, r := range s.host[thread] {
		if r.nest(from, to) {
			return r
		}
	}
	th := &s.Threads[thread]
	name := th.Name
	if name == "" {
		name = "thread " + strconv.Itoa(th.TID)
	}
	r := s.row(Row{Kind: Host, Process: int(th.Process), Thread: thread, Lane: -1, N: len(s.host[thread]), Name: name})
	r.nest(from, to)
	s.host[thread] = append(s.host[thread], r)
	return r
}

// nest puts a slice on the row where that is possible.
func (r *Row) nest(from, to int64) bool {
	n := len(r.open)
	for n > 0 && r.open[n-1] <= from {
		n--
	}
	if n > 0 && r.open[n-1] < to {
		return false
	}
	r.open = append(r.open[:n], to)
	return true
}

func (s *Scene) row(r Row) *Row {
	r.ID = s.rows
	s.rows++
	r.Name = strings.ToValidUTF8(r.Name, "\uFFFD")
	return &r
}

// laneRow returns the first row of a lane that is free, or that of the moments.
func (s *Scene) laneRow(t *timeline.Task) (row *Row, moment bool) {
	kind := Measured
	if !t.Measured {
		kind = Bracketed
	}
	k := kind - Measured
	in := s.lane(t.Lane)
	rows := in.rows[k]
	for _, r := range rows {
		if r.end <= t.From {
			r.end = max(t.From, t.To)
			return r, false
		}
	}
	if len(rows) == MaxRows && in.moments[k] != nil {
		return in.moments[k], true
	}
	lane := &s.W.Lanes[t.Lane]
	r := Row{Kind: kind, Process: s.process(lane.Process), Thread: -1, Lane: t.Lane, Device: lane.Device, N: len(rows), Name: lane.Name}
	if kind == Bracketed {
		r.Name += " (bracketed)"
	}
	if len(rows) == MaxRows {
		r.Moments = true
		r.Name += ", earliest begin"
		in.moments[k] = s.row(r)
		return in.moments[k], true
	}
	r.end = max(t.From, t.To)
	row = s.row(r)
	in.rows[k] = append(rows, row)
	return row, false
}

func (s *Scene) rangeOf(r *timeline.Range) error {
	if err := s.until(r.From); err != nil {
		return err
	}
	name := r.Name
	if name == "" {
		name = "range"
	}
	var row *Row
	thread, to := s.thread(r.Thread), max(r.From, r.To)
	if r.Thread == r.EndThread {
		row = s.hostRow(thread, r.From, to)
	} else {
		row = s.rangeRow(int(s.Threads[thread].Process), r.From, to)
	}
	k := &s.keys
	l := s.begin(row, s.Sym(name), k.catRange, r.From, to)
	l.Moment = r.Mark
	l.num(k.call, r.Begin)
	if r.Domain != "" {
		l.text(k.domain, s.Sym(r.Domain))
	}
	if r.Stream != nil {
		for i := range s.W.Lanes {
			if s.W.Lanes[i].Stream == r.Stream {
				l.text(k.stream, s.lane(i).name)
			}
		}
	}
	if r.Thread != r.EndThread {
		l.num(k.end, uint64(s.Threads[s.thread(r.EndThread)].TID))
	}
	if r.Open {
		l.yes(k.open)
	}
	s.Drawn.Ranges++
	return s.v.Slice(l)
}

func (s *Scene) step(p *step.Step) error {
	if p.Open {
		return nil // what lies behind the last step
	}
	if s.stepRow == nil {
		s.stepRow = s.row(Row{Kind: Steps, Process: s.process(s.W.StepRule().Process), Thread: -1, Lane: -1, Name: "steps"})
	}
	name := p.Name
	if name == "" {
		name = "step" // of few names viewers make a good summary
	}
	k := &s.keys
	l := s.begin(s.stepRow, s.Sym(name), k.catStep, p.From, max(p.From, p.To))
	l.num(k.step, uint64(p.Index))
	l.text(k.source, s.Sym(string(s.W.StepRule().Source)))
	if !p.Typical {
		l.yes(k.untypical)
	}
	s.Drawn.Steps++
	return s.v.Slice(l)
}

func (s *Scene) rangeRow(process int, from, to int64) *Row {
	for _, r := range s.ranges[process] {
		if r.nest(from, to) {
			return r
		}
	}
	r := s.row(Row{Kind: Ranges, Process: process, Thread: -1, Lane: -1, N: len(s.ranges[process]), Name: "ranges"})
	r.nest(from, to)
	s.ranges[process] = append(s.ranges[process], r)
	return r
}

func (s *Scene) gap(g *format.Gap) error {
	to := max(g.From, g.To)
	if !s.within(g.From, to) {
		return nil
	}
	var row *Row
	if g.Thread != format.NoThread {
		row = s.hostRow(s.thread(g.Thread), g.From, to)
	} else {
		if s.lost == nil || !s.lost.nest(g.From, to) {
			s.lost = s.row(Row{Kind: Lost, Thread: -1, Lane: -1, Name: "calls lost"})
			s.lost.nest(g.From, to)
		}
		row = s.lost
	}
	name := s.keys.callsLost
	if g.Intended() {
		name = s.keys.notRecorded
	}
	l := s.begin(row, name, s.keys.catGap, g.From, to)
	if g.Calls > 0 {
		l.num(s.keys.lost, g.Calls)
	}
	l.text(s.keys.reason, s.Sym(g.Reason.String()))
	s.Drawn.Gaps++
	return s.v.Slice(l)
}
