package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/graph"
)

// graphs holds the graph content that a replay needs.
type graphs struct {
	contents *graph.Graphs[*timeline.Object, *graphWork]
	copies   []*graphCopy // in all graphs
	owns     map[timeline.HostFunction]*own
	once     map[uint64][]place // by captured copy: where its single recorded result is compared, by thread and instruction
	eager    eager
}

// graphWork is the part of a graph task that matters in each run. Copies of the node share it.
type graphWork struct {
	copies  []*graphCopy
	sources []*graphSource
	hosts   []*hostLaunch
	eager   *eagerTask // nil unless Options.Eager needs it
}

// locate notes where comparisons of captured copies are: instructions in a thread from a number on.
func (g *graphs) locate(thread, first int, insts []plan.Instruction) {
	if len(g.once) == 0 {
		return
	}
	for i := range insts {
		in := &insts[i]
		if at, ok := g.once[in.Call]; ok && in.Op == plan.OpCheck {
			g.once[in.Call] = append(at, place{thread, first + i})
		}
	}
}

func newGraphs() graphs {
	return graphs{contents: graph.New[*timeline.Object, *graphWork](), owns: map[timeline.HostFunction]*own{}, once: map[uint64][]place{}, eager: newEager()}
}

// A graphCopy is a captured copy to the host. It writes a result in each graph run. A recording has one of two things: each result that
// the program waited for, as an item of the launching call, numbered by the graph's copies; or the content at one moment, when the
// program first waited for the copy's stream.
type graphCopy struct {
	call     uint64
	to       plan.Operand
	addr     uint64 // recorded
	size     rows
	recorded int64 // that moment, noTime if there is none
	runs     []graphRun
}

// A graphSource is host memory that a graph copies from in each run. The program may change it between runs without a call. So a
// recording has its content before each run, as an item of the call that runs the graph. Recordings before format 1.1 lack it.
type graphSource struct {
	op   plan.Operand
	addr uint64 // recorded
	size rows
}

type graphRun struct {
	call    uint64
	start   int64
	maybe   bool   // the copy may not have been made
	result  string // why it can't be compared
	there   bool   // it was recorded and is compared
	guessed bool   // it may depend on guesses
}

const noTime = -1 << 63

// shift is from where to where the replay has moved the memory.
func (c *graphCopy) shift() plan.Operand {
	return c.to.Plus(-c.addr)
}

// A hostLaunch is a call that adds a host function to a stream.
type hostLaunch struct {
	key  timeline.HostFunction
	ops  uint32  // operand with the stub's duration
	stub int     // index into findings.Stubs
	runs []int64 // nanoseconds
	want int     // expected number, according to the calls
}

// An own lists, in time order, a host function's launches and its runs' durations.
type own struct {
	asked []*hostLaunch
	took  []int64 // nanoseconds
}

// An eagerTask is a captured task with all that its instruction needs.
type eagerTask struct {
	f       *api.Func
	name    string
	in      plan.Instruction
	before  []plan.Instruction
	words   []plan.Operand
	relocs  []plan.Reloc
	numbers []pendingNumber
	data    []byte
	temp    uint64
	thread  int // that captured it
	memory  []*timeline.Object

	signal   timeline.Signal // that it records, awaits or resets
	signals  bool
	releases bool
	event    *timeline.Object
}

// An eagerRun is a run of a graph. A part of it may wait for signals.
type eagerRun struct {
	call   uint64
	stream eagerStream
	graph  *graph.Graph[*timeline.Object, *graphWork]
	done   []bool                   // by number in the graph's list of tasks
	waits  map[timeline.Signal]bool // signals that its next tasks wait for
	set    map[timeline.Signal]bool // by the run's own tasks
}

// An eagerStream is the stream of a run.
type eagerStream struct {
	lane int
	op   plan.Operand
}

// eager is the state of Options.Eager.
type eager struct {
	kept    map[*timeline.Object]uint64       // memory that captured tasks name, with the call that frees it
	set     map[timeline.Signal]*plan.Operand // recorded signals that no task has reset, with the stream of the record
	waiting []*eagerRun                       // in the order of their calls
}

func newEager() eager {
	return eager{kept: map[*timeline.Object]uint64{}, set: map[timeline.Signal]*plan.Operand{}}
}
