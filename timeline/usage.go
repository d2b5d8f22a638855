package timeline

import (
	"cmp"
	"encoding/binary"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/minheap"
)

// A MemoryPoint is a change of the device memory that is in use.
type MemoryPoint struct {
	Time    int64 // start of the call, nanoseconds since the beginning of the trace
	Process uint32
	Device  int     // NoDevice where that is not known
	Bytes   uint64  // allocated on this device by this process, after the change
	Total   uint64  // allocated by all processes on all devices, after the change
	Object  *Object // that was made or has ended
	Freed   bool
	Call    *HostCall
}

// A DepthPoint is a change of the number of tasks that a stream holds: one for each moment of a stream.
type DepthPoint struct {
	Time  int64 // nanoseconds since the beginning of the trace
	Lane  int   // index into Walk.Lanes
	Depth int   // tasks that have been issued and may not have ended: at most so many where their times are brackets
}

// depths follow the queues of all streams.
type depths struct {
	now     int64
	lanes   []depth
	changed []int                // lanes, at the moment
	ends    minheap.Heap[ending] // to come
	point   DepthPoint           // that is told
}

type depth struct {
	tasks   int
	changed bool
}

// An ending is a moment at which tasks of a lane end.
type ending struct {
	at    int64
	lane  int
	tasks int
}

// Before orders endings: the earliest first.
func (a ending) Before(b ending) bool { return a.at < b.at }

// maxEndings bounds the ends of tasks that lie in the future: 6 MiB. Where there are more, the earliest are told early.
const maxEndings = 1 << 18

// until tells of all changes before a moment.
func (d *depths) until(now int64, tell func(*DepthPoint) error) error {
	for d.ends.Len() > 0 && (d.ends.Min().at < now || d.ends.Len() > maxEndings) {
		e := d.ends.Pop()
		if err := d.pass(min(e.at, now), tell); err != nil {
			return err
		}
		d.change(e.lane, -e.tasks)
	}
	return d.pass(now, tell)
}

// pass tells of the changes at a moment when it is over.
func (d *depths) pass(now int64, tell func(*DepthPoint) error) error {
	if now <= d.now {
		return nil
	}
	for _, l := range d.changed {
		d.lanes[l].changed = false
		d.point = DepthPoint{Time: d.now, Lane: l, Depth: d.lanes[l].tasks}
		if err := tell(&d.point); err != nil {
			return err
		}
	}
	d.changed, d.now = d.changed[:0], now
	return nil
}

// change takes in that a lane has got tasks, or lost some, now.
func (d *depths) change(lane, by int) {
	for lane >= len(d.lanes) {
		d.lanes = append(d.lanes, depth{})
	}
	l := &d.lanes[lane]
	l.tasks += by
	if !l.changed {
		l.changed = true
		d.changed = append(d.changed, lane)
	}
}

// end takes in that tasks will end.
func (d *depths) end(at int64, lane, tasks int) { d.ends.Push(ending{max(at, d.now), lane, tasks}) }

// SizeClasses are the classes of copies, by their greatest length in bytes; 0 stands for all longer ones.
var SizeClasses = [...]struct {
	Name string
	Max  uint64
}{{"<=4KiB", 4 << 10}, {"<=64KiB", 64 << 10}, {"<=1MiB", 1 << 20}, {"<=16MiB", 16 << 20}, {"<=256MiB", 256 << 20}, {">256MiB", 0}}

// SizeClass returns the index into SizeClasses of a length.
func SizeClass(bytes uint64) int {
	for i, c := range SizeClasses {
		if bytes <= c.Max {
			return i
		}
	}
	return len(SizeClasses) - 1
}

// Direction returns HtoD, DtoH, DtoD or HtoH of a copy, "" for other tasks.
func (k *Task) Direction() string {
	if k.Kind != api.Copy {
		return ""
	}
	return k.Name[len(k.Name)-4:]
}

// Rate returns the bytes per second that a copy, or a fill, was done with, 0 where it took no time. Where its times are a
// bracket, it was at least that fast.
func (k *Task) Rate() (rate float64, atLeast bool) {
	if k.To <= k.From {
		return 0, false
	}
	return float64(k.Bytes) / float64(k.To-k.From) * 1e9, !k.Measured
}

