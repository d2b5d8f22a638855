package compile

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// A Plan is a trace compiled for the player, with the findings for the report.
type Plan struct {
	File  *plan.File // what the player reads
	Model *api.Model
	Found Findings

	// Threads are the captured threads, those of a process next to each other.
	Threads []Thread
	Streams []string // names
	Files   []File   // written for calls that read files, in the order of the calls

	Scale   float64 // of the recorded times, 0 if they are not kept
	UntilNS uint64  // longest run of polls

	// Env are the variables that the player's processes set before they load the library, by name. Each value is as long as the longest that the
	// player puts in its place.
	Env map[string]string

	procs []planned
	slots []slotInfo
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

// Close closes the file of the plan. Its findings can still be read.
func (p *Plan) Close() { _ = p.File.Close() }

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

// MissingFunctions returns findings about functions that a library lacks.
func (p *Plan) MissingFunctions(names []string) []Unsupported {
	calls, first := map[string]int{}, map[string]uint64{}
	for t := range p.Threads {
		for _, in := range p.File.Instructions(t) {
			if !in.Calls() {
				continue
			}
			n := p.File.Funcs[in.Fn].Name
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
func Failed(f *api.Func, c *format.Call) bool { return f.RetError && uint32(c.Ret) != 0 }
