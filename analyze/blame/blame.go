// Package blame goes from what a log or an error code tells (a failed synchronization, a task's ids, an address) to the calls
// behind it: which launch it was, which memory it was given, who made, wrote and freed that.
//
// Blame and Where read a trace from its beginning up to the moment in question, a few times over, and keep what is alive and what
// was alive last. Their answers are values that nothing else is needed to print. They claim nothing that the trace does not
// show: each suspicion has its reasons, and what is not known is said.
package blame

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
)

// Options say what failed, where the trace does not show it by itself or shows several; nil stands for what it shows.
type Options struct {
	Call    *uint64        // the call that failed
	Task    *format.TaskID // the task that failed, as a log names it
	Addr    uint64         // the address at which it failed, as a log names it; 0 for none
	History int            // how many calls are listed for each allocation, 0 for 8
}

// A Call is a call as a reader finds it again.
type Call struct {
	Index  uint64         `json:"call"`
	Func   string         `json:"func"`
	Kernel string         `json:"kernel,omitempty"`
	PID    int            `json:"pid"`
	TID    int            `json:"tid"`
	Start  int64          `json:"start_ns"` // since the beginning of the trace
	End    int64          `json:"end_ns"`
	Error  string         `json:"error,omitempty"`
	Stream string         `json:"stream,omitempty"`
	Task   *format.TaskID `json:"task,omitempty"`
	Blocks uint32         `json:"block_dim,omitempty"`
	Stack  []string       `json:"stack,omitempty"` // that it was made from, innermost first, where the recording kept stacks
}

// A Place is where an address lies.
type Place struct {
	Object string `json:"object"` // as everywhere: device#5
	Addr   Hex    `json:"addr"`   // of the first byte
	Size   uint64 `json:"size"`
	Offset uint64 `json:"offset"`
	Made   *Call  `json:"made,omitempty"`  // nil: before the trace began
	Ended  *Call  `json:"ended,omitempty"` // nil: never in the trace
	object *timeline.Object
}

// Hex is a number that is shown in hexadecimal.
type Hex uint64

// MarshalText returns 0x and digits.
func (h Hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(h)), nil }

func (h Hex) String() string { return fmt.Sprintf("%#x", uint64(h)) }

// An Argument is an address among those that a suspect was given.
type Argument struct {
	Param string `json:"param"`
	Where string `json:"where"` // the parameter, or the word behind it
	Value Hex    `json:"value"`
	How   string `json:"how"`             // reads, writes or names
	Place *Place `json:"place,omitempty"` // nil: in no allocation that the trace knows
	Note  string `json:"note,omitempty"`  // what is wrong with it, or remarkable
}

// A Suspect is a call whose task may be the one that failed.
type Suspect struct {
	Call
	Certain   bool       `json:"certain"` // the runtime has named it, or it has failed itself
	Reasons   []string   `json:"reasons,omitempty"`
	Arguments []Argument `json:"arguments,omitempty"`
	Partly    bool       `json:"arguments_partly_unknown,omitempty"`

	score   int
	stream  *timeline.Object
	ends    int64 // when its task had ended for certain, as far as is known before the failure
	touches []touched
	waits   string // what its task waits for, "" if it does not wait
	gone    []gone
}

// Unlikely reports whether little speaks against the suspect except that its task was in flight.
func (x *Suspect) Unlikely() bool { return x.score < listed }

// gone is an object that a call names and that had ended before.
type gone struct {
	param  string
	object *timeline.Object
}

// touched is a Touch with the allocation that was there when the call began.
type touched struct {
	timeline.Touch
	object *timeline.Object
	dead   bool             // it had ended by then
	end    *timeline.Object // the live allocation that ends where a dead one lay
}

