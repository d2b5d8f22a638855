package timeline

import (
	"cmp"
	"encoding/binary"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/minheap"
)

// A MemoryPoint is a change in device memory use.
type MemoryPoint struct {
	Time    int64 // the call's start, in nanoseconds since the trace began
	Process uint32
	Device  int     // NoDevice if unknown
	Bytes   uint64  // allocated on this device by this process, after the change
	Total   uint64  // allocated by all processes on all devices, after the change
	Object  *Object // its memory was allocated or freed
	Freed   bool
	Call    *HostCall
}

// A DepthPoint is a change in the number of tasks on a stream, at most one per stream and moment.
type DepthPoint struct {
	Time  int64 // nanoseconds since the trace began
	Lane  int   // index into Walk.Lanes
	Depth int   // tasks issued that may not have ended; an upper bound if their times are bounds
}

// depths counts the tasks on all streams.
type depths struct {
	now     int64
	lanes   []depth
	changed []int                // lanes with a change at the current moment
	ends    minheap.Heap[ending] // in the future
	point   DepthPoint           // reused
}

type depth struct {
	tasks   int
	changed bool
}

// An ending is a moment at which some tasks on a lane end.
type ending struct {
	at    int64
	lane  int
	tasks int
}

// Before orders endings by time.
func (a ending) Before(b ending) bool { return a.at < b.at }

// maxEndings bounds the task ends in the future, 6 MiB. If there are more, the earliest are reported too early.
const maxEndings = 1 << 18

// until reports all changes before a moment.
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

// pass reports the changes at the current moment, and advances to the next.
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

// change adds tasks to a lane, or removes some, at the current moment.
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

// end schedules the end of some tasks.
func (d *depths) end(at int64, lane, tasks int) { d.ends.Push(ending{max(at, d.now), lane, tasks}) }

// SizeClasses are size classes for copies, by their largest length in bytes; 0 means no limit.
var SizeClasses = [...]struct {
	Name string
	Max  uint64
}{{"<=4KiB", 4 << 10}, {"<=64KiB", 64 << 10}, {"<=1MiB", 1 << 20}, {"<=16MiB", 16 << 20}, {"<=256MiB", 256 << 20}, {">256MiB", 0}}

// SizeClass returns the index into SizeClasses for a length.
func SizeClass(bytes uint64) int {
	for i, c := range SizeClasses {
		if bytes <= c.Max {
			return i
		}
	}
	return len(SizeClasses) - 1
}

// Rate returns the speed of a copy or a fill in bytes per second, 0 if it took no time. atLeast is true if its times are bounds.
func (k *Task) Rate() (rate float64, atLeast bool) {
	if k.To <= k.From {
		return 0, false
	}
	return float64(k.Bytes) / float64(k.To-k.From) * 1e9, !k.Measured
}

// Idle is a period in which a stream certainly had no task, between two tasks.
type Idle struct {
	Lane     int
	From, To int64 // nanoseconds since the trace began
	Task     Task  // that ended the period
	// Call is the call that took most of the period on the thread of the task, NoCall if the thread made none. InCallNS is the time in that
	// call, InCallsNS the time in all its calls, and RecordingNS the time that the recorder took between them. The program used the rest.
	Call                uint64
	Func                string
	InCallNS, InCallsNS int64
	RecordingNS         int64
	BlockedNS           int64 // part of the rest in which the thread did not run
}

// Before orders idle periods by length.
func (a Idle) Before(b Idle) bool {
	return cmp.Or(cmp.Compare(a.To-a.From, b.To-b.From), cmp.Compare(b.From, a.From), cmp.Compare(b.Lane, a.Lane)) < 0
}

// Idles finds the longest idle periods of streams. It takes all tasks, in the order of a Visitor, and keeps a fixed number of periods.
type Idles struct {
	most  int
	lanes []idleLane
	found minheap.Heap[Idle]
}

type idleLane struct {
	began bool
	until int64
}

// NewIdles returns an Idles for the longest n periods.
func NewIdles(n int) *Idles { return &Idles{most: n} }

// Task takes a task on a stream, not a task that its call does itself.
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

// Longest returns the longest periods, the longest first. It reads the calls in these periods from the trace.
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
				rest := uint64(min(c.Start, d.To) - until)
				recording := min(ns, rest)
				d.RecordingNS += int64(recording)
				ns, _ = out(c, api.BlockedParam)
				d.BlockedNS += int64(min(ns, rest-recording))
			}
			until = max(until, c.End)
			in := max(min(c.End, d.To)-max(c.Start, d.From), 0) // the call that ends the period begins at its end
			d.InCallsNS += in
			if in > d.InCallNS {
				d.InCallNS, d.Call, d.Func = in, c.Index, r.Schema().FuncName(c.Func)
			}
		}
	}
	return idles, nil
}

// A meter returns measured task times. They are recorded with the call, or much later.
type meter struct {
	late *format.LateData // nil if there are none
}

func newMeter(r *format.Reader) (meter, error) {
	if r.Meta().DeviceTime == nil {
		return meter{}, nil
	}
	late, err := r.LateData(api.TaskStartParam)
	return meter{late}, err
}

// measured returns when a call's task began and ended, on the clock of calls. Calls must come in the order in which they started.
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