// Idle is a time in which a stream had certainly nothing to do between two of its tasks.
type Idle struct {
	Lane     int
	From, To int64 // nanoseconds since the beginning of the trace
	Task     Task  // that ended it
	// Call is the call in which the thread that ended it has spent most of the time, NoCall where it made none;
	// InCallNS is how much that was, and InCallsNS how much all its calls were. RecordingNS is how much the recorder took between
	// them. The rest is the program's own time.
	Call                uint64
	Func                string
	InCallNS, InCallsNS int64
	RecordingNS         int64
}

// Before orders idle times: the shortest first.
func (a Idle) Before(b Idle) bool {
	return cmp.Or(cmp.Compare(a.To-a.From, b.To-b.From), cmp.Compare(b.From, a.From), cmp.Compare(b.Lane, a.Lane)) < 0
}

// Idles finds the longest times in which streams were idle. It is told of all tasks, as a Visitor is, and holds as many as are asked for.
type Idles struct {
	most  int
	lanes []idleLane
	found minheap.Heap[Idle]
}

type idleLane struct {
	began bool
	until int64
}

// NewIdles returns what finds the longest n.
func NewIdles(n int) *Idles { return &Idles{most: n} }

// Task takes in a task of a stream: not one that is done by its call itself.
func (f *Idles) Task(k *Task) {
	for k.Lane >= len(f.lanes) {
		f.lanes = append(f.lanes, idleLane{})
	}
	l := &f.lanes[k.Lane]
	if l.began && k.From > l.until {
		d := Idle{Lane: k.Lane, From: l.until, To: k.From, Call: NoCall}
		if f.found.Len() < f.most || f.most > 0 && f.found.Min().Before(d) {
			d.Task = *k
			f.found.Push(d)
			if f.found.Len() > f.most {
				f.found.Pop()
			}
		}
	}
	l.began = true
	l.until = max(l.until, k.To)
}

// Longest returns what was found, the longest first. It reads the calls of these times for what the host did in them.
func (f *Idles) Longest(r *format.Reader) ([]Idle, error) {
	idles := make([]Idle, f.found.Len())
	for i := len(idles) - 1; i >= 0; i-- {
		idles[i] = f.found.Pop()
		d := &idles[i]
		until := d.From
		for c, err := range r.CallsByStart(&format.Filter{From: d.From, To: d.To + 1, Threads: []uint32{d.Task.Thread}, NoData: true}) {
			if err != nil {
				return nil, err
			}
			if c.Start > until {
				ns, _ := out(c, api.RecordingParam)
				d.RecordingNS += int64(min(ns, uint64(min(c.Start, d.To)-until)))
			}
			until = max(until, c.End)
			in := max(min(c.End, d.To)-max(c.Start, d.From), 0) // the call that ends the time begins with its end
			d.InCallsNS += in
			if in > d.InCallNS {
				d.InCallNS, d.Call, d.Func = in, c.Index, r.Schema().FuncName(c.Func)
			}
		}
	}
	return idles, nil
}

// A meter finds when the device did the task of a call, where that was measured. It may be known with the call, or long after it.
type meter struct {
	late *format.LateData // nil where nothing was measured so
}

func newMeter(r *format.Reader) (meter, error) {
	if r.Meta().DeviceTime == nil {
		return meter{}, nil
	}
	late, err := r.LateData(api.TaskStartParam)
	return meter{late}, err
}

// measured returns when the task of a call began and ended, on the clock of the call. Calls must come by their start.
func (m *meter) measured(c *format.Call) (from, to int64, ok bool, err error) {
	start, began := out(c, api.TaskStartParam)
	end, ended := out(c, api.TaskEndParam)
	if began && ended {
		return int64(start), int64(end), int64(start) <= int64(end), nil
	}
	if m.late == nil {
		return 0, 0, false, nil
	}
	var b []byte
	for i := range c.Data {
		if d := &c.Data[i]; d.Param == api.TaskStartParam {
			b = d.Bytes
		}
	}
	if b == nil {
		b, err = m.late.Of(c.Index)
	}
	if len(b) != 16 {
		return 0, 0, false, err
	}
	from, to = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	return from, to, from <= to, nil
}
