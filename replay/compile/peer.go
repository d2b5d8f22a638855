package compile

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// sharing knows what processes pass to each other: keys, descriptors and memory.
type sharing struct {
	keys         map[string]plan.Operand     // by the key's recorded bytes
	imported     map[string]bool             // keys that a process of the trace imports
	importedFDs  map[uint64]uint64           // by importing call: the call that exported the descriptor, if known
	exportedFDs  map[uint64]*timeline.Object // by exporting call
	missingPeers map[*timeline.Object]bool   // shared with a process that is not in the trace
	tainted      map[*timeline.Object]bool   // memory that such a process may have written
	outsiders    outsiders
}

func newSharing() sharing {
	return sharing{
		keys: map[string]plan.Operand{}, imported: map[string]bool{}, exportedFDs: map[uint64]*timeline.Object{},
		missingPeers: map[*timeline.Object]bool{}, tainted: map[*timeline.Object]bool{}, outsiders: newOutsiders(),
	}
}

// Processes find each other's memory, notifies and events by keys that the runtime makes anew in each run. Where both sides
// are in the trace the key that one gets in the replay is given to the other. A side that is not in the trace is an absent
// peer: what would wait for it is refused by name, or, with Options.StubComm, is left out.

// standSize is how much memory stands for a peer's, in bytes, since nothing tells how much that was.
const standSize = 64 << 20

// match finds the keys that some process of the trace imports.
func (p *compiler) match() error {
	counts, err := p.r.Counts()
	if err != nil {
		return err
	}
	asks := slices.ContainsFunc(counts.Functions, func(c format.FuncCount) bool {
		f := p.Model.Func(api.ID(c.Func))
		return f != nil && f.Shares == api.Import
	})
	if !asks {
		return nil
	}
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		f := p.Model.Func(api.ID(c.Func))
		if f == nil || f.Shares != api.Import || len(c.Args) != int(f.Words) {
			continue
		}
		p.sharing.imported[timeline.ImportKey(f, c)] = true
	}
	return nil
}

// peers sees to what a call has to do with other processes. It reports whether the call is left out.
func (p *callCompiler) peers() (skip bool) {
	f := p.f
	for _, u := range p.e.Uses {
		if o := u.Object; p.sharing.missingPeers[o] && (f.Task == api.Wait || f.Sync == api.SyncEvent) && p.ok {
			if !p.o.StubComm {
				p.cant = fmt.Sprintf("it waits for another process, which is not in the trace, by its %s %#x; --stub-comm leaves that out", o.Kind, o.Handle)
				return false
			}
			p.unverified(verify.Peer, "the wait for a peer that is not in the trace is left out")
			return true
		}
	}
	if !p.ok {
		return false
	}
	switch {
	case f.Shares == api.Export:
		if !p.sharing.imported[timeline.ExportKey(p.c)] {
			for _, u := range p.e.Uses {
				// Who exports a notify waits for it; who exports an event records it.
				p.sharing.missingPeers[u.Object] = u.Object.Kind == api.Notify || u.Object.Kind == api.Counter
				p.sharing.tainted[u.Object] = true
			}
		}
	case f.Shares == api.Import:
		if _, ok := p.sharing.keys[timeline.ImportKey(f, p.c)]; ok {
			break
		}
		if f.StandIn == "" || !p.o.StubComm {
			p.cant = "what it imports belongs to another process, which is not in the trace"
			if f.StandIn != "" {
				p.cant += "; --stub-comm stands in for it"
			}
			return false
		}
		for _, u := range p.e.Uses {
			if u.Object.Created == p.c.Index {
				p.sharing.missingPeers[u.Object], p.sharing.tainted[u.Object] = true, true
				u.Object.Size = max(u.Object.Size, standSize)
			}
		}
	case f.Shares == api.Unshare:
		_, ok := p.sharing.keys[timeline.ImportKey(f, p.c)]
		return !ok && p.o.StubComm
	}
	return false
}

// replace makes a call of what stands in for an import that has no peer, and says so.
func (p *callCompiler) replace(in *plan.Instruction, words []plan.Operand) []plan.Operand {
	if p.f.StandIn == "" || p.f.Shares != api.Import || !p.o.StubComm || !p.ok {
		return words
	}
	if _, known := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; known {
		return words
	}
	made := func(f *api.Func) *api.Param {
		return &f.Params[slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role.Makes() })]
	}
	f := p.Model.Lookup(p.f.StandIn)
	ops := make([]plan.Operand, f.Words)
	q := made(f)
	ops[q.Word] = words[made(p.f).Word]
	for _, n := range q.Size.Mul {
		ops[f.Params[n].Word] = imm(standSize)
	}
	in.Fn, in.Words = p.Function(f), f.Words
	p.unverified(verify.Peer, "the peer that it belongs to is not in the trace: "+f.Name+" stands in for it")
	return ops
}

// taint follows what may come from absent peers: whatever a task writes that can read such memory is such memory.
func (p *callCompiler) taint() {
	if len(p.sharing.tainted) == 0 {
		return
	}
	from := slices.ContainsFunc(p.touches, func(t Touch) bool { return t.How != TouchWrites && p.sharing.tainted[t.Object] })
	kernel := p.f.Task == api.Kernel || p.f.Task == api.GraphRun
	for _, t := range p.touches {
		if from && (t.How == TouchWrites || t.How == TouchNames && kernel) {
			p.sharing.tainted[t.Object] = true
		}
	}
}

// shareable is the slot of a handle that another process has made for all.
func (p *compiler) shareable(o *timeline.Object) (plan.Operand, bool) {
	if o.Kind != api.SharedMemory {
		return plan.Operand{}, false
	}
	op, ok := p.sharing.keys[fmt.Sprint(o.Handle)]
	return op, ok
}
