// Package blame explains a failure on the device: the launch that caused it, the launch's memory, and the calls that
// allocated, wrote and freed that memory.
//
// Blame starts from a failed call, or from task ids or an address in a log. Where and MapAt look up memory at any
// moment. Each reads the trace several times from its beginning to the moment in question, and keeps live objects and
// recently ended ones. cmd/acltrace calls them, and package report prints the findings. The package never claims more
// than the trace shows: each suspicion has its reasons, and Unknown lists missing facts.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package blame

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	faults "github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
	"github.com/acltrace/acltrace/timeline/operator"
)

// Options name the failure, if the trace shows none or several. nil means what find chooses.
type Options struct {
	Call    *uint64        // the call that failed
	Task    *format.TaskID // the task that failed, as in a log
	Addr    uint64         // the address at which it failed, as in a log; 0 for none
	History int            // calls listed for each allocation, 0 for 8
}

// A Call identifies a recorded call.
type Call struct {
	Index  uint64 `json:"call"`             // call number
	Func   string `json:"func"`             // function
	Kernel string `json:"kernel,omitempty"` // name of the launched kernel
	Operator
	PID    int            `json:"pid"`                 // process id
	TID    int            `json:"tid"`                 // thread id
	Start  int64          `json:"start_ns"`            // start of the call
	End    int64          `json:"end_ns"`              // end of the call, for an unfinished one the last known time
	Error  string         `json:"error,omitempty"`     // name and number of the returned error
	Stream string         `json:"stream,omitempty"`    // stream, as in stream#3
	Task   *format.TaskID `json:"task,omitempty"`      // the runtime's ids of the task
	Blocks uint32         `json:"block_dim,omitempty"` // number of blocks of a launch
	Stack  []string       `json:"stack,omitempty"`     // innermost frame first, if the recording kept stacks
}

// An Operator is the outermost operator in which a thread makes a call.
type Operator struct {
	Operator string `json:"operator,omitempty"`       // the outermost operator around the call
	Phase    string `json:"operator_phase,omitempty"` // phase of the operator: "phase one" takes the arguments, "phase two" launches
}

// operatorOf returns the operator of a call.
func operatorOf(name string, phase operator.Phase) Operator {
	if name == "" {
		return Operator{}
	}
	return Operator{name, phase.String()}
}

// A Place locates an address in an allocation.
type Place struct {
	Object string `json:"object"`          // kind and number of the allocation, as in device#5
	Addr   Hex    `json:"addr"`            // first byte of the allocation
	Size   uint64 `json:"size"`            // size of the allocation in bytes
	Offset uint64 `json:"offset"`          // offset in the allocation
	Made   *Call  `json:"made,omitempty"`  // call that allocated it; nil: before the trace began
	Ended  *Call  `json:"ended,omitempty"` // call that freed it; nil: never in the trace
}

// Hex is a number in hexadecimal.
type Hex uint64

func (h Hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(h)), nil }

func (h Hex) String() string { return fmt.Sprintf("%#x", uint64(h)) }

// An Argument is an address that a suspect was given.
type Argument struct {
	Param   string  `json:"param"` // parameter name
	Word    Word    `json:"-"`
	Value   Hex     `json:"value"`           // the address
	How     string  `json:"how"`             // reads, writes or names
	Place   *Place  `json:"place,omitempty"` // allocation at the address; nil: no known one
	Finding Finding `json:"-"`
	Beyond  uint64  `json:"-"` // bytes
	End     string  `json:"-"` // live allocation that ends at the address, "" for none
}

// A Suspect is a call whose task may have failed.
type Suspect struct {
	Call
	Certain   bool       `json:"certain"` // named by the runtime, or the call itself failed
	Reasons   []Reason   `json:"-"`
	Arguments []Argument `json:"-"`
	Partly    bool       `json:"arguments_partly_unknown,omitempty"` // not all arguments of the kernel are known

	score    int
	stream   *timeline.Object
	ends     int64 // latest possible task end, if that is before the failure
	accesses []accessed
	waits    *Wait       // nil for none,
	on       signal      // and its signal
	inside   *graphWaits // of the graph that it runs, nil for none
	gone     []gone
	graph    string // that it runs, "" for none
	exceeded []Exceeded
	words    []worded // arguments of a kernel
}

