package compile

import (
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/graph"
)

// graphs holds the part of all graphs of the trace that a replay needs.
type graphs struct {
	contents *graph.Graphs[*timeline.Object, *graphWork]
	copies   []*graphCopy // of all graphs
	owns     map[ownKey]*own
	once     map[uint64][]place // by captured copy: the comparisons of its one recorded result, by thread and instruction
}

// graphWork is the part of a graph task that each run of the graph needs. Copies of the node share it.
type graphWork struct {
	copies  []*graphCopy
	sources []*graphSource
	hosts   []*hostLaunch
}

// locate notes where comparisons of captured copies are written: instructions of a thread from a number on.
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
	return graphs{contents: graph.New[*timeline.Object, *graphWork](), owns: map[ownKey]*own{}, once: map[uint64][]place{}}
}

// graphCopy is a copy to the host that was captured into a graph. It brings a result each time that the graph runs. A recording has the
// results of each run that the program has waited for, by the number of the copy among those of the graph (as items of the call that
// runs it), or what lay there at one moment, when the program had waited for the copy's stream the first time.
type graphCopy struct {
	call     uint64
	to       plan.Operand
	addr     uint64 // as recorded
	size     rows
	at       place // behind which what lay there at one moment is compared
	recorded int64 // when that was, noTime for never
	runs     []graphRun
}

// graphSource is host memory that a graph copies from at each run. The program may have changed it since the run before without a call, so
// a recording has its content of each run, as an item of the call that runs the graph. Recordings before format 1.1 do not.
type graphSource struct {
	call uint64
	op   plan.Operand
	addr uint64 // as recorded
	size rows

	unknown bool // it is marked
}

type graphRun struct {
	call   uint64
	start  int64
	maybe  bool   // the copy may not have been made
	result string // why it can't be compared
	there  bool   // it is in the recording, and compared
}

const noTime = -1 << 63

// shift is from where to where the replay has moved the memory.
func (c *graphCopy) shift() plan.Operand {
	return plan.Operand{Slot: c.to.Slot, Addend: c.to.Addend - c.addr}
}

// hostLaunch is a call that has a stream call a function of the program's.
type hostLaunch struct {
	call uint64
	key  ownKey
	ops  uint32  // the operand that says how long the stub takes
	fate int     // index into findings.host
	runs []int64 // nanoseconds
	want int     // runs that there were, as far as the calls tell
}

// ownKey is a function of the program's with what it is given.
type ownKey struct {
	process  uint32
	fn, data uint64
}

// own is what the trace tells of such a function, in the order of time: the calls by which a stream was to run it, and how long it ran.
type own struct {
	asked []*hostLaunch
	took  []int64 // nanoseconds
}
