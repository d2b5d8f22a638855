// Package parquet writes a trace as Apache Parquet tables for DuckDB, pandas, Spark and ClickHouse: calls, tasks,
// copies, kernels, steps and graphs. Copies and kernels are tasks with further columns. docs/reference/parquet.md describes the
// columns, which are the fields in Call, Task, Copy, Kernel, Step and Graph.
//
// Moments of the day have microseconds, since Spark reads no nanoseconds. Each has a column of exact nanoseconds beside it.
//
// Command export parquet calls Write for one trace, or WriteTree to add traces to a partitioned tree. Calls are sorted
// by start, tasks by when their ends became known; a stream's tasks are in order. Each row has its recording's UUID, so
// files from many recordings can be read as one table. Task times that were not measured are brackets, as the column
// measured says: do not add up their durations.
//
// Both functions only read the trace and may run concurrently with separate readers. Memory holds one row group per
// table, some tens of megabytes, the graphs, and a timeline.Walk. It does not grow with the number of calls.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Call is a row in table calls.
type Call struct {
	Recording  string  `parquet:"recording,dict"`
	Call       int64   `parquet:"call,delta"`
	PID        int32   `parquet:"pid,dict"`
	TID        int32   `parquet:"tid,dict"`
	Function   string  `parquet:"function,dict"`
	Start      int64   `parquet:"start,delta,timestamp(microsecond)"`
	StartNS    int64   `parquet:"start_ns,delta"`
	DurationNS int64   `parquet:"duration_ns,delta"`
	Ret        int64   `parquet:"ret,dict"`
	Error      *string `parquet:"error,optional,dict"`
	Kernel     *string `parquet:"kernel,optional,dict"`
	Unfinished bool    `parquet:"unfinished"`
	Task       bool    `parquet:"task"`
	Step       *int32  `parquet:"step,optional,dict"`
	Thread     *string `parquet:"thread,optional,dict"`
	Stream     *string `parquet:"stream,optional,dict"`
	Graph      *int64  `parquet:"graph,optional,dict"`
	Operator   *string `parquet:"operator,optional,dict"`
}

// Task is a row in table tasks.
type Task struct {
	Recording string `parquet:"recording,dict"`
	Call      int64  `parquet:"call,delta"`
	PID       int32  `parquet:"pid,dict"`
	TID       int32  `parquet:"tid,dict"`
	Device    *int32 `parquet:"device,optional,dict"`
	Stream    string `parquet:"stream,dict"`
	Kind      string `parquet:"kind,dict"`
	Name      string `parquet:"name,dict"`
	IssuedNS  int64  `parquet:"issued_ns,delta"`
	From      int64  `parquet:"from,delta,timestamp(microsecond)"`
	FromNS    int64  `parquet:"from_ns,delta"`
	ToNS      int64  `parquet:"to_ns,delta"`
	Measured  bool   `parquet:"measured"`
	Open      bool   `parquet:"open"`
	StreamID  *int64 `parquet:"stream_id,optional,dict"`
	TaskID    *int64 `parquet:"task_id,optional"`
	Step      *int32 `parquet:"step,optional,dict"`

	GraphKernels  *string `parquet:"graph_kernels,optional,dict"`
	GraphLaunches *int64  `parquet:"graph_launches,optional,dict"`
	Thread        *string `parquet:"thread,optional,dict"`
	Graph         *int64  `parquet:"graph,optional,dict"`
	Operator      *string `parquet:"operator,optional,dict"`
	Shapes        *string `parquet:"shapes,optional,dict"`
}

// Copy is a row in table copies.
type Copy struct {
	Task
	Direction string   `parquet:"direction,dict"`
	Bytes     int64    `parquet:"bytes,delta"`
	Pageable  bool     `parquet:"pageable"`
	Rate      *float64 `parquet:"bytes_per_s,optional"`
}

// Kernel is a row in table kernels.
type Kernel struct {
	Task
	Blocks *int32 `parquet:"blocks,optional,dict"`
}

