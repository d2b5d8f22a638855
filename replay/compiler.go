package replay

import (
	"cmp"
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/replay/plan"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// A compiler turns a trace into a plan, one call at a time, in the order in which the calls began. It holds the state
// that lives for the whole trace. callCompiler holds the state of one call.
//
// An error of its methods means that the trace or a file can't be read, and ends the planning. A call that can't be
// replayed is no error but an entry in Plan.found.
type compiler struct {
	*Plan
	r       *format.Reader
	o       *Options
	dir     string // for files that the program had loaded
	files   int    // in dir
	state   *timeline.State
	late    map[uint64][]format.Data // data recorded after its call, by call
	thread  map[uint32]int           // index into Plan.threads, by the trace's thread
	process map[uint32]int           // index into Plan.procs, by the trace's process

	objects  objects
	pointers pointers
	graphs   graphs
	sharing  sharing
	ordering ordering
	visible  visibleState
	gaps     gaps
	hosts    []*hostLaunch

	look       lookahead
	used       []*group // to be used again
	known      []*facts // by api.ID
	sinceEmits int      // calls compiled since the last emit

	see func(*callCompiler) error // called for every call, nil if nobody looks
}

// callCompiler compiles one call. Its fields hold the state of that call alone.
type callCompiler struct {
	*compiler
	words   []plan.Operand   // of the arguments
	param_  []plan.Operand   // of one parameter, see param
	relocs_ []plan.Reloc     // see content
	unseen  *timeline.Object // host memory without recorded content that its kernel may read
	touches []touch
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

// errRefused is wrapped by errors about traces that can't be replayed as a whole.
var errRefused = errors.New("can't be replayed")

// newPlan compiles a trace into a plan in the file dir/plan.
func newPlan(r *format.Reader, m *api.Model, dir string, o *Options) (*Plan, error) {
	p, err := createPlan(filepath.Join(dir, "plan"), m)
	if err != nil {
		return nil, err
	}
	p.dir, p.o = dir, o
	if p.simulated() {
		_, p.found.ignored = recordedVariables(&m.Simulator, r.Meta())
	}
	c := newCompiler(p, r, dir, o)
	err = c.compile()
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func newCompiler(out *Plan, r *format.Reader, dir string, o *Options) *compiler {
	p := &compiler{
		Plan: out, r: r, o: o, dir: dir, state: timeline.NewState(out.model).Read(r), late: map[uint64][]format.Data{},
		thread: map[uint32]int{}, process: map[uint32]int{},
		objects: newObjects(out.model), pointers: newPointers(), graphs: newGraphs(), sharing: newSharing(), ordering: newOrdering(),
		visible: newVisibleState(), known: make([]*facts, 1<<16),
	}
	p.pointers.mapped = o.Place == PlaceSame && !p.simulated()
	p.scale, p.untilNS = o.scale(), uint64(untilLimit)
	p.tolerance = o.Tolerance
	return p
}

func (p *compiler) compile() error {
	if err := p.o.Limits.Check(p.r, p.model); err != nil {
		return err
	}
	if err := p.survey(); err != nil {
		return err
	}
	for _, s := range plan.SlotNames {
		p.slot(s, nil)
	}
	for _, s := range []string{"scratch of thread %d", "identity of thread %d"} {
		for t := range p.threads {
			p.slot(fmt.Sprintf(s, p.threads[t].thread), nil)
		}
	}
	for i := range p.procs {
		p.slot(fmt.Sprintf("number of process %d", p.procs[i].pid), nil)
	}
	if err := p.state.Follow(p.r); err != nil {
		return err
	}
	if err := p.match(); err != nil {
		return err
	}
	if err := p.handOver(); err != nil {
		return err
	}
	threads := p.r.Threads()
	p.look = p.newLookahead()
	defer p.look.stop()
	cc := &callCompiler{compiler: p, param_: make([]plan.Operand, 0, maxWords)}
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := p.state.Apply(threads[c.Thread].Process, c)
		if err := cc.call(e); err != nil {
			return err
		}
	}
	if d := p.r.Damage(); len(d) > 0 {
		return &d[0]
	}
	for _, v := range p.visibleRanges() {
		cc.visibleLeft(v)
	}
	p.emit(math.MaxInt64)
	p.settleNumbers()
	p.graphResults()
	if err := p.hostFunctions(); err != nil {
		return err
	}
	p.clockLast()
	p.zeros, p.unzeroed = p.pointers.zeros, p.zerosReason()
	return p.Err()
}

// untilLimit is how long one run of polls may take.
const untilLimit = 30 * time.Second

// identity is the slot of a thread's pthread_t, processID that of a process's number.
func (p *Plan) identity(thread int) uint32 { return uint32(plan.SlotThreads + len(p.threads) + thread) }

func (p *Plan) processID(proc int) uint32 { return uint32(plan.SlotThreads + 2*len(p.threads) + proc) }

func widened(w api.Window, at, size uint64) api.Window {
	return api.Window{From: min(w.From, at), To: max(w.To, at+size)}
}

// survey learns what must be known before the first call is compiled: the threads with their calls, the data that
// comes long after its call, and where device memory was.
func (p *compiler) survey() error {
	f := &p.found
	complete := p.r.Completeness()
	f.cut = complete.Cut
	if err := p.cast(); err != nil {
		return err
	}
	p.gaps, f.scope = newGaps(complete), complete.Scope()
	p.pointers.window, p.pointers.addressed, p.pointers.pinned = api.Window{From: ^uint64(0)}, api.Window{From: ^uint64(0)}, api.Window{From: ^uint64(0)}
	for c, err := range p.r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		fn := p.model.Func(api.ID(c.Func))
		f.calls++
		if fn != nil && (fn.Composite || fn.Annotation) {
			continue
		}
		if f.to == 0 || c.Start < f.from {
			f.from = c.Start
		}
		f.to = max(f.to, c.End)
		f.longest = max(f.longest, c.End-c.Start)
		if fn == nil {
			continue
		}
		if fn.PollsCallbacks {
			pr := &p.threads[p.thread[c.Thread]]
			if pr.polls == nil {
				pr.polls = map[*api.Func]bool{}
			}
			pr.polls[fn] = true
		}
		for i := range fn.Params {
			if q := &fn.Params[i]; q.Object == api.Registered && q.Role == api.Map && len(c.Args) == int(fn.Words) {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pointers.pinned = widened(p.pointers.pinned, c.Args[q.Word], n)
			}
		}
		for _, o := range c.Outs {
			if int(o.Param) >= len(fn.Params) {
				continue
			}
			q := &fn.Params[o.Param]
			if slices.Contains(p.model.Numbers, q.Object) {
				p.objects.counted++
			}
			if len(c.Args) == int(fn.Words) && q.Role == api.New && q.Object == api.Host {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pointers.pinned = widened(p.pointers.pinned, o.Value, n)
			}
			if len(c.Args) != int(fn.Words) || !q.Role.Makes() || !placeable(q.Object) && q.Object != api.Mapped && q.Object != api.Owned {
				continue
			}
			n, _ := q.Size.Bytes(fn, c.Args)
			p.pointers.addressed = widened(p.pointers.addressed, o.Value, n)
			if placeable(q.Object) {
				p.pointers.window = widened(p.pointers.window, o.Value, n)
			}
		}
	}
	for d, err := range p.r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			return err
		}
		k := *d
		k.Bytes = slices.Clone(d.Bytes)
		p.late[d.Call] = append(p.late[d.Call], k)
	}
	if d := p.r.Damage(); len(d) > 0 {
		return &d[0]
	}
	for _, name := range sortedKeys(p.r.Meta().Coverage.PassedBy) {
		if !p.model.Counted(name) {
			f.asked = append(f.asked, name) // no call was seen: the CUDA runtime asks for all functions that it knows
			continue
		}
		f.absent = append(f.absent, Unsupported{Func: name, Calls: int(p.r.Meta().Coverage.PassedBy[name]), Reason: "recorded by its name alone, without arguments"})
	}
	if n := p.r.Meta().Coverage.Refused; n > 0 {
		f.absent = append(f.absent, Unsupported{Reason: fmt.Sprintf("never recorded: all calls of %d threads, whose rings could not be made", n)})
	}
	if f.cut != "" {
		f.absent = append(f.absent, Unsupported{Reason: "the trace was cut (" + f.cut + "): calls after its last one are missing"})
	}
	for _, g := range complete.Lost {
		f.absent = append(f.absent, Unsupported{Calls: int(g.Calls), Reason: fmt.Sprintf("lost while recording (%s), %d to %d ns", g.Reason, g.From, g.To)})
	}
	return nil
}

