package memory

import "github.com/acltrace/acltrace/sim/device/space"

// Mark says why bytes are unknown. Marks belong to memory, not to its addresses: physical memory keeps them when it is mapped elsewhere.
type Mark struct {
	Why string // the name of a kernel that did not run, or a reason that package device defines
	// Group has the memory whose addresses the bytes may hold; nil for none.
	Group *Group
}

// Group is memory of which a kernel that did not run knew the addresses. It may have stored any of them in any part of that memory. Groups
// that meet are joined. The owner locks it.
type Group struct {
	into  *Group                // the group that this one has joined; nil for none
	spans map[space.Span]uint64 // the time at which each was added
	// Searched is the time until which all memory that the group's memory leads to is in the group and marked; 0 for never.
	Searched uint64
}

// Root returns the group that a group has joined.
func (g *Group) Root() *Group {
	for g.into != nil {
		g = g.into
	}
	return g
}

// Join adds the memory of another group, and returns the joined group.
func (g *Group) Join(o *Group) *Group {
	g, o = g.Root(), o.Root()
	if g == o {
		return g
	}
	if len(g.spans) < len(o.spans) {
		g, o = o, g
	}
	for s, at := range o.spans {
		g.Add(s, at)
	}
	o.into, o.spans = g, nil
	g.Searched = 0
	return g
}

// Add adds memory at a time.
func (g *Group) Add(s space.Span, at uint64) {
	if g.spans == nil {
		g.spans = map[space.Span]uint64{}
	}
	g.spans[s] = max(g.spans[s], at)
}

// Spans returns the memory of a group that has joined no other one, and when each part was added. It may have ended since.
func (g *Group) Spans() map[space.Span]uint64 { return g.spans }
