package stats

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// StartUp divides the time from the first call of the process with the steps to its first typical step: a step before that is warm-up. A phase has the calls of its kind, in all threads, with
// the program's own time before each: reading a file belongs to the copy of its content. A wait belongs to the work before it. The times of the
// phases add up to NS.
type StartUp struct {
	Step   int     `json:"step"`   // the first typical step
	NS     int64   `json:"ns"`     // from the first call to that step
	Phases []Phase `json:"phases"` // those with calls, in the order of their first calls
	// Captures are the captures of graphs in their order, which are those for several batch sizes in most programs; the first 1,000.
	Captures []CaptureTime `json:"captures"`
}

// PhaseKind is the kind of a Phase.
type PhaseKind string

// The kinds.
const (
	SetUp        PhaseKind = "set_up"        // devices, streams, memory and other calls
	LoadBinaries PhaseKind = "binaries"      // load of binaries, and look-up of their kernels
	BeforeCopies PhaseKind = "before_copies" // the program's own time before the first copy, such as imports, or opening a checkpoint
	Weights      PhaseKind = "weights"       // copies from the host to the device, and copies on the host
	FirstRuns    PhaseKind = "first_runs"    // the first launch of each kernel
	WarmUp       PhaseKind = "warm_up"       // further launches, and runs of graphs
	Captures     PhaseKind = "captures"      // captures of graphs
	UntilStep    PhaseKind = "until_step"    // the program's own time between the last of these calls and the first step
)

// Phase is a part of the start-up.
type Phase struct {
	Kind  PhaseKind `json:"kind"`            // set_up, binaries, before_copies, weights, first_runs, warm_up, captures or until_step
	NS    int64     `json:"ns"`              // wall time; several threads at the same time count once
	OwnNS int64     `json:"own_ns"`          // part of it: the program's own time before the calls
	Calls uint64    `json:"calls"`           // calls of the phase
	Count uint64    `json:"count,omitempty"` // binaries, copies, launches and runs, or captures
	Bytes uint64    `json:"bytes,omitempty"` // copied to the device
}

// CaptureTime is the capture of a graph before the first step.
type CaptureTime struct {
	Call     uint64 `json:"call"`     // begin of the capture
	AtNS     int64  `json:"at_ns"`    // its start, since the trace began
	NS       int64  `json:"ns"`       // up to its end
	Launches uint64 `json:"launches"` // captured kernels
	Blocks   uint64 `json:"blocks"`   // of these kernels; it grows with the batch size
	Bytes    uint64 `json:"bytes"`    // device memory that the process allocated meanwhile
	Runs     int    `json:"runs"`     // of the graph in the whole trace, -1 if programs run another object
}

const maxCaptures = 1000

// startUp collects a StartUp in the order of the calls.
type startUp struct {
	process   uint32
	begun     bool
	step      int        // of the latest call
	steps     []*StartUp // up to the latest steps, of which some may be typical
	done      *StartUp
	from      int64
	until     int64 // time that is divided so far
	phases    []Phase
	last      PhaseKind // of the latest work
	ran       map[string]bool
	capturing []*CaptureTime // by begin, of all threads
	captures  []*CaptureTime
	graphs    map[*timeline.Object]*CaptureTime // by captured graph
	runs      int                               // of any graph
}

// call adds a call, unless a step has begun.
func (u *startUp) call(w *timeline.Walk, h *timeline.HostCall, k *timeline.Task) {
	if u.done != nil || h.Fn == nil || h.Fn.PollsCallbacks || h.Fn.HostCallback || w.Process(h.Thread) != u.process {
		return
	}
	if !u.begun {
		u.begun, u.from, u.until, u.step, u.last = true, h.Start, h.Start, -1, SetUp
	}
	if h.Step >= 0 && h.Step != u.step {
		u.step = h.Step
		u.steps = append(u.steps, u.before(h))
	}
	kind, counts := u.kind(w, h, k)
	i := slices.IndexFunc(u.phases, func(p Phase) bool { return p.Kind == kind })
	if i < 0 {
		if own := h.Start - u.until; kind == Weights && own > 0 {
			u.phases = append(u.phases, Phase{Kind: BeforeCopies, NS: own, OwnNS: own})
			u.until = h.Start
		}
		i = len(u.phases)
		u.phases = append(u.phases, Phase{Kind: kind})
	}
	p := &u.phases[i]
	p.Calls++
	if counts {
		p.Count++
	}
	if k != nil && kind == Weights {
		p.Bytes += k.Bytes
	}
	end := w.CallEnd(h)
	if end > u.until {
		p.OwnNS += max(h.Start-u.until, 0)
		p.NS += end - u.until
		u.until = end
	}
}