// Report is what Blame finds.
type Report struct {
	Trace string `json:"trace"`
	format.Scope
	Host     string    `json:"host"`
	Argv     []string  `json:"argv"`
	Acltrace string    `json:"acltrace,omitempty"` // the version that has recorded it
	Runtime  string    `json:"runtime,omitempty"`
	Driver   string    `json:"driver,omitempty"`
	Device   string    `json:"device,omitempty"`
	Begun    int64     `json:"begun_wall_ns,omitempty"` // nanoseconds since 1970 UTC, from which the times of calls count
	Failure  *Call     `json:"failure,omitempty"`
	Message  string    `json:"message,omitempty"`    // of the runtime, where the program asked for it
	Told     []string  `json:"told,omitempty"`       // what the runtime has told of the task
	InFlight int       `json:"in_flight"`            // tasks that had not ended for certain
	Suspects []Suspect `json:"suspects"`             // the likeliest first
	More     int       `json:"more,omitempty"`       // further tasks in flight, which are not listed
	Failed   int       `json:"failed_calls"`         // calls that failed, in all processes
	History  []Touched `json:"history,omitempty"`    // of the memory that the first suspect was given
	Died     []Died    `json:"died,omitempty"`       // processes that a signal has ended
	Lost     uint64    `json:"lost_calls,omitempty"` // that are missing from the trace before the failure
	Unknown  []string  `json:"unknown,omitempty"`    // what would have to be known for more
}

// Touched is the life of an allocation up to the failure.
type Touched struct {
	Place    Place    `json:"place"`
	Accesses []Access `json:"accesses"`         // the latest, in order
	Before   int      `json:"before,omitempty"` // further ones before them
}

// ErrNothingFailed is returned for a trace in which nothing failed, when the options name nothing either.
var ErrNothingFailed = errors.New("no call failed and none is unfinished; --call or --task names what to look at")

const (
	maxFlight   = 1 << 16 // tasks in flight whose arguments are looked at, the oldest
	maxSuspects = 5
)

// What speaks how much against a suspect.
const (
	certain    = 1000 // it is the one
	sameKernel = 200
	sameMemory = 150 // as an address that was told
	freed      = 120 // before the call
	beyond     = 110 // the end of an allocation
	freedLater = 100
	waits      = 80 // the stream waits there, and the failure is a wait without end
	freedOrEnd = 60 // or where a live allocation ends
	nowhere    = 30 // an address in no allocation
	unreturned = 25
	listed     = nowhere // what is listed with its arguments though others are likelier
)

// Blame finds the task that made a trace's first device error, or what the options name.
func Blame(r *format.Reader, m *api.Model, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	meta := r.Meta()
	b := &blamer{r: r, m: m, o: o, rep: &Report{Trace: r.Path(), Host: meta.Host, Argv: meta.Argv, Acltrace: meta.Tracer.Version,
		Runtime: meta.Device.Runtime, Driver: meta.Device.DriverVersion, Device: meta.Device.Name, Begun: meta.StartWall}, stacks: newStacks(r)}
	if err := b.died(); err != nil {
		return nil, err
	}
	if err := b.find(); err != nil {
		return nil, err
	}
	if err := b.hear(); err != nil {
		return nil, err
	}
	if err := b.flight(); err != nil {
		return nil, err
	}
	if err := b.arguments(); err != nil {
		return nil, err
	}
	if err := b.judge(); err != nil {
		return nil, err
	}
	if err := b.past(); err != nil {
		return nil, err
	}
	b.rep.Scope = r.Completeness().Scope()
	return b.rep, b.stacks.of(b.rep.calls())
}

// calls are those that the report names with the stack that they were made from.
func (rep *Report) calls() []*Call {
	calls := []*Call{rep.Failure}
	for i := range rep.Suspects {
		calls = append(calls, &rep.Suspects[i].Call)
	}
	for i := range rep.History {
		calls = append(calls, rep.History[i].Place.Made, rep.History[i].Place.Ended)
	}
	return calls
}

type blamer struct {
	r        *format.Reader
	m        *api.Model
	o        *Options
	rep      *Report
	failure  *format.Call // nil where only a task is named
	process  uint32       // of the failure
	until    int64        // what begins later is of no interest
	told     told
	suspects map[uint64]*Suspect // by call
	memory   memory
	stacks   *stacks
}

