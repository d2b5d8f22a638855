package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// A Plan is a trace compiled into what the player runs, with what is to be said about it. It has a Writer until it is finished, and then a
// File.
type Plan struct {
	*plan.Writer
	written *plan.File

	model    *api.Model
	o        *Options
	dir      string    // "" for a plan that is only looked at
	ownFiles []ownFile // in the order of the calls

	threads []program // those of one process one after the other
	procs   []planned
	lanes   []string // names of the streams
	slots   []slotInfo

	scale     float64 // of the recorded times, 0 where they are not kept
	untilNS   uint64
	tolerance Tolerance
	zeros     uint64        // bytes of the memory of zeros
	unzeroed  verify.Reason // for which each process marks that memory as unknown, "" if it does not

	// env is what the processes of the player begin with, by name. Each value is as long as the longest that the player
	// puts in its place.
	env map[string]string

	found findings
}

// planned is a captured process in the plan.
type planned struct {
	process      uint32 // index into the trace's processes
	first, count int    // in Plan.threads
	pid          int
	forked       bool // by opFork
	begun        bool // its first call is compiled
}

// slotInfo says what a slot will hold.
type slotInfo struct {
	what   string
	object *timeline.Object
}

// findings is what the planner has to say about a trace, for the report.
type findings struct {
	ignored      []IgnoredVariable // simulated backends only
	unverified   []Unverified
	unsupported  []Unsupported // nothing is run
	leftOut      []Unsupported // what they enclose is run
	absent       []Unsupported // known to be missing from the trace
	asked        []string      // functions that the program could have called unseen
	substituted  []Substituted
	relocated    []Relocated
	relocations  int
	ambiguous    []Ambiguous
	ambiguities  int
	volatile     uint64
	maps         []hostMap
	doubts       []Unverified // effects that the replay does not reproduce and that no single result shows
	from, to     int64
	longest      int64 // recorded call, nanoseconds
	calls        uint64
	scope        format.Scope
	cut          string // why the end of the recording is missing, "" if it is there
	deviceBlocks []deviceBlock
	because      map[verify.Reason]string // why results have a reason, if it can be said in more detail
}

// hostMap is host memory of the program that is registered for the device.
type hostMap struct {
	plan.Map
	recorded uint64 // address
}

// deviceBlock is an allocation of device memory whose address is compared after the run.
type deviceBlock struct {
	slot   uint32
	object *timeline.Object
	end    int64 // of the call that made it
}

func createPlan(path string, m *api.Model) (*Plan, error) {
	w, err := plan.Create(path)
	if err != nil {
		return nil, err
	}
	return &Plan{Writer: w, model: m, env: map[string]string{}}, nil
}

// close gives back what a plan has of the system. Its findings can still be read.
func (p *Plan) close() {
	if p.written != nil {
		_ = p.written.Close()
		return
	}
	_ = p.Close()
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// slot makes a new slot.
func (p *Plan) slot(what string, o *timeline.Object) uint32 {
	p.slots = append(p.slots, slotInfo{what, o})
	return uint32(len(p.slots) - 1)
}

// finish writes the rest of the plan.
func (p *Plan) finish() error {
	h := &plan.Header{
		Slots: uint64(len(p.slots)), UntilNS: p.untilNS, Zeros: p.zeros, ZerosReason: uint32(p.unzeroed.Code()),
		Tolerance: p.tolerance.kind, Relative: p.tolerance.Relative, Absolute: p.tolerance.Absolute, Paced: bit(p.scale > 0),
	}
	t := &plan.Tables{}
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
			if len(p.env[name]) < len(v) {
				p.env[name] = v
			}
		}
		t.Processes = append(t.Processes, plan.Process{First: uint32(pr.first), Count: uint32(pr.count), Env: first, Vars: uint32(len(env)), Forked: bit(pr.forked)})
	}
	for _, r := range verify.Reasons {
		t.Reasons = append(t.Reasons, p.Name(r.Text()))
	}
	for _, m := range p.found.maps {
		t.Maps = append(t.Maps, m.Map)
	}
	for _, u := range p.found.unproved() {
		t.Doubts = append(t.Doubts, plan.Doubt{Call: u.Call, Reason: uint32(u.Code.Code()), Results: uint32(u.Results), Text: p.Name(u.Reason)})
	}
	var err error
	if p.written, err = p.Finish(h, t); errors.Is(err, plan.ErrTooLarge) {
		return fmt.Errorf("the trace %w: %w", errRefused, err)
	}
	return err
}

// missingFunctions are those that the library lacks, in a report.
func (p *Plan) missingFunctions(names []string) []Unsupported {
	calls, first := map[string]int{}, map[string]uint64{}
	for t := range p.threads {
		for _, in := range p.written.Instructions(t) {
			if !in.Calls() {
				continue
			}
			n := p.written.Funcs[in.Fn].Name
			if calls[n] == 0 || in.Call < first[n] {
				first[n] = in.Call
			}
			calls[n]++
		}
	}
	var us []Unsupported
	for _, n := range names {
		us = append(us, Unsupported{Func: n, Calls: calls[n], Call: first[n], Reason: "the library does not have it"})
	}
	return us
}

// failed reports whether a call has returned an error.
func failed(f *api.Func, c *format.Call) bool { return f.RetError && uint32(c.Ret) != 0 }
