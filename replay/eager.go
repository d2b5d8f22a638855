package replay

import (
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/timeline"
)

// Values for Options.Graphs.
const (
	GraphsCaptured = "captured" // runs of graphs as recorded
	GraphsEager    = "eager"    // the launches that captured the tasks, one by one, in place of each run
)

// eagerPlace is where GraphsEager puts allocations, so that freed memory of a captured task and its successor have two addresses.
const eagerPlace = compile.PlaceMove + ":1"

// Eager is the outcome of a replay with GraphsEager.
type Eager struct {
	Runs  uint64              `json:"runs"`            // runs of graphs that were replaced
	Tasks uint64              `json:"tasks"`           // tasks that were played in their place
	First *EagerTask          `json:"first,omitempty"` // the first launch in a run whose result differs from the recorded one
	Freed []compile.FreedTask `json:"freed,omitempty"` // tasks in runs whose memory was freed before: the graph uses what has the address now, and the launch the memory of its capture
}

// EagerTask is a captured task in a run.
type EagerTask struct {
	Run    uint64 `json:"run"`    // call that ran the graph
	Call   uint64 `json:"call"`   // captured call
	Name   string `json:"name"`   // its kernel, or its function
	Result uint64 `json:"result"` // call with the result that differs
}

// eagerly adds the outcome of a replay with GraphsEager. The differences must have their histories.
func (r *Report) eagerly(o *Options, f *compile.Findings) {
	if o.Graphs != GraphsEager {
		return
	}
	r.Eager = &Eager{Runs: f.Eager.Runs, Tasks: f.Eager.Tasks, Freed: f.Eager.Freed}
	for i := range r.Differences {
		d := &r.Differences[i]
		for k := len(d.Chain) - 1; k >= 0 && d.result; k-- {
			if w := &d.Chain[k]; w.Task != 0 && w.Call != timeline.NoCall {
				r.Eager.First = &EagerTask{w.Call, w.Task, w.Name, d.Call}
				return
			}
		}
	}
}
