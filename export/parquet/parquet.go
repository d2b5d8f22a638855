// Package parquet writes a trace as tables in Apache Parquet, for DuckDB, pandas, Spark, ClickHouse and whatever else asks
// many recordings one question: calls, tasks, and of these copies and kernels once more with what only they have. docs/parquet.md describes the
// columns; the types Call, Task, Copy and Kernel are them.
//
// Rows of calls are in the order in which these began, rows of tasks in that in which their ends became known: those of a stream in its order. Each row has the UUID of its recording, so that files of many recordings can be read as one
// table. Times of tasks that were not measured are brackets, as the column measured says: their lengths must not be added up.
//
// Write only reads the trace, and may be called from several goroutines. It holds one row group of each table, some tens of
// megabytes however long the recording is, and what a timeline.Walk holds.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Call is a row of the table calls.
type Call struct {
	Recording  string  `parquet:"recording,dict"`
	Call       int64   `parquet:"call,delta"`
	PID        int32   `parquet:"pid,dict"`
	TID        int32   `parquet:"tid,dict"`
	Function   string  `parquet:"function,dict"`
	Start      int64   `parquet:"start,delta,timestamp(nanosecond)"`
	StartNS    int64   `parquet:"start_ns,delta"`
	DurationNS int64   `parquet:"duration_ns,delta"`
	Ret        int64   `parquet:"ret,dict"`
	Error      *string `parquet:"error,optional,dict"`
	Kernel     *string `parquet:"kernel,optional,dict"`
	Unfinished bool    `parquet:"unfinished"`
	Task       bool    `parquet:"task"`
}

// Task is a row of the table tasks.
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
	From      int64  `parquet:"from,delta,timestamp(nanosecond)"`
	FromNS    int64  `parquet:"from_ns,delta"`
	ToNS      int64  `parquet:"to_ns,delta"`
	Measured  bool   `parquet:"measured"`
	Open      bool   `parquet:"open"`
	StreamID  *int64 `parquet:"stream_id,optional,dict"`
	TaskID    *int64 `parquet:"task_id,optional"`
}

// Copy is a row of the table copies.
type Copy struct {
	Task
	Direction string   `parquet:"direction,dict"`
	Bytes     int64    `parquet:"bytes,delta"`
	Pageable  bool     `parquet:"pageable"`
	Rate      *float64 `parquet:"bytes_per_s,optional"`
}

// Kernel is a row of the table kernels.
type Kernel struct {
	Task
	Blocks *int32 `parquet:"blocks,optional,dict"`
}

// Tables are the names of the tables.
var Tables = []string{"calls", "tasks", "copies", "kernels"}

// Options change what is written; nil stands for the zero value.
type Options struct {
	Progress func(done, total int) // called now and then with the number of calls
}

// Result says what was written.
type Result struct {
	Calls, Tasks, Copies, Kernels int
	Unfinished                    int // of Calls
	Bracketed                     int // of Tasks
}

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
}

type callColumns struct {
	*table
	call, pid, tid, function, start, duration, ret, error, kernel, unfinished, task *column
}

type taskColumns struct {
	*table
	call, pid, tid, device, stream, kind, name, issued, from, to, measured, open, streamID, taskID *column
}

func (t *table) taskColumns() taskColumns {
	return taskColumns{t, t.column("call"), t.column("pid"), t.column("tid"), t.column("device"), t.column("stream"), t.column("kind"), t.column("name"),
		t.column("issued_ns"), t.column("from_ns"), t.column("to_ns"), t.column("measured"), t.column("open"), t.column("stream_id"), t.column("task_id")}
}

