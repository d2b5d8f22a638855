package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// callCompiler compiles one call. Its fields hold the state of that call alone.
type callCompiler struct {
	*compiler
	reused  reused
	unseen  *timeline.Object // host memory without recorded content that its kernel may read
	touches []Touch
	e       *timeline.Event
	c       *format.Call
	f       *api.Func
	at      place
	pieces  []format.Data
	index   map[pieceKey]*format.Data // of many pieces
	arrays  map[int][]uint64          // that were read, by parameter
	args    []kernelbin.Arg           // of the kernel, where its binary tells them; nil unless asked for
	asked   bool
	ok      bool
	before  []plan.Instruction
	after   []plan.Instruction
	relo    []plan.Reloc
	spoils  []stretch // overwritten after it
	temp    uint64    // bytes of the thread's own scratch memory in use
	err     error     // of reading ahead
	pending []pendingNumber
	fresh   []*token           // that it makes, which may be as those that it was given
	made    []*timeline.Object // stand for them
	named   []*timeline.Object // by numbers and tokens among arguments
	cant    string             // why the call can't be replayed
}

// pollKey tells runs of the same question about the same object apart; the zero value is no poll.
type pollKey struct {
	fn     api.ID
	object *timeline.Object
}

// next compiles the call that started next.
func (p *callCompiler) next(e *timeline.Event) error {
	c, f := e.Call, e.Fn
	switch {
	case f != nil && f.HostCallback:
		p.called(e, p.r.Threads()[c.Thread].Process)
		return nil
	case f != nil && f.Annotation:
		return nil
	case f != nil && f.Composite:
		p.leaveOut(c, f)
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
		return fmt.Errorf("call %d is not in the order of its thread %d", c.Index, c.Thread)
	}
	pr.compiled++
	if at.group == 0 {
		p.fork(pr.Process, c.Start)
	}
	p.reset(e, at)
	if p.skip() {
		pr.pollsAt = -1
		return nil
	}
	err := p.compile(g)
	if g.poll == (pollKey{}) {
		pr.pollsAt = -1
	}
	return err
}

// skip reports whether nothing is played for the current call, and adds the reason to the findings.
func (p *callCompiler) skip() bool {
	c, f := p.c, p.f
	switch {
	case f == nil:
		p.unsupported(c, p.r.Schema().FuncName(c.Func), "the function is not in the model")
		return true
	case len(c.Args) != int(f.Words) || f.Words > maxWords:
		p.unsupported(c, f.Name, fmt.Sprintf("recorded with %d argument words, the model has %d", len(c.Args), f.Words))
		return true
	case c.Flags&format.Unfinished != 0:
		p.Found.Unverified = AddUnverified(p.Found.Unverified, c.Index, verify.Incomplete, f.Name+" had not returned when the recording ended; it is left out")
		return true
	}
	p.ok = !Failed(f, c)
	switch {
	case f.PollsCallbacks && !p.ok:
		p.Found.Volatile++ // no callback was waiting, which depends on other threads
		return true
	case !p.ok && p.Model.Refused != 0 && int32(c.Ret) == p.Model.Refused:
		p.Found.Volatile++ // a function of the program made it, and the replay does not run that
		return true
	case p.peers() || p.exception():
		return true
	case f.SkipOnReplay:
		p.Found.Volatile++
		return true
	case f.ReplayError != "":
		p.unsupported(c, f.Name, f.ReplayError)
		return true
	}
	return false
}

// compile makes the instructions of the current call.
func (p *callCompiler) compile(g *group) error {
	if err := p.visibleBefore(); err != nil {
		return err
	}
	p.settle()
	in, err := p.instruction()
	if err != nil {
		return err
	}
	if err := p.graph(); err != nil {
		return err
	}
	p.arraysTouched()
	p.effects()
	p.visibleTask()
	p.taint()
	if p.see != nil {
		if err := p.see(p.look()); err != nil {
			return err
		}
	}
	if p.cant != "" {
		p.unsupported(p.c, p.f.Name, p.cant)
		return nil
	}
	p.complete(&in)
	if err := p.visibleAfter(); err != nil {
		return err
	}
	g.insts = append(append(append(g.insts, p.before...), in), p.after...)
	if p.err != nil {
		return p.err
	}
	p.place(g)
	return nil
}

