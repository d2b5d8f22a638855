package stats

import (
	"cmp"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// Thread divides a typical step's mean time on one thread. WaitingNS to OwnNS add up to the step's time, except for
// rounding.
type Thread struct {
	Thread      string `json:"thread"`
	Process     int    `json:"process"` // process id
	WaitingNS   int64  `json:"waiting_ns"`
	LaunchingNS int64  `json:"launching_ns"` // in calls that launch kernels and graphs
	CopyingNS   int64  `json:"copying_ns"`   // in calls that copy and fill
	OtherNS     int64  `json:"other_ns"`     // in other calls
	RecordingNS int64  `json:"recording_ns"` // between calls, in the recorder
	OwnNS       int64  `json:"own_ns"`       // between calls, in the program
	// DeviceNS is the measured time for tasks that the thread issued in the step.
	DeviceNS int64 `json:"device_ns"`
}

// A thread's activities.
const (
	waiting = iota
	launching
	copying
	other
	recording // between calls
	doings
)

// within sums up what threads do in steps. It keeps a few numbers a thread.
type within struct {
	w       *timeline.Walk
	threads []doing
	named   named
	latest  int64 // latest call's start
	n, took int64 // typical steps, and their total duration
}

type doing struct {
	now, sum       [doings]int64 // in the current step, and in all typical ones
	device, onSum  int64
	until, carried int64 // latest call end; the same before the current step
	what, before   int   // these calls' activities
	some           bool  // has calls in a typical step
}

// waits reports whether a function waits for the device.
func waits(f *api.Func) bool {
	return f != nil && (f.Sync == api.SyncDevice || f.Sync == api.SyncStream || f.Sync == api.SyncEvent)
}

// named finds functions by the names in a profile.
type named struct {
	model *api.Model
	of    map[string]*api.Func
}

// function returns a call's function. Calls in a profile have names such as AscendCL@aclrtSynchronizeStream, or
// Runtime@StreamSynchronize for rtStreamSynchronize, and no arguments.
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
			d.now[what] += end - max(h.Start, d.until) // a profile's nested call is part of the outer one
		} else {
			d.carried, d.before = end, what
		}
		d.until, d.what = end, what
	}
	if h.Step >= 0 && k != nil && k.Measured {
		d.device += k.To - k.From
	}
}

// step ends a step. It is in the sums if it is selected. A call may begin before the step or end after it. The last step's end is known late, and later
// calls may have been added to it: such a step does not count.
func (x *within) step(p *step.Step, selected bool) {
	counts := selected && p.Typical && !p.Open && x.latest < p.To
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

// list returns the threads ordered by time in calls, and a step's mean duration.
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
		t.Thread = x.w.ThreadName(uint32(i))
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b Thread) int { return cmp.Compare(b.inCalls(), a.inCalls()) })
	return out, mean
}

func (t *Thread) inCalls() int64 { return t.WaitingNS + t.LaunchingNS + t.CopyingNS + t.OtherNS }
