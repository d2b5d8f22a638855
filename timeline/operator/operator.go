// Package operator follows the marks of operators through a trace, and says to which operator a call belongs.
//
// An operator of CANN has two phases: the first takes its arguments and makes an executor, the second launches the executor's kernels. The phases
// may be on different threads, and the executor joins them. A cached executor has only a second phase. Inside a phase, others nest: operators call inner operators,
// and other operators, each with both phases. The program's operator is the outermost one.
//
// A timeline.State has one Operators, and passes it the marks in the order of their moments. Reports and exporters get the parts and the owners of tasks from a
// timeline.Walk. The package reads no trace, and holds the open parts only: memory does not grow with the number of calls.
package operator

import (
	"strings"

	"github.com/acltrace/acltrace/api"
)

// A Mark is a call that begins or ends a part of an operator, see api.OperatorMark.
type Mark struct {
	Kind    api.OperatorMark
	Name    string // of the operator, "" for marks without one
	Process uint32
	Thread  uint32
	Call    uint64
	At      int64 // nanoseconds since the trace began
	// Executor is 0 if it is unknown. The end of a phase one has the executor that the phase made.
	Executor uint64
	// Operands is the caller's number for the arguments that the program made for a phase one, 0 if they are unknown.
	Operands int32
}

// Phase is a part of an operator.
type Phase uint8

// The parts of an operator.
const (
	One   Phase = iota + 1 // takes the arguments
	Two                    // launches
	Inner                  // an inner operator, of which an operator is made
)

var phases = [...]string{One: "phase one", Two: "phase two", Inner: "inner"}

func (p Phase) String() string { return phases[p] }

// A Part is a phase of an operator, or an inner operator, on one thread.
type Part struct {
	Name     string
	Phase    Phase
	Process  uint32
	Thread   uint32
	From, To int64  // nanoseconds since the trace began; To is known at the end
	Call     uint64 // its first mark
	Depth    int    // number of parts around it
	Executor uint64 // 0 if it is unknown
	Open     bool   // To is the end of the trace: the trace shows no end
	// One is the call that begins the phase one of a phase two, NoCall if the trace has none: the executor comes from a cache.
	One uint64
	// Operands is that of its phase one, or of the kept executor.
	Operands int32
	// Preparer is the thread of the phase one of a phase two, -1 if it is unknown. For a cached executor it is the thread that found it, if the trace shows that.
	// Otherwise it is the only thread that ran phase one of this operator so far: threads have separate caches, and each entry needs a phase one.
	Preparer int32

	generated bool // no mark ends it
}

// String returns the part as people know it: by the function that the program calls, or the inner operator.
func (p *Part) String() string {
	switch {
	case p.Phase != One:
		return p.Name
	case strings.HasPrefix(p.Name, "aclnn"):
		return p.Name + "GetWorkspaceSize"
	}
	return p.Name + ", " + p.Phase.String()
}

// NoCall is the number of a call that the trace does not have.
const NoCall = ^uint64(0)

// maxDepth is the depth of parts on one thread at which those that lie below are dropped: code left them without an end, as by longjmp.
const maxDepth = 64

// maxExecutors bounds the executors that wait for their phase two.
const maxExecutors = 1 << 16

// Operators holds the parts that are open at a moment. The zero value is ready for use.
type Operators struct {
	// Ended gets each part at its end, inner parts first; nil for none. The part is valid until it returns.
	Ended func(*Part)

	threads   [][]Part // by thread: open parts, the innermost last
	executors map[executor]made
	latest    map[place]string   // operator of the latest executor at an address
	preparers map[prepared]int32 // -1 for several threads
	loose     int                // threads with a generated phase two, which the next call may end
}

// executor identifies an executor. Two operators may have one at the same address: marks of several threads are not in the order of time to the microsecond, so the
// next operator's phase one may come before the phase two that frees it.
type executor struct {
	place
	name string // of the operator
}

type place struct {
	process uint32
	pointer uint64
}

// made is the phase one that made an executor.
type made struct {
	call     uint64 // NoCall for a kept executor
	operands int32
	thread   int32
}

type prepared struct {
	process uint32
	name    string
}

// Apply takes the next mark. It returns the part that begins with it, nil for none, valid until the next mark.
func (o *Operators) Apply(m *Mark) (begun *Part) {
	for int(m.Thread) >= len(o.threads) {
		o.threads = append(o.threads, nil)
	}
	o.leave(m.Thread)
	at := place{m.Process, m.Executor}
	switch m.Kind {
	case api.OperatorPhaseOne:
		o.prepares(m)
		return o.begin(m, Part{Name: m.Name, Phase: One, One: NoCall, Operands: m.Operands})
	case api.OperatorInner:
		return o.begin(m, Part{Name: m.Name, Phase: Inner, Executor: m.Executor, One: NoCall})
	case api.OperatorPhaseTwo:
		return o.begin(m, o.second(at, m.Name))
	case api.OperatorEnd:
		if p := o.innermost(m.Thread); p != nil && p.Phase == One {
			p.Executor = m.Executor
		}
		o.end(m.Thread, m.At)
	case api.GeneratedPhaseOne:
		return o.begin(m, Part{Name: m.Name, Phase: One, One: NoCall, Operands: m.Operands, generated: true})
	case api.GeneratedWorkspace:
		if p := o.innermost(m.Thread); p != nil && p.Phase == One && p.generated {
			p.Executor = m.Executor
			o.end(m.Thread, m.At)
		}
	case api.GeneratedPhaseTwo:
		p := o.second(at, "")
		if p.One == NoCall {
			return nil // its phase one is older than the trace
		}
		p.generated, p.To = true, m.At
		o.loose++
		return o.begin(m, p)
	}
	return nil
}

