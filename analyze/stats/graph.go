package stats

import (
	"cmp"
	"hash/fnv"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// GraphSum sums up the runs of graphs with one role, as those for several batch sizes. Measured times are those of the runs as a whole.
type GraphSum struct {
	Task
	Graphs   int    `json:"graphs"`   // number of graphs
	Launches uint64 `json:"launches"` // launches of kernels by all runs, 0 if the content of the graphs is not known
	Kernels  string `json:"kernels"`  // kernels of the graph that ran first, with their counts
	// AtMostNS is the time in which the runs were on the device: the sum of the measured times, or a bound from the calls that bracket runs. Runs of a
	// stream follow each other, so their brackets count once.
	AtMostNS int64 `json:"at_most_ns"`

	seen map[*timeline.Object]bool
}

// graphSums sums up graphs by role.
type graphSums struct {
	byRole map[string]*GraphSum
	latest *GraphSum
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

// capInGraphs keeps the estimates for the kernels in graphs within the time of all runs.
func (s *Stats) capInGraphs() {
	sum, most := int64(0), int64(0)
	for i := range s.Kernels {
		sum += s.Kernels[i].InGraphsNS
	}
	for i := range s.Graphs {
		most += s.Graphs[i].AtMostNS
	}
	for i := range s.Kernels {
		if k := &s.Kernels[i]; sum > most {
			k.InGraphsNS = int64(float64(k.InGraphsNS) / float64(sum) * float64(most))
		}
	}
}

// inGraphs adds the kernels that a run launches to their sums.
func (x *summer) inGraphs(k *timeline.Task) {
	for _, in := range k.Content.Inside() {
		t := x.taskStats(&timeline.Task{Kind: api.Kernel, Name: in.Name})[0]
		t.InGraphs += in.Count
		x.eager.launched(k.Step, t, in.Count, true)
	}
}

// eagerSteps finds the steps that run no graph, but launch the same kernels as steps that do. Their inputs are outside of the captured sizes.
type eagerSteps struct {
	open  map[int]stepWork  // by step
	known map[uint64]*tally // by work: steps with a run of a graph
	since uint64            // steps from the first one with a run of a graph on
	like  tally             // those in known, for each step in found
	found tally
	index int // of the longest in found
	most  int64

	unused unusedGraphs
}

// stepWork is the sum of the kernels in a step.
type stepWork struct {
	sum   uint64
	graph bool // a graph runs
}

// A tally sums up steps.
type tally struct {
	n  uint64
	ns int64
}

func (t *tally) add(n uint64, ns int64) { t.n, t.ns = t.n+n, t.ns+ns }

func (t *tally) mean() int64 { return t.ns / int64(max(t.n, 1)) }

// maxWork bounds the kinds of steps that are known.
const maxWork = 64

// workOf returns a number for a kernel. A sum of such numbers is the same for steps with the same launches, in any order.
func workOf(kernel string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kernel))
	return h.Sum64()
}

// launched adds launches of a kernel in a step, by a graph or one by one.
func (x *eagerSteps) launched(step int, kernel *Task, n uint64, graph bool) {
	if step < 0 {
		return
	}
	if x.open == nil {
		x.open = map[int]stepWork{}
	}
	w := x.open[step]
	x.open[step] = stepWork{w.sum + kernel.work*n, w.graph || graph}
}

// stepped follows the end of a step.
func (x *eagerSteps) stepped(p *step.Step, whole bool) {
	w, any := x.open[p.Index]
	delete(x.open, p.Index)
	if !whole || !any {
		return
	}
	if ns := p.To - p.From; w.graph || x.since > 0 {
		x.since++
		x.compare(p.Index, w, ns)
	}
}

// compare compares a step with those that run a graph.
func (x *eagerSteps) compare(index int, w stepWork, ns int64) {
	like := x.known[w.sum]
	switch {
	case w.graph && like != nil:
		like.add(1, ns)
	case w.graph && len(x.known) < maxWork:
		if x.known == nil {
			x.known = map[uint64]*tally{}
		}
		x.known[w.sum] = &tally{1, ns}
	case !w.graph && like != nil:
		x.like.add(1, like.mean())
		if x.found.add(1, ns); ns > x.most {
			x.most, x.index = ns, index
		}
	}
}

// unusedGraphs finds programs that capture graphs and run none of them.
type unusedGraphs struct {
	n     uint64 // captures
	first firstCall
	ran   bool
	steps uint64 // that have ended since the latest capture
}

// call takes a successful call of the process with the steps.
func (x *unusedGraphs) call(h *timeline.HostCall) {
	switch {
	case h.Fn.Task == api.GraphRun:
		x.ran = true
	case captures(h.Fn):
		if x.n++; x.n == 1 {
			x.first = firstCall{call: h.Index, fn: h.Name}
		}
		x.steps = 0
	}
}

// fewestUnused is the number of steps without a run after which graphs are unused.
const fewestUnused = 8

func (x *unusedGraphs) findings() []Finding {
	if x.ran || x.n == 0 || x.steps < fewestUnused {
		return nil
	}
	return []Finding{{Kind: UnusedGraphs, Count: x.n, Of: x.steps, Call: &x.first.call, Func: x.first.fn}}
}

// eagerFindings returns the steps that launch the kernels of a graph one by one. Prompts may have the kernels of other steps, so these are at least
// half of the steps.
func (x *summer) eagerFindings() []Finding {
	e := &x.eager
	if 2*e.found.n < uint64(x.s.Steps.Count) || e.found.ns <= e.like.ns {
		return nil
	}
	return []Finding{{Kind: EagerSteps, Count: e.found.n, Of: e.since, NS: e.found.mean(), EachNS: e.like.mean(), CostNS: e.found.ns - e.like.ns, Step: &e.index}}
}

// maxStepKinds bounds the kinds. Programs that capture a graph anew in each step have no kinds.
const maxStepKinds = 1000

// stepKinds divides steps by the graphs that they run.
type stepKinds struct {
	open   map[int]*timeline.Task       // by step: the run with the most launches
	times  map[*timeline.Object]*kindOf // by graph, nil for none
	over   bool                         // there are too many
	graphs int                          // steps with a run
	eager  eagerKinds
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
	if x.eager.stepped(p, whole); !whole {
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
	if x.graphs == 0 {
		return x.eager.list()
	}
	steps := uint64(0)
	for _, k := range x.times {
		steps += k.times.n
	}
	if x.over || len(x.times) < 2 || uint64(len(x.times)) > (steps+1)/2 {
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
