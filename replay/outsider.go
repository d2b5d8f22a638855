package replay

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Memory that a process exports and that no process of the trace imports may be written by a process that is not in the trace, at any
// time. It is marked as unknown before each task that can read it.

// outsiders are the objects that processes outside the trace may share.
type outsiders struct {
	memory  map[*timeline.Object]bool             // exported memory, with or without an address
	backing map[*timeline.Object]*timeline.Object // physical memory of mappings
	told    map[*timeline.Object]bool             // named in the report
}

func newOutsiders() outsiders {
	return outsiders{map[*timeline.Object]bool{}, map[*timeline.Object]*timeline.Object{}, map[*timeline.Object]bool{}}
}

// exports follows memory that the current call maps or exports.
func (p *planner) exports() {
	if !p.ok {
		return
	}
	var memory *timeline.Object // that the call gives away or maps
	for _, u := range p.e.Uses {
		if k := u.Object.Kind; u.Object.Created != p.c.Index && (k == api.Device || k == api.Physical) {
			memory = u.Object
		}
	}
	if memory == nil {
		return
	}
	if p.f.Shares == api.Export && !p.imported[timeline.ExportKey(p.c)] {
		p.outsiders.memory[memory] = true
	}
	for _, u := range p.e.Uses {
		switch o := u.Object; {
		case o.Created != p.c.Index:
		case o.Kind == api.Device && memory.Kind == api.Physical:
			p.outsiders.backing[o] = memory
		case o.Kind == api.SharedMemory && !p.imported[fmt.Sprint(o.Handle)], o.Kind == api.Descriptor && !p.handedOver(p.c.Index):
			p.outsiders.memory[memory] = true
		}
	}
}

// handedOver reports whether a call of the trace takes the descriptor that a call has made.
func (p *planner) handedOver(call uint64) bool {
	for _, by := range p.taken {
		if by == call {
			return true
		}
	}
	return false
}

// markOutsiders marks the memory that the current call can read and that processes outside the trace may have written.
func (p *planner) markOutsiders() {
	if len(p.outsiders.memory) == 0 || !p.ok || !p.o.compares() {
		return
	}
	kernel := p.f.Task == api.Kernel || p.f.Task == api.GraphRun
	var read []*timeline.Object
	for _, t := range p.touches {
		o := t.object
		if t.how != touchReads && (t.how != touchNames || !kernel) || slices.Contains(read, o) {
			continue
		}
		shared := o
		if b := p.outsiders.backing[o]; b != nil {
			shared = b
		}
		if p.outsiders.memory[o] || p.outsiders.memory[shared] {
			read = append(read, o)
		}
	}
	for _, o := range read {
		p.unknown(p.object(o), o.Size, verify.Peer)
		p.outsiders.told[o] = true
		more := ""
		if n := len(p.outsiders.told) - 1; n > 0 {
			more = fmt.Sprintf(" (and of %d more)", n)
		}
		p.because(verify.Peer, fmt.Sprintf("memory of call %d%s was exported to a process that is not in the trace", o.Created, more))
	}
}
