package replay

import (
	"cmp"
	"errors"
	"fmt"
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

// planner goes through a trace in the order of time and compiles call after call. An error of its methods is one of the
// trace or of a file and ends the planning; what can't be replayed is a finding.
type planner struct {
	*Plan
	r      *format.Reader
	o      *Options
	dir    string // for files that the program had loaded
	state  *timeline.State
	late   map[uint64][]format.Data
	next   []int          // group of each thread that is compiled next
	thread map[uint32]int // index into Plan.threads

	process   map[uint32]int // index into Plan.procs
	objects   map[*timeline.Object]operand
	former    map[objectKey]operand // of the last object that had the handle, alive or not
	regions   map[memoryKey]region  // scratch memory for memory of the program's that the runtime uses for long
	keys      map[string]operand    // names that processes tell each other, as the runtime has made them
	imported  map[string]bool       // keys that a process of the trace imports
	taken     map[uint64]uint64     // of calls that are given a descriptor, the one that has made it, where that is known
	tokens    tokens
	given     map[uint64]*timeline.Object           // descriptors, by that call
	absent    map[*timeline.Object]bool             // shared with a process that is not in the trace
	tainted   map[*timeline.Object]bool             // memory that such a process may have written
	reports   map[uint64]int                        // threads that process reports, by the number that the program has for them
	captures  map[*timeline.Object]*capture         // of each graph; before its end by the stream that began it
	copies    []*graphCopy                          // of all of them
	homes     map[*timeline.Object]*capture         // of nodes
	originals map[*timeline.Object]*timeline.Object // of nodes that were found in clones
	owns      map[ownKey]*own
	hosts     []*hostLaunch
	handlers  map[uint32]*exceptionHandler // by process, the function that exceptions are given to
	buffers   map[*timeline.Object][]buffer
	shared    map[format.BlobID]uint64  // payloads without addresses, by their place in the data
	window    api.Window                // where device allocations of the trace lie
	addressed api.Window                // where words of payloads may be addresses
	pinned    api.Window                // where arguments of kernels may be, too: in the host's memory that the device reaches
	reached   map[*timeline.Object]bool // memory of the host's that kernels may use
	unseen    *timeline.Object          // such that the call at hand does
	sent      map[uint64]operand        // words of payloads that were taken for addresses
	flying    map[*timeline.Object][]flight
	ownMemory map[uint32]*timeline.Object // memory of the host's in each process that no call has allocated
	spareAt   uint64                      // first free address after all allocations, see behind
	zeros     uint64                      // size of the memory that stands for payloads that are missing
	files     int
	streams   map[memoryKey][]task
	arrivals  []arrival                // by time
	holdings  map[uint32][]holding     // by process
	laneOf    map[*timeline.Object]int // index into Plan.lanes

	contexts  contexts
	maps      bool // the player has memory mapped where it was
	numbered  map[numberPlace]*numbered
	counted   int // calls that make objects of api.Model.Numbers
	contents  map[*timeline.Object]*content
	captured  map[*timeline.Object]bool // what tasks of graphs touch
	blind     bool                      // a payload is missing that may have had addresses
	gaps      gaps
	outsiders outsiders
	zeroed    map[*timeline.Object]bool // pinned memory in which zeros took the place of data
	see       func(*planner) error      // is called for every call, where it is not nil
	visible   visibleState
	hostMaps  map[memoryKey]int // indices into findings.maps

	// Of the call at hand.
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
	before  []instruction
	after   []instruction
	relo    []reloc
	spoils  []stretch // overwritten after it
	temp    uint64    // bytes of the thread's own scratch memory in use
	pending []pendingNumber
	fresh   []*token           // that it makes, which may be as those that it was given
	made    []*timeline.Object // stand for them
	named   []*timeline.Object // by numbers and tokens among arguments
	cant    string             // why the call can't be replayed
}

type objectKey struct {
	process uint32
	kind    api.Object
	handle  uint64
}

// memoryKey is an address, or a handle, in a process.
type memoryKey struct {
	process uint32
	addr    uint64
}

// buffer is memory behind a placeholder of an argument list.
type buffer struct {
	addr, size uint64
	slot       uint32
}

// region is a piece of scratch memory.
type region struct{ at, size uint64 }

// flight is an asynchronous copy to the host, or one of a graph, whose result the program has not waited for yet.
type flight struct {
	off, end uint64
	until    int64
	shift    operand // from where to where the replay has moved the memory
	sure     bool    // what lies there then is known, whether the copy is made or not
}

// arrival is when a thread had waited for a result, where that lies in pinned memory.
type arrival struct {
	time     int64
	owner    uint32
	from, to uint64
	at       place // of the wait
}

// task is a call that put work on a stream.
type task struct {
	at         place
	start, end int64
	call       uint64
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
	plan, err := createPlan(filepath.Join(dir, "plan"), m)
	if err != nil {
		return nil, err
	}
	plan.dir, plan.o = dir, o
	if plan.simulated() {
		_, plan.found.ignored = recordedVariables(&m.Simulator, r.Meta())
	}
	p := newPlanner(plan, r, dir, o)
	err = p.compile()
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		p.file.Close()
		return nil, err
	}
	return plan, nil
}