// placeable reports whether objects of the kind are ranges of device addresses.
func placeable(kind api.Object) bool { return kind == api.Device || kind == api.Reservation }

// cast finds the threads that have calls, those of one process beside each other.
func (p *compiler) cast() error {
	threads, ps := p.r.Threads(), p.r.Processes()
	for c, err := range p.r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		if int(c.Thread) >= len(threads) {
			return fmt.Errorf("call %d is of thread %d, which the trace does not describe", c.Index, c.Thread)
		}
		if fn := p.model.Func(api.ID(c.Func)); fn != nil && fn.Annotation {
			continue // nothing is played
		}
		if _, ok := p.thread[c.Thread]; !ok {
			p.thread[c.Thread] = 0
			p.threads = append(p.threads, program{thread: c.Thread, tid: p.r.Threads()[c.Thread].TID, pollsAt: -1})
		}
	}
	order := map[uint32]int{} // of a process, by its first call
	for _, t := range p.threads {
		if _, ok := order[threads[t.thread].Process]; !ok {
			order[threads[t.thread].Process] = len(order)
		}
	}
	slices.SortStableFunc(p.threads, func(a, b program) int { return order[threads[a.thread].Process] - order[threads[b.thread].Process] })
	for t := range p.threads {
		pr := &p.threads[t]
		owner := threads[pr.thread].Process
		i, ok := p.process[owner]
		if !ok {
			i = len(p.procs)
			p.process[owner] = i
			pid := 0
			if int(owner) < len(ps) {
				pid = ps[owner].PID
			}
			p.procs = append(p.procs, planned{process: owner, first: t, pid: pid})
		}
		p.procs[i].count++
		pr.process, p.thread[pr.thread], pr.out = i, t, p.Thread()
	}
	return nil
}