// find finds the call that failed.
func (b *blamer) find() error {
	if b.o.Call != nil {
		c, err := b.r.Call(*b.o.Call)
		if err != nil {
			return err
		}
		return b.failed(c)
	}
	if b.o.Task != nil {
		b.told.task = b.o.Task
		b.until = math.MaxInt64
	}
	var unfinished, wrong, fault *format.Call
	for c, err := range b.r.Calls(&format.Filter{NoArgs: true, NoData: true}) {
		if err != nil {
			return err
		}
		f := b.m.Func(api.ID(c.Func))
		switch {
		case c.Flags&format.Unfinished != 0:
			if f != nil && (unfinished == nil || c.End >= unfinished.End) {
				unfinished = c.Clone()
			}
		case f == nil || !f.Failed(c.Ret):
		default:
			b.rep.Failed++
			if fault == nil && b.m.DeviceFault(int32(c.Ret)) {
				fault = c.Clone()
			}
			if wrong == nil {
				wrong = c.Clone()
			}
		}
	}
	switch {
	case fault != nil:
		return b.failed(fault)
	case unfinished != nil:
		return b.failed(unfinished)
	case wrong != nil && b.o.Task == nil:
		return b.failed(wrong)
	case b.o.Task == nil:
		if d := b.rep.Died; len(d) > 0 {
			return fmt.Errorf("%s: %w; but %s", b.r.Path(), ErrNothingFailed, &d[0])
		}
		return fmt.Errorf("%s: %w", b.r.Path(), ErrNothingFailed)
	}
	return nil
}

func (b *blamer) failed(c *format.Call) error {
	b.failure, b.until, b.process = c, c.End, process(b.r, c)
	if c.Flags&format.Unfinished != 0 {
		b.until = math.MaxInt64
	}
	for _, g := range b.r.Gaps() {
		if g.From <= c.End {
			b.rep.Lost += g.Calls
		}
	}
	return nil
}

// flight finds the tasks that had not ended for certain when the failure showed.
func (b *blamer) flight() error {
	b.suspects = map[uint64]*Suspect{}
	if found, err := b.named(); err != nil {
		return err
	} else if !found && !b.itself() {
		b.suspects[b.failure.Index] = &Suspect{ends: math.MaxInt64, Certain: true, score: certain, Reasons: []string{"the call itself returned the error"}}
	}
	calls := map[int]uint64{}
	over := false
	w, err := timeline.NewWalk(b.r, b.m, &timeline.WalkOptions{NoSteps: true})
	if err != nil {
		return err
	}
	err = w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			over = over || h.Start > b.until
			if k != nil && !over && k.Process == b.process {
				calls[h.Task] = h.Index
			}
			return nil
		},
		Task: func(k *timeline.Task) error {
			if call, ok := calls[k.Index]; ok && (b.failure == nil || !over && k.To <= b.failure.Start) {
				if x := b.suspects[call]; x != nil {
					x.ends = k.To
				}
				delete(calls, k.Index)
			}
			return nil
		},
	})
	if err != nil || b.failure == nil {
		return err
	}
	b.rep.InFlight = len(calls)
	if len(b.suspects) > 0 && b.failure.Flags&format.Unfinished == 0 {
		return nil // the guilty one is known
	}
	oldest := slices.Sorted(maps.Keys(calls))
	if len(oldest) > maxFlight {
		b.rep.Unknown = append(b.rep.Unknown, fmt.Sprintf("only the oldest %d of %d tasks in flight were looked at", maxFlight, len(oldest)))
		oldest = oldest[:maxFlight]
	}
	for _, task := range oldest {
		if b.suspects[calls[task]] == nil {
			b.suspects[calls[task]] = &Suspect{ends: math.MaxInt64}
		}
	}
	return nil
}

// named takes the call whose task was named, by the runtime or by the user.
func (b *blamer) named() (bool, error) {
	id := b.told.task
	if id == nil {
		return false, nil
	}
	found := false
	for c, err := range b.r.Calls(&format.Filter{Task: id, NoArgs: true, NoData: true}) {
		if err != nil {
			return false, err
		}
		if b.failure == nil {
			b.process = process(b.r, c)
		}
		if process(b.r, c) == b.process && c.Start <= b.until {
			found = true
			b.suspects[c.Index] = &Suspect{ends: math.MaxInt64, Certain: true, Reasons: []string{b.told.how}, score: certain}
		}
	}
	switch {
	case found:
	case b.o.Task != nil:
		return false, fmt.Errorf("%s: no call of the trace has made task %d of stream %d", b.r.Path(), id.Task, id.Stream)
	default:
		b.rep.Unknown = append(b.rep.Unknown, fmt.Sprintf("the call that made task %d of stream %d is not in the trace", id.Task, id.Stream))
	}
	return found, nil
}