func newPlanner(plan *Plan, r *format.Reader, dir string, o *Options) *planner {
	p := &planner{
		Plan: plan, r: r, o: o, dir: dir, state: timeline.NewState(plan.model).Read(r), late: map[uint64][]format.Data{},
		thread: map[uint32]int{}, process: map[uint32]int{}, objects: map[*timeline.Object]operand{},
		former: map[objectKey]operand{}, regions: map[memoryKey]region{}, keys: map[string]operand{}, reports: map[uint64]int{},
		imported: map[string]bool{}, given: map[uint64]*timeline.Object{}, captures: map[*timeline.Object]*capture{}, homes: map[*timeline.Object]*capture{}, originals: map[*timeline.Object]*timeline.Object{}, ownMemory: map[uint32]*timeline.Object{}, owns: map[ownKey]*own{}, absent: map[*timeline.Object]bool{}, tainted: map[*timeline.Object]bool{}, buffers: map[*timeline.Object][]buffer{},
		shared: map[format.BlobID]uint64{}, flying: map[*timeline.Object][]flight{}, sent: map[uint64]operand{}, reached: map[*timeline.Object]bool{}, streams: map[memoryKey][]task{}, holdings: map[uint32][]holding{}, laneOf: map[*timeline.Object]int{},
		visible: newVisibleState(), handlers: map[uint32]*exceptionHandler{}, hostMaps: map[memoryKey]int{},
		contents: map[*timeline.Object]*content{}, captured: map[*timeline.Object]bool{}, numbered: map[numberPlace]*numbered{}, zeroed: map[*timeline.Object]bool{},
	}
	p.contexts, p.outsiders = newContexts(plan.model), newOutsiders()
	p.maps = o.Place == PlaceSame && !p.simulated()
	p.scale, p.untilNS = o.scale(), uint64(untilLimit)
	p.tolerance = o.Tolerance
	return p
}

func (p *planner) compile() error {
	if err := p.o.Limits.Check(p.r, p.model); err != nil {
		return err
	}
	if err := p.survey(); err != nil {
		return err
	}
	p.next = make([]int, len(p.threads))
	for _, s := range slotNames {
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
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := p.state.Apply(threads[c.Thread].Process, c)
		if err := p.call(e); err != nil {
			return err
		}
	}
	if d := p.r.Damage(); len(d) > 0 {
		return &d[0]
	}
	for _, v := range p.visibleRanges() {
		p.visibleLeft(v)
	}
	p.settleNumbers()
	p.graphResults()
	if err := p.hostFunctions(); err != nil {
		return err
	}
	p.markZeros()
	zeros := p.reserve(p.zeros)
	for t := range p.threads {
		for g := range p.threads[t].groups {
			insts := p.threads[t].groups[g].insts
			for i := range insts {
				// The memory of zeros is as large as the largest payload that is missing, so its place is known only now.
				for k := range p.operandCount(&insts[i]) {
					if op := &p.ops[insts[i].Operands+k]; op.Slot == zerosSlot {
						*op = operand{Slot: slotScratch, Addend: zeros}
					}
				}
			}
		}
	}
	for i := range p.relocs {
		if p.relocs[i].Slot == zerosSlot {
			p.relocs[i].Slot, p.relocs[i].Addend = slotScratch, zeros
		}
	}
	p.forks()
	p.order()
	return nil
}

// untilLimit is how long one run of polls may take.
const untilLimit = 30 * time.Second

// zerosSlot stands for the memory of zeros until its place is known.
const zerosSlot = ^uint32(0)

func (p *Plan) operandCount(in *instruction) uint32 {
	switch in.Op {
	case opCall:
		return uint32(in.Words)
	case opUntil:
		if in.Width == 0 {
			return uint32(in.Words)
		}
		return uint32(in.Words) + 1
	case opStore, opCheck, opTake:
		return 3
	case opMark:
		return 1
	}
	return 0
}

// identity is the slot of a thread's pthread_t, processID that of a process's number.
func (p *Plan) identity(thread int) uint32 { return uint32(slotThreads + len(p.threads) + thread) }