// Unlikely reports whether the suspect's only evidence is that its task was in flight.
func (x *Suspect) Unlikely() bool { return x.score < listed }

// gone is a parameter whose object had ended before the call.
type gone struct {
	param  string
	object *timeline.Object
}

// accessed is an Access with the allocation at its address when the call began.
type accessed struct {
	access.Access
	object *timeline.Object
	dead   bool             // object had been freed by then
	host   bool             // memory of the program, which no call allocates
	end    *timeline.Object // live allocation that ends at this address
}

// Report has Blame's findings. Package report adds texts for the fields without JSON.
type Report struct {
	Trace string `json:"trace"` // file of the trace
	format.Scope
	Origin
	Failure   *Call     `json:"failure,omitempty"`       // the failed call, nil if only a task is known to have failed
	Forked    int       `json:"forked_from,omitempty"`   // the failed call's process was forked from this one, which had called the runtime before; 0 if not
	Message   string    `json:"message,omitempty"`       // the runtime's message, if the program requested it
	Hints     []Hint    `json:"-"`                       // from the runtime or the user
	InFlight  int       `json:"in_flight"`               // tasks that may have been running at the failure
	Suspects  []Suspect `json:"-"`                       // most likely first
	More      int       `json:"more,omitempty"`          // tasks in flight that are not listed
	Held      *Held     `json:"held,omitempty"`          // memory in use, if the failed call is an allocation
	Survived  bool      `json:"survived,omitempty"`      // the program went on after each failed call: it ended by an error of its own, or well, and only allocations failed
	EndedWell bool      `json:"-"`                       // it survived and ended with exit code 0
	Answered  int       `json:"answered,omitempty"`      // questions that an error answered with no, and repeated initializations
	Failed    int       `json:"failed_calls"`            // failed calls in all processes, 0 if --call names the failure
	Before    int       `json:"failed_before,omitempty"` // of them before the failure
	Earlier   []Call    `json:"earlier,omitempty"`       // the latest of those
	Capture   *Capture  `json:"capture,omitempty"`       // capture that the failed call broke, nil for none
	Clues
	Cause   *Cause     `json:"-"`                 // earlier call that made the failed call invalid, nil if unknown
	History []Lifetime `json:"history,omitempty"` // allocations of the first suspect
	Died    []Died     `json:"died,omitempty"`    // processes killed by a signal
	// Behind are the ranks that called fewer collectives than others, if a wait never returned or timed out.
	Behind  []ranks.Behind `json:"behind,omitempty"`
	Lost    uint64         `json:"lost_calls,omitempty"` // missing calls before the failure, with those left out on request
	Unknown []Unknown      `json:"-"`                    // facts that are missing from the trace
}

// Origin describes what was recorded.
type Origin struct {
	Host     string   `json:"host"`                    // host name of the machine
	Argv     []string `json:"argv"`                    // command line of the first process
	Acltrace string   `json:"acltrace,omitempty"`      // version of the recorder
	Runtime  string   `json:"runtime,omitempty"`       // version of the runtime
	Driver   string   `json:"driver,omitempty"`        // version of the driver
	Device   string   `json:"device,omitempty"`        // name of the device
	Begun    int64    `json:"begun_wall_ns,omitempty"` // since 1970 UTC; call times count from here
}

// Clues are hints at what may be wrong, apart from the failure. All but Unwaited are given only if nothing failed, and Faults also if nothing else
// explains the failure.
type Clues struct {
	Unwaited  []Unwaited       `json:"unwaited,omitempty"`   // copies to the host without the usual wait
	Races     []Race           `json:"races,omitempty"`      // unordered accesses of two processes to memory that they share
	BareReads []BareRead       `json:"bare_reads,omitempty"` // reads of another process's memory without the usual wait
	Faults    []faults.Finding `json:"-"`                    // of captured graphs
	Odds      []OddLaunch      `json:"-"`                    // launches with odd arguments
	Cut       []Call           `json:"cut,omitempty"`        // calls during which the recording ended, longer than any other call of their function
	Asleep    []format.Asleep  `json:"asleep,omitempty"`     // threads that slept throughout the recording, perhaps in a call
}