// instruction makes the call itself, and in p.reused.words its operands.
func (p *callCompiler) instruction() (plan.Instruction, error) {
	c, f := p.c, p.f
	p.reused.words = slices.Grow(p.reused.words[:0], int(f.Words))[:f.Words]
	clear(p.reused.words)
	for i := range f.Params {
		ops, err := p.param(i)
		if err != nil {
			return plan.Instruction{}, err
		}
		copy(p.reused.words[f.Params[i].Word:], ops)
	}
	p.addTokens()
	in := plan.Instruction{Op: plan.OpCall, Fn: p.Function(f), Words: f.Words, Call: c.Index, Want: c.Ret, Bits: retBits(f, c, p.facts(f))}
	if f.Ret.Makes() && c.Ret != 0 {
		if u, ok := p.e.Use(timeline.RetParam); ok && p.objects.operands[u.Object] == (plan.Operand{}) {
			in.RetSlot = p.newSlot(u.Object)
			in.Flags |= plan.InstStop
		}
	}
	if p.ok && f.RetError && p.facts(f).makes {
		in.Flags |= plan.InstStop
	}
	if f.RetVolatile {
		p.Found.Volatile++
	}
	return in, nil
}

// complete adds to the call its operands and relocations, and the player's own calls around it.
func (p *callCompiler) complete(in *plan.Instruction) {
	p.placement()
	in.Relocs, in.NRelocs = p.addRelocs(p.relo)
	p.addSpoils(in)
	for _, n := range p.pending {
		n.of.words[n.word].reloc = int(in.Relocs) + n.relo
	}
	in.Operands = p.Operands(p.poll(in, p.replace(in, p.reused.words))...)
	p.hostLaunch(in.Operands)
	p.poison()
	p.markGaps()
	p.exports()
	p.markOutsiders()
}

// place gives the call its place among those of other threads, and notes its stream and kernel for reports.
func (p *callCompiler) place(g *group) {
	pr := &p.Threads[p.at.thread]
	pr.out.Scratch = max(pr.out.Scratch, p.temp)
	p.contend(p.e)
	p.order(g)
	g.stream = p.lane(p.e)
	if p.f.Task == api.Kernel && p.ok {
		g.kernel = cmp.Or(p.e.Kernel, p.f.Name)
		if p.f.Stream >= 0 {
			g.on = streamOf(p.e)
		}
	}
	for _, u := range p.e.Uses {
		if u.Object.Ended == p.c.Index {
			p.orderAfterReaders(u.Object.Handle, u.Object.Handle+u.Object.Size)
			delete(p.ordering.inFlight, u.Object)
		}
	}
}

// reused is memory that every call uses again.
type reused struct {
	words  []plan.Operand // of the arguments
	param  []plan.Operand // of one parameter, see param
	relocs []plan.Reloc   // see content
}

// reset makes the state that of a new call. The lists keep their memory.
func (p *callCompiler) reset(e *timeline.Event, at place) {
	*p = callCompiler{
		compiler: p.compiler, e: e, c: e.Call, f: e.Fn, at: at, pieces: e.Call.Data,
		touches: p.touches[:0], pending: p.pending[:0], named: p.named[:0], made: p.made[:0], spoils: p.spoils[:0],
		fresh: p.fresh[:0], before: p.before[:0], after: p.after[:0],
		relo: p.relo[:0], reused: reused{p.reused.words, p.reused.param, p.reused.relocs[:0]},
	}
	if late, ok := p.late[e.Call.Index]; ok {
		p.pieces = slices.Concat(p.pieces, late)
		if p.see == nil {
			delete(p.late, e.Call.Index)
		}
	}
}

// streamOf is the number of the stream that a call names, 0 for the default one of a context.
func streamOf(e *timeline.Event) uint64 {
	if e.Stream == nil {
		return 0
	}
	return e.Stream.Handle
}

// lane is the stream that a call names, as an index into Plan.lanes, -1 for none.
func (p *compiler) lane(e *timeline.Event) int {
	if e.Fn.Stream < 0 {
		return -1
	}
	i, ok := p.ordering.laneOf[e.Stream]
	if !ok {
		i = len(p.Streams)
		name := "default stream"
		if e.Stream != nil {
			name = fmt.Sprintf("stream#%d", e.Stream.ID)
		}
		p.ordering.laneOf[e.Stream], p.Streams = i, append(p.Streams, name)
	}
	return i
}

const maxWords = 63 // what the player holds, one less for the output of a poll

func (p *compiler) unsupported(c *format.Call, name, reason string) {
	count(&p.Found.Unsupported, c, name, reason)
}

// leaveOut notes a call that encloses others.
func (p *compiler) leaveOut(c *format.Call, f *api.Func) {
	count(&p.Found.LeftOut, c, f.Name, "the runtime calls made inside it are replayed; it is not, and nothing of what other ranks sent is")
}