// itself reports whether the failed call may have had its error from a task.
func (b *blamer) itself() bool {
	if b.failure.Flags&format.Unfinished != 0 {
		b.suspects[b.failure.Index] = &Suspect{ends: math.MaxInt64, score: unreturned, Reasons: []string{"the trace ends while the call runs"}}
		return true
	}
	return b.m.DeviceFault(int32(b.failure.Ret))
}

// arguments looks up what the suspects were given.
func (b *blamer) arguments() error {
	s := timeline.NewState(b.m).Read(b.r)
	if err := s.Follow(b.r); err != nil {
		return err
	}
	ts := timeline.NewTouches(s, b.r)
	for c, err := range b.r.CallsByStart(&format.Filter{To: after(b.until)}) {
		if err != nil {
			return err
		}
		p := process(b.r, c)
		b.stacks.see(p, c)
		e := s.Apply(p, c)
		touches, all := ts.Of(e)
		b.memory.see(e)
		if b.failure != nil && c.Index == b.failure.Index {
			b.rep.Failure = describe(b.r, b.m, e)
		}
		x := b.suspects[c.Index]
		if x == nil {
			continue
		}
		x.Call, x.Partly, x.stream = *describe(b.r, b.m, e), !all, e.Stream
		if e.Fn != nil && e.Fn.Task == api.Wait {
			x.waits = b.waitsFor(e, touches)
		}
		if b.failure != nil && c.Index == b.failure.Index {
			x.gone = b.memory.gone(p, e)
		}
		for _, t := range touches {
			k := touched{Touch: t}
			o, at, ok := s.FindEnd(p, t.Addr)
			if !ok || at > 0 && at == o.Size { // what begins there may be meant, though it is gone
				k.object = b.memory.former(p, t.Addr)
			}
			switch {
			case k.object != nil:
				k.dead, k.end = true, o
			case ok:
				k.object = o
			case t.Kind == timeline.Names && (t.Addr < b.m.Device.From || t.Addr >= b.m.Device.To) && !slices.Contains(b.told.addrs, t.Addr):
				continue // a number
			}
			x.touches = append(x.touches, k)
		}
	}
	return nil
}

// judge orders the suspects by what speaks against them.
func (b *blamer) judge() error {
	var waited *timeline.Object
	var list []*Suspect
	if b.failure != nil {
		if f := b.m.Func(api.ID(b.failure.Func)); f != nil && f.Sync == api.SyncStream {
			waited = b.waited()
		}
	}
	for _, x := range b.suspects {
		if x.Func == "" {
			continue // behind the failure
		}
		if err := b.weigh(x, waited); err != nil {
			return err
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y *Suspect) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.Start, y.Start), cmp.Compare(x.Index, y.Index))
	})
	for _, x := range list {
		if len(b.rep.Suspects) == maxSuspects || len(b.rep.Suspects) > 0 && b.rep.Suspects[0].score >= listed && (x.Unlikely() || b.rep.Suspects[0].Certain) {
			b.rep.More++
			continue
		}
		b.rep.Suspects = append(b.rep.Suspects, *x)
	}
	return nil
}

// waitFailed reports whether the failure is a wait of the host that took too long or never returned.
func (b *blamer) waitFailed() bool {
	if b.failure == nil {
		return false
	}
	f := b.m.Func(api.ID(b.failure.Func))
	return f != nil && f.Sync != api.NoSync
}

// waitsFor describes what the task of a call waits for.
func (b *blamer) waitsFor(e *timeline.Event, touches []timeline.Touch) string {
	for _, u := range e.Uses {
		if o := u.Object; o.Kind == api.Event || o.Kind == api.Notify || o.Kind == api.Counter {
			what := timeline.Place(u)
			if by, ok := b.memory.recorded[o]; ok {
				return fmt.Sprintf("%s, recorded last by call %d on %s", what, by.call, by.stream)
			}
			return what + ", which no call had recorded"
		}
	}
	for _, t := range touches {
		if t.Self {
			return fmt.Sprintf("a value at %#x", t.Addr)
		}
	}
	return "another stream"
}

