package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// GraphSum sums up the runs of graphs with one role, as those for several batch sizes. Measured times are those of the runs as a whole.
type GraphSum struct {
	Task
	Graphs   int    `json:"graphs"`   // number of graphs
	Launches uint64 `json:"launches"` // launches of kernels by all runs, 0 if the content of the graphs is not known
	Kernels  string `json:"kernels"`  // kernels of the graph that ran first, with their counts
	// AtMostNS is the time in which the runs were on the device: the sum of the measured times, or of the times between calls that bracket a run.
	AtMostNS int64 `json:"at_most_ns"`

	seen map[*timeline.Object]bool
}

// graphSums sums up graphs by role.
type graphSums struct {
	byRole map[string]*GraphSum
	latest *GraphSum
	step   int // one more than the latest step with a run
	steps  int // whole steps with a run
}

// unknownGraph is the name of graphs with unknown content: captured before the recording, or loaded.
const unknownGraph = "graph with unknown content"

// RoleOf returns the role of the graph that a task runs.
func RoleOf(k *timeline.Task) string {
	if k.Content == nil {
		return unknownGraph
	}
	return k.Content.Role
}

// of returns the sums with a run.
func (x *graphSums) of(k *timeline.Task) *GraphSum {
	name := RoleOf(k)
	if x.latest != nil && x.latest.Name == name {
		return x.latest
	}
	g := x.byRole[name]
	if g == nil {
		if x.byRole == nil {
			x.byRole = map[string]*GraphSum{}
		}
		g = &GraphSum{Task: Task{Name: name}, seen: map[*timeline.Object]bool{}}
		if k.Content != nil {
			g.Kernels = k.Content.String()
		}
		x.byRole[name] = g
	}
	x.latest = g
	return g
}

// maxGraphs bounds the graphs that are counted by role.
const maxGraphs = 1 << 16

// issued adds a run when its call is known.
func (x *graphSums) issued(k *timeline.Task, host int64) {
	g := x.of(k)
	g.issued(k, host)
	x.step = max(x.step, k.Step+1)
	if k.Content != nil {
		g.Launches += k.Content.Launches
	}
	if !g.seen[k.Object] && len(g.seen) < maxGraphs {
		g.seen[k.Object] = true
		g.Graphs++
	}
}

func (x *graphSums) list() []GraphSum {
	out := []GraphSum{}
	for _, g := range x.byRole {
		g.finish()
		g.AtMostNS = g.bracketNS
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b GraphSum) int {
		return cmp.Or(cmp.Compare(b.AtMostNS, a.AtMostNS), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// inGraphs adds the kernels that a run launches to their sums.
func (x *summer) inGraphs(k *timeline.Task) {
	for _, in := range k.Content.Inside() {
		t := x.taskStats(&timeline.Task{Kind: api.Kernel, Name: in.Name})[0]
		t.InGraphs += in.Count
		x.eager.launched(k.Step, t, in.Count, true)
	}
}