// Step is a row in table steps.
type Step struct {
	Recording  string  `parquet:"recording,dict"`
	PID        int32   `parquet:"pid,dict"`
	Step       int32   `parquet:"step,dict"`
	Name       *string `parquet:"name,optional,dict"`
	Source     string  `parquet:"source,dict"`
	Start      int64   `parquet:"start,delta,timestamp(microsecond)"`
	StartNS    int64   `parquet:"start_ns,delta"`
	DurationNS int64   `parquet:"duration_ns,delta"`
	Typical    bool    `parquet:"typical"`
	Open       bool    `parquet:"open"`
}

// Graph is a row in table graphs.
type Graph struct {
	Recording string  `parquet:"recording,dict"`
	PID       int32   `parquet:"pid,dict"`
	Graph     int64   `parquet:"graph,delta"`
	Call      *int64  `parquet:"call,optional"`
	Ended     *int64  `parquet:"ended,optional"`
	Runs      int64   `parquet:"runs,delta"`
	Tasks     *int64  `parquet:"tasks,optional,dict"`
	Kernels   *string `parquet:"graph_kernels,optional,dict"`
	Launches  *int64  `parquet:"graph_launches,optional,dict"`
}

// Tables are the table names.
var Tables = []string{"calls", "tasks", "copies", "kernels", "steps", "graphs"}

// Options configure Write; nil means the zero value.
type Options struct {
	Select   *timeline.Selection   // calls, nil for all
	Progress func(done, total int) // called now and then with the call count
}

// Result counts the rows written.
type Result struct {
	Calls, Tasks, Copies, Kernels, Steps, Graphs int
	Bracketed                                    int // counted in Tasks too
}

func (r *Result) add(o *Result) {
	r.Calls, r.Tasks, r.Copies, r.Kernels, r.Steps, r.Graphs = r.Calls+o.Calls, r.Tasks+o.Tasks, r.Copies+o.Copies, r.Kernels+o.Kernels, r.Steps+o.Steps, r.Graphs+o.Graphs
	r.Bracketed += o.Bracketed
}

// A writer collects rows during the walk and passes them in batches to two goroutines that build columns: one for
// calls, one for tasks.
type writer struct {
	w       *timeline.Walk
	res     *Result
	uuid    string
	wall    int64
	procs   []format.Process
	threads []format.Thread
	calls   callColumns
	tasks   taskColumns
	copies  struct {
		taskColumns
		direction, bytes, pageable, rate *column
	}
	kernels struct {
		taskColumns
		blocks *column
	}
	steps  stepColumns
	graphs graphColumns
	called batches[call]
	ended  batches[timeline.Task]
	lanes  []timeline.Lane // own copies, since the walk changes its lanes
	picked [3][]*timeline.Task
}

// A call has the lane of its task or wait (noLane for none), and the number of its graph (0 for none).
type call struct {
	timeline.HostCall
	lane, graph int
	operator    string
}

const noLane = -1

type callColumns struct {
	*table
	call, pid, tid, function, start, duration, ret, error, kernel, unfinished, task, step, thread, stream, graph, operator *column
}

type taskColumns struct {
	*table
	call, pid, tid, device, stream, kind, name, issued, from, to, measured, open, streamID, taskID *column

	step, inside, launches, thread, graph, operator, shapes *column
}

func (t *table) taskColumns() taskColumns {
	return taskColumns{t, t.column("call"), t.column("pid"), t.column("tid"), t.column("device"), t.column("stream"), t.column("kind"), t.column("name"),
		t.column("issued_ns"), t.column("from_ns"), t.column("to_ns"), t.column("measured"), t.column("open"), t.column("stream_id"), t.column("task_id"),
		t.column("step"), t.column("graph_kernels"), t.column("graph_launches"), t.column("thread"), t.column("graph"), t.column("operator"), t.column("shapes")}
}

// batchRows is the batch size: small enough for the processor's caches.
const batchRows = 1 << 9

// batches passes rows from the walk to the goroutine that adds them to tables.
type batches[T any] struct {
	rows []T // the batch being filled
	full chan func() error
	free chan []T
	done chan struct{}
	err  atomic.Pointer[error]
}

