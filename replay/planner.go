package replay

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
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

	objects   map[*timeline.Object]operand
	former    map[objectKey]operand // of the last object that had the handle, alive or not
	regions   map[uint64]region     // scratch memory for memory of the program's that the runtime uses for long, by address
	buffers   map[*timeline.Object][]buffer
	shared    map[format.BlobID]uint64 // payloads without addresses, by their place in the data
	window    api.Window               // where device allocations of the trace lie
	sent      map[uint64]operand       // words of payloads that were taken for addresses
	flying    map[*timeline.Object][]flight
	zeros     uint64 // size of the memory that stands for payloads that are missing
	files     int
	placeEnds []int64 // of the calls behind found.place
	streams   map[uint64][]task
	laneOf    map[*timeline.Object]int // index into Plan.lanes

	contents map[*timeline.Object]*content
	captured map[*timeline.Object]bool // what tasks of graphs touch
	blind    bool                      // a payload is missing that may have had addresses
	see      func(*planner) error      // is called for every call, where it is not nil

	// Of the call at hand.
	touches []touch
	e       *timeline.Event
	c       *format.Call
	f       *api.Func
	at      place
	pieces  []format.Data
	ok      bool
	before  []instruction
	after   []instruction
	relo    []reloc
	temp    uint64 // bytes of the thread's own scratch memory in use
	cant    string // why the call can't be replayed
}

type objectKey struct {
	process uint32
	kind    api.Object
	handle  uint64
}

// buffer is memory behind a placeholder of an argument list.
type buffer struct {
	addr uint64
	slot uint32
}

// region is a piece of scratch memory.
type region struct{ at, size uint64 }

// flight is an asynchronous copy to pinned memory whose result the program has not waited for yet.
type flight struct {
	off, end uint64
	until    int64
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
		Plan: plan, r: r, o: o, dir: dir, state: timeline.NewState(plan.model), late: map[uint64][]format.Data{},
		thread: map[uint32]int{}, objects: map[*timeline.Object]operand{},
		former: map[objectKey]operand{}, regions: map[uint64]region{}, buffers: map[*timeline.Object][]buffer{},
		shared: map[format.BlobID]uint64{}, flying: map[*timeline.Object][]flight{}, sent: map[uint64]operand{}, streams: map[uint64][]task{}, laneOf: map[*timeline.Object]int{},
		contents: map[*timeline.Object]*content{}, captured: map[*timeline.Object]bool{},
	}
	p.scale, p.untilNS = o.scale(), uint64(untilLimit)
	p.tolerance = o.Tolerance
	return p
}