// waited is the stream that the failed synchronization has waited for, nil for a default one.
func (b *blamer) waited() *timeline.Object {
	f := b.m.Func(api.ID(b.failure.Func))
	if f.Stream < 0 || b.rep.Failure == nil {
		return nil
	}
	for _, x := range b.suspects {
		if x.stream != nil && timeline.Place(timeline.Use{Object: x.stream}) == b.rep.Failure.Stream {
			return x.stream
		}
	}
	return nil
}

// weigh gathers what speaks against a suspect.
func (b *blamer) weigh(x *Suspect, waited *timeline.Object) error {
	against := func(score int, format string, a ...any) {
		x.score += score
		x.Reasons = append(x.Reasons, fmt.Sprintf(format, a...))
	}
	if x.Kernel != "" && (x.Kernel == b.told.kernel || b.told.kernel == "" && mentions(b.rep.Message, x.Kernel)) {
		against(sameKernel, "the runtime's message names its kernel")
	}
	if x.waits != "" && b.waitFailed() && !x.Certain {
		against(waits, "its stream waits there for %s", x.waits)
	}
	for _, g := range x.gone {
		p, err := b.place(g.object, g.object.Handle)
		if err != nil {
			return err
		}
		against(0, "its %s is %s (%s), which call %d (%s) had ended on thread %d at %s", g.param, p.Object, p.Addr, p.Ended.Index, p.Ended.Func, p.Ended.TID, human.Moment(p.Ended.Start))
	}
	if waited != nil && x.stream == waited {
		x.score++ // the failed synchronization has waited for it
	}
	for _, t := range x.touches {
		p, err := b.place(t.object, t.Addr)
		if err != nil {
			return err
		}
		a := Argument{Param: b.param(x, t.Param), Where: word(b.param(x, t.Param), &t.Touch), Value: Hex(t.Addr), How: t.Kind.String(), Place: p}
		switch {
		case p == nil:
			a.Note = "in no allocation that the trace knows"
			against(nowhere, "%s is an address in no allocation that the trace knows", a.Where)
		case t.dead:
			a.Note = fmt.Sprintf("freed before the call began, by call %d", p.Ended.Index)
			if t.end != nil {
				against(freedOrEnd, "%s lies in %s, which call %d (%s) had freed before, if it does not mean the end of %s", a.Where, p.Object, p.Ended.Index, p.Ended.Func, timeline.Place(timeline.Use{Object: t.end}))
			} else {
				against(freed, "%s lies in %s, which call %d (%s) had freed before", a.Where, p.Object, p.Ended.Index, p.Ended.Func)
			}
		case p.Ended != nil && p.Ended.Start >= x.Start && p.Ended.Start <= min(b.until, x.ends) && (b.failure == nil || p.Ended.Index != b.failure.Index):
			a.Note = fmt.Sprintf("freed while the task may have run, by call %d", p.Ended.Index)
			against(freedLater, "%s lies in %s, which call %d (%s) freed before anything showed that the task had ended", a.Where, p.Object, p.Ended.Index, p.Ended.Func)
		case p.Offset == p.Size:
			a.Note = "one past the end"
		case t.Size > p.Size-p.Offset:
			a.Note = fmt.Sprintf("reaches %d bytes beyond the end", t.Size-(p.Size-p.Offset))
			against(beyond, "%s reaches %d bytes beyond the end of %s", a.Where, t.Size-(p.Size-p.Offset), p.Object)
		}
		for _, addr := range b.told.addrs {
			if p != nil && !t.object.Kind.OnHost() && addr >= t.object.Handle && addr-t.object.Handle < t.object.Size {
				against(sameMemory, "%s lies in %s, as does %#x, which the message names", a.Where, p.Object, addr)
			} else if addr == t.Addr {
				against(sameMemory, "%s is the address %#x, which the message names", a.Where, addr)
			}
		}
		x.Arguments = append(x.Arguments, a)
	}
	return nil
}

