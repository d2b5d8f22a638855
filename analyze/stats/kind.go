package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// StepKind sums up the whole steps that run one graph, or none. A server captures a graph for each padded size, so its kinds are these sizes, and the steps
// outside of them, such as prompts.
type StepKind struct {
	Graph    string  `json:"graph,omitempty"`    // name of the graph with the most launches among those that a step runs, "" for none
	Role     string  `json:"role,omitempty"`     // its role, see Graphs
	Capture  *uint64 `json:"capture,omitempty"`  // call that began its capture, if one before the first step made it
	Launches uint64  `json:"launches,omitempty"` // of its run
	Blocks   uint64  `json:"blocks,omitempty"`   // of these launches, if Capture is known; they grow with the size
	Count    int     `json:"count"`              // number of steps
	P50NS    int64   `json:"p50_ns"`             // median duration
	P99NS    int64   `json:"p99_ns"`             // 99th percentile of durations
	MaxNS    int64   `json:"max_ns"`             // longest duration
}

// maxStepKinds bounds the kinds. Programs that capture a graph anew in each step have no kinds.
const maxStepKinds = 1000

// stepKinds divides steps by the graphs that they run.
type stepKinds struct {
	open   map[int]*timeline.Task       // by step: the run with the most launches
	times  map[*timeline.Object]*kindOf // by graph, nil for none
	over   bool                         // there are too many
	graphs int                          // steps with a run
}

// kindOf sums up the steps of a kind.
type kindOf struct {
	run   *timeline.Task
	times Histogram
}

// ran adds a run of the process with the steps when its call is known.
func (x *stepKinds) ran(k *timeline.Task) {
	if k.Step < 0 {
		return
	}
	if x.open == nil {
		x.open = map[int]*timeline.Task{}
	}
	if most := x.open[k.Step]; most == nil || launchesOf(k) > launchesOf(most) {
		kept := *k
		x.open[k.Step] = &kept
	}
}

func launchesOf(run *timeline.Task) uint64 {
	if run.Content == nil {
		return 0
	}
	return run.Content.Launches
}

// stepped follows the end of a step.
func (x *stepKinds) stepped(p *step.Step, whole bool) {
	run := x.open[p.Index]
	delete(x.open, p.Index)
	if !whole {
		return
	}
	var graph *timeline.Object
	if run != nil {
		x.graphs++
		graph = run.Object
	}
	k := x.times[graph]
	if k == nil {
		if x.over = x.over || len(x.times) >= maxStepKinds; x.over {
			return
		}
		if x.times == nil {
			x.times = map[*timeline.Object]*kindOf{}
		}
		k = &kindOf{run: run}
		x.times[graph] = k
	}
	k.times.Add(p.To - p.From)
}

// list returns the kinds, most steps first, nil if there is one, or if hardly two steps run the same graph.
func (x *stepKinds) list(captures map[*timeline.Object]*CaptureTime) []StepKind {
	steps := uint64(0)
	for _, k := range x.times {
		steps += k.times.n
	}
	if x.graphs == 0 || x.over || len(x.times) < 2 || uint64(len(x.times)) > (steps+1)/2 {
		return nil
	}
	out := []StepKind{}
	for graph, k := range x.times {
		kind := StepKind{Count: int(k.times.n), P50NS: k.times.Percentile(50), P99NS: k.times.Percentile(99), MaxNS: k.times.max}
		if graph != nil {
			kind.Graph, kind.Role, kind.Launches = timeline.Place(timeline.Use{Object: graph}), RoleOf(k.run), launchesOf(k.run)
			if c := captures[graph]; c != nil {
				kind.Capture, kind.Blocks = &c.Call, c.Blocks
			}
		}
		out = append(out, kind)
	}
	slices.SortFunc(out, func(a, b StepKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Launches, a.Launches), cmp.Compare(a.Graph, b.Graph))
	})
	return out
}
