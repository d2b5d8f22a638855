package compile

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Findings are the results from compiling a trace. They do not depend on a run.
type Findings struct {
	Calls   uint64 // in the trace
	Hosted  uint64 // runs of the program's functions by the runtime, which are not made
	From    int64  // first start
	To      int64  // last end
	Longest int64  // longest duration, nanoseconds
	Scope   format.Scope

	Recording

	Unsupported []Unsupported // calls that can't be made, so nothing is run
	LeftOut     []Unsupported // composite calls, replaced by the calls inside
	Absent      []Unsupported // calls that are known to be missing from the trace
	Asked       []string      // functions that the program looked up and no probe sees
	Ignored     []IgnoredVariable

	Unverified  []Unverified
	Stubs       []Stubbed    // launches of host functions
	Doubts      []Unverified // effects that the replay does not reproduce and that concern no single result
	Substituted []Substituted
	Because     map[verify.Reason]string // a more detailed text for a reason
	Volatile    uint64                   // outputs that differ from run to run, not compared
	Moved
	Guessed
	Eager        Eager
	Ambiguous    []Ambiguous // the first ones
	Ambiguities  int         // total
	DeviceBlocks []DeviceBlock
	maps         []hostMap
}

// Recording is how the trace was recorded.
type Recording struct {
	Replayable bool   // with --replayable
	Simulated  bool   // on the simulator: composite calls do nothing but the calls inside
	Cut        string // why the recording's end is missing, "" if it is there
}

// Moved are the words that were rewritten because their objects have other addresses.
type Moved struct {
	Relocated   []Relocated // the first ones
	Relocations int         // total
}

// Guessed are the words that were taken for addresses without evidence.
type Guessed struct {
	Guesses      []Guess // the first ones
	GuessesTotal int
	GuessLaunch  uint64 // the first launch that depends on a guess, timeline.NoCall if none does
}

// Unverified counts a call's unproved results.
type Unverified struct {
	Call       uint64        `json:"call"`   // call number
	Reason     string        `json:"reason"` // why, as a sentence
	Code       verify.Reason `json:"reason_code"`
	Results    int           `json:"results"`               // number of results: one for a copy, one for each batch item
	OtherBytes int           `json:"other_bytes,omitempty"` // unproved results with other bytes than recorded
}

func (u *Unverified) String() string {
	if u.Call == 0 && (u.Code == verify.Incomplete || u.Code == verify.ByName) { // belongs to no call
		return u.Reason
	}
	if u.Results > 1 {
		return fmt.Sprintf("call %d, %s: %s", u.Call, human.Plural(u.Results, "result"), u.Reason)
	}
	return fmt.Sprintf("call %d: %s", u.Call, u.Reason)
}

// Stubbed is a launch of the program's function.
type Stubbed struct {
	Call   uint64 `json:"call"`   // call number
	Reason string `json:"reason"` // what the stub does, as a sentence
}

// AddUnverified adds an unproved result to a list.
func AddUnverified(list []Unverified, call uint64, code verify.Reason, reason string) []Unverified {
	if n := len(list); n > 0 && list[n-1].Call == call && list[n-1].Code == code && list[n-1].Reason == reason {
		list[n-1].Results++
		return list
	}
	return append(list, Unverified{Call: call, Reason: reason, Code: code, Results: 1})
}

// Unsupported counts calls to a function that are not made, for one reason.
type Unsupported struct {
	Func   string `json:"func"`           // function
	Calls  int    `json:"calls"`          // number of calls
	Reason string `json:"reason"`         // why, as a sentence
	Call   uint64 `json:"call,omitempty"` // number of the first call
	Stub   Stub   `json:"stub,omitempty"` // how --stub-comm makes the calls possible: left out or stand-in; empty if it does not
}

// Stub is how Options.StubComm replaces a process that is not in the trace.
type Stub string

// The stubs.
const (
	LeavesOut Stub = "left out" // the wait for the process is left out
	StandsIn  Stub = "stand-in" // an object of this process replaces the imported one
)

// String returns the calls and the reason.
func (u *Unsupported) String() string {
	switch {
	case u.Func != "" && u.Call > 0:
		return fmt.Sprintf("%s (%s, first %d): %s", u.Func, human.Plural(u.Calls, "call"), u.Call, u.Reason)
	case u.Func != "":
		return fmt.Sprintf("%s (%s): %s", u.Func, human.Plural(u.Calls, "call"), u.Reason)
	case u.Calls > 0:
		return fmt.Sprintf("%s, %s", human.Plural(u.Calls, "call"), u.Reason)
	}
	return u.Reason
}

// Substituted is a payload that the trace lacks, replaced by equally many zeros.
type Substituted struct {
	Call   uint64 `json:"call"`   // call number
	Func   string `json:"func"`   // function
	Param  string `json:"param"`  // parameter name
	Bytes  uint64 `json:"bytes"`  // size of the payload
	Reason string `json:"reason"` // why the trace lacks it
	marked bool   // the device marks dependent results, so each is reported by itself
}