func (p *Plan) processID(proc int) uint32 { return uint32(slotThreads + 2*len(p.threads) + proc) }

func widened(w api.Window, at, size uint64) api.Window {
	return api.Window{From: min(w.From, at), To: max(w.To, at+size)}
}

// survey learns what must be known before the first call is compiled: the threads with their calls, the data that
// comes long after its call, and where device memory was.
func (p *planner) survey() error {
	f := &p.found
	complete := p.r.Completeness()
	f.cut = complete.Cut
	if err := p.cast(); err != nil {
		return err
	}
	p.gaps, f.scope = newGaps(complete), complete.Scope()
	p.window, p.addressed, p.pinned = api.Window{From: ^uint64(0)}, api.Window{From: ^uint64(0)}, api.Window{From: ^uint64(0)}
	for c, err := range p.r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		fn := p.model.Func(api.ID(c.Func))
		f.calls++
		if fn != nil && (fn.Composite || fn.Annotation) {
			continue
		}
		pr := &p.threads[p.thread[c.Thread]]
		pr.groups = append(pr.groups, group{call: c.Index, fn: fn, start: c.Start, end: c.End, stream: -1})
		if f.to == 0 || c.Start < f.from {
			f.from = c.Start
		}
		f.to = max(f.to, c.End)
		f.longest = max(f.longest, c.End-c.Start)
		if fn == nil {
			continue
		}
		if (fn.Sync != api.NoSync || fn.Task == api.Record) && len(c.Args) == int(fn.Words) {
			g := &pr.groups[len(pr.groups)-1]
			if fn.Stream >= 0 {
				g.names = p.model.StreamOf(fn, c.Args[fn.Params[fn.Stream].Word], c.Thread)
			}
			if fn.Event >= 0 {
				g.event = c.Args[fn.Params[fn.Event].Word]
			}
			g.unready = (fn.Sync == api.PollStream || fn.Sync == api.PollEvent) && !timeline.Polled(p.model, fn, c)
		}
		for i := range fn.Params {
			if q := &fn.Params[i]; q.Object == api.Registered && q.Role == api.Map && len(c.Args) == int(fn.Words) {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pinned = widened(p.pinned, c.Args[q.Word], n)
			}
		}
		for _, o := range c.Outs {
			if int(o.Param) >= len(fn.Params) {
				continue
			}
			q := &fn.Params[o.Param]
			if slices.Contains(p.model.Numbers, q.Object) {
				p.counted++
			}
			if len(c.Args) == int(fn.Words) && q.Role == api.New && q.Object == api.Host {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.pinned = widened(p.pinned, o.Value, n)
			}
			if len(c.Args) != int(fn.Words) || !q.Role.Makes() || !placeable(q.Object) && q.Object != api.Mapped && q.Object != api.Owned {
				continue
			}
			n, _ := q.Size.Bytes(fn, c.Args)
			p.addressed = widened(p.addressed, o.Value, n)
			if placeable(q.Object) {
				p.window = widened(p.window, o.Value, n)
			}
		}
	}
	for t := range p.threads {
		// A call that encloses others is recorded behind them. All others are in their order, whatever the clock said.
		gs := p.threads[t].groups
		for i := range gs {
			if gs[i].fn == nil || !gs[i].fn.PollsCallbacks {
				continue
			}
			for k := i; k > 0 && gs[k-1].start > gs[k].start; k-- {
				gs[k-1], gs[k] = gs[k], gs[k-1]
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
func (p *planner) cast() error {
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
			p.threads = append(p.threads, program{thread: c.Thread, tid: p.r.Threads()[c.Thread].TID})
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
		pr.process, p.thread[pr.thread] = i, t
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
func (p *planner) call(e *timeline.Event) error {
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
	p.e, p.c, p.f, p.at = e, c, f, place{t, p.next[t]}
	p.next[t]++
	g := &p.threads[t].groups[p.at.group]
	if g.call != c.Index {
		return fmt.Errorf("call %d is not in the order of its thread %d", c.Index, c.Thread)
	}
	p.touches = p.touches[:0]
	p.before, p.after, p.relo, p.temp, p.cant = nil, nil, nil, 0, ""
	p.pending, p.named, p.made, p.spoils = p.pending[:0], p.named[:0], p.made[:0], p.spoils[:0]
	p.pieces, p.index, p.arrays = append(slices.Clip(c.Data), p.late[c.Index]...), nil, nil
	p.args, p.asked, p.unseen = nil, false, nil
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
	words := make([]operand, f.Words)
	for i := range f.Params {
		ops, err := p.param(i)
		if err != nil {
			return err
		}
		copy(words[f.Params[i].Word:], ops)
	}
	p.addTokens()
	in := instruction{Op: opCall, Fn: p.function(f), Words: f.Words, Call: c.Index, Want: c.Ret, Bits: retBits(f, c)}
	if f.Ret.Makes() && c.Ret != 0 {
		if u, ok := p.e.Use(timeline.RetParam); ok && p.objects[u.Object] == (operand{}) {
			in.RetSlot = p.newSlot(u.Object)
			in.Flags |= instStop
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
	if p.ok && f.RetError && makes(f) {
		in.Flags |= instStop
	}
	p.placement()
	in.Relocs, in.NRelocs = p.addRelocs(p.relo)
	p.addSpoils(&in)
	for _, n := range p.pending {
		n.of.words[n.word].reloc = int(in.Relocs) + n.relo
	}
	words = p.poll(&in, p.replace(&in, words))
	in.Operands = p.operands(words...)
	p.hostLaunch(in.Operands)
	p.poison()
	p.markGaps()
	p.exports()
	p.markOutsiders()
	if err := p.visibleAfter(); err != nil {
		return err
	}
	g.insts = append(append(p.before, in), p.after...)
	pr := &p.threads[p.at.thread]
	pr.scratch = max(pr.scratch, p.temp)
	p.contend(e)
	g.stream = p.lane(e)
	if f.Task == api.Kernel && p.ok {
		g.kernel = cmp.Or(e.Kernel, f.Name)
		if f.Stream >= 0 {
			g.on = streamOf(e)
		}
	}
	for _, u := range e.Uses {
		if u.Object.Ended == c.Index {
			p.spare(u.Object.Handle, u.Object.Handle+u.Object.Size)
			delete(p.flying, u.Object)
		}
	}
	return nil
}

// streamOf is the number of the stream that a call names, 0 for the default one of a context.
func streamOf(e *timeline.Event) uint64 {
	if e.Stream == nil {
		return 0
	}
	return e.Stream.Handle
}

// lane is the stream that a call names, as an index into Plan.lanes, -1 for none.
func (p *planner) lane(e *timeline.Event) int {
	if e.Fn.Stream < 0 {
		return -1
	}
	i, ok := p.laneOf[e.Stream]
	if !ok {
		i = len(p.lanes)
		name := "default stream"
		if e.Stream != nil {
			name = fmt.Sprintf("stream#%d", e.Stream.ID)
		}
		p.laneOf[e.Stream], p.lanes = i, append(p.lanes, name)
	}
	return i
}

const maxWords = 63 // what the player holds, one less for the output of a poll

func (p *planner) unsupported(c *format.Call, name, reason string) {
	count(&p.found.unsupported, c, name, reason)
}

// leaveOut notes a call that encloses others.
func (p *planner) leaveOut(c *format.Call, f *api.Func) {
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
func retBits(f *api.Func, c *format.Call) uint8 {
	switch {
	case f.RetVoid, f.RetVolatile, f.Ret == api.Text, f.Ret == api.Address:
		return 0
	case f.Ret.Makes():
		if c.Ret == 0 {
			return 64
		}
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
func (p *planner) poll(in *instruction, words []operand) []operand {
	f := p.f
	if f.PollsCallbacks {
		in.Op = opUntil // there is something to run, sooner or later
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
	gs := p.threads[p.at.thread].groups
	if uint64(uint32(v)) != complete {
		gs[p.at.group].poll = key
		return words
	}
	for k := p.at.group - 1; k >= 0 && gs[k].poll == key; k-- {
		gs[k].insts = nil
	}
	in.Op, in.Len, in.Width = opUntil, complete, uint64(min(f.Params[out].Elem, 8))
	return append(words, words[f.Params[out].Word])
}

// pollReturned is poll for a question that is answered by the returned value alone.
func (p *planner) pollReturned(in *instruction, words []operand) []operand {
	key := pollKey{fn: p.f.ID}
	if len(p.e.Uses) > 0 {
		key.object = p.e.Uses[0].Object
	}
	gs := p.threads[p.at.thread].groups
	switch int32(p.c.Ret) {
	case p.f.Pending:
		in.Bits = 0 // when it is complete is another question each time
		gs[p.at.group].poll = key
	case 0:
		for k := p.at.group - 1; k >= 0 && gs[k].poll == key; k-- {
			gs[k].insts = nil
		}
		in.Op = opUntil
	}
	return words
}

// completeValue is the value of an enumeration that says that what was asked about is complete.
func (p *planner) completeValue(ctype string) (uint64, bool) {
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
