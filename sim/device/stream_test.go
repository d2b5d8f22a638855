package device

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// observer is a Runtime that keeps the tasks that failed.
type observer struct{ failed []string }

func (o *observer) TaskFailed(_ *Stream, k *Task, _ *fail.Failure) {
	o.failed = append(o.failed, k.Name)
}
func (o *observer) StreamEnding(*Stream) {}
func (o *observer) StreamEnded(*Stream)  {}

// working has a stream, and the names of the tasks that ran and of those that ended.
type working struct {
	t          *testing.T
	c          *Context
	s          *Stream
	thread     *HostThread
	seen       observer
	ran, ended []string
}

// newWorking returns a stream in real or in virtual time.
func newWorking(t *testing.T, virtual bool) *working {
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	w := &working{t: t, thread: &HostThread{}}
	x := &Machine{}
	x.Start(Options{VABase: 0x2000_0000_0000, Devices: 1, Model: m, Virtual: virtual, Log: io.Discard, Runtime: &w.seen})
	w.c = &Context{Device: x.Devices[0]}
	w.s = w.stream()
	x.Clock.Join(w.thread)
	t.Cleanup(func() {
		for _, s := range slices.Clone(w.c.Streams) {
			s.Close(true)
		}
		x.Close()
	})
	return w
}

func (w *working) stream() *Stream {
	w.t.Helper()
	w.c.Device.Lock()
	defer w.c.Device.Unlock()
	s, f := w.c.NewStream(0, 0)
	if f != nil {
		w.t.Fatal(f.Text)
	}
	return s
}

// submit submits a task that runs f.
func (w *working) submit(name string, f func(*Stream) (time.Duration, *fail.Failure)) *fail.Failure {
	_, failure := w.s.Submit(w.thread, Task{Kind: TaskHost, Name: name, Release: func() { w.ended = append(w.ended, name) },
		Run: func(s *Stream) (time.Duration, *fail.Failure) { w.ran = append(w.ran, name); return f(s) }})
	return failure
}

func (w *working) all() {
	w.t.Helper()
	if !w.s.Wait(w.thread, w.s.SubmittedTasks(), Forever) {
		w.t.Error("the tasks did not end")
	}
}

func succeeds(*Stream) (time.Duration, *fail.Failure) { return Tick, nil }

func (w *working) want(ran, ended, failed string) {
	w.t.Helper()
	if got := fmt.Sprint(w.ran, w.ended, w.seen.failed); got != fmt.Sprintf("[%s] [%s] [%s]", ran, ended, failed) {
		w.t.Errorf("ran, ended and failed: %s; want [%s] [%s] [%s]", got, ran, ended, failed)
	}
}

// clocks runs a test in real and in virtual time.
func clocks(t *testing.T, test func(*testing.T, *working)) {
	for _, virtual := range []bool{false, true} {
		t.Run(fmt.Sprintf("virtual=%t", virtual), func(t *testing.T) { test(t, newWorking(t, virtual)) })
	}
}

// A failed task does not stop later ones. The first failure is returned once.
func TestFailureIsSeenOnce(t *testing.T) {
	clocks(t, func(t *testing.T, w *working) {
		first, second := fail.New(fail.Aborted, "first"), fail.New(fail.Aborted, "second")
		w.submit("a", succeeds)
		w.submit("b", func(*Stream) (time.Duration, *fail.Failure) { return 0, first })
		w.submit("c", func(*Stream) (time.Duration, *fail.Failure) { return 0, second })
		w.submit("d", succeeds)
		w.all()
		w.want("a b c d", "a b c d", "b c")
		if f := w.s.Observe(); f != first {
			t.Errorf("%v", f)
		}
		if f := w.s.Observe(); f != nil || w.s.Blocked() != nil {
			t.Errorf("again: %v", f)
		}
		if p := w.s.Progress(); p != (Progress{Task: 4}) || w.s.Done.Load() != 4 || w.c.Device.Tasks.Load() != 4 {
			t.Errorf("%+v", p)
		}
		w.submit("e", func(*Stream) (time.Duration, *fail.Failure) { return 0, second })
		if f := w.s.Close(false); f != second || w.s.Close(false) != nil || w.c.Device.Streams[0] != nil || len(w.c.Streams) != 0 {
			t.Errorf("closed with %v", f)
		}
		if f := w.submit("f", succeeds); f == nil || f.Code != fail.Ended {
			t.Errorf("a closed stream takes a task: %v", f)
		}
		w.want("a b c d e", "a b c d e", "b c e")
	})
}

