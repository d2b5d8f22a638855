package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// next compiles the call that started next.
func (p *callCompiler) next(a *access.Call) error {
	e, c, f := a.Event, a.Event.Call, a.Event.Fn
	switch {
	case f != nil && f.HostCallback:
		p.Found.Hosted++
		p.called(e)
		return nil
	case f != nil && f.Annotation:
		return nil
	case f != nil && f.Composite:
		if !f.SkipOnReplay {
			p.leaveOut(c, f)
		}
		return nil
	}
	t := p.thread[c.Thread]
	if err := p.ahead(c.Start); err != nil {
		return err
	}
	if p.sinceEmits++; p.sinceEmits >= max(64, len(p.Threads)) {
		p.sinceEmits = 0
		p.emit(c.Start)
	}
	pr := &p.Threads[t]
	at := place{t, pr.compiled}
	g := pr.group(at.group)
	if g == nil || g.call != c.Index {
		return fmt.Errorf("call %d is out of order on thread %d", c.Index, c.Thread)
	}
	pr.compiled++
	if at.group == 0 {
		p.fork(pr.Process, c.Start)
	}
	p.reset(e, at)
	if p.skip(a) {
		return nil
	}
	return p.compile(g)
}

// skip reports whether the current call is left out, and adds the reason to the findings.
func (p *callCompiler) skip(a *access.Call) bool {
	c, f := p.c, p.f
	switch a.Omits() {
	case access.NotInModel:
		reason := "the function is not in the model"
		if f := p.Model.Func(api.ID(c.Func)); f != nil {
			reason = "the call does not fit the function in the model"
			if len(c.Args) != int(f.Words) {
				reason = fmt.Sprintf("recorded with %d argument words, the model has %d", len(c.Args), f.Words)
			}
		}
		p.unsupported(c, p.r.Schema().FuncName(c.Func), reason)
	case access.Unfinished:
		p.Found.Unverified = AddUnverified(p.Found.Unverified, c.Index, verify.Incomplete, f.Name+" did not return before the recording ended, and is left out")
	case access.NothingPending, access.Refused, access.Busy, access.Skipped:
		p.Found.Volatile++ // the result depends on other threads, on the device's speed, or on this run
	case access.Exception:
		p.exception()
	case access.Impossible:
		p.unsupported(c, f.Name, f.ReplayError)
	default:
		if f.Words > maxWords {
			p.unsupported(c, f.Name, fmt.Sprintf("it has more than %d argument words", maxWords))
			return true
		}
		p.a, p.ok = a, a.OK
		if p.facts.exceptions && p.ok {
			p.handler()
		}
		if p.incomplete() {
			p.Found.Volatile++
			return true
		}
		return p.peers()
	}
	return true
}

// incomplete reports whether the current call asked for the progress of work that was not done. It changes nothing. In a replay the work may be
// done, and strict mode would take it for a wait.
func (p *callCompiler) incomplete() bool {
	f := p.f
	if !f.Sync.Polls() {
		return false
	}
	if f.Pending != 0 {
		return int32(p.c.Ret) == f.Pending
	}
	v, has := p.polled()
	return has && v != p.facts.complete
}

// polled returns the progress that a successful poll stored.
func (p *callCompiler) polled() (v int64, has bool) {
	out := p.facts.polled
	if !p.ok || out < 0 || p.c.Args[p.f.Params[out].Word] == 0 {
		return 0, false
	}
	x, has := p.stored(out)
	return int64(int32(x)), has
}

