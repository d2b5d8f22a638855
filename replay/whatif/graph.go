package whatif

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/sim/virtual"
)

// measureGraphs sums up the measured runs of each graph.
func (v *runner) measureGraphs() {
	for i := range v.p.tasks.n {
		t := v.p.tasks.at(i)
		if n, ok := v.p.graphs.runs[t.call]; ok && t.kind == api.GraphRun && t.measured {
			g := &v.p.graphs.all[n]
			g.n, g.sum = g.n+1, g.sum+t.to-t.from
		}
	}
}

// graphLanes returns the tasks of a graph for the played model. A run has one duration: its mean is shared out to the tasks of the longest lane in the
// ratio of their durations by the base model, and a task of another lane gets its duration by the same factor. Without measured runs the model's count.
func (v *runner) graphLanes(g *graphOps) [][]virtual.Op {
	if g.n == 0 {
		return g.lanes
	}
	most, factor := int64(0), 1.0
	for _, lane := range g.lanes {
		sum, fixed := int64(0), int64(0)
		for i := range lane {
			if base := v.graphTaskTime(&lane[i]); base != unknown {
				sum, fixed = sum+base, fixed+v.base.Launch.Overhead
			} else if lane[i].Device > 0 {
				fixed += lane[i].Device // a host function
			}
		}
		if sum > most {
			most, factor = sum, float64(max(g.sum/g.n-fixed, 0))/float64(sum)
		}
	}
	lanes := make([][]virtual.Op, len(g.lanes))
	for n := range lanes {
		lanes[n] = slices.Clone(g.lanes[n])
		for i := range lanes[n] {
			op := &lanes[n][i]
			if base := v.graphTaskTime(op); base != unknown {
				op.Device = v.graphTaskOn(op, int64(factor*float64(base)))
			}
		}
	}
	return lanes
}

// graphTaskTime returns the duration of a task in a graph by the base model, unknown for tasks that are no kernels and copies.
func (v *runner) graphTaskTime(op *virtual.Op) int64 {
	switch op.Kind {
	case virtual.Kernel:
		return v.base.KernelTime(v.base.Rule(v.p.kernels.all[op.Kernel].name), max(op.Blocks, 1), 0)
	case virtual.Copy:
		return v.base.CopyTime(op.Copy, op.Bytes)
	}
	return unknown
}

// graphTaskOn returns the duration of a task in a graph on the played model. The machine applies the factor of a kernel's rule.
func (v *runner) graphTaskOn(op *virtual.Op, took int64) int64 {
	if op.Kind == virtual.Copy {
		if b := v.base.CopyTime(op.Copy, op.Bytes); b > 0 {
			return int64(float64(took) * float64(v.playing.CopyTime(op.Copy, op.Bytes)) / float64(b))
		}
		return took
	}
	name, blocks := v.p.kernels.all[op.Kernel].name, max(op.Blocks, 1)
	was, is := v.base.Rule(name), v.playing.Rule(name)
	if is.Duration != 0 {
		return unknown
	}
	if a, b := v.base.Rows(was, blocks), v.playing.Rows(is, blocks); a > 0 && b > 0 {
		return took * b / a
	}
	return took
}
