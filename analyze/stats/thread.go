package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Thread are where the time of a typical step went on one thread, on average over those steps. Its parts, from
// WaitingNS to OwnNS, add up to the time of the step, but for rounding.
type Thread struct {
	Thread      string `json:"thread"`
	Process     int    `json:"process"` // id of the process
	WaitingNS   int64  `json:"waiting_ns"`
	LaunchingNS int64  `json:"launching_ns"` // in calls that launch kernels and graphs
	CopyingNS   int64  `json:"copying_ns"`   // in calls that copy and fill
	OtherNS     int64  `json:"other_ns"`     // in other calls
	RecordingNS int64  `json:"recording_ns"` // in none, while the recorder hashed and copied payloads
	OwnNS       int64  `json:"own_ns"`       // in none, and the program's own
	// DeviceNS is what was measured on the device of the tasks that the thread has issued in the step.
	DeviceNS int64 `json:"device_ns"`
}

// What a thread does in a call.
const (
	waiting = iota
	launching
	copying
	other
	recording // between calls
	doings
)

// within follows what threads do in the steps of a trace. It holds a few numbers for each thread.
type within struct {
	w       *timeline.Walk
	threads []doing
	named   named
	latest  int64 // start of the latest call
	n, took int64 // typical steps, and their time
}

type doing struct {
	now, sum       [doings]int64 // in the step that goes on, and in typical ones
	device, onSum  int64
	until, carried int64 // end of the calls so far, of those before the step that goes on
	what, before   int   // that they were
	some           bool  // in a typical step
}

// waits reports whether a function waits for the device, whatever else it does.
func waits(f *api.Func) bool {
	return f != nil && (f.Sync == api.SyncDevice || f.Sync == api.SyncStream || f.Sync == api.SyncEvent)
}

// named are the functions that calls of a profile are of, by their names there.
type named struct {
	model *api.Model
	of    map[string]*api.Func
}

// function is what a call is of. A profile has calls of its own, which are not the model's and have no arguments, but are
// named for what was called: AscendCL@aclrtSynchronizeStream, or Runtime@StreamSynchronize for rtStreamSynchronize.
func (n *named) function(h *timeline.HostCall) *api.Func {
	if h.Fn != nil {
		return h.Fn
	}
	f, known := n.of[h.Name]
	if !known {
		if n.of == nil {
			n.of = map[string]*api.Func{}
		}
		if _, of, ok := strings.Cut(h.Name, "@"); ok {
			f = cmp.Or(n.model.Lookup(of), n.model.Lookup("rt"+of))
		}
		n.of[h.Name] = f
	}
	return f
}

func (x *within) doing(h *timeline.HostCall, k *timeline.Task) int {
	kind, f := api.NoTask, x.named.function(h)
	switch {
	case k != nil:
		kind = k.Kind
	case f != nil:
		kind = f.Task
	}
	switch {
	case waits(f):
		return waiting
	case kind == api.Kernel || kind == api.GraphRun:
		return launching
	case kind == api.Copy || kind == api.Fill || kind == api.Reduce:
		return copying
	}
	return other
}

func (x *within) call(h *timeline.HostCall, k *timeline.Task) {
	for int(h.Thread) >= len(x.threads) {
		x.threads = append(x.threads, doing{})
	}
	d, end := &x.threads[h.Thread], x.w.CallEnd(h)
	x.latest = h.Start
	if h.Step >= 0 {
		d.now[recording] += h.Recording
	}
	if end > d.until {
		what := x.doing(h, k)
		if h.Step >= 0 {
			d.now[what] += end - max(h.Start, d.until) // a call within another one, as profiles have them, is a part of it
		} else {
			d.carried, d.before = end, what
		}
		d.until, d.what = end, what
	}
	if h.Step >= 0 && k != nil && k.Measured {
		d.device += k.To - k.From
	}
}

// step takes in that a step has ended. A call may have begun before it, or go on behind it. That of the last step is
// known late, so that calls behind it may count to it: then it counts nowhere.
func (x *within) step(p *timeline.Step) {
	counts := p.Typical && !p.Open && x.latest < p.To
	if counts {
		x.n, x.took = x.n+1, x.took+p.To-p.From
	}
	for i := range x.threads {
		d := &x.threads[i]
		if in := min(d.carried, p.To) - p.From; in > 0 {
			d.now[d.before] += in
		}
		if over := d.until - max(p.To, d.carried); over > 0 {
			d.now[d.what] -= over
		}
		if counts {
			for j, ns := range d.now {
				d.sum[j] += ns
				d.some = d.some || ns > 0
			}
			d.onSum += d.device
		}
		d.now, d.device, d.carried, d.before = [doings]int64{}, 0, d.until, d.what
	}
}

// list returns the threads, the one that was longest in calls first, and how long a step took on average.
func (x *within) list() (out []Thread, mean int64) {
	if x.n == 0 {
		return nil, 0
	}
	n, mean := x.n, x.took/x.n
	procs, threads := x.w.Reader.Processes(), x.w.Reader.Threads()
	for i := range x.threads {
		d := &x.threads[i]
		if !d.some {
			continue
		}
		t := Thread{WaitingNS: d.sum[waiting] / n, LaunchingNS: d.sum[launching] / n, CopyingNS: d.sum[copying] / n, OtherNS: d.sum[other] / n, RecordingNS: d.sum[recording] / n, DeviceNS: d.onSum / n}
		t.RecordingNS = min(t.RecordingNS, max(mean-t.inCalls(), 0))
		t.OwnNS = max(mean-t.inCalls()-t.RecordingNS, 0)
		var th format.Thread
		if i < len(threads) {
			th = threads[i]
		}
		if int(th.Process) < len(procs) {
			t.Process = procs[th.Process].PID
		}
		t.Thread = threadName(i, th)
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b Thread) int { return cmp.Compare(b.inCalls(), a.inCalls()) })
	return out, mean
}

func (t *Thread) inCalls() int64 { return t.WaitingNS + t.LaunchingNS + t.CopyingNS + t.OtherNS }

// threadName is how a thread is shown.
func threadName(i int, th format.Thread) string {
	switch {
	case th.TID == 0 && th.Name == "":
		return fmt.Sprintf("thread#%d", i)
	case th.Name == "":
		return fmt.Sprintf("thread %d", th.TID)
	}
	return fmt.Sprintf("thread %d %s", th.TID, th.Name)
}