func (b *batches[T]) start() {
	b.full, b.free, b.done = make(chan func() error, 1), make(chan []T, 2), make(chan struct{})
	for range cap(b.free) {
		b.free <- nil
	}
	work := b.full
	go func() {
		defer close(b.done)
		for take := range work {
			if b.failed() != nil {
				continue
			}
			if err := take(); err != nil {
				b.err.Store(&err)
			}
		}
	}()
}

func (b *batches[T]) failed() error {
	if p := b.err.Load(); p != nil {
		return *p
	}
	return nil
}

// hand passes the batch on and starts another.
func (b *batches[T]) hand(take func([]T) error) error {
	rows := b.rows
	b.full <- func() error {
		defer func() { b.free <- rows[:0] }()
		return take(rows)
	}
	b.rows = <-b.free
	return b.failed()
}

// stop waits until all batches are added. It may be called again.
func (b *batches[T]) stop() error {
	if b.full != nil {
		close(b.full)
		b.full = nil
	}
	<-b.done
	return b.failed()
}

// Write writes the tables. create opens the output for a table name.
func Write(create func(table string) (io.WriteCloser, error), r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	sel, err := timeline.NewSelector(r, m, o.Select)
	if err != nil {
		return nil, err
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, Shapes: true, Progress: o.Progress})
	if err := w.FindSteps(); err != nil {
		return nil, err
	}
	var files []io.Closer
	res := &Result{}
	err = func() error {
		x, err := newWriter(w, func(table string) (io.WriteCloser, error) {
			f, err := create(table)
			if err == nil {
				files = append(files, f)
			}
			return f, err
		})
		if err != nil {
			return err
		}
		defer x.stop()
		res = x.res
		if err := w.Run(&timeline.Visitor{Marks: true, Call: x.call, Task: x.task, Step: x.step, Object: x.object, Graph: x.graph}); err != nil {
			return err
		}
		return x.end()
	}()
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return res, fmt.Errorf("write parquet: %w", err)
	}
	return res, nil
}

// newWriter starts the tables and goroutines.
func newWriter(w *timeline.Walk, create func(table string) (io.WriteCloser, error)) (*writer, error) {
	r := w.Reader
	x := &writer{w: w, res: &Result{}, uuid: r.Meta().UUID, wall: r.Meta().StartWall, procs: r.Processes(), threads: r.Threads()}
	tables, err := newTables(create, r, w.Selector().String())
	if err != nil {
		return nil, err
	}
	x.use(tables)
	x.called.start()
	x.ended.start()
	return x, nil
}

// stop ends the goroutines.
func (x *writer) stop() error { return errors.Join(x.called.stop(), x.ended.stop()) }

// end writes the remaining rows.
func (x *writer) end() error {
	if err := errors.Join(x.handCalls(), x.handTasks(), x.stop(), x.graphRows()); err != nil {
		return err
	}
	for _, t := range []*table{x.calls.table, x.tasks.table, x.copies.table, x.kernels.table, x.steps.table, x.graphs.table} {
		if err := t.close(); err != nil {
			return err
		}
	}
	x.res.Calls, x.res.Tasks, x.res.Copies, x.res.Kernels, x.res.Steps, x.res.Graphs = x.calls.n, x.tasks.n, x.copies.n, x.kernels.n, x.steps.n, x.graphs.n
	return nil
}

