// Package step finds the steps of a program: training iterations, tokens, requests.
//
// One Finder cuts calls into steps, by a Rule with one of three sources:
//   - A marker: calls of a function, or ranges whose names begin with it, separate steps. A Counter counts them call by call.
//   - A loop: a Learner finds ranges of the program that hold most launches, or a sequence of launches, copies and waits that repeats on a
//     stream or on a thread.
//   - Live: the Finder learns the loop from the calls that it gets, and again if the steps stop.
//
// Package timeline turns calls into Ops and Ranges for a Learner and a Finder. Package record calls a Counter while it records. This package
// reads no trace and knows no objects.
package step

import (
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// A Source is the origin of a Rule.
type Source string

// The sources of steps.
const (
	Marked   Source = "marked" // ranges in the program
	ByMarker Source = "told"   // a marker, see Counter
	Found    Source = "found"  // repetition
	None     Source = "none"
)

// A Step is one pass through the calls that a program repeats. Steps do not overlap. Calls before the first step, or between marked steps,
// belong to none.
type Step struct {
	Index int    // from 0
	Name  string // of the range that marks it, "" for none
	// From and To are nanoseconds since the beginning of the trace. A call belongs to the step in which it began: From <= Start < To.
	From, To int64
	Thread   uint32 // that makes the call at which the step ends
	// Typical means that the step is similar to most steps. Warm-up steps and steps with an evaluation do more.
	Typical bool
	// WarmUp means that the step is the first one and takes more than ten times the median: programs load and allocate there. It is not typical.
	WarmUp bool
	// Open means that the trace ends before the step does: To is the end of the trace.
	Open bool
	// Unrecorded means that a range marks the step, and that no task and no wait of its process begins there. Package timeline leaves it so if the trace
	// lacks calls in that period because nobody asked for them.
	Unrecorded bool
}

// A Rule determines the steps in a trace. The same trace always has the same rule.
//
// Ranges with one name mark steps if they hold at least half the launches and are outermost; ranges that occur once do not count. Otherwise steps
// are found by repetition on the stream, or else on the thread, with the most launches. Otherwise one range marks the only step, if its name says
// step.
type Rule struct {
	Source  Source
	Process uint32 // that has the steps
	Why     string // why there are no steps

	marker       string // ByMarker
	domain, stem string // Marked

	// Found:
	beat   *beat
	symbol uint64 // pulse to cut at
	other  uint64 // pulse to cut at for steps of a second kind, symbol if there are none
	class  Class  // of the pulse
	where  place
	like   likeness
	early  int64    // begin of a step before the first cut, math.MaxInt64 for none
	warm   int64    // a first step that takes longer is a warm-up, 0 if too few steps are known
	whole  *stepper // that has seen the whole trace, nil if the Learner has not
}

// By describes the boundaries of steps in words, "" if there are none.
func (r *Rule) By() string {
	switch {
	case r.Source == Marked:
		return "ranges " + strings.TrimSpace(r.stem)
	case r.Source == ByMarker:
		return r.marker
	case r.Source == None:
		return ""
	case r.where >= beforeNext || r.class == CopyIn:
		return "copies of inputs"
	case r.class == CopyOut:
		return "copies to the host"
	case r.class == Sync:
		return "waits"
	case r.class == Launch:
		return "a kernel"
	}
	return "a task"
}

// place is the place of a cut at a pulse.
type place uint8

const (
	before     place = iota
	after            // the pulse
	beforeNext       // before the next copies from the host
	beforeMore       // before the next copies from the host, if launches come before them
)

// A turn finds the copies from the host before which steps are cut, pulse by pulse. The zero value is ready to use.
type turn struct{ passed, due bool }

// next takes a pulse, which may be one to cut at, and reports whether steps are cut before it.
func (t *turn) next(where place, class Class, at bool) (cut bool) {
	cut = t.due && class == CopyIn
	switch {
	case at:
		t.passed, t.due = true, where == beforeNext
	case class == CopyIn:
		*t = turn{}
	case class == Launch:
		t.due = t.due || t.passed
	}
	return cut
}

// finds reports whether two rules find the same steps.
func (r *Rule) finds(o *Rule) bool {
	return r.Source == o.Source && r.Process == o.Process && r.beat.lane == o.beat.lane && r.beat.thread == o.beat.thread && r.symbol == o.symbol && r.other == o.other && r.where == o.where
}

// An Op is the part of a call that steps depend on: a task, or a wait for the device.
type Op struct {
	Start, End int64  // of the call
	What       uint64 // hash of the name, and for a graph run of the graph's role
	Lane       int32  // index; for a wait the lane that it waits for, or AllLanes
	Thread     uint32
	Process    uint32
	Device     int32  // of the lane, or that the wait is for; negative if unknown
	Launches   uint32 // kernels that it launches: those in the graph for a graph run
	Class      Class
	Host       bool // the call itself does the task
	Event      bool // waits for an event
}

// AllLanes is the lane of a wait for a whole device.
const AllLanes = -1

// A Capture is a graph that has been captured.
type Capture struct {
	Process uint32
	Kernels []uint64 // Op.What of its kernels
}

// Class is the kind of an Op.
type Class uint8

// The classes. From CopyOut on, the host learns that the device has finished, so a step may end there.
const (
	Other   Class = iota
	Launch        // a kernel or a graph
	CopyIn        // from the host
	CopyOut       // to the host
	Sync
)

// Waits reports whether a function only waits for the device. A function that also ends an object, as when it destroys a stream, ends no step.
func Waits(f *api.Func) bool {
	return (f.Sync == api.SyncDevice || f.Sync == api.SyncStream || f.Sync == api.SyncEvent) && !slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.End })
}

// A Range is a named period of a program.
type Range struct {
	Process      uint32
	Domain, Name string
	From, To     int64  // nanoseconds
	Begin        uint64 // the call that begins it
	EndThread    uint32 // of the call that ends it
}

// A Lane is a stream.
type Lane struct {
	Process uint32
	Name    string
}