// Lifetime is an allocation's life up to the failure.
type Lifetime struct {
	Place    Place    `json:"place"`            // the allocation
	Accesses []Access `json:"accesses"`         // the latest ones, in order
	Before   int      `json:"before,omitempty"` // number of earlier accesses
}

// ErrNothingFailed is returned if no call failed, no signal killed a process, the options name no failure, and there is no hint.
var ErrNothingFailed = errors.New("no call failed and none is known to hang")

const (
	maxFlight   = 1 << 16 // tasks in flight whose arguments are read, the oldest ones
	maxSuspects = 5
)

// Scores for evidence against a suspect. The highest sum is listed first.
const (
	certain     = 1000 // the runtime named it
	sameKernel  = 200
	sameMemory  = 150 // as an address in the runtime's message
	freed       = 120 // before the call
	beyond      = 110 // past an allocation's end
	freedLater  = 100
	waits       = 80 // its stream waits there, and the host's wait failed
	unlike      = 90 // no address in its place, unlike other launches of the kernel
	function    = 75 // the program's, which may not have returned
	waitsBehind = 70 // waits for a record that is behind another wait
	// waitsRunning is for a wait for a record that may run soon: nothing before it waits.
	waitsRunning = 65
	freedOrEnd   = 60 // freed, or one past a live allocation
	faulty       = 40 // it runs a graph with a fault
	oddNumber    = 35 // another number than in other launches of the kernel
	nowhere      = 30 // address in no allocation
	unreturned   = 25
	listed       = nowhere // least score of a suspect that is listed beside likelier ones
)

// Blame finds the task that caused the first device error, or the failure that the options name.
func Blame(r *format.Reader, m *api.Model, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	meta := r.Meta()
	b := &blamer{r: r, m: m, o: o, rep: &Report{Trace: r.Path(), Origin: Origin{Host: meta.Host, Argv: meta.Argv, Acltrace: meta.Tracer.Version,
		Runtime: meta.Device.Runtime, Driver: meta.Device.DriverVersion, Device: meta.Device.Name, Begun: meta.StartWall}}, habits: habits{}, stacks: newStacks(r),
		wanted: map[uint64][]*Call{}, signals: signals{}, graphs: graphs{}, causes: newCauses(m), sharing: newSharing()}
	for _, step := range []func() error{b.died, b.find, b.behind, b.parseReport, b.flight, b.unwaited, b.graphFaults, b.arguments, b.judge, b.past, b.races, b.hints} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	b.rep.Scope = r.Completeness().Scope()
	return b.rep, b.stacks.of(b.rep.calls())
}

// calls returns the calls that the report prints with their stacks.
func (rep *Report) calls() []*Call {
	calls := []*Call{rep.Failure}
	if rep.Capture != nil {
		calls = append(calls, &rep.Capture.Begin)
	}
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
	failure  *format.Call // nil if only a task is named
	process  uint32       // of the failed call
	until    int64        // calls that begin later are ignored
	evidence evidence
	suspects map[uint64]*Suspect // by call
	memory   memory
	habits   habits
	signals  signals
	graphs   graphs
	causes   causes
	sharing  sharing
	unfailed bool               // nothing failed: look for races and odd arguments
	wanted   map[uint64][]*Call // described when their calls are read
	stacks   *stacks
}