// compile makes the current call's instructions.
func (p *callCompiler) compile(g *group) error {
	if p.accesses.HasVisible() {
		if err := p.visibleBefore(); err != nil {
			return err
		}
	}
	p.settle()
	repeatable := p.repeatable() && p.launchKey()
	if repeatable {
		if done, err := p.repeat(g); done || err != nil {
			return err
		}
	}
	relocations := p.Found.Relocations
	in, err := p.instruction()
	if err != nil {
		return err
	}
	if p.o.Eager && p.ok {
		p.eagerly()
	}
	if err := p.graph(); err != nil {
		return err
	}
	if p.a.Depends() && access.Runs(p.f) {
		p.Found.GuessLaunch = min(p.Found.GuessLaunch, p.c.Index)
	}
	p.visibleTask()
	p.taint()
	for _, o := range p.a.Unseen() {
		p.zeroCopy(o)
	}
	if p.cant != "" {
		p.unsupported(p.c, p.f.Name, p.cant).Stub = p.stub
		return nil
	}
	p.complete(&in)
	if err := p.visibleAfter(); err != nil {
		return err
	}
	g.insts = append(append(append(g.insts, p.before...), in), p.after...)
	if p.o.Eager && p.ok {
		p.replaceRuns(g, &in)
	}
	if p.err != nil {
		return p.err
	}
	g.stream = p.lane(p.e)
	if p.f.Task == api.Kernel && p.ok {
		g.kernel = p.kernel()
	}
	if len(g.insts) > 0 {
		p.place(g)
	}
	if repeatable {
		p.learn(&in, g, relocations)
	}
	return nil
}

// instruction returns the call itself, and sets p.words to its operands.
func (p *callCompiler) instruction() (plan.Instruction, error) {
	c, f := p.c, p.f
	p.words = p.words[:f.Words]
	for k, w := range c.Args {
		p.words[k] = imm(w)
	}
	for _, i := range p.facts.others {
		if err := p.param(i); err != nil {
			return plan.Instruction{}, err
		}
	}
	in := plan.Instruction{Op: plan.OpCall, Fn: p.Function(f), Words: f.Words, Call: c.Index, Want: c.Ret, Bits: retBits(f, c, p.facts)}
	if f.Ret.Makes() && c.Ret != 0 {
		if u, ok := p.e.Use(timeline.RetParam); ok {
			if op, _ := p.objects.operands.Get(u.Object); op == (plan.Operand{}) {
				in.RetSlot = p.newSlot(u.Object)
				in.Flags |= plan.InstStop
			}
		}
	}
	if p.ok && f.RetError && p.facts.makes {
		in.Flags |= plan.InstStop
	}
	if f.RetVolatile {
		p.Found.Volatile++
	}
	return in, nil
}

// complete adds operands and relocations to the call, and the player's own calls around it.
func (p *callCompiler) complete(in *plan.Instruction) {
	p.placement()
	p.report(in)
	p.addOperands(in, p.poll(in, p.replace(in, p.words)))
	p.addRelocs(in)
	p.poison()
	p.markGaps()
	p.doubted()
	p.exports()
	p.markOutsiders()
}

// addOperands adds the call's operands. Equal calls share theirs, since addresses in the call's own data are relative to the data.
func (p *callCompiler) addOperands(in *plan.Instruction, words []plan.Operand) {
	if p.f.Task == api.HostFunc {
		in.Operands = p.OwnOperands(words...)
		p.hostLaunch(in.Operands)
		return
	}
	for i := range words {
		words[i] = p.own(words[i])
	}
	in.Operands = p.Operands(words...)
}

// own returns an operand for the call's own instruction: relative to the call's data if it is an address in the data.
func (p *callCompiler) own(op plan.Operand) plan.Operand {
	if op.Slot == plan.SlotData && op.Addend >= p.data {
		return plan.Operand{Slot: p.ownSlot(p.at.thread), Addend: op.Addend - p.data}
	}
	return op
}

// addRelocs adds the call's relocations and the data that the player overwrites after the call.
func (p *callCompiler) addRelocs(in *plan.Instruction) {
	in.Base = uint32(p.data / plan.DataAlign)
	for i := range p.relo {
		r := &p.relo[i]
		to := p.own(plan.Operand{Slot: r.Slot, Addend: r.Addend})
		r.At, r.Slot, r.Addend = r.At-p.data, to.Slot, to.Addend
	}
	for _, s := range p.spoils {
		p.relo = append(p.relo, plan.Reloc{At: s.from - p.data, Addend: s.to - s.from, Flags: plan.RelocSpoil})
	}
	if len(p.pending) == 0 {
		in.Relocs = p.Relocs(p.relo...)
		return
	}
	in.Relocs = p.OwnRelocs(p.relo...)
	for _, n := range p.pending {
		n.of.words[n.word].reloc = int(in.Relocs) + n.relo
	}
}

