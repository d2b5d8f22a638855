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
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

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
	DurationNS int64   `parquet:"duration_ns"`
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
	Bytes     int64    `parquet:"bytes"`
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

// groupRows is how many rows a row group has.
const groupRows = 1 << 17

// batch is how many rows are given to a table at once.
const batch = 1 << 10

// table writes one table.
type table[T any] struct {
	f    io.WriteCloser
	w    *parquet.GenericWriter[T]
	rows []T
	n    int
}

func newTable[T any](create func(string) (io.WriteCloser, error), name string, r *format.Reader) (*table[T], error) {
	f, err := create(name)
	if err != nil {
		return nil, err
	}
	m := r.Meta()
	return &table[T]{f: f, rows: make([]T, 0, batch), w: parquet.NewGenericWriter[T](f,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("acltrace", "", ""),
		parquet.DataPageStatistics(false), parquet.PageBufferSize(1<<20),
		parquet.KeyValueMetadata("acltrace.recording", m.UUID), parquet.KeyValueMetadata("acltrace.host", valid(m.Host)),
		parquet.KeyValueMetadata("acltrace.argv", valid(strings.Join(m.Argv, " "))), parquet.KeyValueMetadata("acltrace.start_wall_ns", strconv.FormatInt(m.StartWall, 10)),
		parquet.KeyValueMetadata("acltrace.simulated", strconv.FormatBool(m.Simulated)), parquet.KeyValueMetadata("acltrace.complete", strconv.FormatBool(r.Complete())),
		parquet.KeyValueMetadata("acltrace.calls_lost", strconv.FormatUint(lost(r), 10)))}, nil
}

func lost(r *format.Reader) (n uint64) {
	for _, g := range r.Gaps() {
		n += g.Calls
	}
	return n
}

// next returns the next row to be filled in.
func (t *table[T]) next() (*T, error) {
	if len(t.rows) == batch {
		if err := t.flush(); err != nil {
			return nil, err
		}
	}
	t.n++
	t.rows = t.rows[:len(t.rows)+1]
	row := &t.rows[len(t.rows)-1]
	var zero T
	*row = zero
	return row, nil
}

func (t *table[T]) flush() error {
	_, err := t.w.Write(t.rows)
	t.rows = t.rows[:0]
	return err
}

func (t *table[T]) close() error {
	return errors.Join(t.flush(), t.w.Close())
}

type writer struct {
	w       *timeline.Walk
	res     *Result
	uuid    string
	wall    int64
	procs   []format.Process
	threads []format.Thread
	texts   map[string]*string
	errors  map[int64]*string
	devices []*int32 // by lane
	calls   *table[Call]
	tasks   *table[Task]
	copies  *table[Copy]
	kernels *table[Kernel]
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
	x := &writer{w: w, res: &Result{}, uuid: r.Meta().UUID, wall: r.Meta().StartWall, procs: r.Processes(), threads: r.Threads(), texts: map[string]*string{}, errors: map[int64]*string{}}
	var files []io.Closer
	named := func(table string) (io.WriteCloser, error) {
		f, err := create(table)
		if err == nil {
			files = append(files, f)
		}
		return f, err
	}
	res := x.res
	err = func() (err error) {
		if x.calls, err = newTable[Call](named, "calls", r); err != nil {
			return err
		}
		if x.tasks, err = newTable[Task](named, "tasks", r); err != nil {
			return err
		}
		if x.copies, err = newTable[Copy](named, "copies", r); err != nil {
			return err
		}
		if x.kernels, err = newTable[Kernel](named, "kernels", r); err != nil {
			return err
		}
		if err := w.Run(&timeline.Visitor{Lane: x.lane, Call: x.call, Task: x.task}); err != nil {
			return err
		}
		return errors.Join(x.calls.close(), x.tasks.close(), x.copies.close(), x.kernels.close())
	}()
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return res, fmt.Errorf("write parquet: %w", err)
	}
	res.Calls, res.Tasks, res.Copies, res.Kernels = x.calls.n, x.tasks.n, x.copies.n, x.kernels.n
	return res, nil
}

func (x *writer) lane(_ int, l *timeline.Lane) error {
	var d *int32
	if n := int32(l.Device); n != timeline.NoDevice {
		d = &n
	}
	x.devices = append(x.devices, d)
	return nil
}

func (x *writer) call(c *timeline.HostCall, _ *timeline.Task) error {
	r, err := x.calls.next()
	if err != nil {
		return err
	}
	r.Recording, r.Call, r.Function, r.Task = x.uuid, int64(c.Index), valid(c.Name), c.Task >= 0
	r.PID, r.TID = x.thread(c.Thread)
	r.StartNS, r.Start, r.DurationNS = c.Start, x.wall+c.Start, x.w.CallEnd(c)-c.Start
	r.Kernel = x.text(c.Kernel)
	switch {
	case c.Flags&format.Unfinished != 0:
		r.Unfinished = true
		x.res.Unfinished++
	case c.Fn != nil && c.Fn.RetError:
		r.Ret = int64(int32(c.Ret))
		if c.Failed() {
			r.Error = x.failure(r.Ret)
		}
	default:
		r.Ret = int64(c.Ret)
	}
	return nil
}

func (x *writer) task(t *timeline.Task) error {
	if !t.Measured {
		x.res.Bracketed++
	}
	r, err := x.tasks.next()
	if err != nil {
		return err
	}
	r.Recording, r.Call, r.Stream, r.Kind, r.Name = x.uuid, int64(t.Call), x.w.Lanes[t.Lane].Name, t.Kind.String(), valid(t.Name)
	r.PID, r.TID = x.thread(t.Thread)
	r.Device = x.devices[t.Lane]
	r.IssuedNS, r.FromNS, r.From, r.ToNS, r.Measured, r.Open = t.Issued, t.From, x.wall+t.From, t.To, t.Measured, t.Open
	if t.HasID {
		stream, task := int64(t.StreamID), int64(t.TaskID)
		r.StreamID, r.TaskID = &stream, &task
	}
	switch t.Kind {
	case api.Copy:
		c, err := x.copies.next()
		if err != nil {
			return err
		}
		c.Task, c.Direction, c.Bytes, c.Pageable = *r, t.Direction(), int64(t.Bytes), t.Pageable
		if rate, atLeast := t.Rate(); rate > 0 && !atLeast {
			c.Rate = &rate
		}
	case api.Kernel:
		k, err := x.kernels.next()
		if err != nil {
			return err
		}
		k.Task = *r
		if t.Blocks > 0 {
			n := int32(t.Blocks)
			k.Blocks = &n
		}
	}
	return nil
}

// thread returns the numbers of a thread and its process, 0 where they are not known.
func (x *writer) thread(t uint32) (pid, tid int32) {
	if int(t) >= len(x.threads) {
		return 0, 0
	}
	th := &x.threads[t]
	if int(th.Process) < len(x.procs) {
		pid = int32(x.procs[th.Process].PID)
	}
	return pid, int32(th.TID)
}

func (x *writer) text(s string) *string {
	if s == "" {
		return nil
	}
	p := x.texts[s]
	if p == nil {
		v := valid(s)
		p = &v
		x.texts[s] = p
	}
	return p
}

func (x *writer) failure(code int64) *string {
	p := x.errors[code]
	if p == nil {
		v := x.w.Model.ErrorName(code)
		p = &v
		x.errors[code] = p
	}
	return p
}

// valid makes a string from a trace one of UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