// flight finds the tasks that may have been running at the failure.
func (b *blamer) flight() error {
	b.suspects = map[uint64]*Suspect{}
	if b.failure == nil && b.evidence.task == nil {
		return nil // a signal killed a process, and no call failed
	}
	if found, err := b.named(); err != nil {
		return err
	} else if !found && !b.itself() {
		b.suspects[b.failure.Index] = &Suspect{ends: math.MaxInt64, Certain: true, score: certain, Reasons: []Reason{{Kind: SelfFailed}}}
	}
	calls := map[int]uint64{}
	over := false
	w := timeline.NewWalk(b.r, b.m, nil)
	err := w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			over = over || h.Start > b.until
			if k != nil && !over && k.Process == b.process {
				calls[h.Task] = h.Index
			}
			return nil
		},
		Task: func(k *timeline.Task) error {
			if call, ok := calls[k.Index]; ok && (b.failure == nil || !over && b.ended(k)) {
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
	if stands := b.failure.Flags&format.Unfinished != 0; len(b.suspects) > 0 && !stands {
		return nil // the failed task is known
	} else if stands && b.waitFailed() && len(calls) > 0 {
		delete(b.suspects, b.failure.Index) // it waits for one of them
	}
	oldest := slices.Sorted(maps.Keys(calls))
	if len(oldest) > maxFlight {
		b.rep.Unknown = append(b.rep.Unknown, Unknown{Examined: maxFlight, InFlight: len(oldest)})
		oldest = oldest[:maxFlight]
	}
	for _, task := range oldest {
		if b.suspects[calls[task]] == nil {
			b.suspects[calls[task]] = &Suspect{ends: math.MaxInt64}
		}
	}
	return nil
}

// ended reports whether a task had certainly ended before the failure. A call that never returned may wait for any task without an end.
func (b *blamer) ended(k *timeline.Task) bool {
	switch {
	case k.Open:
		return false
	case b.failure.Flags&format.Unfinished != 0 || k.Fn.Stream < 0:
		return true // for a call without a stream: it returned success
	}
	return k.To <= b.failure.Start
}

// named finds the call whose task the runtime or the user named.
func (b *blamer) named() (bool, error) {
	id := b.evidence.task
	if id == nil {
		return false, nil
	}
	found := false
	for c, err := range b.r.Calls(&format.Filter{Task: id, NoArgs: true, NoData: true}) {
		if err != nil {
			return false, err
		}
		if b.failure == nil {
			b.process = b.r.ProcessOf(c.Thread)
		}
		if b.r.ProcessOf(c.Thread) == b.process && c.Start <= b.until {
			found = true
			b.suspects[c.Index] = &Suspect{ends: math.MaxInt64, Certain: true, Reasons: []Reason{{Kind: TaskNamed, Source: b.evidence.source}}, score: certain}
		}
	}
	switch {
	case found:
	case b.o.Task != nil:
		return false, fmt.Errorf("%s: no call of the trace has made task %d of stream %d", b.r.Path(), id.Task, id.Stream)
	default:
		b.rep.Unknown = append(b.rep.Unknown, Unknown{Task: id})
	}
	return found, nil
}

// itself reports whether the failed call may have returned a task's error.
func (b *blamer) itself() bool {
	if b.failure.Flags&format.Unfinished != 0 {
		b.suspects[b.failure.Index] = &Suspect{ends: math.MaxInt64, score: unreturned, Reasons: []Reason{{Kind: Unreturned}}}
		return true
	}
	switch b.m.ErrorClass(int32(b.failure.Ret)) {
	case api.DeviceFault:
		return true
	case api.TimedOut:
		return b.waitFailed()
	}
	// A wait also returns an error that the call of its task would return, such as the end of the process that should record a notify.
	r := b.m.Classes.FaultRange
	return b.waitFailed() && int32(b.failure.Ret) >= r[0] && int32(b.failure.Ret) <= r[1]
}

// arguments resolves the addresses among the suspects' arguments.
func (b *blamer) arguments() error {
	b.want()
	ts, err := access.New(b.r, b.m, nil)
	if err != nil {
		return err
	}
	for c, err := range b.r.CallsByStart(&format.Filter{To: after(b.until)}) {
		if err != nil {
			return err
		}
		p := b.r.ProcessOf(c.Thread)
		b.stacks.see(p, c)
		q := ts.Apply(p, c)
		e := q.Event
		accesses, all := q.Addresses()
		b.memory.see(e)
		words := b.habits.see(b.m, ts.State, e)
		b.habits.member(e, accesses)
		b.signals.see(e, accesses)
		b.graphs.see(e, accesses, ts.State)
		if b.unfailed {
			b.sharing.see(b.r, b.m, ts.State, e, accesses)
		}
		b.captured(e, e.Kernel, accesses, ts.State)
		b.causes.see(ts.State, e)
		for _, to := range b.wanted[c.Index] {
			*to = *describe(b.r, b.m, e)
		}
		if b.failure != nil && c.Index == b.failure.Index {
			b.rep.Failure, b.rep.Forked = describe(b.r, b.m, e), b.forkedFrom(c.Thread)
			if b.rep.Held, err = held(b.r, b.m, ts.State, e); err != nil {
				return err
			}
			if b.rep.Cause, err = b.causes.of(b.r, ts.State, e); err != nil {
				return err
			}
		}
		x := b.suspects[c.Index]
		if x == nil {
			continue
		}
		x.Call, x.stream, x.words = *describe(b.r, b.m, e), e.Stream, words
		x.Partly = !all && (e.Fn == nil || e.Fn.Task != api.Wait) // the value for which a task waits is no argument
		switch {
		case e.Fn == nil || e.Captured != nil:
		case e.Fn.Task == api.Wait:
			g, _ := signalOf(e, accesses)
			x.on, x.waits = g, b.signals.wait(g)
		case e.Fn.Task == api.GraphRun:
			x.inside = b.graphs.of(e)
			if o := e.Object(api.Graph); o != nil {
				x.graph = objectName(o)
			}
		}
		if b.failure != nil && c.Index == b.failure.Index {
			x.gone, x.exceeded = b.memory.gone(e), b.exceeded(e)
		}
		for _, t := range accesses {
			k := accessed{Access: t}
			o, at, ok := ts.State.FindEnd(p, t.Addr)
			if !ok || at > 0 && at == o.Size { // an address at the end may also mean a freed allocation that began there
				k.object = b.memory.former(p, t.Addr)
			}
			switch {
			case k.object != nil:
				k.dead, k.end = true, o
			case ok:
				k.object = o
			case b.ofProgram(e, &t):
				k.host = true
			case t.Kind == access.Names && (t.Addr < b.m.Device.From || t.Addr >= b.m.Device.To) && !slices.Contains(b.evidence.addrs, t.Addr):
				continue // a number, not an address
			}
			x.accesses = append(x.accesses, k)
		}
	}
	return nil
}

// ofProgram reports whether a copy accesses memory that is not the driver's. The program may have got it without a call of the runtime.
func (b *blamer) ofProgram(e *timeline.Event, t *access.Access) bool {
	switch d := b.m.Device; {
	case e.Fn.Task != api.Copy || t.Kind == access.Names:
		return false
	case d.To != 0:
		return t.Addr < d.From || t.Addr >= d.To
	}
	if c, ok := e.CopyBlock(); ok {
		return t.Kind == access.Reads && c.From.Host || t.Kind == access.Writes && c.To.Host
	}
	return e.Fn.Params[t.Param].Object != api.Device
}

// exceeded returns the sizes among a call's arguments that exceed their capacities.
func (b *blamer) exceeded(e *timeline.Event) (out []Exceeded) {
	if e.Fn == nil || len(e.Call.Args) != int(e.Fn.Words) {
		return nil
	}
	for _, c := range b.m.Causes.Capacities {
		size, most := e.Fn.Param(c.Size), e.Fn.Param(c.Capacity)
		if size < 0 || most < 0 || e.Fn.Params[size].Role != api.Value || e.Fn.Params[most].Role != api.Value {
			continue
		}
		if x := (Exceeded{c.Size, c.Capacity, e.Call.Args[e.Fn.Params[size].Word], e.Call.Args[e.Fn.Params[most].Word]}); x.Value > x.Most {
			out = append(out, x)
		}
	}
	return out
}

// judge orders the suspects by their scores.
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
			continue // after the failure
		}
		if err := b.weigh(x, waited); err != nil {
			return err
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y *Suspect) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.Start, y.Start), cmp.Compare(x.Index, y.Index))
	})
	seen := map[uint64]bool{} // captured waits
	for _, x := range list {
		if len(x.Reasons) == 1 && x.Reasons[0].Kind == Waiting && x.inside != nil {
			by := x.Reasons[0].Wait.By
			if seen[by] {
				b.rep.More++ // an earlier run of the graph waits for the same
				continue
			}
			seen[by] = true
		}
		if len(b.rep.Suspects) == maxSuspects || len(b.rep.Suspects) > 0 && b.rep.Suspects[0].score >= listed && (x.Unlikely() || b.rep.Suspects[0].Certain) {
			b.rep.More++
			continue
		}
		b.rep.Suspects = append(b.rep.Suspects, *x)
	}
	return nil
}

