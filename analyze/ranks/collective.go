// Package ranks compares and merges traces from a job's ranks.
//
// Merge aligns the clocks, first by the wall clocks and then by the collectives that all ranks have, and writes one
// trace. Compare reads a merged trace and reports which rank the others waited for, FindBehind which rank did not call a
// collective. acltrace merge calls Merge, package stats Compare, package blame FindBehind. Memory does not grow with the call count. The package never changes the traces that
// it reads.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package ranks

import (
	"cmp"
	"fmt"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A Key identifies a job's collective: the nth on its communicator.
type Key struct {
	Comm string // communicator: its name, or # and its number in its process
	N    int    // number of the collective in the communicator
}

// A meeting is one rank's part of a collective.
type meeting struct {
	fn      *api.Func
	call    uint64
	start   int64 // when the call began
	done    int64 // when its work had ended, unseen if not known
	process uint32
}

// unseen is an end that the trace does not show.
const unseen = math.MaxInt64

// A walker finds a trace's collectives. It emits each one when its end is known.
type walker struct {
	procs []uint32            // by thread
	comms map[commKey]*comm   // live communicators by handle
	count map[uint32]int      // communicators by process
	open  map[uint32]*pending // unfinished call by thread
	tasks map[int]*pending    // by Task.Index
	emit  func(k Key, m *meeting) error
}

type commKey struct {
	process uint32
	handle  uint64
}

type comm struct {
	o      *timeline.Object
	number string // in its process
	n      int    // collectives so far
}

// pending is a meeting without a known end.
type pending struct {
	meeting
	comm    *comm
	n       int
	end     int64 // of the call
	left    int   // tasks without an end
	closed  bool  // the call has returned: no more tasks follow
	open    bool  // a task's end does not show
	emitted bool
}

// walk emits a trace's collectives.
func walk(r *format.Reader, m *api.Model, emit func(k Key, m *meeting) error) error {
	l := &walker{comms: map[commKey]*comm{}, count: map[uint32]int{}, open: map[uint32]*pending{}, tasks: map[int]*pending{}, emit: emit}
	for _, t := range r.Threads() {
		l.procs = append(l.procs, t.Process)
	}
	w := timeline.NewWalk(r, m, nil)
	if err := w.Run(&timeline.Visitor{Call: l.call, Task: l.task, Object: l.object}); err != nil {
		return err
	}
	for _, h := range l.open {
		h.closed = true
		if err := l.finish(h); err != nil {
			return err
		}
	}
	return nil
}

// commOf returns the parameter that names a function's communicator, -1 for none.
func commOf(f *api.Func) int {
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.Use && p.Object == communicator {
			return i
		}
	}
	return -1
}

// communicator is the object kind on which ranks meet.
const communicator api.Object = "communicator"

func (l *walker) object(o *timeline.Object) error {
	if o.Kind == communicator {
		l.count[o.Process]++
		l.comms[commKey{o.Process, o.Handle}] = &comm{o: o, number: fmt.Sprintf("#%d", l.count[o.Process])}
	}
	return nil
}

func (l *walker) call(h *timeline.HostCall, k *timeline.Task) error {
	if in := l.open[h.Thread]; in != nil {
		if h.Start >= in.end {
			delete(l.open, h.Thread)
			in.closed = true
			if err := l.finish(in); err != nil {
				return err
			}
		} else if k != nil {
			in.left++
			l.tasks[k.Index] = in
		}
	}
	if h.Fn == nil || !h.Fn.Collective || h.Flags&format.Unfinished != 0 || h.Failed() || int(h.Thread) >= len(l.procs) {
		return nil
	}
	i := commOf(h.Fn)
	if i < 0 {
		return nil
	}
	process := l.procs[h.Thread]
	c := l.comms[commKey{process, h.Raw.Args[h.Fn.Params[i].Word]}]
	if c == nil {
		return nil
	}
	l.open[h.Thread] = &pending{meeting: meeting{fn: h.Fn, call: h.Index, start: h.Start, process: process}, comm: c, n: c.n, end: h.End}
	c.n++
	return nil
}

func (l *walker) task(k *timeline.Task) error {
	h := l.tasks[k.Index]
	if h == nil {
		return nil
	}
	delete(l.tasks, k.Index)
	h.left--
	h.open = h.open || k.Open
	h.done = max(h.done, k.To)
	return l.finish(h)
}

// finish emits a meeting if its end is known.
func (l *walker) finish(h *pending) error {
	if !h.closed || h.left > 0 || h.emitted {
		return nil
	}
	h.emitted = true
	if h.open || h.done == 0 {
		h.done = unseen
	}
	return l.emit(Key{cmp.Or(h.comm.o.Name, h.comm.number), h.n}, &h.meeting)
}
