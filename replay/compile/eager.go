package compile

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
	"github.com/acltrace/acltrace/timeline/graph"
)

// With Options.Eager, each run of a graph is replaced by the launches that captured its tasks, one after the other on the stream of the run. A task
// that an update has replaced is the launch of the update. Allocations get other addresses, and memory that captured tasks name stays
// allocated: a task uses the memory that it was captured with, also if another allocation has its address since.
//
// Records and waits between the graph's own streams are left out, since one stream has all tasks. A task that waits for a signal from outside,
// and the tasks after it, are made after the call that records the signal, and follow that call's stream. So updates before the record take
// effect in the run.

// eagerly follows the current call, which has succeeded. It makes the instructions that replace it, or that follow it.
func (p *callCompiler) eagerly() {
	p.afterRuns()
	switch {
	case p.f.Params != nil && p.f.Params[0].Object == api.GraphTask && (p.f.Graph >= 0 || len(p.f.Params) == 1):
		p.refuse("it changes a task of a graph by its handle: only captured launches can be played one by one")
	case p.e.Captured != nil && p.f.Graph < 0:
		p.taskWork().eager = &eagerTask{}
	case p.f.Task == api.GraphRun && p.f.Graph < 0:
		p.played = p.runEagerly(p.graphs.contents.Known(p.e.Object(api.Graph)))
	default:
		p.played = p.record()
	}
}

// replaceRuns puts what eagerly has made into the current call's group.
func (p *callCompiler) replaceRuns(g *group, in *plan.Instruction) {
	switch {
	case p.keepsMemory():
		g.insts = g.insts[:0]
		return
	case p.work != nil && p.work.eager != nil:
		p.captureTask(in)
		return
	}
	made := p.played
	if p.e.Captured != nil || p.f.Task != api.GraphRun {
		made = append([]plan.Instruction{*in}, made...)
	}
	g.insts = append(append(append(g.insts[:0], p.before...), made...), p.after...)
}

// captureTask keeps the task that the current call puts into a graph.
func (p *callCompiler) captureTask(in *plan.Instruction) {
	t := p.work.eager
	*t = eagerTask{
		f: p.f, name: cmp.Or(p.e.Kernel, p.f.Name), in: *in, before: slices.Clone(p.before), relocs: slices.Clone(p.relo), numbers: slices.Clone(p.pending),
		data: p.DataFrom(p.data), temp: p.temp, thread: p.at.thread, releases: p.e.Releases(),
	}
	t.signal, t.signals = p.e.Signal()
	if p.f.Event >= 0 {
		if u, ok := p.e.Use(int(p.f.Event)); ok {
			t.event = u.Object
		}
	}
	for k := range int(in.Words) {
		t.words = append(t.words, p.Operand(in.Operands+uint32(k)))
	}
	name := func(slot uint32) {
		if o := p.slots[slot].object; o != nil && access.Placed(o.Kind) && !slices.Contains(t.memory, o) {
			t.memory = append(t.memory, o)
			if _, known := p.graphs.eager.kept[o]; !known {
				p.graphs.eager.kept[o] = timeline.NoCall
			}
		}
	}
	for _, w := range t.words {
		name(w.Slot)
	}
	for _, r := range t.relocs {
		name(r.Slot)
	}
}

// keepsMemory reports whether the current call frees memory that captured tasks name, and is left out.
func (p *callCompiler) keepsMemory() bool {
	for _, u := range p.e.Uses {
		if _, kept := p.graphs.eager.kept[u.Object]; kept && u.Object.Ended == p.c.Index {
			p.graphs.eager.kept[u.Object] = p.c.Index
			return true
		}
	}
	return false
}

// runEagerly returns the instructions that replace the current run of a graph.
func (p *callCompiler) runEagerly(g *graph.Graph[*timeline.Object, *graphWork]) []plan.Instruction {
	p.Found.Eager.Runs++
	r := &eagerRun{call: p.c.Index, stream: eagerStream{p.lane(p.e), imm(0)}, waits: map[timeline.Signal]bool{}, set: map[timeline.Signal]bool{}}
	if p.f.Stream >= 0 {
		r.stream.op = p.words[p.f.Params[p.f.Stream].Word]
	}
	if r.graph = g; g == nil || !g.Whole() {
		p.refuse("its graph was captured before the trace began")
		return nil
	}
	insts := p.goOn(r)
	if p.f.Stream < 0 { // the call returns when the run has ended
		insts = append(insts, p.synchronize(r.stream.op)...)
	}
	return insts
}

// goOn returns the instructions for a run's tasks that nothing holds up: no signal that is not recorded yet, and no task before them.
func (p *callCompiler) goOn(r *eagerRun) (insts []plan.Instruction) {
	tasks := r.graph.Tasks()
	if r.done == nil {
		r.done = make([]bool, len(tasks))
	}
	clear(r.waits)
	for i := range min(len(tasks), len(r.done)) {
		if r.done[i] || slices.ContainsFunc(tasks[i].After, func(k int) bool { return !r.done[k] }) {
			continue
		}
		var more []plan.Instruction
		if t := p.launchOf(&tasks[i]); t == nil {
			r.done[i] = true
		} else if more, r.done[i] = p.playNext(r, t); !r.done[i] {
			r.waits[t.signal] = true
		}
		insts = append(insts, more...)
	}
	if len(r.waits) > 0 {
		p.graphs.eager.waiting = append(p.graphs.eager.waiting, r)
	}
	return insts
}