// waited returns the synchronized stream, nil for the default stream.
func (b *blamer) waited() *timeline.Object {
	f := b.m.Func(api.ID(b.failure.Func))
	if f.Stream < 0 || b.rep.Failure == nil {
		return nil
	}
	for _, x := range b.suspects {
		if x.stream != nil && objectName(x.stream) == b.rep.Failure.Stream {
			return x.stream
		}
	}
	return nil
}

// weigh adds up the evidence against a suspect.
func (b *blamer) weigh(x *Suspect, waited *timeline.Object) error {
	against := func(score int, r Reason) {
		x.score += score
		x.Reasons = append(x.Reasons, r)
	}
	if x.Kernel != "" && b.names(x.Kernel) {
		against(sameKernel, Reason{Kind: KernelNamed})
	}
	if x.inside != nil && x.inside.launch != nil {
		against(x.inside.score, *x.inside.launch)
	}
	if b.waitFailed() && !x.Certain && !b.faulted() {
		if wait, score := b.standing(x); wait != nil {
			against(score, Reason{Kind: Waiting, Wait: wait})
		}
		if f := b.m.Lookup(x.Func); f != nil && f.Task == api.HostFunc {
			against(function, Reason{Kind: RunsFunction})
		}
	}
	for _, f := range b.faulty(x) {
		score := faulty
		if f.Kind == faults.FreedMemory {
			score = freed
		}
		against(score, Reason{Kind: GraphFault, Fault: &f})
	}
	for _, g := range x.gone {
		p, err := placeOf(b.r, b.m, g.object, g.object.Handle)
		if err != nil {
			return err
		}
		against(0, Reason{Kind: ObjectEnded, Param: g.param, Place: p})
	}
	if waited != nil && x.stream == waited {
		x.score++ // the failed synchronization waited for its stream
	}
	for i := range x.exceeded {
		against(0, Reason{Kind: ExceedsCapacity, Exceeded: &x.exceeded[i]})
	}
	for _, odd := range b.habits.odd(x, b.param) {
		score := oddNumber
		if odd.Address {
			score = unlike
		}
		against(score, Reason{Kind: OddArgument, Odd: &odd})
	}
	for i, t := range x.accesses {
		p, err := placeOf(b.r, b.m, t.object, t.Addr)
		if err != nil {
			return err
		}
		a := Argument{Param: b.param(x, t.Param), Word: Word{t.Self, t.Item, t.At}, Value: Hex(t.Addr), How: t.Kind.String(), Place: p}
		score := 0
		switch {
		case t.host:
			a.Finding = ProgramMemory
		case p == nil:
			a.Finding, score = NoAllocation, nowhere
		case t.dead:
			a.Finding, score = FreedBefore, freed
			if t.end != nil {
				a.End, score = objectName(t.end), freedOrEnd
			}
		case p.Ended != nil && p.Ended.Start >= x.Start && p.Ended.Start <= min(b.until, x.ends) && (b.failure == nil || p.Ended.Index != b.failure.Index):
			a.Finding, score = FreedMeantime, freedLater
		case p.Offset == p.Size:
			a.Finding = PastEnd
		case t.Size > p.Size-p.Offset:
			a.Finding, a.Beyond, score = BeyondEnd, t.Size-(p.Size-p.Offset), beyond
		}
		if score > 0 {
			against(score, Reason{Kind: BadArgument, Argument: i})
		}
		for _, addr := range b.evidence.addrs {
			if p != nil && !t.object.Kind.OnHost() && addr >= t.object.Handle && addr-t.object.Handle < t.object.Size {
				against(sameMemory, Reason{Kind: SameMemory, Argument: i, Addr: Hex(addr)})
			} else if addr == t.Addr {
				against(sameMemory, Reason{Kind: SameAddress, Argument: i, Addr: Hex(addr)})
			}
		}
		x.Arguments = append(x.Arguments, a)
	}
	return nil
}