// count adds a call to those of the same function and reason.
func count(us *[]Unsupported, c *format.Call, name, reason string) {
	for i := range *us {
		if u := &(*us)[i]; u.Func == name && u.Reason == reason {
			u.Calls++
			return
		}
	}
	*us = append(*us, Unsupported{Func: name, Calls: 1, Reason: reason, Call: c.Index})
}

// makes reports whether a call stores handles or addresses that later calls need.
func Makes(f *api.Func) bool {
	return slices.ContainsFunc(f.Params, func(q api.Param) bool {
		return q.Role == api.New || q.Role == api.Place || q.Role == api.Buffer || q.Inside()
	})
}

// retBits is how many bits of the returned value must come again.
func retBits(f *api.Func, c *format.Call, facts *facts) uint8 {
	if f.Ret.Makes() && c.Ret == 0 {
		return 64
	}
	return facts.retBits
}

// facts are what the compiler wants to know of a function at each of its calls.
type facts struct {
	makes      bool  // it stores handles or addresses that later calls need
	graphs     bool  // it has to do with graphs or their nodes
	exceptions bool  // it sets the function that exceptions are given to, or reads an exception
	retBits    uint8 // bits of the returned value that must come again, unless it makes an object and returned none
}

// facts returns those of a function, which are collected once.
func (p *compiler) facts(f *api.Func) *facts {
	known := p.known[f.ID]
	if known == nil {
		known = &facts{makes: Makes(f), retBits: comparedBits(f)}
		for i := range f.Params {
			q := &f.Params[i]
			known.exceptions = known.exceptions || q.Object == api.Exception
			known.graphs = known.graphs || q.Object == api.Graph || q.Object == api.Node || q.Has(api.Graph) || q.Has(api.Node)
		}
		p.known[f.ID] = known
	}
	return known
}

func comparedBits(f *api.Func) uint8 {
	switch {
	case f.RetVoid, f.RetVolatile, f.Ret == api.Text, f.Ret == api.Address, f.Ret.Makes():
		return 0
	case strings.HasSuffix(f.Return, "*"), strings.Contains(f.Return, "64"), f.Return == "size_t", f.Return == "double":
		return 64
	case f.Return == "bool", strings.Contains(f.Return, "int8"), f.Return == "char":
		return 8
	case strings.Contains(f.Return, "16"):
		return 16
	}
	return 32
}

// poll makes one instruction of a run of questions about one object that ended with the answer that it is complete.
func (p *callCompiler) poll(in *plan.Instruction, words []plan.Operand) []plan.Operand {
	f := p.f
	if f.PollsCallbacks {
		in.Op = plan.OpUntil // there is something to run, sooner or later
		return words
	}
	if f.Pending != 0 {
		return p.pollReturned(in, words)
	}
	if f.Sync != api.PollStream && f.Sync != api.PollEvent || !p.ok {
		return words
	}
	out := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Role == api.Out })
	if out < 0 || p.c.Args[f.Params[out].Word] == 0 {
		return words
	}
	complete, known := p.completeValue(f.Params[out].Type)
	v, has := p.stored(out)
	if !known || !has {
		return words
	}
	key := pollKey{fn: f.ID}
	if len(p.e.Uses) > 0 {
		key.object = p.e.Uses[0].Object
	}
	if uint64(uint32(v)) != complete {
		p.asks(key)
		return words
	}
	p.takeBack(key)
	in.Op, in.Len, in.Width = plan.OpUntil, complete, uint64(min(f.Params[out].Elem, 8))
	return append(words, words[f.Params[out].Word])
}

// pollReturned is poll for a question that is answered by the returned value alone.
func (p *callCompiler) pollReturned(in *plan.Instruction, words []plan.Operand) []plan.Operand {
	key := pollKey{fn: p.f.ID}
	if len(p.e.Uses) > 0 {
		key.object = p.e.Uses[0].Object
	}
	switch int32(p.c.Ret) {
	case p.f.Pending:
		in.Bits = 0 // when it is complete is another question each time
		p.asks(key)
	case 0:
		p.takeBack(key)
		in.Op = plan.OpUntil
	}
	return words
}

// completeValue is the value of an enumeration that says that what was asked about is complete.
func (p *compiler) completeValue(ctype string) (uint64, bool) {
	for _, e := range p.Model.Enums {
		if e.Type != strings.TrimRight(ctype, "*") {
			continue
		}
		for _, v := range e.Values {
			if strings.HasSuffix(v.Name, "_COMPLETE") {
				return uint64(v.Value), true
			}
		}
	}
	return 0, false
}
