package compile

import (
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// access records an access by the call. o is nil for memory in no allocation.
func (p *callCompiler) access(o *timeline.Object, lo, hi uint64, kind access.Kind) {
	if o != nil && o.Kind.OnHost() && p.visibleOf(o) != nil {
		p.visible.host = append(p.visible.host, access.Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	}
	if o != nil && !o.Kind.OnHost() && o.Kind != api.Reservation {
		p.regions = append(p.regions, access.Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	}
}

// effects adds the memory that the call's kernels also reach, and reports host memory without recorded content among it.
func (p *callCompiler) effects() {
	if !p.ok {
		return
	}
	p.guessed = p.guessed || access.Runs(p.f) && slices.ContainsFunc(p.visible.host, func(r access.Region) bool { return p.flow.Guessed(r.Object, 0, 0) })
	p.regions = p.flow.Call(p.e, p.regions, p.named, p.Model.Numbers, p.guessed)
	if access.Runs(p.f) && p.flow.Depends() {
		p.Found.GuessLaunch = min(p.Found.GuessLaunch, p.c.Index)
	}
	p.guessedVisible()
	if !access.Runs(p.f) {
		return
	}
	for i := range p.regions {
		r := &p.regions[i]
		if !r.Object.Hosted || r.Kind != access.Names {
			continue
		}
		if v := p.visibleOf(r.Object); v == nil || !v.known {
			p.zeroCopy(r.Object)
		}
	}
}

// maxParts limits a result's parts; a result with more is compared as a whole.
const maxParts = 256

// parts divides a result into ranges that the device has written and ranges that no call has written.
func (p *callCompiler) parts(item uint32, s rows) []part {
	all := []part{{0, s.len, false}}
	o, off := p.origin(item)
	if o == nil || o.Kind != api.Device || o.Hosted || o.Created == timeline.NoCall || o.Parent != nil || p.pointers.payloadMissing {
		return all
	}
	written, whole := p.flow.Written(o)
	if whole {
		return all
	}
	near := sort.Search(len(written), func(k int) bool { return written[k].Hi > off })
	if s.width != s.pitch {
		if near == len(written) || written[near].Lo >= off+s.span() {
			all[0].unset = true
		}
		return all
	}
	var ps []part
	at := uint64(0)
	for _, w := range written[near:] {
		if w.Lo >= off+s.len {
			break
		}
		lo, hi := max(w.Lo, off)-off, min(w.Hi, off+s.len)-off
		if lo > at {
			ps = append(ps, part{at, lo, true})
		}
		ps = append(ps, part{lo, hi, false})
		at = hi
	}
	if at < s.len {
		ps = append(ps, part{at, s.len, true})
	}
	if len(ps) > maxParts {
		return all
	}
	return ps
}

// origin returns the memory that the current copy, or one of its items, reads, see access.Origin.
func (p *callCompiler) origin(item uint32) (*timeline.Object, uint64) {
	return access.Origin(p.state, p.owner(), p.e, func(param int) (uint64, bool) {
		d := p.find(param, 0, format.DirIn)
		if item == 0 || d == nil || d.Status != format.Whole || d.Len < 8*uint64(item) {
			return 0, false
		}
		ws, err := p.array64(param, d.Len/8)
		if err != nil || ws == nil {
			return 0, false
		}
		return ws[item-1], true
	})
}