func (b *blamer) param(x *Suspect, i int) string {
	if f := b.m.Lookup(x.Func); f != nil && i < len(f.Params) {
		return f.Params[i].Name
	}
	return fmt.Sprintf("parameter %d", i)
}

// past adds the history of the first suspect's memory.
func (b *blamer) past() error {
	if len(b.rep.Suspects) == 0 {
		return nil
	}
	x := &b.rep.Suspects[0]
	var targets []*timeline.Object
	slices.SortStableFunc(x.accesses, func(a, b accessed) int { return cmp.Compare(ended(b.object), ended(a.object)) }) // freed memory first
	if x.inside.stands() {
		if w, _ := x.inside.oldest(b.signals); w.memory != nil {
			targets = append(targets, w.memory)
		}
	}
	for _, t := range x.accesses {
		if t.object != nil && !t.object.Kind.OnHost() && !slices.Contains(targets, t.object) {
			targets = append(targets, t.object)
		}
	}
	h, err := follow(b.r, b.m, targets, b.until, b.o.History)
	if err != nil {
		return err
	}
	for i, o := range targets {
		p, err := placeOf(b.r, b.m, o, o.Handle)
		if err != nil {
			return err
		}
		h[i].Place = *p
		b.rep.History = append(b.rep.History, h[i])
	}
	for _, r := range x.Reasons {
		if r.Wait != nil && r.Wait.Addr != 0 && !r.Wait.Recorded {
			r.Wait.written(b.m, b.rep.History)
		}
	}
	return nil
}