// playNext returns the instructions for a run's next task, false if it waits for a signal that is not recorded yet.
func (p *callCompiler) playNext(r *eagerRun, t *eagerTask) ([]plan.Instruction, bool) {
	e := &p.graphs.eager
	switch {
	case t.f.Task == api.HostFunc: // its stub would do nothing
		return nil, true
	case !t.signals:
		return p.playTask(r, t), true
	case t.f.Task == api.Wait && r.set[t.signal]:
		return nil, true
	case t.f.Task == api.Wait:
		if by := e.set[t.signal]; by != nil {
			return p.synchronize(*by), true
		}
		return nil, false
	case t.releases:
		r.set[t.signal] = true
		if t.event == nil || t.event.Ended == timeline.NoCall || t.event.Ended > p.c.Index {
			return p.playTask(r, t), true
		}
		return nil, true
	}
	delete(r.set, t.signal) // it resets the signal
	delete(e.set, t.signal)
	if t.event == nil {
		return p.playTask(r, t), true
	}
	return nil, true
}

// launchOf returns the captured launch of a graph's task, nil if the task does nothing or can't be played.
func (p *callCompiler) launchOf(t *graph.Task[*timeline.Object, *graphWork]) *eagerTask {
	switch {
	case t.Part != nil:
		p.refuse("its graph has a condition, whose parts can't be played one by one")
	case t.Idle:
	case t.Value == nil || t.Value.eager == nil || t.Value.eager.f == nil:
		p.refuse("its graph has a task that no launch was captured for: only captured graphs can be played one by one")
	default:
		return t.Value.eager
	}
	return nil
}

// playTask returns the instructions that make a captured call again, on the stream of a run and on the current call's thread.
func (p *callCompiler) playTask(r *eagerRun, t *eagerTask) []plan.Instruction {
	p.Found.Eager.Tasks++
	for _, o := range t.memory {
		if by := p.graphs.eager.kept[o]; by != timeline.NoCall && len(p.Found.Eager.Freed) < MaxListed {
			p.Found.Eager.Freed = append(p.Found.Eager.Freed, FreedTask{r.call, t.in.Call, t.name, o.Created, by})
		}
	}
	move := func(slot uint32) uint32 {
		switch slot {
		case p.ownSlot(t.thread):
			return p.ownSlot(p.at.thread)
		case uint32(plan.SlotThreads + t.thread):
			return uint32(plan.SlotThreads + p.at.thread)
		}
		return slot
	}
	in := t.in
	in.Flags = in.Flags&^(plan.InstStop|plan.InstStart|plan.InstEnd) | plan.InstAside
	words := slices.Clone(t.words)
	for i := range words {
		words[i].Slot = move(words[i].Slot)
	}
	if t.f.Stream >= 0 {
		words[t.f.Params[t.f.Stream].Word] = r.stream.op
	}
	in.Operands = p.Operands(words...)
	at, err := p.Put(t.data)
	if p.err = cmp.Or(p.err, err); err != nil {
		return nil
	}
	in.Base = uint32(at / plan.DataAlign)
	relocs := slices.Clone(t.relocs)
	for i := range relocs {
		relocs[i].Slot = move(relocs[i].Slot)
	}
	if len(t.numbers) == 0 {
		in.Relocs = p.Relocs(relocs...)
	} else {
		in.Relocs = p.OwnRelocs(relocs...)
		for _, n := range t.numbers {
			w := n.of.words[n.word]
			w.reloc = int(in.Relocs) + n.relo
			n.of.words = append(n.of.words, w)
		}
	}
	p.temp = max(p.temp, t.temp)
	return append(slices.Clone(t.before), in)
}

// synchronize returns a call that waits for a stream.
func (p *callCompiler) synchronize(stream plan.Operand) []plan.Instruction {
	for i := range p.Model.Funcs {
		if f := &p.Model.Funcs[i]; f.Sync == api.SyncStream && f.Words == 1 && f.Stream == 0 {
			return []plan.Instruction{p.aside(f, stream)}
		}
	}
	return nil
}

// record goes on with the runs that wait for the signal that the current call records.
func (p *callCompiler) record() (insts []plan.Instruction) {
	s, ok := p.e.Signal()
	if !ok || !p.ok || p.e.Captured != nil || p.f.Task == api.NoTask || p.f.Task == api.Wait {
		return nil
	}
	e := &p.graphs.eager
	if !p.e.Releases() {
		delete(e.set, s)
		return nil
	}
	stream := imm(0)
	if p.f.Stream >= 0 {
		stream = p.words[p.f.Params[p.f.Stream].Word]
	}
	e.set[s] = &stream
	held := e.waiting
	e.waiting = nil
	for _, r := range held {
		if r.waits[s] {
			insts = append(insts, p.goOn(r)...)
		} else {
			e.waiting = append(e.waiting, r)
		}
	}
	return insts
}

// afterRuns refuses a call that follows the rest of a run which waits for a signal.
func (p *callCompiler) afterRuns() {
	for _, r := range p.graphs.eager.waiting {
		if k := p.lane(p.e); p.e.Captured == nil && (p.f.Sync == api.SyncDevice || p.f.Stream >= 0 && k == r.stream.lane) {
			p.refuse("it follows the graph run of call %d, which waits for a record that comes later", r.call)
		}
	}
}
