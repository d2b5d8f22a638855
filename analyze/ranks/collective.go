// Package ranks joins the traces of the ranks of a job: it brings their clocks together, by the wall clocks and by the
// collectives at which all ranks meet, and tells which rank the others wait for.
//
// It reads traces and writes a new one; memory does not grow with the number of calls.
package ranks

import (
	"cmp"
	"fmt"
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A Key is a collective of a job: the nth one on a communicator.
type Key struct {
	Comm string // its name, else # and its number in its process
	N    int
}

// A meeting is a rank's part of a collective at which all ranks meet.
type meeting struct {
	fn      *api.Func
	start   int64 // when the call began
	done    int64 // by when its work was certainly done, math.MaxInt64 where nothing shows that
	process uint32
}

// unseen is the end of what nothing shows the end of.
const unseen = math.MaxInt64

// A listener hears of the collectives of a trace, of each when its end is known.
type listener struct {
	m     *api.Model
	procs []uint32          // process by thread
	comms map[commKey]*comm // live ones, by handle
	count map[uint32]int    // communicators by process
	open  map[uint32]*heard // by thread, the call that the thread is in
	tasks map[int]*heard    // by Task.Index
	tell  func(k Key, m *meeting) error
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

// heard is a meeting whose end is not known.
type heard struct {
	meeting
	comm   *comm
	n      int
	end    int64 // of the call
	left   int   // tasks to come
	closed bool  // the call is over: no more tasks come
	open   bool  // nothing shows the end of a task
	told   bool
}

// listen goes through a trace.
func listen(r *format.Reader, m *api.Model, tell func(k Key, m *meeting) error) error {
	l := &listener{m: m, comms: map[commKey]*comm{}, count: map[uint32]int{}, open: map[uint32]*heard{}, tasks: map[int]*heard{}, tell: tell}
	for _, t := range r.Threads() {
		l.procs = append(l.procs, t.Process)
	}
	w, err := timeline.NewWalk(r, m, &timeline.WalkOptions{NoSteps: true})
	if err != nil {
		return err
	}
	if err := w.Run(&timeline.Visitor{Call: l.call, Task: l.task, Object: l.object}); err != nil {
		return err
	}
	for _, h := range l.open {
		h.closed = true
		if err := l.over(h); err != nil {
			return err
		}
	}
	return nil
}

// commOf is the parameter of a function that names the communicator on which ranks meet, -1 for none.
func commOf(f *api.Func) int {
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.Use && p.Object == communicator {
			return i
		}
	}
	return -1
}

// communicator is the kind of objects on which ranks meet.
const communicator api.Object = "communicator"

func (l *listener) object(o *timeline.Object) error {
	if o.Kind == communicator {
		l.count[o.Process]++
		l.comms[commKey{o.Process, o.Handle}] = &comm{o: o, number: fmt.Sprintf("#%d", l.count[o.Process])}
	}
	return nil
}

func (l *listener) call(h *timeline.HostCall, k *timeline.Task) error {
	if in := l.open[h.Thread]; in != nil {
		if h.Start >= in.end {
			delete(l.open, h.Thread)
			in.closed = true
			if err := l.over(in); err != nil {
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
	l.open[h.Thread] = &heard{meeting: meeting{fn: h.Fn, start: h.Start, process: process}, comm: c, n: c.n, end: h.End}
	c.n++
	return nil
}

func (l *listener) task(k *timeline.Task) error {
	h := l.tasks[k.Index]
	if h == nil {
		return nil
	}
	delete(l.tasks, k.Index)
	h.left--
	h.open = h.open || k.Open
	h.done = max(h.done, k.To)
	return l.over(h)
}

// over tells of a meeting all of which is known.
func (l *listener) over(h *heard) error {
	if !h.closed || h.left > 0 || h.told {
		return nil
	}
	h.told = true
	if h.open || h.done == 0 {
		h.done = unseen
	}
	return l.tell(Key{cmp.Or(h.comm.o.Name, h.comm.number), h.n}, &h.meeting)
}
