package compile

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
func (p *callCompiler) exports() {
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
	if p.f.Shares == api.Export && !p.sharing.imported[timeline.ExportKey(p.c)] {
		p.sharing.outsiders.memory[memory] = true
	}
	for _, u := range p.e.Uses {
		switch o := u.Object; {
		case o.Created != p.c.Index:
		case o.Kind == api.Device && memory.Kind == api.Physical:
			p.sharing.outsiders.backing[o] = memory
		case o.Kind == api.SharedMemory && !p.sharing.imported[fmt.Sprint(o.Handle)], o.Kind == api.Descriptor && !p.handedOver(p.c.Index):
			p.sharing.outsiders.memory[memory] = true
		}
	}
}

// handedOver reports whether a call of the trace takes the descriptor that a call has made.
func (p *compiler) handedOver(call uint64) bool {
	for _, by := range p.sharing.importedFDs {
		if by == call {
			return true
		}
	}
	return false
}

// markOutsiders marks the memory that the current call can read and that processes outside the trace may have written.
func (p *callCompiler) markOutsiders() {
	if len(p.sharing.outsiders.memory) == 0 || !p.ok || !p.o.Compare {
		return
	}
	kernel := p.f.Task == api.Kernel || p.f.Task == api.GraphRun
	var read []*timeline.Object
	for _, t := range p.touches {
		o := t.Object
		if t.How != TouchReads && (t.How != TouchNames || !kernel) || slices.Contains(read, o) {
			continue
		}
		shared := o
		if b := p.sharing.outsiders.backing[o]; b != nil {
			shared = b
		}
		if p.sharing.outsiders.memory[o] || p.sharing.outsiders.memory[shared] {
			read = append(read, o)
		}
	}
	for _, o := range read {
		p.unknown(p.object(o), o.Size, verify.Peer)
		p.sharing.outsiders.told[o] = true
		more := ""
		if n := len(p.sharing.outsiders.told) - 1; n > 0 {
			more = fmt.Sprintf(" (and of %d more)", n)
		}
		p.because(verify.Peer, fmt.Sprintf("memory of call %d%s was exported to a process that is not in the trace", o.Created, more))
	}
}
