package timeline

import (
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline/step"
)

// graphRoles determines which graphs do the same for steps: a decoder has a graph for each batch size, and runs one of them in each step. Graphs
// have one role if most of their kernels have the same names. Graphs with unknown content have one role, too.
type graphRoles struct {
	of    map[*Object]graphRole
	kinds []map[uint64]int // by kind-1: kernels of its first graph, by name
}

// graphRole is the role of a graph. The zero value is that of a graph with unknown content.
type graphRole struct {
	kind     int
	launches uint32 // kernels in the graph
}

// maxRoles bounds the number of roles. Further graphs share one.
const maxRoles = 256

// alikeGraphs is the least part of the kernels that graphs with one role have in common.
const alikeGraphs = 0.7

// set determines the role of a graph from its content.
func (r *graphRoles) set(o *Object, kernels []uint64) {
	if r.of == nil {
		r.of = map[*Object]graphRole{}
	}
	bag := map[uint64]int{}
	for _, k := range kernels {
		bag[k]++
	}
	r.of[o] = graphRole{r.kind(bag, len(kernels)), uint32(min(len(kernels), math.MaxInt32))}
}

func (r *graphRoles) kind(bag map[uint64]int, n int) int {
	for i, kind := range r.kinds {
		common, all := 0, n
		for name, k := range kind {
			all += k
			common += min(k, bag[name])
		}
		if float64(2*common) >= alikeGraphs*float64(all) {
			return i + 1
		}
	}
	if len(r.kinds) < maxRoles {
		r.kinds = append(r.kinds, bag)
	}
	return len(r.kinds)
}

// kernelsOf returns the hashed names of the kernels in a graph.
func (s *stepState) kernelsOf(g Graph) (names []uint64) {
	for _, t := range g.Tasks() {
		if t.Kind == api.Kernel {
			names = append(names, s.hashes.of(t.Name))
		}
	}
	return names
}

// captured returns the capture that a call has ended, nil if it ended none.
func (w *Walk) captured(h *HostCall) *step.Capture {
	if h.Fn == nil || h.Fn.Capture != api.CaptureEnd || w.graphs == nil || !w.now.event.OK() {
		return nil
	}
	g := w.graphs.Known(w.now.event.Object(api.Graph))
	if g == nil {
		return nil
	}
	c := &step.Capture{Process: w.now.event.Process, Kernels: w.steps.kernelsOf(Graph{g})}
	return c
}
