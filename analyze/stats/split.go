package stats

import (
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Splitter divides the steps of a walk into what a thread does in them. Package diff compares two runs by it.
type Splitter struct{ within within }

// NewSplitter returns a Splitter for a walk that has found its steps. Call and Step take the events of its visitor.
func NewSplitter(w *timeline.Walk) *Splitter {
	s := &Splitter{}
	s.within.start(w)
	return s
}

// Call takes a call and its task, nil for none.
func (s *Splitter) Call(h *timeline.HostCall, k *timeline.Task, selected bool) {
	s.within.call(h, k, selected)
}

// Step takes a step that has ended. It returns the parts of the step on the thread with most time in calls, if the step counts: it is
// selected and typical, and its end was known with its last call.
func (s *Splitter) Step(p *step.Step, selected bool) (parts Parts, counts bool) {
	n := s.within.n
	s.within.step(p, selected)
	return s.within.current, s.within.n > n
}

// Gaps returns the mean own times between the calls of a typical step, on the thread with most time in calls.
func (s *Splitter) Gaps() []Gap {
	d, _ := s.within.busiest()
	if d == nil || s.within.n == 0 {
		return nil
	}
	return d.gaps.means(s.within.n)
}

// Most returns the function with most time in the waits, launches, copies or other calls of steps, "" for none.
func (s *Splitter) Most(part Part) string {
	if c := s.within.calls.most(int(part)); c != nil {
		return c.Func
	}
	return ""
}

// A Part is one of the Parts of a time. The first ones are activities of calls.
type Part int

const (
	PartWaiting Part = iota
	PartLaunching
	PartCopying
	PartOther
	PartRecording
	PartOwn
)

// AllParts has the parts in the order of Parts.
var AllParts = []Part{PartWaiting, PartLaunching, PartCopying, PartOther, PartRecording, PartOwn}

// String returns the kind of the finding about the part.
func (p Part) String() string {
	return string([...]FindingKind{Waits, Launches, Copies, OtherCalls, Recorder, OwnTime}[p])
}

// Of returns a part of a time.
func (p Part) Of(of *Parts) int64 {
	return [...]int64{of.WaitingNS, of.LaunchingNS, of.CopyingNS, of.OtherNS, of.RecordingNS, of.OwnNS}[p]
}