// kind returns the phase of a call, and whether the call is one of those that the phase counts.
func (u *startUp) kind(w *timeline.Walk, h *timeline.HostCall, k *timeline.Task) (kind PhaseKind, counts bool) {
	f := h.Fn
	switch {
	case f.Capture == api.CaptureBegin && !h.Failed():
		u.capturing = append(u.capturing, &CaptureTime{Call: h.Index, AtNS: h.Start})
		u.last = Captures
		return Captures, true
	case len(u.capturing) > 0:
		u.captured(w, h)
		return Captures, false
	case slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.Binary }):
		return LoadBinaries, slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.Binary && p.Role == api.New })
	case k != nil && k.Kind == api.Copy && (k.Name == "copy HtoD" || k.Name == "copy HtoH"):
		u.last = Weights
		return Weights, true
	case k != nil && k.Kind == api.Kernel && !u.ran[k.Name]:
		if u.ran == nil {
			u.ran = map[string]bool{}
		}
		if len(u.ran) < maxNames {
			u.ran[k.Name] = true
		}
		u.last = FirstRuns
		return FirstRuns, true
	case k != nil && (k.Kind == api.Kernel || k.Kind == api.GraphRun):
		u.last = WarmUp
		return WarmUp, true
	case f.Sync != api.NoSync:
		return u.last, false
	}
	return SetUp, false
}

// captured adds a call during captures to the latest one.
func (u *startUp) captured(w *timeline.Walk, h *timeline.HostCall) {
	c := u.capturing[len(u.capturing)-1]
	switch {
	case h.Fn.Capture == api.CaptureEnd:
		c.NS = h.End - c.AtNS
		if u.capturing = u.capturing[:len(u.capturing)-1]; !h.Failed() && len(u.captures) < maxCaptures {
			u.captures = append(u.captures, c)
			for _, use := range w.Uses() {
				if use.Object.Kind == api.Graph {
					if u.graphs == nil {
						u.graphs = map[*timeline.Object]*CaptureTime{}
					}
					u.graphs[use.Object] = c
				}
			}
		}
	case h.Fn.Task == api.Kernel && h.Raw != nil && !h.Failed():
		c.Launches++
		c.Blocks += uint64(timeline.Blocks(&timeline.Event{Fn: h.Fn, Call: h.Raw}))
	}
}

// before returns the start-up as it is if the step that begins with a call is typical.
func (u *startUp) before(h *timeline.HostCall) *StartUp {
	s := &StartUp{Step: h.Step, NS: max(h.Start, u.until) - u.from, Phases: slices.Clone(u.phases), Captures: []CaptureTime{}}
	if own := h.Start - u.until; own > 0 {
		s.Phases = append(s.Phases, Phase{Kind: UntilStep, NS: own, OwnNS: own})
	}
	for _, c := range u.captures {
		s.Captures = append(s.Captures, *c)
	}
	return s
}

// stepped takes a step that has ended, in their order.
func (u *startUp) stepped(p *step.Step) {
	i := slices.IndexFunc(u.steps, func(s *StartUp) bool { return s.Step == p.Index })
	if u.done != nil || i < 0 {
		return
	}
	if p.Typical {
		u.done = u.steps[i]
	}
	u.steps = u.steps[i+1:]
}

// list returns the start-up, nil if the trace has no typical step, or no call before it.
func (u *startUp) list() *StartUp {
	if u.done == nil || u.done.NS == 0 {
		return nil
	}
	known := u.runs == 0
	for _, c := range u.captures {
		known = known || c.Runs > 0
	}
	for i := range u.done.Captures {
		u.done.Captures[i] = *u.captures[i]
		if !known {
			u.done.Captures[i].Runs = -1
		}
	}
	return u.done
}

// graphRun takes a run of a graph.
func (u *startUp) graphRun(k *timeline.Task) {
	if k.Process != u.process {
		return
	}
	u.runs++
	if c := u.graphs[k.Object]; c != nil {
		c.Runs++
	}
}

// memory takes a change in device memory.
func (u *startUp) memory(p *timeline.MemoryPoint) {
	if n := len(u.capturing); n > 0 && p.Process == u.process && !p.Freed {
		u.capturing[n-1].Bytes += p.Object.Size
	}
}
