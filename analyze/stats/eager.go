package stats

import (
	"hash/fnv"

	"github.com/acltrace/acltrace/timeline/step"
)

// eagerSteps finds the steps that run no graph, but launch the same kernels as steps that do. Their inputs are outside of the captured sizes.
type eagerSteps struct {
	open  map[int]stepWork  // by step
	known map[uint64]*tally // by work: steps with a run of a graph
	like  tally             // those steps, for each step in found
	found tally
	index int // of the longest in found
	most  int64
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
	ns := p.To - p.From
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
			x.most, x.index = ns, p.Index
		}
	}
}

// eagerFindings returns the steps that launch the kernels of a graph one by one. Prompts may have the kernels of other steps, so these are at least
// half of the steps.
func (x *summer) eagerFindings() []Finding {
	e := &x.eager
	if 2*e.found.n < uint64(x.s.Steps.Count) || e.found.ns <= e.like.ns {
		return nil
	}
	return []Finding{{Kind: EagerSteps, Count: e.found.n, Of: uint64(x.s.Steps.Count), NS: e.found.mean(), EachNS: e.like.mean(), CostNS: e.found.ns - e.like.ns, Step: &e.index}}
}