// A context that stops on a failure runs no further task on any stream, and returns the failure each time.
func TestContextStopsOnFailure(t *testing.T) {
	clocks(t, func(t *testing.T, w *working) {
		w.c.Stops.Store(true)
		other := w.stream()
		bad := fail.New(fail.Aborted, "bad")
		gate := make(chan struct{})
		w.submit("a", func(*Stream) (time.Duration, *fail.Failure) { <-gate; return 0, bad })
		w.submit("b", succeeds)
		close(gate)
		w.all()
		w.want("a", "a b", "a")
		for range 2 {
			if f, o := w.s.Observe(), other.Observe(); f != bad || o != bad || w.s.Blocked() != bad || other.Blocked() != bad {
				t.Errorf("%v, %v", f, o)
			}
		}
		if f := w.submit("c", succeeds); f != bad {
			t.Errorf("%v", f)
		}
		if other.Abort(); w.submit("d", succeeds) != bad {
			t.Error("the abort of another stream lets the context go on")
		}
		w.s.Abort()
		if f := w.submit("e", succeeds); f != nil || w.s.Progress().Aborts != 1 || other.Progress().Aborts != 1 {
			t.Errorf("after an abort: %v, %+v", f, w.s.Progress())
		}
		w.all()
		w.want("a e", "a b e", "a")
		if f := w.s.Close(true); f != nil {
			t.Errorf("closed with %v", f)
		}
	})
}

// An abort ends the waits of tasks and discards the work after them, apart from tasks for which others wait.
func TestAbortDiscardsQueuedTasks(t *testing.T) {
	clocks(t, func(t *testing.T, w *working) {
		begun := make(chan struct{})
		never := &Mark{Done: make(chan struct{})}
		_, _ = w.s.Submit(w.thread, Task{Kind: TaskWait, Begin: func(*Stream) *Waiting { close(begun); return never.Wait(0, nil) }, Run: succeeds})
		w.submit("a", succeeds)
		_, _ = w.s.Submit(w.thread, Task{Kind: TaskRecord, Always: true, Run: func(*Stream) (time.Duration, *fail.Failure) { w.ran = append(w.ran, "always"); return 0, nil }})
		if w.s.Wait(w.thread, 1, 0) {
			t.Error("the wait has ended")
		}
		if w.s.Wait(w.thread, 1, 5*time.Millisecond) || w.s.Waits.Count.Load() != 0 || len(w.s.Waits.all) != 0 {
			t.Error("the wait has ended, or somebody still waits for it")
		}
		<-begun
		w.s.Abort()
		w.want("always", "a", "")
		if f := w.s.Observe(); f != nil || IsClosed(w.s.Life.Stop) {
			t.Errorf("%v", f)
		}
		w.submit("b", succeeds)
		w.all()
		w.want("always b", "a b", "")
	})
}

// A wait passes its limit, and a task that reads memory that does not exist fails.
func TestWaitsEnd(t *testing.T) {
	clocks(t, func(t *testing.T, w *working) {
		late := fail.New(fail.Aborted, "late")
		m := &Mark{Done: make(chan struct{})}
		wait := func(name string, limit time.Duration) {
			_, _ = w.s.Submit(w.thread, Task{Kind: TaskWait, Name: name, Begin: func(*Stream) *Waiting { return m.Wait(limit, func() *fail.Failure { return late }) }, Run: succeeds})
		}
		wait("limited", time.Millisecond)
		w.all()
		if f := w.s.Observe(); f != late {
			t.Errorf("%v", f)
		}
		m.Time = w.s.Time + 2*time.Millisecond
		close(m.Done)
		wait("done", 0)
		w.all()
		if f := w.s.Observe(); f != nil || !w.c.Device.Machine.Options.Virtual && time.Duration(w.s.LastEnd.Load()) < m.Time { // the device time of the record counts
			t.Errorf("%v, at %v, the record was at %v", f, w.s.LastEnd.Load(), m.Time)
		}
		w.submit("wild", func(*Stream) (time.Duration, *fail.Failure) { return time.Duration(space.Bytes(0x1000, 8)[0]), nil })
		w.all()
		if f := w.s.Observe(); f == nil || f.Code != fail.BadAddress {
			t.Errorf("%v", f)
		}
	})
}

// Streams have the lowest free id.
func TestStreamIDs(t *testing.T) {
	w := newWorking(t, true)
	a, b := w.stream(), w.stream()
	if w.s.ID != 0 || a.ID != 1 || b.ID != 2 || len(w.c.Streams) != 3 {
		t.Errorf("%d, %d, %d", w.s.ID, a.ID, b.ID)
	}
	a.Close(false)
	if c, d := w.stream(), w.stream(); c.ID != 1 || d.ID != 3 || !slices.Equal(w.c.Device.Streams, []*Stream{w.s, c, b, d}) {
		t.Errorf("%d, %d", c.ID, d.ID)
	}
	for len(w.c.Streams) < MaxStreams {
		w.stream()
	}
	if _, f := w.c.NewStream(0, 0); f == nil || f.Code != fail.NoStream {
		t.Errorf("%v", f)
	}
}