func sortedKeys(m map[string]uint64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// call compiles one call into its group.
func (p *callCompiler) call(e *timeline.Event) error {
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
	if p.sinceEmits++; p.sinceEmits >= max(64, len(p.threads)) {
		p.sinceEmits = 0
		p.emit(c.Start)
	}
	pr := &p.threads[t]
	at := place{t, pr.compiled}
	g := pr.group(at.group)
	if g == nil || g.call != c.Index {
		return fmt.Errorf("call %d is not in the order of its thread %d", c.Index, c.Thread)
	}
	pr.compiled++
	if at.group == 0 {
		p.fork(pr.process, c.Start)
	}
	p.reset(e, at)
	switch {
	case f == nil:
		p.unsupported(c, p.r.Schema().FuncName(c.Func), "the function is not in the model")
		return nil
	case len(c.Args) != int(f.Words) || f.Words > maxWords:
		p.unsupported(c, f.Name, fmt.Sprintf("recorded with %d argument words, the model has %d", len(c.Args), f.Words))
		return nil
	case c.Flags&format.Unfinished != 0:
		p.found.unverified = unverified(p.found.unverified, c.Index, verify.Incomplete, f.Name+" had not returned when the recording ended; it is left out")
		return nil
	}
	p.ok = !failed(f, c)
	if f.PollsCallbacks && !p.ok {
		p.found.volatile++ // nothing had come to run: when it comes depends on others
		return nil
	}
	if !p.ok && p.model.Refused != 0 && int32(c.Ret) == p.model.Refused {
		p.found.volatile++ // it was called by a function of the program's, which nobody calls here
		return nil
	}
	if p.peers() || p.exception() {
		return nil
	}
	switch {
	case f.SkipOnReplay:
		p.found.volatile++
		return nil
	case f.ReplayError != "":
		p.unsupported(c, f.Name, f.ReplayError)
		return nil
	}
	if err := p.visibleBefore(); err != nil {
		return err
	}
	p.settle()
	p.words = slices.Grow(p.words[:0], int(f.Words))[:f.Words]
	clear(p.words)
	words := p.words
	for i := range f.Params {
		ops, err := p.param(i)
		if err != nil {
			return err
		}
		copy(words[f.Params[i].Word:], ops)
	}
	p.addTokens()
	in := plan.Instruction{Op: plan.OpCall, Fn: p.Function(f), Words: f.Words, Call: c.Index, Want: c.Ret, Bits: retBits(f, c, p.facts(f))}
	if f.Ret.Makes() && c.Ret != 0 {
		if u, ok := p.e.Use(timeline.RetParam); ok && p.objects.operands[u.Object] == (plan.Operand{}) {
			in.RetSlot = p.newSlot(u.Object)
			in.Flags |= plan.InstStop
		}
	}
	if f.RetVolatile {
		p.found.volatile++
	}
	if err := p.graph(); err != nil {
		return err
	}
	p.arraysTouched()
	p.effects()
	p.visibleTask()
	p.taint()
	if p.see != nil {
		if err := p.see(p); err != nil {
			return err
		}
	}
	if p.cant != "" {
		p.unsupported(c, f.Name, p.cant)
		return nil
	}
	if p.ok && f.RetError && p.facts(f).makes {
		in.Flags |= plan.InstStop
	}
	p.placement()
	in.Relocs, in.NRelocs = p.addRelocs(p.relo)
	p.addSpoils(&in)
	for _, n := range p.pending {
		n.of.words[n.word].reloc = int(in.Relocs) + n.relo
	}
	words = p.poll(&in, p.replace(&in, words))
	in.Operands = p.Operands(words...)
	p.hostLaunch(in.Operands)
	p.poison()
	p.markGaps()
	p.exports()
	p.markOutsiders()
	if err := p.visibleAfter(); err != nil {
		return err
	}
	g.insts = append(append(append(g.insts, p.before...), in), p.after...)
	pr.out.Scratch = max(pr.out.Scratch, p.temp)
	if p.err != nil {
		return p.err
	}
	p.contend(e)
	p.order(g)
	g.stream = p.lane(e)
	if f.Task == api.Kernel && p.ok {
		g.kernel = cmp.Or(e.Kernel, f.Name)
		if f.Stream >= 0 {
			g.on = streamOf(e)
		}
	}
	for _, u := range e.Uses {
		if u.Object.Ended == c.Index {
			p.orderAfterReaders(u.Object.Handle, u.Object.Handle+u.Object.Size)
			delete(p.ordering.inFlight, u.Object)
		}
	}
	return nil
}

// reset makes the state that of a new call. The lists keep their memory.
func (p *callCompiler) reset(e *timeline.Event, at place) {
	*p = callCompiler{
		compiler: p.compiler, e: e, c: e.Call, f: e.Fn, at: at, pieces: e.Call.Data,
		touches: p.touches[:0], pending: p.pending[:0], named: p.named[:0], made: p.made[:0], spoils: p.spoils[:0],
		fresh: p.fresh[:0], before: p.before[:0], after: p.after[:0],
		words: p.words, param_: p.param_, relo: p.relo[:0], relocs_: p.relocs_[:0],
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
		i = len(p.lanes)
		name := "default stream"
		if e.Stream != nil {
			name = fmt.Sprintf("stream#%d", e.Stream.ID)
		}
		p.ordering.laneOf[e.Stream], p.lanes = i, append(p.lanes, name)
	}
	return i
}

const maxWords = 63 // what the player holds, one less for the output of a poll

func (p *compiler) unsupported(c *format.Call, name, reason string) {
	count(&p.found.unsupported, c, name, reason)
}

// leaveOut notes a call that encloses others.
func (p *compiler) leaveOut(c *format.Call, f *api.Func) {
	count(&p.found.leftOut, c, f.Name, "the runtime calls made inside it are replayed; it is not, and nothing of what other ranks sent is")
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
func makes(f *api.Func) bool {
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
		known = &facts{makes: makes(f), retBits: comparedBits(f)}
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
	for _, e := range p.model.Enums {
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