// newTables starts the tables, in Tables' order.
func newTables(create func(table string) (io.WriteCloser, error), r *format.Reader, selection string) (all []*table, err error) {
	for i, begin := range []func(func(string) (io.WriteCloser, error), string, *format.Reader, string) (*table, error){newTable[Call], newTable[Task], newTable[Copy], newTable[Kernel], newTable[Step], newTable[Graph]} {
		t, err := begin(create, Tables[i], r, selection)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (x *writer) use(tables []*table) {
	for _, t := range tables {
		t.column("recording").all = &x.uuid
		for _, moment := range []string{"start", "from"} {
			if wall := t.column(moment); wall != nil {
				wall.of, wall.plus = t.column(moment+"_ns"), x.wall
			}
		}
	}
	t := tables[0]
	x.calls = callColumns{t, t.column("call"), t.column("pid"), t.column("tid"), t.column("function"), t.column("start_ns"),
		t.column("duration_ns"), t.column("ret"), t.column("error"), t.column("kernel"), t.column("unfinished"), t.column("task"), t.column("step"), t.column("thread"), t.column("stream"), t.column("graph"), t.column("operator")}
	x.tasks = tables[1].taskColumns()
	t = tables[2]
	x.copies.taskColumns = t.taskColumns()
	x.copies.direction, x.copies.bytes, x.copies.pageable, x.copies.rate = t.column("direction"), t.column("bytes"), t.column("pageable"), t.column("bytes_per_s")
	t = tables[3]
	x.kernels.taskColumns = t.taskColumns()
	x.kernels.blocks = t.column("blocks")
	x.steps, x.graphs = tables[4].stepColumns(), tables[5].graphColumns()
}

func (x *writer) call(c *timeline.HostCall, t *timeline.Task) error {
	row := call{*c, noLane, 0, valid(x.w.Event().Operator)}
	row.End = x.w.CallEnd(c)
	switch {
	case t != nil:
		row.lane = t.Lane
	case c.Fn != nil && (c.Fn.Sync == api.SyncStream || c.Fn.Sync == api.PollStream):
		row.lane = int(c.Waits) // -1 for none
	}
	x.seeLane(row.lane)
	for _, u := range x.w.Uses() {
		if u.Object.Kind == api.Graph {
			row.graph = u.Object.ID
			break
		}
	}
	x.called.rows = append(x.called.rows, row)
	if len(x.called.rows) < batchRows {
		return nil
	}
	return x.handCalls()
}

func (x *writer) handCalls() error {
	lanes := x.lanes
	return x.called.hand(func(rows []call) error { return x.takeCalls(rows, lanes) })
}

// seeLane copies lanes up to this one.
func (x *writer) seeLane(lane int) {
	if lane >= len(x.lanes) {
		x.lanes = append(x.lanes, x.w.Lanes[len(x.lanes):]...)
	}
}

func (x *writer) task(t *timeline.Task) error {
	x.seeLane(t.Lane)
	x.ran(t)
	x.ended.rows = append(x.ended.rows, *t)
	if len(x.ended.rows) < batchRows {
		return nil
	}
	return x.handTasks()
}

// names are the lanes, the operators and the shapes that tasks name by their numbers.
type names struct {
	lanes     []timeline.Lane
	operators []string
	shapes    []string
}

func (x *writer) handTasks() error {
	known := names{x.lanes, x.w.Operators(), x.w.Shapes()}
	return x.ended.hand(func(rows []timeline.Task) error { return x.takeTasks(rows, &known) })
}

// takeCalls adds calls, with the ends from CallEnd.
func (x *writer) takeCalls(rows []call, lanes []timeline.Lane) error {
	t := &x.calls
	calls, starts, durations := t.call.numbers.more(len(rows)), t.start.numbers.more(len(rows)), t.duration.numbers.more(len(rows))
	pids, tids := t.pid.indexes.more(len(rows)), t.tid.indexes.more(len(rows))
	tasks, unfinished := t.task.flags.more(len(rows)), t.unfinished.flags.zeros(len(rows))
	thread, pid, tid := format.NoThread, int32(0), int32(0)
	for i := range rows {
		c := &rows[i]
		if c.Thread != thread || i == 0 {
			thread = c.Thread
			p, n := x.thread(thread)
			pid, tid = t.pid.values.index(p), t.tid.values.index(n)
		}
		calls[i], starts[i], durations[i] = int64(c.Index), c.Start, c.End-c.Start
		pids[i], tids[i] = pid, tid
		tasks[i] = flag(c.Task >= 0)
		if c.Flags&format.Unfinished != 0 {
			unfinished[i] = 1
		}
	}
	steps, threads, streams, graphs := t.step.has.zeros(len(rows)), t.thread.has.zeros(len(rows)), t.stream.has.zeros(len(rows)), t.graph.has.zeros(len(rows))
	operators := t.operator.has.zeros(len(rows))
	for i := range rows {
		c := &rows[i]
		t.step.put(steps, i, c.Step)
		t.thread.name(threads, i, x.threadName(c.Thread))
		if c.lane != noLane {
			t.stream.name(streams, i, lanes[c.lane].Name)
		}
		t.graph.put(graphs, i, orNone(c.graph))
		t.operator.name(operators, i, c.operator)
	}
	functions, kernels := t.function.indexes.more(len(rows)), t.kernel.has.zeros(len(rows))
	for i := range rows {
		c := &rows[i]
		functions[i] = t.function.texts.index(c.Name)
		if c.Kernel != "" {
			kernels[i] = 1
			t.kernel.indexes = append(t.kernel.indexes, t.kernel.texts.index(c.Kernel))
		}
	}
	rets, errs := t.ret.indexes.more(len(rows)), t.error.has.zeros(len(rows))
	last, at := int64(0), int32(0)
	for i := range rows {
		c := &rows[i]
		ret := int64(c.Ret)
		switch {
		case c.Flags&format.Unfinished != 0:
			if ret = 0; c.Hung() {
				errs[i] = 1
				t.error.indexes = append(t.error.indexes, t.error.texts.index(timeline.NeverReturned))
			}
		case c.Fn != nil && c.Fn.RetError:
			if ret = int64(int32(c.Ret)); ret != 0 && c.Failed() {
				if name := x.w.Model.ErrorName(ret); name != "" {
					errs[i] = 1
					t.error.indexes = append(t.error.indexes, t.error.texts.index(name))
				}
			}
		}
		if i == 0 || ret != last {
			last, at = ret, t.ret.values.index(ret)
		}
		rets[i] = at
	}
	return t.added(len(rows))
}

// takeTasks adds tasks, and the further columns for copies and kernels.
func (x *writer) takeTasks(rows []timeline.Task, known *names) error {
	all, copies, kernels := x.picked[0][:0], x.picked[1][:0], x.picked[2][:0]
	for i := range rows {
		t := &rows[i]
		all = append(all, t)
		if !t.Measured {
			x.res.Bracketed++
		}
		switch t.Kind {
		case api.Copy:
			copies = append(copies, t)
		case api.Kernel:
			kernels = append(kernels, t)
		}
	}
	x.picked = [3][]*timeline.Task{all, copies, kernels}
	c := &x.copies
	directions, bytes, pageable, rates := c.direction.indexes.more(len(copies)), c.bytes.numbers.more(len(copies)), c.pageable.flags.more(len(copies)), c.rate.has.zeros(len(copies))
	for i, t := range copies {
		directions[i], bytes[i], pageable[i] = c.direction.texts.index(t.Direction()), int64(t.Bytes), flag(t.Pageable())
		if rate, atLeast := t.Rate(); rate > 0 && !atLeast {
			rates[i] = 1
			c.rate.numbers = append(c.rate.numbers, int64(math.Float64bits(rate)))
		}
	}
	k := &x.kernels
	blocks := k.blocks.has.zeros(len(kernels))
	for i, t := range kernels {
		if t.Blocks > 0 {
			blocks[i] = 1
			k.blocks.indexes = append(k.blocks.indexes, k.blocks.values.index(int64(int32(t.Blocks))))
		}
	}
	return errors.Join(x.taskRows(&x.tasks, all, known), x.taskRows(&c.taskColumns, copies, known), x.taskRows(&k.taskColumns, kernels, known))
}

// taskRows adds the columns that all tasks have.
func (x *writer) taskRows(to *taskColumns, rows []*timeline.Task, known *names) error {
	lanes := known.lanes
	calls, issued, from, until := to.call.numbers.more(len(rows)), to.issued.numbers.more(len(rows)), to.from.numbers.more(len(rows)), to.to.numbers.more(len(rows))
	measured, open := to.measured.flags.more(len(rows)), to.open.flags.more(len(rows))
	for i, t := range rows {
		calls[i], issued[i], from[i], until[i] = int64(t.Call), t.Issued, t.From, t.To
		measured[i], open[i] = flag(t.Measured), flag(t.Open)
	}
	pids, tids, streams, devices := to.pid.indexes.more(len(rows)), to.tid.indexes.more(len(rows)), to.stream.indexes.more(len(rows)), to.device.has.zeros(len(rows))
	thread, pid, tid := format.NoThread, int32(0), int32(0)
	lane, stream, device := -1, int32(0), int32(-1)
	for i, t := range rows {
		if t.Thread != thread || i == 0 {
			thread = t.Thread
			p, n := x.thread(thread)
			pid, tid = to.pid.values.index(p), to.tid.values.index(n)
		}
		if t.Lane != lane {
			lane, device = t.Lane, -1
			stream = to.stream.texts.index(lanes[lane].Name)
			if n := lanes[lane].Device; n != timeline.NoDevice {
				device = to.device.values.index(int64(n))
			}
		}
		pids[i], tids[i], streams[i] = pid, tid, stream
		if device >= 0 {
			devices[i] = 1
			to.device.indexes = append(to.device.indexes, device)
		}
	}
	steps, inside, launches := to.step.has.zeros(len(rows)), to.inside.has.zeros(len(rows)), to.launches.has.zeros(len(rows))
	threads, graphs, operators := to.thread.has.zeros(len(rows)), to.graph.has.zeros(len(rows)), to.operator.has.zeros(len(rows))
	shapes := to.shapes.has.zeros(len(rows))
	for i, t := range rows {
		to.step.put(steps, i, t.Step)
		to.thread.name(threads, i, x.threadName(t.Thread))
		if t.Operator != 0 {
			to.operator.name(operators, i, valid(known.operators[t.Operator]))
		}
		if t.Shapes != 0 {
			to.shapes.name(shapes, i, valid(known.shapes[t.Shapes]))
		}
		if t.Kind == api.GraphRun && t.Object != nil {
			to.graph.put(graphs, i, t.Object.ID)
		}
		if c := t.Content; c != nil {
			inside[i], launches[i] = 1, 1
			to.inside.indexes = append(to.inside.indexes, to.inside.texts.index(valid(c.String())))
			to.launches.indexes = append(to.launches.indexes, to.launches.values.index(int64(c.Launches)))
		}
	}
	kinds, names := to.kind.indexes.more(len(rows)), to.name.indexes.more(len(rows))
	streamIDs, taskIDs := to.streamID.has.zeros(len(rows)), to.taskID.has.zeros(len(rows))
	kind, kindAt := api.NoTask, int32(0)
	for i, t := range rows {
		if t.Kind != kind {
			kind, kindAt = t.Kind, to.kind.texts.index(t.Kind.String())
		}
		kinds[i], names[i] = kindAt, to.name.texts.index(t.Name)
		if t.HasID {
			streamIDs[i], taskIDs[i] = 1, 1
			to.streamID.indexes = append(to.streamID.indexes, to.streamID.values.index(int64(t.StreamID)))
			to.taskID.numbers = append(to.taskID.numbers, int64(t.TaskID))
		}
	}
	return to.added(len(rows))
}

// put adds a number, unless it is negative.
func (c *column) put(has []byte, row, n int) {
	if n >= 0 {
		has[row] = 1
		c.indexes = append(c.indexes, c.values.index(int64(n)))
	}
}

// orNone returns the number of an object, -1 for 0.
func orNone(id int) int {
	if id == 0 {
		return -1
	}
	return id
}

// name adds a name, unless it is empty.
func (c *column) name(has []byte, row int, name string) {
	if name != "" {
		has[row] = 1
		c.indexes = append(c.indexes, c.texts.index(name))
	}
}

// threadName returns a thread's name, "" if unknown.
func (x *writer) threadName(t uint32) string {
	if int(t) >= len(x.threads) {
		return ""
	}
	return x.threads[t].Name
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// thread returns a thread's id and process id, 0 if unknown.
func (x *writer) thread(t uint32) (pid, tid int64) {
	if int(t) >= len(x.threads) {
		return 0, 0
	}
	th := &x.threads[t]
	if int(th.Process) < len(x.procs) {
		pid = int64(x.procs[th.Process].PID)
	}
	return pid, int64(th.TID)
}

// valid replaces invalid UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
