package lab

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline/access"
)

// mostAfter bounds the calls after a launch that may show its results.
const mostAfter = 1 << 18

// Findings are the launch, and the calls after it that show its results.
type findings struct {
	v       *survey
	roots   []uint64 // the launch, and those calls
	results int      // copies to the host
	end     int64    // when the last one ends

	launch  step
	wrote   []int       // roots that the launch may have written
	objects []int       // that memory
	waited  bool        // the program has waited for the launch
	failed  bool        // the first of these waits has failed
	closed  bool        // a later call may have changed what the launch has written: nothing shows its results any more
	open    map[int]int // lanes with the launch or results that the program has not waited for: the newest of these tasks
	order   stepOrder
	covers  []lastTask // that the current call waits for
	task    int        // of the launch, in order
	seen    int        // calls
}

// lastTask is a task that a call waits for, and those before it on the lane.
type lastTask struct{ lane, task int }

func newFindings(v *survey, launch *step) *findings {
	f := &findings{v: v, roots: []uint64{launch.index}, end: launch.start, launch: *launch, order: newStepOrder(v)}
	f.order.apply(launch, 0)
	f.task = f.order.tasks
	f.open = map[int]int{launch.lane: f.task}
	for _, a := range launch.areas {
		f.wrote, f.objects = append(f.wrote, a.root), append(f.objects, a.object)
	}
	return f
}

// ends takes in the next call after the launch. It returns true if no later call can show results.
func (f *findings) ends(s *step) bool {
	if f.seen++; f.seen > mostAfter {
		return true
	}
	f.covers = f.covers[:0]
	if s.lane != 0 && s.graph == 0 && s.is&(stepOK|stepWaits) != 0 {
		for _, e := range f.order.apply(s, 0) {
			if e.After.Task < 0 {
				f.covers = append(f.covers, lastTask{e.Before.Lane, e.Before.Task})
			}
		}
	}
	if f.closed = f.closed || f.conflicts(s); f.closed {
		return f.waited || f.failing(s)
	}
	switch {
	case s.is&stepWaits != 0:
		if lanes := f.waitsFor(); len(lanes) > 0 {
			for _, l := range lanes {
				delete(f.open, l)
				if l == f.launch.lane && !f.waited {
					f.waited, f.failed = true, s.is&stepOK == 0
				}
			}
			f.root(s)
		}
	case s.is&stepOK != 0 && s.fn.Task == api.Copy && s.graph == 0 && f.shows(s) && (f.waited || f.follows(s)):
		f.root(s)
		f.results++
		if !f.v.lane[s.lane].order.Synchronous {
			f.open[s.lane] = f.order.tasks
		}
	}
	return false
}

// failing takes in a call after the results have ended. It returns true for the first wait for the launch. The extract gets the wait if it has failed:
// then the launch is to fail in a replay, too.
func (f *findings) failing(s *step) bool {
	if !slices.Contains(f.waitsFor(), f.launch.lane) {
		return false
	}
	if s.is&stepOK == 0 {
		f.waited, f.failed = true, true
		delete(f.open, f.launch.lane)
		f.root(s)
	}
	return true
}

func (f *findings) root(s *step) {
	f.roots, f.end = append(f.roots, s.index), max(f.end, s.end)
}

// conflicts reports whether a call may change or end the memory that the launch has written.
func (f *findings) conflicts(s *step) bool {
	if s.is&stepOK == 0 {
		return false
	}
	if s.resets() && s.process == f.launch.process || slices.ContainsFunc(s.ended, func(o int) bool { return slices.Contains(f.objects, o) }) {
		return true
	}
	return s.graph == 0 && slices.ContainsFunc(s.areas, func(a area) bool {
		return (a.kind == access.Writes || a.kind == access.Names && access.Runs(s.fn)) && slices.Contains(f.wrote, a.root)
	})
}

// shows reports whether a copy brings memory that the launch has written to the host.
func (f *findings) shows(s *step) bool {
	reads := false
	for _, a := range s.areas {
		if a.kind == access.Writes {
			return false // regions have no host memory
		}
		reads = reads || a.kind == access.Reads && slices.Contains(f.wrote, a.root)
	}
	return reads
}

// follows reports whether a copy certainly begins after the launch has ended, by their streams.
func (f *findings) follows(s *step) bool {
	if s.lane == f.launch.lane {
		return true
	}
	// A context's default stream waits for its other streams.
	return f.v.m.NonBlocking != 0 && s.fn.Stream < 0 && !s.fn.OwnStream && !f.v.lane[f.launch.lane].nonBlocking
}

// waitsFor returns the lanes with the launch or with results that the current call waits for.
func (f *findings) waitsFor() (lanes []int) {
	for _, c := range f.covers {
		if newest, ok := f.open[c.lane]; ok && c.task >= newest {
			lanes = append(lanes, c.lane)
		}
	}
	return lanes
}
