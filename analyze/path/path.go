// Package path finds the critical path of a step: the chain of calls, device tasks and own time of the program that determined when the step
// ended.
//
// A Finder goes backwards through the order of the timeline. A call follows the calls before it on its thread. A synchronization follows the tasks
// that it waits for. A task follows its launch, the task before it on its stream, and tasks of other streams that its stream waits for: by an event,
// a notify, a value in memory, or a default stream. Of several predecessors the one that ended last counts. If a thread makes no call while another
// thread makes a whole call that launches, copies or waits, the thread follows that call: the trace does not show how threads wait for each other.
//
// The parts of a path do not overlap and have no gaps: their durations and the step's are equal. Tasks count only with measured times, or times that
// follow from these. Otherwise a part of the path is a wait on the host, and AtMost says that the device took at most this time.
//
// New reads a whole trace for acltrace stats --critical-path. Package otelexport passes its own walk to a Finder, so both have the same paths. This
// package writes nothing. Its memory grows with the calls in a step, at most maxCalls, and not with the trace.
package path

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/timeline/step"
)

// A Kind is the kind of a Part.
type Kind string

// The kinds.
const (
	Own       Kind = "own"       // a thread between two calls
	Recording Kind = "recording" // the recorder on a thread, between two calls
	Call      Kind = "call"      // a thread in a call
	Wait      Kind = "wait"      // a thread in a call that waits for the device; the time of the tasks is not known
	Task      Kind = "task"      // a task on the device
	Start     Kind = "start"     // between the last predecessor of a task and its start on the device
)

// A Part is a period of a path.
type Part struct {
	Kind Kind
	// Call is the call, or the call that launched the task; timeline.NoCall for Own and Recording.
	Call uint64
	Func string // function of the call
	Name string // the task's name; for a call without a task and for a program's own time ""
	// Where is the thread; for Task and Start the stream; for Wait the stream that the call waits for, or "several streams".
	Where    string
	From, To int64 // nanoseconds since the trace began
	// AtMost means that the tasks of a Wait, or before a Start, took at most this time.
	AtMost bool
}

// A Path is the critical path of a step.
type Path struct {
	Step step.Step
	// Whole means that the trace has no steps: the path is the whole trace's, and only From and To of Step are set.
	Whole   bool
	Process uint32
	Parts   []Part // in the order of time
	// TooLong means that the step has more than maxCalls calls. Then there are no Parts.
	TooLong bool
}

// An Entry is the sum of the parts that are alike: of one kind, function and name, and in one place.
type Entry struct {
	Kind   Kind   `json:"kind"`
	Func   string `json:"func,omitempty"` // "" for Task and Start
	Name   string `json:"name,omitempty"`
	Where  string `json:"where"`
	Count  int    `json:"count"` // parts
	NS     int64  `json:"ns"`
	AtMost bool   `json:"at_most,omitempty"` // of some part
}

// entryKey identifies an Entry.
type entryKey struct {
	kind            Kind
	fn, name, where string
}

// maxEntries bounds the entries in a sum. Programs may create names and streams without end; the rest of a kind shares an entry.
const (
	maxEntries = 10_000
	others     = "(others)"
)

// sums adds up parts by entry.
type sums struct {
	index   map[entryKey]int
	entries []Entry
}

func (s *sums) add(p *Part) {
	k := entryKey{p.Kind, p.Func, p.Name, p.Where}
	if p.Kind == Task || p.Kind == Start {
		k.fn = ""
	}
	i, ok := s.index[k]
	if !ok && len(s.entries) >= maxEntries {
		k = entryKey{kind: p.Kind, name: others}
		i, ok = s.index[k]
	}
	if !ok {
		if s.index == nil {
			s.index = map[entryKey]int{}
		}
		i = len(s.entries)
		s.index[k] = i
		s.entries = append(s.entries, Entry{Kind: k.kind, Func: k.fn, Name: k.name, Where: k.where})
	}
	e := &s.entries[i]
	e.Count++
	e.NS += p.To - p.From
	e.AtMost = e.AtMost || p.AtMost
}

// longest returns the entries, the longest first.
func (s *sums) longest() []Entry {
	slices.SortStableFunc(s.entries, func(a, b Entry) int { return cmp.Compare(b.NS, a.NS) })
	return s.entries
}

// Entries returns the sums of the parts, the longest first. Sums of equal length are in the order of time.
func (p *Path) Entries() []Entry {
	var s sums
	for i := range p.Parts {
		s.add(&p.Parts[i])
	}
	return s.longest()
}

// Clone returns a copy that stays valid.
func (p *Path) Clone() *Path {
	c := *p
	c.Parts = slices.Clone(p.Parts)
	return &c
}

// NS returns the duration of all parts of a kind.
func (p *Path) NS(k Kind) (ns int64) {
	for i := range p.Parts {
		if p.Parts[i].Kind == k {
			ns += p.Parts[i].To - p.Parts[i].From
		}
	}
	return ns
}
