package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// Host-visible memory is memory that program and device both access without a call: managed memory, and program memory registered for the
// device. With --replayable the trace has its content as data of tasks (before) and of waits (after), if it changed. The compiler stores
// the content before the next task that may read it, and compares it after waits.
//
// The program may write to the memory while the device uses another part. So a byte that is the same as before the tasks proves nothing
// if the recording has a different byte: see plan.InstSince.

// visibleSmall is the size up to which the recorder reads the memory before every task. Larger memory is read before the first task after
// a wait.
const visibleSmall = 1 << 20

const (
	sureLevel    doubtLevel = iota
	unseenStores            // the program may have stored unseen, so a difference proves nothing
	unknownBytes            // the content is not in the trace, so equality proves nothing either
)

// visibleOf returns the host-visible memory that an object is or maps, nil for other objects.
func (p *compiler) visibleOf(o *timeline.Object) *visibleMemory {
	o = p.accesses.Visible(o)
	if o == nil {
		return nil
	}
	v := p.visible.of[o]
	if v == nil {
		v = &visibleMemory{object: o, flight: map[int]int{}}
		p.visible.of[o] = v
	}
	return v
}

// visibleRanges returns all host-visible memory in creation order.
func (p *compiler) visibleRanges() []*visibleMemory {
	return slices.SortedFunc(maps.Values(p.visible.of), func(a, b *visibleMemory) int { return cmp.Compare(a.object.ID, b.object.ID) })
}

// visibleBefore takes in memory that the current call makes host-visible, and content recorded before the call.
func (p *callCompiler) visibleBefore() error {
	for _, u := range p.e.Uses {
		p.visibleOf(u.Object)
	}
	return p.visibleContent(format.DirIn)
}

// visibleContent takes in content recorded before or after the current call.
func (p *callCompiler) visibleContent(dir format.Dir) error {
	for d, o := range p.a.Contents(dir) {
		if d.Status != format.Whole {
			continue
		}
		v, first := p.visibleOf(o), len(p.guesses)
		var err error
		if v.content, v.relocs, err = p.scanned(d, access.Content); err != nil {
			return err
		}
		v.relocs, v.guesses = slices.Clone(v.relocs), slices.Clone(p.guesses[first:])
		v.stale = true
	}
	return nil
}

// knows reports whether the trace has the content of host-visible memory.
func (p *compiler) knows(v *visibleMemory) bool { return p.accesses.Known(v.object) }

// level returns how a result in an object depends on host-visible memory.
func (p *callCompiler) level(o *timeline.Object) doubtLevel {
	v := p.visibleOf(o)
	switch {
	case v == nil:
		return p.visible.levels[o]
	case !p.knows(v):
		return unknownBytes
	case v.stale && len(v.flight) == 0:
		return sureLevel // it is stored before the call
	case v.stale || p.unseenStores():
		return max(unseenStores, p.visible.levels[v.object])
	}
	return p.visible.levels[v.object]
}

// unseenStores reports whether the program may have stored to the memory after the recorder read it, before the current task.
func (p *callCompiler) unseenStores() bool {
	if !p.visible.looked[p.owner()] {
		return false
	}
	total := uint64(0)
	for o := range p.visible.of {
		if o.Process == p.owner() && o.Ended == timeline.NoCall {
			total += o.Size
		}
	}
	return total > visibleSmall
}

// mark applies the level to a result check.
func (l doubtLevel) mark(in *plan.Instruction) {
	switch l {
	case unknownBytes:
		in.Bits, in.Flags = verify.Managed.Code(), in.Flags&^plan.InstUnmarked
		fallthrough
	case unseenStores:
		in.Flags |= plan.InstExcused
	}
}

