package compile

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// The simulator puts a thread's next allocation at the address that the player requests (aclsim/place.h), if there is room, and all other
// allocations from api.Simulator.Base on. Other libraries choose addresses themselves. For some of them the player can place allocations
// at their recorded addresses (player/place.h), if Options.Place is PlaceSame.

// placement requests the recorded address for device memory that the current call allocates. An allocation that failed for lack of memory
// may succeed here: it gets an address after all others.
func (p *callCompiler) placement() {
	if !p.facts.places || p.o.Backend.Placement() != backend.ByCall {
		return
	}
	if p.pointers.mover != nil {
		p.move()
		return
	}
	for i := range p.f.Params {
		q := &p.f.Params[i]
		if q.Role != api.New || !access.Placed(q.Object) {
			continue
		}
		at, ok := p.stored(i)
		if e := p.Model.Exhausted; !p.ok && int32(p.c.Ret) >= e[0] && int32(p.c.Ret) <= e[1] {
			size, _ := q.Size.Bytes(p.f, p.c.Args)
			at, ok = p.spareAddress(size)
		}
		if ok && at != 0 {
			p.before = append(p.before, plan.Instruction{Op: plan.OpPlace, Fn: p.Function(p.f), Call: p.c.Index, Operands: p.Operands(imm(at))})
		}
	}
}

// move requests an unrelated address for memory or addresses that the current call allocates. The number of instructions does not depend on
// the seed.
func (p *callCompiler) move() {
	align := uint64(0)
	if i := p.f.Param("alignment"); i >= 0 {
		align = p.c.Args[p.f.Params[i].Word]
	}
	if align > maxAlign || align&(align-1) != 0 {
		align = 0 // of a failed call
	}
	for _, u := range p.e.Uses {
		o := u.Object
		if o.Created == p.c.Index && access.Placed(o.Kind) && p.ok && u.Param >= 0 && u.Param < len(p.f.Params) && p.f.Params[u.Param].Role == api.New {
			at := p.pointers.mover.place(o, align)
			p.before = append(p.before, plan.Instruction{Op: plan.OpPlace, Fn: p.Function(p.f), Call: p.c.Index, Operands: p.Operands(imm(at))})
		}
	}
}

// spareAddress returns an address after all recorded allocations, false if there is none.
func (p *compiler) spareAddress(size uint64) (uint64, bool) {
	const unit = 2 << 20
	if p.pointers.spareAt == 0 && p.accesses.Placed.To != 0 {
		p.pointers.spareAt = (p.accesses.Placed.To + unit) / unit * unit
	}
	at := p.pointers.spareAt
	if at == 0 || at > 1<<46 || size > 1<<40 {
		return 0, false
	}
	p.pointers.spareAt += (size + 2*unit) / unit * unit
	return at, true
}

// environment returns the variables that make a library place a process's allocations.
func (p *compiler) environment(process int) ([]string, error) {
	if p.dir == "" {
		return nil, nil // inspection only
	}
	pr := &p.procs[process]
	blocks := slices.DeleteFunc(slices.Clone(p.Found.DeviceBlocks), func(d DeviceBlock) bool { return d.Object.Process != pr.process })
	if len(blocks) == 0 {
		return nil, nil
	}
	if p.o.Place == PlaceSame && p.o.Backend.Placement() == backend.ByList {
		var b strings.Builder
		slices.SortStableFunc(blocks, func(a, b DeviceBlock) int { return cmp.Compare(a.end, b.end) }) // the replay's order for overlapping allocations
		for _, d := range blocks {
			fmt.Fprintf(&b, "%#x %d\n", d.Object.Handle, d.Object.Size)
		}
		return p.placeFile("ACLTRACE_PLACE", process, b.String())
	}
	if p.pointers.mover != nil {
		return p.o.Backend.Environment(p.pointers.mover.base), nil
	}
	return p.o.Backend.Environment(0), nil
}

// placeFile writes an address list and returns a variable with its path.
func (p *compiler) placeFile(variable string, process int, list string) ([]string, error) {
	name := fmt.Sprintf("place-%d", process+1)
	path := filepath.Join(p.dir, name)
	f, err := atomicfile.Fresh(path)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(list)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if p.o.Relative {
		path = name
	}
	return []string{variable + "=" + path}, nil
}

// poison fills device memory that the current call allocated, on the call's stream if it has one. Host-visible memory stays unchanged.
func (p *callCompiler) poison() {
	if !p.o.Poison || !p.ok {
		return
	}
	for _, u := range p.e.Uses {
		o := u.Object
		if o.Created != p.c.Index || o.Kind != api.Device || o.Hosted || o.Parent != nil || o.Size == 0 || u.Param < 0 || u.Param >= len(p.f.Params) || p.f.Params[u.Param].Role != api.New {
			continue
		}
		p.after = append(p.after, p.fill(o, p.f.Stream >= 0)...)
	}
	p.poisonPhysical()
}

// poisonPhysical fills physical memory before the first task that may use it at one of its addresses: only then is it certain that the device
// has access. Memory of other processes stays unchanged.
func (p *callCompiler) poisonPhysical() {
	fresh, mapped := p.objects.fresh, p.objects.freshMapped
	for _, u := range p.e.Uses {
		switch o := u.Object; {
		case o.Kind == api.Physical && o.Created == p.c.Index && p.f.Shares == api.NoShare:
			fresh[o] = true
		case o.Kind == api.Physical && p.f.Shares != api.NoShare:
			delete(fresh, o)
		case o.Kind == api.Device && o.Created == p.c.Index:
			if m := p.e.Object(api.Physical); m != nil && fresh[m] {
				mapped[o] = m
			}
		case o.Ended == p.c.Index:
			delete(mapped, o)
		}
	}
	if len(mapped) == 0 || p.e.Captured != nil {
		return
	}
	for _, r := range p.a.Regions() {
		for o := r.Object; mapped[o] != nil; { // and the mappings that follow, which a kernel may use with it
			m, end := mapped[o], o.Handle+o.Size
			if delete(mapped, o); fresh[m] {
				delete(fresh, m)
				fill := p.fill(o, false)
				for i := range fill {
					fill[i].Bits = 0 // one that follows may not be accessible
				}
				p.before = append(p.before, fill...)
			}
			for next := range mapped {
				if next.Handle == end && next.Process == o.Process {
					o = next
				}
			}
		}
	}
}

// fill returns a call that fills device memory with the byte of the run, on the current call's stream or at once. It returns none if the
// runtime has no such function.
func (p *callCompiler) fill(o *timeline.Object, onStream bool) []plan.Instruction {
	f, value := p.Model.Fill(onStream)
	if f == nil {
		return nil
	}
	ops := make([]plan.Operand, f.Words)
	for k := range f.Params {
		switch q := &f.Params[k]; {
		case q.Role == api.Fills:
			ops[q.Word], _ = p.objects.operands.Get(o)
		case k == value:
			ops[q.Word] = plan.Operand{Slot: plan.SlotPoison}
		case k == int(f.Stream):
			if s, ok := p.e.Use(int(p.f.Stream)); ok {
				ops[q.Word] = p.object(s.Object)
			}
		default:
			ops[q.Word] = imm(o.Size)
		}
	}
	return []plan.Instruction{p.aside(f, ops...)}
}