// Write writes the tables, each into what create returns for its name.
func Write(create func(table string) (io.WriteCloser, error), r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	walk := &timeline.WalkOptions{NoSteps: true}
	if o != nil {
		walk.Progress = o.Progress
	}
	w, err := timeline.NewWalk(r, m, walk)
	if err != nil {
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
		res = x.res
		if err := w.Run(&timeline.Visitor{Call: x.call, Task: x.task}); err != nil {
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

// newWriter begins tables for what a walk tells.
func newWriter(w *timeline.Walk, create func(table string) (io.WriteCloser, error)) (*writer, error) {
	r := w.Reader
	x := &writer{w: w, res: &Result{}, uuid: r.Meta().UUID, wall: r.Meta().StartWall, procs: r.Processes(), threads: r.Threads()}
	tables, err := newTables(create, r)
	if err != nil {
		return nil, err
	}
	x.use(tables)
	return x, nil
}

// end writes what is left of the tables.
func (x *writer) end() error {
	for _, t := range []*table{x.calls.table, x.tasks.table, x.copies.table, x.kernels.table} {
		if err := t.close(); err != nil {
			return err
		}
	}
	x.res.Calls, x.res.Tasks, x.res.Copies, x.res.Kernels = x.calls.n, x.tasks.n, x.copies.n, x.kernels.n
	return nil
}

// newTables begins the tables, in the order of Tables.
func newTables(create func(table string) (io.WriteCloser, error), r *format.Reader) (all []*table, err error) {
	for i, begin := range []func(func(string) (io.WriteCloser, error), string, *format.Reader) (*table, error){newTable[Call], newTable[Task], newTable[Copy], newTable[Kernel]} {
		t, err := begin(create, Tables[i], r)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

func (x *writer) use(tables []*table) {
	for i, t := range tables {
		t.column("recording").all = &x.uuid
		moment := "from"
		if i == 0 {
			moment = "start"
		}
		wall := t.column(moment)
		wall.of, wall.plus = t.column(moment+"_ns"), x.wall
	}
	t := tables[0]
	x.calls = callColumns{t, t.column("call"), t.column("pid"), t.column("tid"), t.column("function"), t.column("start_ns"),
		t.column("duration_ns"), t.column("ret"), t.column("error"), t.column("kernel"), t.column("unfinished"), t.column("task")}
	x.tasks = tables[1].taskColumns()
	t = tables[2]
	x.copies.taskColumns = t.taskColumns()
	x.copies.direction, x.copies.bytes, x.copies.pageable, x.copies.rate = t.column("direction"), t.column("bytes"), t.column("pageable"), t.column("bytes_per_s")
	t = tables[3]
	x.kernels.taskColumns = t.taskColumns()
	x.kernels.blocks = t.column("blocks")
}

func (x *writer) call(c *timeline.HostCall, _ *timeline.Task) error {
	t := &x.calls
	pid, tid := x.thread(c.Thread)
	t.call.number(int64(c.Index))
	t.pid.number(pid)
	t.tid.number(tid)
	t.function.text(c.Name)
	t.start.number(c.Start)
	t.duration.number(x.w.CallEnd(c) - c.Start)
	t.kernel.name(c.Kernel)
	t.task.flag(c.Task >= 0)
	unfinished := c.Flags&format.Unfinished != 0
	t.unfinished.flag(unfinished)
	ret, failure := int64(c.Ret), ""
	switch {
	case unfinished:
		ret = 0
		x.res.Unfinished++
	case c.Fn != nil && c.Fn.RetError:
		ret = int64(int32(c.Ret))
		if c.Failed() {
			failure = x.w.Model.ErrorName(ret)
		}
	}
	t.ret.number(ret)
	t.error.name(failure)
	return t.next()
}

func (x *writer) task(t *timeline.Task) error {
	if !t.Measured {
		x.res.Bracketed++
	}
	if err := x.row(&x.tasks, t); err != nil {
		return err
	}
	switch t.Kind {
	case api.Copy:
		c := &x.copies
		c.direction.text(t.Direction())
		c.bytes.number(int64(t.Bytes))
		c.pageable.flag(t.Pageable)
		if rate, atLeast := t.Rate(); rate > 0 && !atLeast {
			c.rate.number(int64(math.Float64bits(rate)))
		} else {
			c.rate.null()
		}
		return x.row(&c.taskColumns, t)
	case api.Kernel:
		k := &x.kernels
		if t.Blocks > 0 {
			k.blocks.number(int64(int32(t.Blocks)))
		} else {
			k.blocks.null()
		}
		return x.row(&k.taskColumns, t)
	}
	return nil
}

// row ends a row with what all tasks have.
func (x *writer) row(to *taskColumns, t *timeline.Task) error {
	pid, tid := x.thread(t.Thread)
	lane := &x.w.Lanes[t.Lane]
	to.call.number(int64(t.Call))
	to.pid.number(pid)
	to.tid.number(tid)
	to.stream.text(lane.Name)
	to.kind.text(t.Kind.String())
	to.name.text(t.Name)
	to.issued.number(t.Issued)
	to.from.number(t.From)
	to.to.number(t.To)
	to.measured.flag(t.Measured)
	to.open.flag(t.Open)
	if lane.Device != timeline.NoDevice {
		to.device.number(int64(lane.Device))
	} else {
		to.device.null()
	}
	if t.HasID {
		to.streamID.number(int64(t.StreamID))
		to.taskID.number(int64(t.TaskID))
	} else {
		to.streamID.null()
		to.taskID.null()
	}
	return to.next()
}

// thread returns the numbers of a thread and its process, 0 where they are not known.
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

// valid makes a string from a trace one of UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
