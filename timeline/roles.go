package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/human"
)

// GraphContent sums up what a run of a graph does. It does not change.
type GraphContent struct {
	// Role is the name of the graph's role: graphs for several batch sizes have one, see graphRoles.
	Role     string
	Kernels  []GraphKernel // most launches first
	Launches uint64        // of kernels in the graph
	Reads    bool          // it copies to the host

	role      int // from 1
	text      string
	operators []GraphOperator
}

// listed is the number of kernels in GraphContent.String.
const listed = 16

// GraphKernel counts the launches of one kernel in a graph.
type GraphKernel struct {
	Name  string
	Count uint64
}

// GraphOperator counts the launches of one operator in a graph.
type GraphOperator struct {
	Name   string // "" for none
	Shapes string // as Walk.ShapesOf
	Count  uint64
}

// Operators returns the launches in the graph by the operator that was open when they were captured, and by the shapes, most first.
func (c *GraphContent) Operators() []GraphOperator {
	if c == nil {
		return nil
	}
	return c.operators
}

// Inside returns the kernels, none for unknown content.
func (c *GraphContent) Inside() []GraphKernel {
	if c == nil {
		return nil
	}
	return c.Kernels
}

// String lists the most frequent kernels: "12 attention, 12 mlp".
func (c *GraphContent) String() string { return c.text }

// list lists the first kernels.
func (c *GraphContent) list(n int) string {
	var parts []string
	for _, k := range c.Kernels[:min(n, len(c.Kernels))] {
		parts = append(parts, fmt.Sprintf("%s %s", human.Count(k.Count), k.Name))
	}
	if more := len(c.Kernels) - n; more > 0 {
		parts = append(parts, fmt.Sprintf("%s more", human.Count(more)))
	}
	return strings.Join(parts, ", ")
}

// graphRoles determines which graphs do the same: a decoder has a graph for each batch size, and runs one of them in each step. Graphs have one
// role if most of their kernels have the same names. Graphs with unknown content have one role, too.
type graphRoles struct {
	of    map[*Object]*GraphContent
	kinds []map[string]uint64 // by role-1: kernels of its first graph
	names []string            // by role-1
	taken map[string]bool
}

// maxRoles bounds the number of roles. Further graphs share one.
const maxRoles = 256

// alikeGraphs is the least part of the kernels that graphs with one role have in common.
const alikeGraphs = 0.7

// set determines the role of a graph from its kernels, and keeps its content.
func (r *graphRoles) set(o *Object, in contents) {
	bag := in.kernels
	if r.of == nil {
		r.of, r.taken = map[*Object]*GraphContent{}, map[string]bool{}
	}
	c := &GraphContent{Reads: in.reads, Kernels: counted(bag), operators: operatorsIn(in.operators)}
	for _, n := range bag {
		c.Launches += n
	}
	c.text = c.list(listed)
	c.role = r.kind(bag, c)
	c.Role = r.names[c.role-1]
	r.of[o] = c
}

func operatorsIn(bag map[work]uint64) (list []GraphOperator) {
	for x, n := range bag {
		list = append(list, GraphOperator{x.operator, x.shapes, n})
	}
	slices.SortFunc(list, func(a, b GraphOperator) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shapes, b.Shapes))
	})
	return list
}

// counted lists counts, the most first.
func counted(bag map[string]uint64) (list []GraphKernel) {
	for name, n := range bag {
		list = append(list, GraphKernel{name, n})
	}
	slices.SortFunc(list, func(a, b GraphKernel) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return list
}

// kind returns the role of a graph.
func (r *graphRoles) kind(bag map[string]uint64, c *GraphContent) int {
	for i, kind := range r.kinds {
		common, all := uint64(0), c.Launches
		for name, k := range kind {
			all += k
			common += min(k, bag[name])
		}
		if float64(2*common) >= alikeGraphs*float64(all) {
			return i + 1
		}
	}
	if len(r.kinds) < maxRoles {
		name := "graph: " + c.list(2)
		if c.Launches == 0 {
			name = "graph without kernels"
		}
		for i, base := 2, name; r.taken[name]; i++ {
			name = fmt.Sprintf("%s (%d)", base, i)
		}
		r.taken[name] = true
		r.kinds, r.names = append(r.kinds, bag), append(r.names, name)
	}
	return len(r.kinds)
}

// launches returns the number of launches of a run, at least 1.
func (c *GraphContent) launches() uint32 {
	if c == nil {
		return 1
	}
	return uint32(max(1, min(c.Launches, math.MaxInt32)))
}
