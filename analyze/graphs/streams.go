package graphs

import (
	"cmp"
	"slices"
	"strings"
)

// maxHolders bounds the Holders of a Finding.
const maxHolders = 8

// hold counts the streams of a new graph.
func (x *Checker) hold(g *graph, c *capture) {
	before := x.streams[g.process]
	n, most := before+g.streams, uint64(x.w.Model.Accelerator.Streams)
	x.streams[g.process] = n
	if most == 0 || 5*n < 4*most {
		return
	}
	x.find(CapturedStreams, c.call, c.fn, func(f *Finding) {
		f.Graph, f.Stream, f.Before, f.Have, f.Want = g.name, name(c.stream), before, n, most
		f.Holders = x.holders(g.process)
		for i := range f.Holders {
			f.Graphs += f.Holders[i].Graphs
		}
		f.Holders = f.Holders[:min(len(f.Holders), maxHolders)]
	})
	f := x.found[CapturedStreams]
	f.Most = max(f.Most, n)
}

// holders lists the live graphs of a process by the streams that joined their captures.
func (x *Checker) holders(process uint32) []Holder {
	by, last := map[string]*Holder{}, map[string]int{}
	for _, g := range x.graphs {
		if g.process != process {
			continue
		}
		key := strings.Join(g.joined, " ")
		h := by[key]
		if h == nil {
			h = &Holder{First: g.name, Last: g.name, Joined: g.joined, order: g.number}
			by[key], last[key] = h, g.number
		}
		h.Graphs, h.Streams = h.Graphs+1, h.Streams+g.streams
		if g.number < h.order {
			h.First, h.order = g.name, g.number
		}
		if g.number > last[key] {
			h.Last, last[key] = g.name, g.number
		}
	}
	var all []Holder
	for _, h := range by {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int { return cmp.Or(cmp.Compare(b.Streams, a.Streams), a.order-b.order) })
	return all
}
