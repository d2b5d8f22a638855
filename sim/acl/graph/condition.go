package graph

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// Condition is a word in device memory that selects which part of a captured model runs. A part is a model too. It is
// captured separately and runs as one task.
type Condition struct {
	Handle  uint64
	Graph   *Graph // model with the condition task
	Word    space.Span
	Ends    uint32 // Memory.Ends when the word was allocated
	Initial uint64
	Assign  bool // set the word to Initial when each run starts

	// Constant after the condition has its task.
	Kind  acl.MdlRICondTaskType
	Parts []*Graph
}

const (
	ConditionSize = 8 // bytes (documented)
	MaxParts      = 1 << 16
)

// Complete reports whether all nested parts were captured.
func (g *Graph) Complete() bool {
	g.Lock()
	conditions := slices.Clone(g.Conditions)
	g.Unlock()
	for _, c := range conditions {
		for _, p := range c.Parts {
			if !p.Captured.Load() || !p.Complete() {
				return false
			}
		}
	}
	return true
}

// assign sets the words with an initial value, in the graph and its parts.
func (g *Graph) assign(s *device.Stream) {
	g.Lock()
	conditions := slices.Clone(g.Conditions)
	g.Unlock()
	for _, c := range conditions {
		if c.Assign && c.there() {
			s.Context.Device.Machine.Strict.TaskTouches(&s.Strict, c.Word.Addr, ConditionSize, space.Write)
			atomic.StoreUint64((*uint64)(space.Pointer(c.Word.Addr)), c.Initial)
			s.Context.Device.Machine.MarkKnown(c.Word.Addr, ConditionSize)
		}
		for _, p := range c.Parts {
			if !mutant.Breaks("part_in_a_part") {
				p.assign(s)
			}
		}
	}
}

// there reports whether the word's memory still exists.
func (c *Condition) there() bool { return c.Graph.Device.Memory.Ends.Load() == c.Ends }

// choose reads the word and returns the part to run; nil for none.
func (c *Condition) choose(s *device.Stream) (*Graph, *fail.Failure) {
	if !c.there() {
		return nil, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "the condition of model %d on stream %d is in freed device memory", c.Graph.ID, s.ID)
	}
	sim := s.Context.Device.Machine
	sim.Strict.TaskTouches(&s.Strict, c.Word.Addr, ConditionSize, space.Read)
	n := atomic.LoadUint64((*uint64)(space.Pointer(c.Word.Addr)))
	unknown, depends := sim.Unknown(c.Word.Addr, ConditionSize)
	if depends = depends && device.Rank(unknown) == device.KernelRank; depends {
		sim.LogUnknown(unknown, "the condition of model %d depends on output of kernel %q, which is in no kernel library", c.Graph.ID, unknown)
	}
	switch {
	case c.Kind == acl.ACL_MODEL_RI_COND_TYPE_WHILE:
		if n == 0 || depends { // avoid an endless loop
			return nil, nil
		}
		n = 0
	case c.Kind == acl.ACL_MODEL_RI_COND_TYPE_IF:
		n = boolean(n == 0 && !mutant.Breaks("if_chooses"))
		if mutant.Breaks("if_without_else") {
			n = 0
		}
	case mutant.Breaks("switch_chooses"):
		n = min(n, uint64(len(c.Parts)-1))
	}
	if n >= uint64(len(c.Parts)) {
		return nil, nil
	}
	return c.Parts[n], nil
}

func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// conditionRun is a condition task while it runs.
type conditionRun struct {
	*Condition
	part  *Graph // running part
	x     *Execution
	wrong *fail.Failure
}

// Task returns the task that runs the chosen part.
func (c *Condition) Task() device.Task {
	r := &conditionRun{Condition: c}
	return device.Task{Kind: device.TaskGraph, Begin: r.Begin, Run: r.end}
}

func (r *conditionRun) Begin(s *device.Stream) *device.Waiting {
	r.x = nil
	if r.part, r.wrong = r.choose(s); r.part == nil {
		return nil
	}
	if mutant.Breaks("behind_the_part") {
		_, _ = r.part.Begin(s, nil)
		r.part = nil
		return nil
	}
	return wait(func() (*Execution, <-chan struct{}) {
		var other <-chan struct{}
		if r.x == nil {
			r.x, other = r.part.Begin(s, nil)
		}
		return r.x, other
	})
}

// end ends one evaluation, which takes device time. A while loop jumps back to its own task.
func (r *conditionRun) end(s *device.Stream) (time.Duration, *fail.Failure) {
	took := max(device.Tick, time.Duration(s.Context.Device.Machine.Model.Launch.Overhead))
	if r.part == nil {
		return took, r.wrong
	}
	f := r.x.Join(s)
	if mutant.Breaks("while_repeats") {
		return took, f
	}
	if f == nil && r.Kind == acl.ACL_MODEL_RI_COND_TYPE_WHILE {
		Running(s).Jump = &Place{Running(s).lane, Running(s).at}
	}
	return took, f
}