// PayloadWord is a word in a payload of a call.
type PayloadWord struct {
	Call   uint64 `json:"call"`           // call number
	Func   string `json:"func"`           // function
	Param  string `json:"param"`          // parameter name
	Item   uint32 `json:"item,omitempty"` // index in an array of buffers
	Offset uint64 `json:"offset"`         // offset in the payload
	Value  string `json:"value"`          // recorded word, in hexadecimal
}

// Target is the place that a word points to.
type Target struct {
	Allocation uint64 `json:"allocation"` // number of the call that made the allocation, object or token
	At         uint64 `json:"at"`         // offset in the allocation
}

// Relocated is a word that was rewritten as a device address, with the evidence for it.
type Relocated struct {
	PayloadWord
	Target
	Evidence string `json:"evidence"` // argument, layout, address, table, handle or token
}

// Values for Relocated.Evidence besides those of access.Evidence.
const (
	ByHandle = "handle" // the word is a handle that kernels know
	ByToken  = "token"  // an earlier call returned the same bytes
)

// Guess is a word that may be an address and was not rewritten.
type Guess struct {
	PayloadWord
	Candidates []Target `json:"candidates"` // allocations that it may point to
}

// Eager describes the runs that Options.Eager has replaced.
type Eager struct {
	Runs  uint64      // of graphs
	Tasks uint64      // played in their place
	Freed []FreedTask // the first ones
}

// A FreedTask is a captured task in a run whose memory was freed before the run.
type FreedTask struct {
	Run    uint64 `json:"run"`    // call that ran the graph
	Call   uint64 `json:"call"`   // captured call
	Name   string `json:"name"`   // its kernel, or its function
	Memory uint64 `json:"memory"` // call that allocated the memory
	Freed  uint64 `json:"freed"`  // call that freed it
}

// Ambiguous is a pair of calls without a recorded order, in replay order.
type Ambiguous struct {
	Calls  [2]uint64 `json:"calls"`  // numbers of both calls, in replay order
	Reason string    `json:"reason"` // why they conflict
}

// DeviceBlock is a device allocation whose address is compared after a run.
type DeviceBlock struct {
	Slot   uint32
	Object *timeline.Object
	end    int64 // when the allocating call ended
}

// hostMap is program memory registered for the device.
type hostMap struct {
	plan.Map
	recorded uint64 // address
}

// MaxListed bounds the lists in a report that grow with the trace. The totals are exact.
const MaxListed = 1000

// Unproved lists everything that is unproved in any run. A finding that concerns no single result counts as one result.
func (f *Findings) Unproved() []Unverified {
	us := append(slices.Clone(f.Unverified), f.Doubts...)
	for _, u := range f.Absent {
		code := verify.Incomplete
		if u.Func != "" {
			code = verify.ByName
		}
		us = AddUnverified(us, u.Call, code, u.String())
	}
	for _, u := range f.LeftOut {
		if f.Simulated {
			break
		}
		us = append(us, Unverified{Call: u.Call, Reason: u.Func + ": " + u.Reason, Code: verify.Collective, Results: u.Calls})
	}
	for _, u := range f.Substituted {
		if u.marked {
			continue // dependent results are unproved
		}
		us = AddUnverified(us, u.Call, verify.Data, fmt.Sprintf("zeros replace %s in its parameter %s: %s", human.Bytes(u.Bytes), u.Param, u.Reason))
	}
	return us
}

// payloadWord describes a word in data of the current call.
func (p *callCompiler) payloadWord(q *api.Param, item uint32, off, value uint64) PayloadWord {
	return PayloadWord{p.c.Index, p.f.Name, q.Name, item, off, fmt.Sprintf("%#x", value)}
}

// relocated counts a word that is rewritten, and lists the first ones.
func (p *callCompiler) relocated(q *api.Param, item uint32, off, value uint64, to Target, evidence string) {
	if p.Found.Relocations++; len(p.Found.Relocated) < MaxListed {
		p.Found.Relocated = append(p.Found.Relocated, Relocated{p.payloadWord(q, item, off, value), to, evidence})
	}
}

func (p *compiler) unsupported(c *format.Call, name, reason string) *Unsupported {
	return count(&p.Found.Unsupported, c, name, reason)
}

// refuse notes why a successful call can't be replayed. A failed call gets any argument.
func (p *callCompiler) refuse(format string, args ...any) {
	if p.ok {
		p.cant = fmt.Sprintf(format, args...)
	}
}

// leaveOut records a composite call.
func (p *compiler) leaveOut(c *format.Call, f *api.Func) {
	reason := "the runtime calls inside it are replayed, but no transfers that it makes without them"
	if p.Found.Simulated {
		reason = "the runtime calls inside it are replayed, and do all of it"
	}
	count(&p.Found.LeftOut, c, f.Name, reason)
}

// count adds a call to the entry with its function and reason, and returns the entry.
func count(us *[]Unsupported, c *format.Call, name, reason string) *Unsupported {
	for i := range *us {
		if u := &(*us)[i]; u.Func == name && u.Reason == reason {
			u.Calls++
			return u
		}
	}
	*us = append(*us, Unsupported{Func: name, Calls: 1, Reason: reason, Call: c.Index})
	return &(*us)[len(*us)-1]
}