// visibleTask stores the content that the current task may read, and follows the objects that depend on it.
func (p *callCompiler) visibleTask() {
	if !p.ok || p.e.Captured != nil {
		return
	}
	if p.runsHost() {
		p.hostTask()
	}
	if len(p.visible.of) == 0 || !p.f.Task.Works() {
		return
	}
	kernel := access.Runs(p.f)
	for _, t := range p.a.Host() {
		// The trace has a copy's data and result.
		if v := p.visibleOf(t.Object); v != nil && !(t.Kind == access.Names && kernel) && p.f.Stream >= 0 {
			g := p.here()
			v.flight[g.lane] = g.task
		}
	}
	level := sureLevel
	for _, t := range p.a.Regions() {
		if t.Kind == access.Points {
			continue
		}
		if t.Kind != access.Writes || kernel {
			level = max(level, p.level(t.Object))
		}
		if v := p.visibleOf(t.Object); v != nil {
			if p.visibleUse(v, kernel); kernel && p.afterHost() {
				p.doubtTask(verify.HostFunction.Code())
			}
			v.depends = v.depends || kernel && t.Kind == access.Names && p.a.Depends()
		}
	}
	for _, t := range p.a.Regions() {
		o := t.Object
		if v := p.visibleOf(o); v != nil {
			o = v.object
		}
		switch whole := t.Lo == 0 && t.Hi >= t.Object.Size; {
		case kernel && t.Kind == access.Names, t.Kind == access.Writes && !whole:
			if level > p.visible.levels[o] {
				p.visible.levels[o] = level
			}
		case t.Kind == access.Writes:
			p.visible.levels[o] = level
		}
	}
	if p.f.Stream >= 0 {
		p.visible.looked[p.owner()] = true
	}
}

// visibleUse prepares memory for the current task.
func (p *callCompiler) visibleUse(v *visibleMemory, kernel bool) {
	switch {
	case !p.knows(v):
	case v.stale && len(v.flight) == 0:
		first := len(p.before)
		p.restore(p.object(v.object), v.content, v.relocs, contiguous(v.object.Size))
		// It precedes copy sources, which may be in this memory.
		p.before = append(slices.Clone(p.before[first:]), p.before[:first]...)
		v.stale, v.relocs = false, nil
		delete(p.visible.levels, v.object)
	}
	if p.knows(v) && !v.named && kernel {
		v.named, v.base = true, v.content
	}
	if p.f.Stream >= 0 {
		g := p.here()
		v.flight[g.lane] = g.task
	}
}

// visibleAfter follows waits, and compares the memory that no task uses any more.
func (p *callCompiler) visibleAfter() error {
	if len(p.visible.of)+len(p.visible.hosts) == 0 || !p.ok {
		return nil
	}
	waited := p.visibleWaited()
	for _, u := range p.e.Uses {
		if v := p.visible.of[u.Object]; v != nil && u.Object.Ended == p.c.Index {
			p.visibleLeft(v)
			delete(p.visible.of, u.Object)
		}
	}
	if err := p.visibleContent(format.DirOut); err != nil {
		return err
	}
	if !waited {
		return nil
	}
	p.visible.looked[p.owner()] = false
	overlapped := p.visibleOverlapped()
	for _, v := range p.visibleRanges() {
		o := v.object
		if o.Process != p.owner() || !v.named || !p.knows(v) || len(v.flight) > 0 || overlapped {
			continue
		}
		v.named = false
		if !p.o.Compare {
			continue
		}
		in := p.checkInstruction(api.MemoryParam, p.object(o), v.content.Addend, joined(v.relocs, v.guesses), contiguous(o.Size), plan.CheckResult, v.base)
		in.Flags |= plan.InstSince
		p.afterGap(&in, p.c.End)
		p.visible.levels[o].mark(&in)
		if v.depends {
			in.Bits |= plan.CheckGuess
			v.depends = false
		}
		p.after = append(p.after, in)
	}
	return nil
}

// visibleLeft reports memory that was never compared because the program did not wait.
func (p *callCompiler) visibleLeft(v *visibleMemory) {
	if v.named && p.knows(v) && p.o.Compare {
		p.unverified(verify.Managed, fmt.Sprintf("the memory from call %d was never compared: the program did not wait for all tasks that may write it", v.object.Created))
	}
	v.named = false
}

// visibleWaited reports whether the program has waited for tasks, and removes the completed ones.
func (p *callCompiler) visibleWaited() bool {
	g := p.here()
	if !g.complete {
		return false
	}
	for _, v := range p.visible.of {
		maps.DeleteFunc(v.flight, g.waitsFor)
	}
	maps.DeleteFunc(p.visible.hosts, g.waitsFor)
	return true
}

// visibleOverlapped reports whether another thread in the process began a task before the current wait ended.
func (p *callCompiler) visibleOverlapped() bool {
	pr := &p.procs[p.Threads[p.at.thread].Process]
	if p.err = cmp.Or(p.err, p.ahead(p.c.End)); p.err != nil {
		return true
	}
	for t := pr.first; t < pr.first+pr.count; t++ {
		if t == p.at.thread {
			continue
		}
		other := &p.Threads[t]
		for k := other.compiled; k < other.read() && other.group(k).start <= p.c.End; k++ {
			if fn := other.group(k).fn; fn != nil && fn.Task.Works() {
				return true
			}
		}
	}
	return false
}
