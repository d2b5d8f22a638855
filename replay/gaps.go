package replay

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Calls that the trace lacks may have written any memory that lived at the time. A simulator marks that memory (opMark) and reports the
// results that depend on it. On other libraries every result after such a gap is unproved.

// gaps are the times at which a trace lacks calls, in the order of their beginnings.
type gaps struct {
	all   []format.Gap
	marks []gapMark      // still to be made, by time
	seen  map[uint32]int // marks made in each process
}

// gapMark is a moment at which memory that lives becomes unknown.
type gapMark struct {
	at   int64
	code verify.Reason
}

// gapReason says why memory is unknown after a gap.
func gapReason(g *format.Gap) verify.Reason {
	if g.Intended() {
		return verify.Before
	}
	return verify.Incomplete
}

func newGaps(c *format.Completeness) gaps {
	gs := gaps{all: append(slices.Clone(c.Lost), c.Outside...), seen: map[uint32]int{}}
	slices.SortFunc(gs.all, func(a, b format.Gap) int { return cmp.Compare(a.From, b.From) })
	for i := range gs.all {
		g := &gs.all[i]
		gs.marks = append(gs.marks, gapMark{g.From, gapReason(g)}, gapMark{g.To, gapReason(g)})
	}
	slices.SortStableFunc(gs.marks, func(a, b gapMark) int { return cmp.Compare(a.at, b.at) })
	return gs
}

// reason returns why results that come at a time are unproved on a library that can't mark memory, "" if none of the gaps began before.
func (gs *gaps) reason(at int64) verify.Reason {
	if len(gs.all) == 0 || gs.all[0].From >= at {
		return ""
	}
	return gapReason(&gs.all[0])
}

// due returns the reason of the marks that a process has to make before a call that begins at a time, "" if there are none.
func (gs *gaps) due(process uint32, start int64) (code verify.Reason) {
	n := gs.seen[process]
	for ; n < len(gs.marks) && gs.marks[n].at <= start; n++ {
		if code != verify.Incomplete {
			code = gs.marks[n].code
		}
	}
	gs.seen[process] = n
	return code
}

// markGaps marks all device memory that lives, before the current call, if calls are missing since the call before it.
func (p *planner) markGaps() {
	if len(p.gaps.all) == 0 || !p.o.compares() {
		return
	}
	code := p.gaps.due(p.owner(), p.c.Start)
	if code == "" {
		return
	}
	var live []*timeline.Object
	for o := range p.objects {
		if o.Kind == api.Device && o.Ended == timeline.NoCall && o.Created != p.c.Index && o.Process == p.owner() && o.Size > 0 {
			live = append(live, o)
		}
	}
	slices.SortFunc(live, func(a, b *timeline.Object) int { return cmp.Compare(a.ID, b.ID) })
	for _, o := range live {
		p.before = append(p.before, instruction{Op: opMark, Bits: code.Code(), Call: p.c.Index, Operands: p.operands(p.objects[o]), Len: o.Size})
	}
}

// afterGap gives the comparison of a result that came at a time the reason for which it proves nothing on a library that can't mark memory.
func (p *planner) afterGap(in *instruction, at int64) {
	if code := p.gaps.reason(at); code != "" {
		in.Bits, in.Flags = code.Code(), in.Flags|instUnmarked
	}
}
