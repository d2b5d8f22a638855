// Package step finds the steps of a program: iterations of a training, tokens, requests.
//
// There are three sources. A marker is a function or the beginning of names of ranges, by which a Counter counts steps call by call. Ranges of
// the program mark steps if they hold most launches. Otherwise a Learner looks for a loop: a sequence of launches, copies and waits that
// repeats on a stream, or on a thread if no stream repeats. The outcome is a Rule. A Finder cuts calls into steps by a rule; a live Finder
// learns the rule first, from the calls that it is given, and again if the steps end.
//
// Package timeline turns calls into Ops and Ranges and calls a Learner and a Finder; package record calls a Counter while it records. This
// package reads no trace and knows no objects.
package step

import "github.com/acltrace/acltrace/api"

// A Source is how steps are known.
type Source string

// The sources of steps.
const (
	Marked   Source = "marked" // by ranges of the program
	ByMarker Source = "told"   // by a marker: see Counter
	Found    Source = "found"  // from repetition
	None     Source = "none"
)

// A Step is one pass through the calls that a program repeats. Steps do not overlap. Calls before the first step, or between marked steps,
// belong to none.
type Step struct {
	Index int    // from 0
	Name  string // of the range that marks it, "" if there is none
	// From and To are nanoseconds since the beginning of the trace. A call belongs to the step in which it began: From <= Start < To.
	From, To int64
	// Typical reports whether the step does nearly the same as most steps. Warm-up steps and steps with an evaluation do more.
	Typical bool
	// Open reports that the trace ends before the step does: To is the end of the trace.
	Open bool
}

// A Rule is how the steps of a trace are known. The same trace always has the same rule.
//
// Ranges of one name mark steps if they hold at least half of the launches and are outermost, not counting ranges that occur once. Otherwise
// steps are found from repetition on the stream with the most launches, or else on the thread with the most launches. Otherwise one range
// marks the only step, if its name says so.
type Rule struct {
	Source  Source
	Process uint32 // whose steps they are
	Why     string // why there are none

	marker       string // ByMarker
	domain, stem string // Marked

	// Found:
	lane    int             // anyLane for the steps of a thread
	threads map[uint32]bool // that launch on the lane
	symbol  uint64          // where to cut
	after   bool            // cut after it, not before it
	like    likeness
	early   int64 // begin of the first step, if that is before the first cut; else math.MaxInt64
}

// finds reports whether two rules find the same steps.
func (r *Rule) finds(o *Rule) bool {
	return r.Source == o.Source && r.Process == o.Process && r.lane == o.lane && r.symbol == o.symbol && r.after == o.after
}

// An Op is the part of a call that steps depend on: a task, or a wait for the device.
type Op struct {
	Start, End int64  // of the call
	What       uint64 // hash of the name, and of the graph that is run
	Lane       int32  // index, -1 for a wait
	Thread     uint32
	Class      Class
}

// Class is the kind of an Op.
type Class uint8

// The classes. From CopyOut on, the host learns what the device has done, so a step may end there.
const (
	Other   Class = iota
	Launch        // a kernel or a graph
	CopyOut       // to the host
	Sync
)

// Blocks reports whether a synchronization waits, rather than polls.
func Blocks(s api.Sync) bool { return s == api.SyncDevice || s == api.SyncStream || s == api.SyncEvent }

// A Range is a named period of a program.
type Range struct {
	Process      uint32
	Domain, Name string
	From, To     int64  // nanoseconds
	Begin        uint64 // the call that begins it
}

// A Lane is a stream of a process.
type Lane struct {
	Process uint32
	Name    string
}
