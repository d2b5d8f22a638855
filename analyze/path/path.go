// Package path finds the critical path of a step: the chain of calls, device tasks and own time of the program that determined when the step
// ended.
//
// A Finder goes backwards through the order of the timeline. A call follows the calls before it on its thread. A synchronization follows the tasks
// that it waits for. A task follows its launch, the task before it on its stream, and tasks of other streams that its stream waits for: by an event,
// a notify, a value in memory, or a default stream. Of several predecessors the one that ended last counts. If a thread makes no call while another
// thread makes a whole call that launches, copies or waits, the thread follows that call: the trace does not show how threads wait for each other. A thread
// that did not run follows its feeder: the thread that prepared the operator for which it waited, by the marks of operators, or else one that ran meanwhile.
//
// The parts of a path do not overlap and have no gaps: their durations and the step's are equal. Tasks count only with measured times, or times that
// follow from these. Otherwise a part of the path is a wait on the host, and AtMost says that the device took at most this time. If the wait was long,
// the part begins when the task was launched.
//
// An Entry also has the time by which the steps would have been shorter without its work. It is less than the time of its parts if other work took nearly
// as long.
//
// New reads a whole trace for acltrace stats --critical-path. Package otelexport passes its own walk to a Finder, so both have the same paths. This
// package writes nothing. Its memory grows with the calls in a step, at most maxCalls, and not with the trace.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package path

import (
	"slices"

	"github.com/acltrace/acltrace/timeline/order"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Kind is the kind of a Part.
type Kind string

// The kinds.
const (
	Own       Kind = "own"       // a thread between two calls
	Blocked   Kind = "blocked"   // a thread between two calls that did not run: it waited for another thread, a file or a time to pass
	Recording Kind = "recording" // the recorder on a thread, between two calls
	Call      Kind = "call"      // a thread in a call
	Wait      Kind = "wait"      // the device, or a thread in a call that waits for it; the time of the tasks is not known
	Task      Kind = "task"      // a task on the device
	Start     Kind = "start"     // between the last predecessor of a task and its start on the device
)

// A Subject is a call, a task or other work on a path.
type Subject struct {
	Kind  Kind   `json:"kind"`
	Func  string `json:"func,omitempty"` // function of the call, empty for task and start
	Name  string `json:"name,omitempty"` // name of the task, empty without a task
	Where string `json:"where"`          // thread, or for tasks and waits the stream
	// After is the task without a measured time because of which it is not known when the work before a Start ended, or when a Wait was over. Empty if
	// the trace has no device times.
	After string `json:"after,omitempty"`
}

// String names the subject as screens and viewers do. The kernel or copy comes first, because names are cut in the middle.
func (s *Subject) String() string {
	fn := s.Func
	if s.Name != "" && fn != "" {
		fn = s.Name + ": " + fn
	}
	switch s.Kind {
	case Own:
		return "own time, " + s.Where
	case Blocked:
		return "blocked, " + s.Where
	case Recording:
		return "recording, " + s.Where
	case Wait:
		return fn + " waits for " + s.Where + s.after()
	case Task:
		return s.Name + " on " + s.Where
	case Start:
		return "start of " + s.Name + " on " + s.Where + s.after()
	}
	return fn + " in " + s.Where
}

func (s *Subject) after() string {
	if s.After == "" {
		return ""
	}
	return ", after " + s.After + " (not measured)"
}

// A Part is a period of a path.
type Part struct {
	Subject
	// Call is the call, or the call that launched the task; timeline.NoCall for Own, Blocked and Recording.
	Call     uint64
	From, To int64 // nanoseconds since the trace began
	// AtMost means that the tasks of a Wait, or before a Start, took at most this time.
	AtMost bool
	// Waits says why the part follows work of another stream: "waits for an event, recorded by call 812 on stream 2". Empty if it does not.
	Waits string
}

// A Path is the critical path of a step.
type Path struct {
	Step step.Step
	// Whole means that the trace has no steps: the path is the whole trace's, and only From and To of Step are set.
	Whole   bool
	Process uint32
	// TooLong means that the step has more than maxCalls calls. Then the path has no parts.
	TooLong bool

	f       *Finder
	parts   []part // backwards
	savings []saving
}

// part is a Part with numbers instead of names.
type part struct {
	from, to  int64
	before    int64 // nanoseconds before the call that waits
	call, ref uint64
	label     int32
	after     int32 // label of the task in Subject.After, 0 for none
	where     int32 // thread, or lane, -1 for several
	kind      kind
	atMost    bool
	why       order.Why // the part follows a task on another lane; see setter and on
	setter    uint64    // call of that task
	on        int32     // its lane
}

// kind is the number of a Kind.
type kind uint8

const (
	own kind = iota
	blocked
	recording
	inCall
	waiting
	onDevice
	starting
)

var kinds = [...]Kind{Own, Blocked, Recording, Call, Wait, Task, Start}

// Parts returns the parts in the order of time.
func (p *Path) Parts() []Part {
	out := make([]Part, 0, len(p.parts))
	for i := len(p.parts) - 1; i >= 0; i-- {
		q := &p.parts[i]
		out = append(out, Part{p.f.subject(q), q.call, q.from, q.to, q.atMost, p.f.wait(q)})
	}
	return out
}

// Times calls visit for the parts in calls, and in tasks on the device, with the number that Finder.Call got with the call, and the nanoseconds.
// A call or a task may have several parts.
func (p *Path) Times(visit func(ref uint64, inTask bool, ns int64)) {
	for i := range p.parts {
		if q := &p.parts[i]; q.kind == inCall || q.kind == waiting || q.kind == onDevice {
			visit(q.ref, q.kind == onDevice, q.to-q.from-q.before)
		}
	}
}

// Entries returns the sums of the parts, the longest first, at most so many, 0 for all.
func (p *Path) Entries(most int) []Entry {
	s := &p.f.sums
	s.reset()
	s.path(p)
	return s.longest(p.f, most)
}

// NS returns the duration of all parts of a kind.
func (p *Path) NS(k Kind) (ns int64) {
	for i := range p.parts {
		if q := &p.parts[i]; kinds[q.kind] == k {
			ns += q.to - q.from
		}
	}
	return ns
}

// Clone returns a copy that stays valid.
func (p *Path) Clone() *Path {
	c := *p
	c.parts, c.savings = slices.Clone(p.parts), slices.Clone(p.savings)
	return &c
}