// word names the place of an address among the arguments.
func word(param string, t *timeline.Touch) string {
	switch {
	case t.Self:
		return param
	case t.Item == 0:
		return fmt.Sprintf("the word at byte %d of %s", t.At, param)
	}
	return fmt.Sprintf("the word at byte %d of item %d of %s", t.At, t.Item, param)
}

func (b *blamer) param(x *Suspect, i int) string {
	if f := b.m.Lookup(x.Func); f != nil && i < len(f.Params) {
		return f.Params[i].Name
	}
	return fmt.Sprintf("parameter %d", i)
}

// past adds the history of the memory that the first suspect was given.
func (b *blamer) past() error {
	if len(b.rep.Suspects) == 0 {
		return nil
	}
	x := &b.rep.Suspects[0]
	var targets []*timeline.Object
	slices.SortStableFunc(x.touches, func(a, b touched) int { return cmp.Compare(ended(b.object), ended(a.object)) }) // what is gone comes first
	for _, t := range x.touches {
		if t.object != nil && !t.object.Kind.OnHost() && !slices.Contains(targets, t.object) {
			targets = append(targets, t.object)
		}
	}
	h, err := follow(b.r, b.m, targets, b.until, b.o.History)
	if err != nil {
		return err
	}
	for i, o := range targets {
		p, err := b.place(o, o.Handle)
		if err != nil {
			return err
		}
		h[i].Place = *p
		b.rep.History = append(b.rep.History, h[i])
	}
	return nil
}

func ended(o *timeline.Object) int {
	if o != nil && o.Ended != timeline.NoCall {
		return 1
	}
	return 0
}

// place describes where an address lies, nil for nowhere.
func (b *blamer) place(o *timeline.Object, addr uint64) (*Place, error) {
	return placeOf(b.r, b.m, o, addr)
}

func placeOf(r *format.Reader, m *api.Model, o *timeline.Object, addr uint64) (*Place, error) {
	if o == nil {
		return nil, nil
	}
	p := &Place{Object: timeline.Place(timeline.Use{Object: o}), Addr: Hex(o.Handle), Size: o.Size, Offset: addr - o.Handle, object: o}
	for _, x := range []struct {
		call uint64
		to   **Call
	}{{o.Created, &p.Made}, {o.Ended, &p.Ended}} {
		if x.call == timeline.NoCall {
			continue
		}
		c, err := r.Call(x.call)
		if err != nil {
			return nil, err
		}
		*x.to = describe(r, m, &timeline.Event{Call: c, Fn: m.Func(api.ID(c.Func))})
	}
	return p, nil
}

// describe tells a call.
func describe(r *format.Reader, m *api.Model, e *timeline.Event) *Call {
	c := e.Call
	d := &Call{Index: c.Index, Func: r.Schema().FuncName(c.Func), Kernel: e.Kernel, Start: c.Start, End: c.End, Blocks: timeline.Blocks(e)}
	if th := r.Threads(); int(c.Thread) < len(th) {
		d.TID = th[c.Thread].TID
		if ps := r.Processes(); int(th[c.Thread].Process) < len(ps) {
			d.PID = ps[th[c.Thread].Process].PID
		}
	}
	if e.Stream != nil {
		d.Stream = timeline.Place(timeline.Use{Object: e.Stream})
	}
	if e.Fn != nil && e.Fn.RetError && c.Ret&math.MaxUint32 != 0 && c.Flags&format.Unfinished == 0 {
		d.Error = fmt.Sprintf("%s (%d)", m.ErrorName(int64(int32(c.Ret))), int32(c.Ret))
	}
	if stream, task, ok := e.TaskID(); ok {
		d.Task = &format.TaskID{Stream: stream, Task: task}
	}
	return d
}

// process is the number of a call's process.
func process(r *format.Reader, c *format.Call) uint32 {
	if th := r.Threads(); int(c.Thread) < len(th) {
		return th[c.Thread].Process
	}
	return 0
}

// after is the bound of a Filter that takes in what starts at a moment.
func after(t int64) int64 {
	if t == math.MaxInt64 {
		return 0
	}
	return t + 1
}