func ended(o *timeline.Object) int {
	if o != nil && o.Ended != timeline.NoCall {
		return 1
	}
	return 0
}

// placeOf locates an address, nil for no allocation.
func placeOf(r *format.Reader, m *api.Model, o *timeline.Object, addr uint64) (*Place, error) {
	if o == nil {
		return nil, nil
	}
	p := &Place{Object: objectName(o), Addr: Hex(o.Handle), Size: o.Size, Offset: addr - o.Handle}
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

// want lists the calls to describe when they are read.
func (b *blamer) want() {
	for i := range b.rep.Earlier {
		b.wanted[b.rep.Earlier[i].Index] = append(b.wanted[b.rep.Earlier[i].Index], &b.rep.Earlier[i])
	}
	if x := b.rep.Capture; x != nil {
		b.wanted[x.Begin.Index] = append(b.wanted[x.Begin.Index], &x.Begin)
	}
}

// forkedFrom returns the parent of a thread's process if it had called the runtime before the fork, otherwise 0.
func (b *blamer) forkedFrom(thread uint32) int {
	if ps, i := b.r.Processes(), int(b.r.ProcessOf(thread)); i < len(ps) {
		return ps[i].ForkedFrom
	}
	return 0
}

func describe(r *format.Reader, m *api.Model, e *timeline.Event) *Call {
	c := e.Call
	d := &Call{Index: c.Index, Func: r.Schema().FuncName(c.Func), Kernel: e.Kernel, Operator: operatorOf(e.Operator, e.Phase), Start: c.Start, End: c.End, Blocks: timeline.Blocks(e)}
	if th := r.Threads(); int(c.Thread) < len(th) {
		d.TID = th[c.Thread].TID
		if ps := r.Processes(); int(th[c.Thread].Process) < len(ps) {
			d.PID = ps[th[c.Thread].Process].PID
		}
	}
	if e.Stream != nil {
		d.Stream = objectName(e.Stream)
	}
	if e.Fn != nil && e.Fn.RetError && c.Ret&math.MaxUint32 != 0 && c.Flags&format.Unfinished == 0 {
		d.Error = fmt.Sprintf("%s (%d)", m.ErrorName(int64(int32(c.Ret))), int32(c.Ret))
	}
	if stream, task, ok := e.TaskID(); ok {
		d.Task = &format.TaskID{Stream: stream, Task: task}
	}
	return d
}

// after returns a Filter's upper bound that includes calls starting at t.
func after(t int64) int64 {
	if t == math.MaxInt64 {
		return 0
	}
	return t + 1
}