// second returns the phase two of an executor, and forgets the executor: another thread may get one with the same address before this phase ends.
func (o *Operators) second(at place, name string) Part {
	p := Part{Name: name, Phase: Two, Executor: at.pointer, One: NoCall, Preparer: -1}
	key := executor{at, name}
	if name == "" {
		key.name = o.latest[at]
	}
	m, ok := o.executors[key]
	delete(o.executors, key)
	if o.latest[at] == key.name {
		delete(o.latest, at)
	}
	if ok {
		p.Name, p.One, p.Operands, p.Preparer = key.name, m.call, m.operands, m.thread
		return p
	}
	if thread, ok := o.preparers[prepared{at.process, name}]; ok {
		p.Preparer = thread
	}
	return p
}

// Keep says which operator and operands an executor has that a framework kept, and found again on a thread.
func (o *Operators) Keep(process, thread uint32, pointer uint64, name string, operands int32) {
	o.made(executor{place{process, pointer}, name}, made{call: NoCall, operands: operands, thread: int32(thread)})
}

func (o *Operators) made(key executor, m made) {
	if o.executors == nil || len(o.executors) == maxExecutors {
		o.executors, o.latest = map[executor]made{}, map[place]string{}
	}
	o.executors[key], o.latest[key.place] = m, key.name
}

// prepares takes the mark of a phase one whose executors may come from a cache later.
func (o *Operators) prepares(m *Mark) {
	if o.preparers == nil {
		o.preparers = map[prepared]int32{}
	}
	key := prepared{m.Process, m.Name}
	if thread, ok := o.preparers[key]; !ok {
		o.preparers[key] = int32(m.Thread)
	} else if thread != int32(m.Thread) {
		o.preparers[key] = -1
	}
}

func (o *Operators) begin(m *Mark, p Part) *Part {
	open := o.threads[m.Thread]
	if len(open) == maxDepth {
		for i := range open {
			if open[i].loose() {
				o.loose--
			}
		}
		open = open[:0]
	}
	p.Process, p.Thread, p.From, p.Call, p.Depth = m.Process, m.Thread, m.At, m.Call, len(open)
	o.threads[m.Thread] = append(open, p)
	return o.innermost(m.Thread)
}

// innermost returns the innermost open part of a thread, nil for none.
func (o *Operators) innermost(thread uint32) *Part {
	if int(thread) >= len(o.threads) || len(o.threads[thread]) == 0 {
		return nil
	}
	open := o.threads[thread]
	return &open[len(open)-1]
}

// end ends the innermost part of a thread, if it has one.
func (o *Operators) end(thread uint32, at int64) {
	p := o.innermost(thread)
	if p == nil {
		return
	}
	p.To = at
	if p.Phase == One && p.Executor != 0 {
		o.made(executor{place{p.Process, p.Executor}, p.Name}, made{p.Call, p.Operands, int32(p.Thread)})
	}
	if p.loose() {
		o.loose--
	}
	o.threads[thread] = o.threads[thread][:len(o.threads[thread])-1]
	if o.Ended != nil {
		o.Ended(p)
	}
}

// loose reports whether no mark ends the part.
func (p *Part) loose() bool { return p.generated && p.Phase == Two }

// leave ends the innermost part of a thread if no mark ends it.
func (o *Operators) leave(thread uint32) {
	if o.loose == 0 {
		return
	}
	if p := o.innermost(thread); p != nil && p.loose() {
		o.end(thread, p.To)
	}
}

// Call takes the next call that is no mark, and its end. A generated phase two ends with its last launch: before the first call of its thread that is neither a launch nor a question
// about a stream.
func (o *Operators) Call(thread uint32, f *api.Func, end int64) {
	if o.loose == 0 {
		return
	}
	switch p := o.innermost(thread); {
	case p == nil || !p.loose():
	case f != nil && f.Task == api.Kernel:
		p.To = end
	case f == nil || f.Task != api.NoTask || f.Stream < 0 || f.Sync != api.NoSync:
		o.leave(thread)
	}
}

// Outermost returns the outermost open part of a thread, nil for none, valid until the next mark. What the thread launches belongs to it.
func (o *Operators) Outermost(thread uint32) *Part {
	if int(thread) >= len(o.threads) || len(o.threads[thread]) == 0 {
		return nil
	}
	return &o.threads[thread][0]
}

// Finish ends the parts that no mark ends. Others stay open: the trace shows no end.
func (o *Operators) Finish() {
	for i := range o.threads {
		o.leave(uint32(i))
	}
}
