package replay

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
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
	cc := &callCompiler{compiler: p, reused: reused{param: make([]plan.Operand, 0, maxWords)}}
	for c, err := range p.r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := p.state.Apply(threads[c.Thread].Process, c)
		if err := cc.next(e); err != nil {
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
