package rows

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// taskTimes converts task times from the device's clock to the trace's clock. Each task bounds the offset between the two
// clocks: the event before the task occurred after it was requested, and the event after the task occurred before the program
// saw that it was complete. The narrowest bounds count. They widen over time, since the clocks may drift.
type taskTimes struct {
	b       *Builder
	calls   map[callKey]timedCall      // whose task times have not arrived yet
	ahead   map[callKey]probe.TaskTime // arrived before their calls
	clocks  map[deviceKey]*deviceClock
	summary format.DeviceTime
	errors  []int64 // half the distance between the bounds, by task
}

type timedCall struct {
	place
	start int64 // CLOCK_MONOTONIC
}

// deviceKey is a device as its process numbers it.
type deviceKey struct{ pid, device int }

type deviceClock struct {
	rows []timedTask // current batch
	kept int         // rows of the batch that were in the previous one too
	last bounds
	done map[uint64]placedTask // the last task that was written, by stream
}

type placedTask struct {
	from int64 // on the device's clock
	to   int64 // on CLOCK_MONOTONIC
}

type timedTask struct {
	probe.TaskTime
	timedCall
	from int64 // nanoseconds on the device's clock
	bounds
}

// bounds limit the host's clock minus the device's clock, at a time on the device's clock.
type bounds struct {
	at, lo, hi int64
	known      bool
}

const (
	// drift is the largest drift between two quartz clocks, in parts per million.
	drift = 50
	// tick is the device's time stamp resolution in nanoseconds.
	tick = 1000
	// mostTimed is the number of tasks in a batch, timedFor the most time in nanoseconds that a batch covers.
	mostTimed, timedFor = 4096, int64(200e6)
	// Tasks of the last timedLate nanoseconds, mostTimed/2 at most, stay in the batch: times of earlier tasks on their
	// streams may arrive late, from another thread's ring.
	timedLate = int64(100e6)
)

func newTaskTimes(b *Builder) *taskTimes {
	return &taskTimes{b: b, calls: map[callKey]timedCall{}, ahead: map[callKey]probe.TaskTime{}, clocks: map[deviceKey]*deviceClock{}}
}

// call notes a call whose task is measured.
func (t *taskTimes) call(k callKey, c timedCall) error {
	if m, ok := t.ahead[k]; ok {
		delete(t.ahead, k)
		return t.add(c, &m)
	}
	t.calls[k] = c
	return nil
}

// TaskTime adds a task's time.
func (b *Builder) TaskTime(m *probe.TaskTime) error {
	t := b.times
	k := callKey{threadKey{m.PID, m.TID}, m.Seq}
	c, ok := t.calls[k]
	if !ok {
		t.ahead[k] = *m
		return nil
	}
	delete(t.calls, k)
	return t.add(c, m)
}

func (t *taskTimes) add(c timedCall, m *probe.TaskTime) error {
	// A task took no longer than from the call to when it was seen to be done, or the two clocks have nothing in common.
	if m.Elapsed < 0 || m.Elapsed > m.Seen-m.Issued+2*tick || m.To < m.From {
		t.summary.Unsound++
		return nil
	}
	k := deviceKey{m.PID, m.Device}
	d := t.clocks[k]
	if d == nil {
		d = &deviceClock{done: map[uint64]placedTask{}}
		t.clocks[k] = d
	}
	// Each of the two time stamps gives the first event's time within a tick.
	early, late := max(m.From, m.To-m.Elapsed), min(m.From, m.To-m.Elapsed)+tick
	early, late = min(early, late), max(early, late)
	r := timedTask{TaskTime: *m, timedCall: c, from: (early + late) / 2}
	r.bounds = bounds{r.from, max(m.Issued-late, m.Closed-late-m.Elapsed), m.Seen - early - m.Elapsed, true}
	d.rows = append(d.rows, r)
	if len(d.rows) > 2*d.kept && (len(d.rows) >= mostTimed || m.Seen-d.rows[0].Seen > timedFor) {
		return t.settle(d, mostTimed/2)
	}
	return nil
}