// place orders the call relative to other threads' calls.
func (p *callCompiler) place(g *group) {
	pr := &p.Threads[p.at.thread]
	pr.out.Scratch = max(pr.out.Scratch, p.temp)
	p.contend(p.e)
	p.lookup(p.e)
	p.order(g)
	for _, u := range p.e.Uses {
		if u.Object.Ended == p.c.Index {
			p.orderAfterReaders(u.Object.Handle, u.Object.Handle+u.Object.Size)
			if p.pointers.mover != nil {
				p.pointers.mover.end(u.Object)
			}
			delete(p.ordering.inFlight, u.Object)
		}
	}
}

// kernel returns the launched kernel's name, as a number.
func (p *callCompiler) kernel() uint32 {
	name := cmp.Or(p.e.Kernel, p.f.Name)
	if len(p.e.Uses) == 0 {
		return p.Kernel(name)
	}
	o := p.e.Uses[0].Object // the function
	known, ok := p.known.kernels.Get(o)
	if !ok || known.name != name {
		known = numberedName{name, p.Kernel(name)}
		p.known.kernels.Set(o, known)
	}
	return known.number
}

// reset prepares the state for a new call. The lists keep their memory.
func (p *callCompiler) reset(e *timeline.Event, at place) {
	p.call = call{}
	p.e, p.c, p.f, p.facts, p.at = e, e.Call, e.Fn, p.factsOf(e.Fn), at
	p.data = p.Aligned()
	l := &p.lists
	l.before, l.after = l.before[:0], l.after[:0]
	l.relo, l.found, l.guesses, l.spoils, l.pending = l.relo[:0], l.found[:0], l.guesses[:0], l.spoils[:0], l.pending[:0]
}

// lane returns the index in Plan.Streams for the call's stream. It returns plan.WaitsFor for a wait for a device, and -1 for other calls.
func (p *callCompiler) lane(e *timeline.Event) int {
	switch {
	case e.Fn.Sync == api.SyncDevice:
		return plan.WaitsFor(p.state.CurrentDevice(p.owner(), e.Call.Thread))
	case e.Fn.Stream < 0:
		return -1
	case e.Stream != nil:
		i, ok := p.ordering.laneOf.Get(e.Stream)
		if !ok {
			i = p.newLane(fmt.Sprintf("stream#%d", e.Stream.ID), p.state.LaneKey(e))
			p.ordering.laneOf.Set(e.Stream, i)
		}
		return i
	}
	k := p.state.LaneKey(e)
	i, ok := p.ordering.defaults[k]
	if !ok {
		name := "default stream"
		if len(p.ordering.defaults) > 0 {
			name = fmt.Sprintf("default stream %d", len(p.ordering.defaults)+1)
		}
		i = p.newLane(name, k)
		p.ordering.defaults[k] = i
	}
	return i
}

func (p *compiler) newLane(name string, k timeline.LaneKey) int {
	p.Streams = append(p.Streams, Stream{name, k})
	return len(p.Streams) - 1
}

const maxWords = 63 // the player's limit, less one for a poll's output

// poll turns a poll that found its object complete into an OpUntil instruction.
func (p *callCompiler) poll(in *plan.Instruction, words []plan.Operand) []plan.Operand {
	f := p.f
	switch {
	case f.PollsCallbacks:
		in.Op = plan.OpUntil // a callback will be pending at some time
	case f.Pending != 0:
		switch int32(p.c.Ret) {
		case 0:
			in.Op = plan.OpUntil
		case f.Pending:
			in.Bits = 0 // may differ from run to run
		}
	case f.Sync.Polls():
		if _, has := p.polled(); has {
			out := p.facts.polled
			in.Op, in.Len, in.Width = plan.OpUntil, uint64(p.facts.complete), uint64(min(f.Params[out].Elem, 8))
			words = append(words, words[f.Params[out].Word])
		}
	}
	return words
}

