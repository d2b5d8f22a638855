package compile

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// gaps are the periods with missing calls, by start time.
type gaps struct {
	all   []format.Gap
	marks []gapMark      // by time
	other []gapMark      // by time: when memory first became unknown for another reason
	seen  map[uint32]int // marks made in each process
}

// A gapMark is a time at which all live memory becomes unknown.
type gapMark struct {
	at   int64
	code verify.Reason
}

// gapReason returns why memory is unknown after a gap.
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

// reason returns why results at a time are unproved on a library without OpMark, "" if nothing was missing before.
func (gs *gaps) reason(at int64) verify.Reason {
	switch {
	case len(gs.all) > 0 && gs.all[0].From < at:
		return gapReason(&gs.all[0])
	case len(gs.other) > 0 && gs.other[0].at < at:
		return gs.other[0].code
	}
	return ""
}

// since records that memory is unknown for a reason since a time.
func (gs *gaps) since(code verify.Reason, at int64) {
	if !gs.has(code) {
		gs.other = append(gs.other, gapMark{at, code})
	}
}

// has reports whether memory became unknown for a reason other than missing calls.
func (gs *gaps) has(code verify.Reason) bool {
	return slices.ContainsFunc(gs.other, func(m gapMark) bool { return m.code == code })
}

// due returns the reason for the marks that a process must make before a call with the given start, "" if there are none.
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

// Missing calls may have written any live memory, and copies with missing data copy zeros. A simulator marks such memory (OpMark) and
// reports the results that depend on it. On other libraries every later result is unproved.

// markGaps marks all live device memory before the current call, if calls are missing before it.
func (p *callCompiler) markGaps() {
	if len(p.gaps.all) == 0 || !p.o.Compare {
		return
	}
	code := p.gaps.due(p.owner(), p.c.Start)
	if code == "" {
		return
	}
	for o, op := range p.objects.operands.All() {
		if o.Kind == api.Device && o.Ended == timeline.NoCall && o.Created != p.c.Index && o.Process == p.owner() && o.Size > 0 {
			p.before = append(p.before, p.mark(op, o.Size, code))
		}
	}
}

// mark returns an instruction that marks memory as unknown for a reason, or as known if the reason is "".
func (p *compiler) mark(at plan.Operand, size uint64, code verify.Reason) plan.Instruction {
	return plan.Instruction{Op: plan.OpMark, Bits: code.Code(), Operands: p.Operands(at), Len: size}
}

// zerosIn records that the current call copies zeros in place of missing data: from pinned memory, or from the shared zeros.
func (p *callCompiler) zerosIn(pinned bool, at plan.Operand, n uint64) {
	p.gaps.since(verify.Data, p.c.Start)
	p.Found.Substituted[len(p.Found.Substituted)-1].marked = true
	if pinned {
		p.before = append(p.before, p.mark(at, n, verify.Data))
	}
}

// unknown marks memory as unknown before the current call.
func (p *callCompiler) unknown(at plan.Operand, size uint64, code verify.Reason) {
	p.gaps.since(code, p.c.Start)
	p.before = append(p.before, p.mark(at, size, code))
}

// because sets the detailed text for a reason.
func (p *compiler) because(code verify.Reason, why string) {
	if p.Found.Because == nil {
		p.Found.Because = map[verify.Reason]string{}
	}
	p.Found.Because[code] = why
}

// zerosReason returns the reason with which each process marks the shared zeros before its first call, "" for none.
func (p *compiler) zerosReason() verify.Reason {
	if !p.gaps.has(verify.Data) || !p.o.Compare || p.pointers.zeros == 0 {
		return ""
	}
	return verify.Data
}

// afterGap sets the reason that makes a comparison prove nothing on a library without OpMark, if there is one at that time.
func (p *compiler) afterGap(in *plan.Instruction, at int64) {
	if code := p.gaps.reason(at); code != "" {
		in.Bits, in.Flags = code.Code(), in.Flags|plan.InstUnmarked
	}
}