func (p *planner) compile() error {
	if err := p.survey(); err != nil {
		return err
	}
	p.next = make([]int, len(p.threads))
	for _, s := range []string{"0", "data", "scratch", "slots"} {
		p.slot(s, nil)
	}
	for t := range p.threads {
		p.slot(fmt.Sprintf("scratch of thread %d", p.threads[t].thread), nil)
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
	p.order()
	return nil
}

// untilLimit is how long one run of polls may take.
const untilLimit = 30 * time.Second

// zerosSlot stands for the memory of zeros until its place is known.
const zerosSlot = ^uint32(0)

func (p *Plan) operandCount(in *instruction) uint64 {
	switch in.Op {
	case opCall:
		return uint64(in.Words)
	case opUntil:
		return uint64(in.Words) + 1
	case opStore, opCheck:
		return 2
	}
	return 0
}

// survey learns what must be known before the first call is compiled: the threads with their calls, the data that
// comes long after its call, and where device memory was.
func (p *planner) survey() error {
	f := &p.found
	f.incomplete = !p.r.Complete()
	threads := p.r.Threads()
	process, first := uint32(0), true
	p.window = api.Window{From: ^uint64(0)}
	for c, err := range p.r.Calls(&format.Filter{NoData: true}) {
		if err != nil {
			return err
		}
		if int(c.Thread) >= len(threads) {
			return fmt.Errorf("call %d is of thread %d, which the trace does not describe", c.Index, c.Thread)
		}
		if owner := threads[c.Thread].Process; first {
			process, first = owner, false
		} else if owner != process {
			ps := p.r.Processes()
			return fmt.Errorf("the trace %w: it has calls of several processes (%s), which would need each other's memory", errRefused, pids(ps, process, owner))
		}
		t, ok := p.thread[c.Thread]
		if !ok {
			t = len(p.threads)
			p.thread[c.Thread] = t
			p.threads = append(p.threads, program{thread: c.Thread})
		}
		fn := p.model.Func(api.ID(c.Func))
		pr := &p.threads[t]
		pr.groups = append(pr.groups, group{call: c.Index, fn: fn, start: c.Start, end: c.End, stream: -1})
		if f.calls == 0 || c.Start < f.from {
			f.from = c.Start
		}
		f.calls++
		f.to = max(f.to, c.End)
		f.longest = max(f.longest, c.End-c.Start)
		if fn == nil {
			continue
		}
		if fn.Stream >= 0 && fn.Sync != api.NoSync && len(c.Args) == int(fn.Words) {
			pr.groups[len(pr.groups)-1].syncs = c.Args[fn.Params[fn.Stream].Word]
		}
		for _, o := range c.Outs {
			if int(o.Param) >= len(fn.Params) {
				continue
			}
			if q := &fn.Params[o.Param]; q.Role == api.New && q.Object == api.Device && len(c.Args) == int(fn.Words) {
				n, _ := q.Size.Bytes(fn, c.Args)
				p.window.From, p.window.To = min(p.window.From, o.Value), max(p.window.To, o.Value+n)
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
		f.absent = append(f.absent, Unsupported{Func: name, Calls: int(p.r.Meta().Coverage.PassedBy[name]), Reason: "recorded by its name alone, without arguments"})
	}
	for _, g := range p.r.Gaps() {
		f.absent = append(f.absent, Unsupported{Calls: int(g.Calls), Reason: fmt.Sprintf("lost while recording (%s), %d to %d ns", g.Reason, g.From, g.To)})
	}
	return nil
}

func pids(ps []format.Process, indexes ...uint32) string {
	var s []string
	for _, i := range indexes {
		if int(i) < len(ps) {
			s = append(s, fmt.Sprint(ps[i].PID))
		}
	}
	return strings.Join(s, ", ")
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
	t := p.thread[c.Thread]
	p.e, p.c, p.f, p.at = e, c, f, place{t, p.next[t]}
	p.next[t]++
	g := &p.threads[t].groups[p.at.group]
	if g.call != c.Index {
		return fmt.Errorf("call %d is not in the order of its thread %d", c.Index, c.Thread)
	}
	p.touches = p.touches[:0]
	p.before, p.after, p.relo, p.temp, p.cant = nil, nil, nil, 0, ""
	p.pieces = append(slices.Clip(c.Data), p.late[c.Index]...)
	switch {
	case f == nil:
		p.unsupported(c, p.r.Schema().FuncName(c.Func), "the function is not in the model")
		return nil
	case len(c.Args) != int(f.Words) || f.Words > maxWords:
		p.unsupported(c, f.Name, fmt.Sprintf("recorded with %d argument words, the model has %d", len(c.Args), f.Words))
		return nil
	case c.Flags&format.Unfinished != 0:
		p.found.unverified = append(p.found.unverified, Unverified{c.Index, f.Name + " had not returned when the recording ended; it is left out"})
		return nil
	}
	p.ok = !failed(f, c)
	words := make([]operand, f.Words)
	for i := range f.Params {
		ops, err := p.param(i)
		if err != nil {
			return fmt.Errorf("call %d %s, parameter %s: %w", c.Index, f.Name, f.Params[i].Name, err)
		}
		copy(words[f.Params[i].Word:], ops)
	}
	in := instruction{Op: opCall, Fn: p.function(f), Words: uint32(f.Words), Call: c.Index, Want: c.Ret, Mask: retMask(f, c)}
	if f.Ret == api.New && c.Ret != 0 {
		if u, ok := p.e.Use(timeline.RetParam); ok {
			in.RetSlot = p.newSlot(u.Object)
			in.Flags |= instStop
		}
	}
	p.effects()
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
	in.Relocs, in.NRelocs = p.addRelocs(p.relo)
	in.Operands = p.operands(p.poll(&in, words)...)
	g.insts = append(append(p.before, in), p.after...)
	pr := &p.threads[p.at.thread]
	pr.scratch = max(pr.scratch, p.temp)
	p.share(e)
	g.stream = p.lane(e)
	for _, u := range e.Uses {
		if u.Object.Ended == c.Index {
			delete(p.flying, u.Object)
		}
	}
	p.placement(c, f)
	return nil
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
	us := &p.found.unsupported
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
		return q.Role == api.New || q.Role == api.Place || q.Role == api.Buffer
	})
}

// retMask is the part of the returned value that must come again.
func retMask(f *api.Func, c *format.Call) uint64 {
	switch {
	case f.RetVoid, f.Ret == api.Text:
		return 0
	case f.Ret == api.New || f.Ret == api.Find:
		if c.Ret == 0 {
			return ^uint64(0)
		}
		return 0
	case strings.Contains(f.Return, "64") || f.Return == "size_t":
		return ^uint64(0)
	}
	return 1<<32 - 1
}

// poll makes one instruction of a run of questions about one object that ended with the answer that it is complete.
func (p *planner) poll(in *instruction, words []operand) []operand {
	f := p.f
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