// param sets the operands for a parameter's words. Further instructions go before or after the call.
func (p *callCompiler) param(i int) error {
	q := &p.f.Params[i]
	words := p.words[q.Word:][:q.Words]
	switch {
	case q.OmitOnReplay:
		clear(words)
		return nil
	case q.Role == api.Value:
		p.value(q, words)
		return nil
	case q.Role == api.Struct:
		ops, err := p.structure(i, q)
		copy(words, ops)
		return err
	}
	op, err := p.operand(i, q)
	words[0] = op
	return err
}

// value sets the operands for a value that is not passed as recorded.
func (p *callCompiler) value(q *api.Param, words []plan.Operand) {
	if t, ok := p.reporter(q, p.c.Args[q.Word]); ok {
		words[0] = plan.Operand{Slot: p.identity(t)}
	}
	if p.f.Shares == api.Import && q.Words > 1 {
		// A key by value: pass the words that the exporting process received.
		if first, ok := p.sharing.keys[timeline.ImportKey(p.f, p.c)]; ok {
			for k := range words {
				words[k] = plan.Operand{Slot: uint32(first.Addend/8) + uint32(k)}
			}
		}
	}
}

// operand returns the operand for a parameter with one word.
func (p *callCompiler) operand(i int, q *api.Param) (plan.Operand, error) {
	w := p.c.Args[q.Word]
	switch q.Role {
	case api.Use, api.Launch, api.End:
		return p.handle(i, w)
	case api.Place:
		op := p.region(w, placeSize)
		if u, ok := p.e.Use(i); ok {
			p.bind(u.Object, op)
		}
		return op, nil
	case api.Opaque:
		if callback := slices.ContainsFunc(p.f.Params, func(q api.Param) bool { return q.Role == api.Callback }); callback {
			return imm(0), nil // used only by the program's function
		}
		if q.Cookie && w != 0 {
			return p.region(w, 8), nil
		}
		if w != 0 {
			p.refuse("its parameter %s points to data that only the program understands", q.Name)
		}
		return imm(w), nil
	}
	if w == 0 {
		return imm(0), nil
	}
	switch q.Role {
	case api.Callback:
		return p.callback(q), nil
	case api.Map:
		return p.mapping(i, q, w), nil
	case api.Uses:
		return p.handles(i, q)
	case api.Answer:
		return p.answer(i, q)
	case api.OutHandles:
		return p.handlesFound(i)
	case api.New, api.Find, api.Buffer, api.Out, api.InOut, api.Text:
		return p.output(i, q)
	case api.DevArgs:
		op := p.address(i, w)
		p.deviceArgs(i)
		return op, nil
	case api.Address:
		return p.address(i, w), nil
	case api.Reads, api.Writes, api.Fills:
		if q.ItemSizes >= 0 {
			return p.items(i, q)
		}
		return p.memory(i, q, 0, w, p.size(q))
	case api.In, api.Args:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		return p.input(i, q, 0, n)
	case api.Image:
		return p.image(i, q)
	case api.Packed:
		return p.packed(i, 1)
	case api.ArgArray:
		return p.array(i, 0)
	case api.List:
		return p.list(p.a.Whole(i, 0, format.DirIn), q.Elem)
	case api.String:
		return p.text(i)
	case api.File:
		return p.fileName(i)
	case api.Target:
		return p.newPath(i)
	case api.Scratch:
		n, _ := q.Size.Bytes(p.f, p.c.Args)
		return p.region(w, n), nil
	}
	p.cant = fmt.Sprintf("the compiler does not know the role %s, which its parameter %s has", q.Role, q.Name)
	return imm(w), nil
}
