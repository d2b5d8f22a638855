package rows

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

// taskTimes puts what devices say of their tasks on the clock of the calls. A device's clock is known by what must be so: the event
// before a task was not there before it was asked for, nor the one behind it after the program has seen that it is complete.
// Each task bounds the distance of the two clocks from both sides, the narrowest bounds count, and they widen with the time
// that the clocks may drift in.
type taskTimes struct {
	b      *Builder
	calls  map[callKey]timedCall      // whose tasks are measured, and not known yet
	ahead  map[callKey]probe.TaskTime // that came before their calls
	clocks map[deviceKey]*deviceClock
	said   format.DeviceTime
	errors []int64 // half of the distance of the bounds, of every batch
}

type timedCall struct {
	place
	start int64 // CLOCK_MONOTONIC
}

// deviceKey is a device as its process numbers it.
type deviceKey struct{ pid, device int }

type deviceClock struct {
	rows []timedTask // that wait for others, which tell more of the clock
	last bounds
	busy map[uint64]int64 // by stream, the end of the last task; CLOCK_MONOTONIC
}

type timedTask struct {
	probe.TaskTime
	timedCall
	from int64 // nanoseconds of the device's clock
	bounds
}

// bounds are those of the clock of the host less that of a device, at a time of the device's clock.
type bounds struct {
	at, lo, hi int64
	known      bool
}

const (
	// drift is how much two clocks may go apart, in parts of a million: each is a quartz.
	drift = 50
	// tick is the resolution of the device's time stamps, nanoseconds.
	tick = 1000
	// A batch of tasks is put on the clock together: as many, or from as much time.
	mostTimed, timedFor = 4096, int64(200e6)
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

// TaskTime takes the time of a task.
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
		t.said.Unsound++
		return nil
	}
	k := deviceKey{m.PID, m.Device}
	d := t.clocks[k]
	if d == nil {
		d = &deviceClock{busy: map[uint64]int64{}}
		t.clocks[k] = d
	}
	// Each of the two time stamps says of the first event when it was, within a tick.
	early, late := max(m.From, m.To-m.Elapsed), min(m.From, m.To-m.Elapsed)+tick
	early, late = min(early, late), max(early, late)
	r := timedTask{TaskTime: *m, timedCall: c, from: (early + late) / 2}
	r.bounds = bounds{r.from, max(m.Issued-late, m.Closed-late-m.Elapsed), m.Seen - early - m.Elapsed, true}
	d.rows = append(d.rows, r)
	if len(d.rows) >= mostTimed || m.Seen-d.rows[0].Seen > timedFor {
		return t.settle(d)
	}
	return nil
}

// narrow takes over what another moment says of the clocks. Where the two contradict each other, the later one counts: a
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

// settle writes the times of the tasks that wait.
func (t *taskTimes) settle(d *deviceClock) error {
	slices.SortStableFunc(d.rows, func(a, b timedTask) int { return cmp.Compare(a.from, b.from) })
	before := &d.last
	for i := range d.rows {
		if !d.rows[i].narrow(before) {
			t.said.Jumps++
		}
		before = &d.rows[i].bounds
	}
	for i := len(d.rows) - 2; i >= 0; i-- {
		d.rows[i].narrow(&d.rows[i+1].bounds)
	}
	// Each task ends early enough for those behind it on its stream to be done when they were seen to be.
	latest := make([]int64, len(d.rows))
	next := map[uint64]int64{} // by stream, when the task behind begins at the latest
	for i, r := range slices.Backward(d.rows) {
		latest[i] = r.Seen
		if t, ok := next[r.Stream]; ok {
			latest[i] = min(r.Seen, t)
		}
		next[r.Stream] = latest[i] - r.Elapsed
	}
	for i := range d.rows {
		r := &d.rows[i]
		// The task keeps its duration, but for what lies before its call: the first event was asked for before that.
		from := min(max(r.from+(r.lo+r.hi)/2, r.Issued, d.busy[r.Stream]), latest[i]-r.Elapsed)
		to := from + r.Elapsed
		from = min(max(from, r.start), to)
		d.busy[r.Stream] = to
		off := (r.hi - r.lo) / 2
		t.said.ErrorNS = max(t.said.ErrorNS, off)
		t.errors = append(t.errors, off)
		if err := t.write(r, from, to); err != nil {
			return err
		}
	}
	if n := len(d.rows); n > 0 {
		d.last = d.rows[n-1].bounds
	}
	d.rows = d.rows[:0]
	if len(t.errors) > 1<<16 {
		slices.Sort(t.errors)
		for i := range t.errors[:1<<15] {
			t.errors[i] = t.errors[2*i]
		}
		t.errors = t.errors[:1<<15]
	}
	return nil
}

func (t *taskTimes) write(r *timedTask, from, to int64) error {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(t.b.time(from)))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.b.time(to)))
	t.said.Measured++
	t.b.following.measured(r.First+r.index, t.b.time(from), t.b.time(to))
	return r.data(&format.Data{Param: api.TaskStartParam, Dir: format.DirOut, Len: uint64(len(b)), Bytes: b[:], Time: t.b.time(r.Seen)})
}

// finish writes what still waits, and says how many tasks were measured.
func (t *taskTimes) finish() error {
	for _, d := range t.clocks {
		if err := t.settle(d); err != nil {
			return err
		}
	}
	t.said.NeverSynchronized = uint64(len(t.calls))
	if n := len(t.errors); n > 0 {
		slices.Sort(t.errors)
		t.said.TypicalErrorNS = t.errors[n/2]
	}
	return nil
}