// narrow intersects the bounds with those from another moment. It returns false and keeps b if they contradict each other: a
// clock was set, or drifts faster than it should.
func (b *bounds) narrow(o *bounds) (sound bool) {
	if !o.known {
		return true
	}
	slack := (b.at - o.at) * drift / 1e6
	slack = max(slack, -slack)
	lo, hi := max(b.lo, o.lo-slack), min(b.hi, o.hi+slack)
	if lo > hi {
		return false
	}
	b.lo, b.hi = lo, hi
	return true
}

// settle writes the times of the current batch, except for the last few tasks, keep at most.
func (t *taskTimes) settle(d *deviceClock, keep int) error {
	slices.SortStableFunc(d.rows, func(a, b timedTask) int { return cmp.Compare(a.from, b.from) })
	before := &d.last
	for i := range d.rows {
		if !d.rows[i].narrow(before) {
			t.summary.Jumps++
		}
		before = &d.rows[i].bounds
	}
	for i := len(d.rows) - 2; i >= 0; i-- {
		d.rows[i].narrow(&d.rows[i+1].bounds)
	}
	// Each task ends early enough for later tasks on its stream to be done when they were seen to be.
	latest := make([]int64, len(d.rows))
	next := map[uint64]int64{} // latest start of the following task, by stream
	for i, r := range slices.Backward(d.rows) {
		latest[i] = r.Seen
		if t, ok := next[r.Stream]; ok {
			latest[i] = min(r.Seen, t)
		}
		next[r.Stream] = latest[i] - r.Elapsed
	}
	n := len(d.rows)
	for n > 0 && len(d.rows)-n < keep && d.rows[n-1].from > d.rows[len(d.rows)-1].from-timedLate {
		n--
	}
	for i := range d.rows[:n] {
		if err := t.place(d, &d.rows[i], latest[i]); err != nil {
			return err
		}
	}
	if n > 0 {
		d.last = d.rows[n-1].bounds
	}
	d.rows = slices.Delete(d.rows, 0, n)
	d.kept = len(d.rows)
	if len(t.errors) > 1<<16 {
		slices.Sort(t.errors)
		for i := range t.errors[:1<<15] {
			t.errors[i] = t.errors[2*i]
		}
		t.errors = t.errors[:1<<15]
	}
	return nil
}

// place writes the times of a task that ended before latest. It leaves out those that contradict the previous task of the stream.
func (t *taskTimes) place(d *deviceClock, r *timedTask, latest int64) error {
	before, ok := d.done[r.Stream]
	// The task keeps its duration, except for a part before its call: the first event was requested before the call.
	from := min(max(r.from+(r.lo+r.hi)/2, r.Issued, before.to), latest-r.Elapsed)
	to := from + r.Elapsed
	if from = max(from, r.start); from < before.to && before.to-from <= tick {
		from = before.to
	}
	from = min(from, to)
	if ok && (r.from < before.from || from < before.to) {
		t.summary.Unsound++
		return nil
	}
	d.done[r.Stream] = placedTask{r.from, to}
	off := (r.hi - r.lo) / 2
	t.summary.ErrorNS = max(t.summary.ErrorNS, off)
	t.errors = append(t.errors, off)
	return t.write(r, from, to)
}

func (t *taskTimes) write(r *timedTask, from, to int64) error {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(t.b.time(from)))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.b.time(to)))
	t.summary.Measured++
	t.b.follower.Measured(r.First+r.index, t.b.time(from), t.b.time(to))
	return r.data(&format.Data{Param: api.TaskStartParam, Dir: format.DirOut, Len: uint64(len(b)), Bytes: b[:], Time: t.b.time(r.Seen)})
}

// finish writes the incomplete batches, and sums up the measurement.
func (t *taskTimes) finish() error {
	for _, d := range t.clocks {
		if err := t.settle(d, 0); err != nil {
			return err
		}
	}
	t.summary.NeverSynchronized = uint64(len(t.calls))
	if n := len(t.errors); n > 0 {
		slices.Sort(t.errors)
		t.summary.TypicalErrorNS = t.errors[n/2]
	}
	return nil
}
