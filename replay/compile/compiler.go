// Package compile turns a trace into a plan for the player.
//
// Trace checks the Limits, surveys the allocations, threads and processes of the trace, and compiles its calls in one pass, ordered by
// their start times. Handles and addresses become slots, payloads become data, and results become comparisons (see player/plan.h). Memory
// grows with the live objects and the overlap of calls, not with the number of calls. Findings lists calls that can't be replayed,
// guesses and substitutes. An error means that the trace or a file can't be read.
//
// Threads keep their recorded order: a call waits for the calls of other threads that had ended when it began. If the backend can't put
// allocations at their recorded addresses, words of arguments and payloads that lie in live allocations are relocated and listed.
//
// A trace that lacks calls is compiled like any other: a call that needs a missing object is refused by name, and a result without its
// waiting call is not compared.
//
// Package replay calls Trace before each replay, and for extracts and bundles. Packages replay and whatif use the Limits.
// This package runs nothing, loads no library, and writes only into the given folder.
package compile

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Trace compiles a trace into a plan in the file dir/plan. The caller closes the plan.
func Trace(r *format.Reader, m *api.Model, dir string, o *Options) (*Plan, error) {
	if err := r.PayloadsReadable(); err != nil {
		return nil, err
	}
	w, err := plan.Create(filepath.Join(dir, "plan"))
	if err != nil {
		return nil, err
	}
	p := newCompiler(w, r, m, dir, o)
	if o.Backend.Placement() == backend.ByCall {
		_, p.Found.Ignored = RecordedVariables(&m.Simulator, r.Meta())
	}
	err = p.compile()
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	return p.Plan, nil
}

func newCompiler(w *plan.Writer, r *format.Reader, m *api.Model, dir string, o *Options) *compiler {
	p := &compiler{
		Plan: &Plan{Model: m, Env: map[string]string{}, Scale: o.Scale, UntilNS: uint64(untilLimit), Found: Findings{Guessed: Guessed{GuessLaunch: timeline.NoCall}}}, Writer: w,
		r: r, o: o, dir: dir,
		process: map[uint32]int{},
		objects: newObjects(m), pointers: newPointers(), graphs: newGraphs(), sharing: newSharing(), ordering: newOrdering(),
		visible: newVisibleState(), faults: faults{of: map[uint32]*stopped{}}, known: known{facts: make([]*facts, 1<<16)},
	}
	p.pointers.mapped = o.Place == PlaceSame && o.Backend.Placement() != backend.ByCall
	return p
}

func (p *compiler) compile() error {
	if err := p.o.Limits.Check(p.r, p.Model); err != nil {
		return err
	}
	if err := p.survey(); err != nil {
		return err
	}
	if p.o.Place == PlaceMove && p.o.Backend.Placement() == backend.ByCall {
		p.pointers.mover = newMover(p.o.Seed, p.accesses.Low, &p.Model.Simulator)
	}
	for _, s := range plan.SlotNames {
		p.slot(s, nil)
	}
	for _, s := range []string{"thread %d scratch", "thread %d identity"} {
		for t := range p.Threads {
			p.slot(fmt.Sprintf(s, p.Threads[t].thread), nil)
		}
	}
	for i := range p.procs {
		p.slot(fmt.Sprintf("process number %d", p.procs[i].pid), nil)
	}
	for range plan.OwnStride * len(p.Threads) {
		p.slot("a thread's own data", nil)
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
	n, calls := 0, int(p.Found.Calls)
	cc := &callCompiler{compiler: p, lists: lists{words: make([]plan.Operand, maxWords+1)}}
	for c, err := range p.calls(nil) {
		if err != nil {
			return err
		}
		if n++; p.o.Progress != nil && (n&0x3fff == 0 || n == calls) {
			p.o.Progress(n, calls)
		}
		if err := cc.next(p.accesses.Apply(threads[c.Thread].Process, c)); err != nil {
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
	return p.Err()
}

// untilLimit is the maximum duration for one run of polls.
const untilLimit = 30 * time.Second

// finish writes the remaining plan.
func (p *compiler) finish() error {
	h := &plan.Header{
		Slots: uint64(len(p.slots)), UntilNS: p.UntilNS, Zeros: p.pointers.zeros, ZerosReason: uint32(p.zerosReason().Code()),
		Tolerance: p.o.Tolerance.Code(), Relative: p.o.Tolerance.Relative, Absolute: p.o.Tolerance.Absolute, Scale: p.Scale,
		Busy: uint32(p.Model.Busy),
	}
	t := &plan.Tables{Faults: p.faults.codes}
	for i := range p.procs {
		pr := &p.procs[i]
		env, err := p.environment(i)
		if err != nil {
			return err
		}
		first := p.Name("") + 1
		for _, v := range env {
			p.Name(v)
			name, _, _ := strings.Cut(v, "=")
			if len(p.Env[name]) < len(v) {
				p.Env[name] = v
			}
		}
		t.Processes = append(t.Processes, plan.Process{First: uint32(pr.first), Count: uint32(pr.count), Env: first, Vars: uint32(len(env)), Forked: bit(pr.forked)})
	}
	for _, r := range verify.Reasons {
		t.Reasons = append(t.Reasons, p.Name(r.Text()))
	}
	for _, m := range p.Found.maps {
		t.Maps = append(t.Maps, m.Map)
	}
	if p.Found.GuessesTotal > 0 || slices.ContainsFunc(p.Found.Doubts, func(u Unverified) bool { return u.Code == verify.Pointer }) {
		for _, b := range p.Found.DeviceBlocks {
			t.Blocks = append(t.Blocks, plan.Block{At: b.Object.Handle, Slot: b.Slot})
		}
	}
	for _, u := range p.Found.Unproved() {
		t.Doubts = append(t.Doubts, plan.Doubt{Call: u.Call, Reason: uint32(u.Code.Code()), Results: uint32(u.Results), Text: p.Name(u.Reason)})
	}
	var err error
	if p.File, err = p.Finish(h, t); errors.Is(err, plan.ErrTooLarge) {
		return fmt.Errorf("the trace can't be replayed: %w", err)
	}
	return err
}
