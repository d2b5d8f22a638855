// Package verify decides the outcome of a replay from its recorded results.
//
// A recorded result is data that the device returned to the host and that the recording kept. After a replay each result has
// one State: proved, different, or unproved with a Reason. A Tally counts the states, and Tally.Verdict turns the counts into
// the one verdict that replay, bundle, extract and the JSON report share. The player applies the same rule to a bundle, which has
// no Go: see judge in player/player.c.
//
// Package replay fills a Tally after each run. This package runs nothing and reads no trace.
package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/human"
)

// A Verdict is a replay's outcome.
type Verdict string

// The verdicts, as `replay --json` prints them under "verdict".
const (
	Identical   Verdict = "identical"    // at least one result, and every result is proved
	Different   Verdict = "different"    // at least one result, returned value or output differs
	Unproved    Verdict = "unproved"     // no result differs, but some are unproved, or there is no result
	NotCompared Verdict = "not compared" // comparison was not requested, or nothing was run
)

// A State is the outcome of one recorded result. If the parts of a result have several states, the largest one counts.
type State uint8

// The states of a result.
const (
	IsProved    State = iota // everything the result depends on was executed here, and all bytes are equal
	IsTolerated              // proved, but some numbers are equal only within the tolerance
	IsUnproved               // its bytes prove nothing, equal or not, or the comparison was impossible
	IsDifferent              // everything it depends on was executed here, and some bytes differ
)

// A Reason says why a result is unproved. Reasons are stable: scripts may rely on them ("reason_code" in JSON).
type Reason string

// The reasons, in the order of their Codes: append new ones at the end of Reasons.
const (
	Kernel        Reason = "kernel"        // a kernel that no library here implements computed it
	Data          Reason = "data"          // the trace lacks input data, which zeros replaced
	NotRecorded   Reason = "not-recorded"  // the trace lacks the result: overwritten, only hashed, or never waited for
	HostFunction  Reason = "host-function" // a stub replaced a function of the program, and the stub writes nothing
	Collective    Reason = "collective"    // it depends on a collective that may transfer data without recorded calls
	Managed       Reason = "managed"       // the program may access the memory without a call
	Incomplete    Reason = "incomplete"    // calls were lost or the trace was cut
	Before        Reason = "before"        // it depends on calls from before the recorded window
	Uninitialised Reason = "uninitialised" // it depends on memory that nothing has written
	Varies        Reason = "varies"        // repeated runs gave several results
	Race          Reason = "race"          // it depends on memory that two streams use in no order
	Peer          Reason = "peer"          // it depends on a process that is not in the trace
	NotReached    Reason = "not-reached"   // the replay ended before the comparison
	Pointer       Reason = "pointer"       // it depends on a word that may be an address and was not relocated
	Crash         Reason = "crash"         // a kernel crashed before, and may have written anywhere
	Source        Reason = "source"        // it differs, and the program may have changed the source of a copy after the call
	ByName        Reason = "by-name"       // it depends on calls that the trace only counts by name
)

// Reasons lists every Reason. The code of a reason is its index plus 1.
var Reasons = []Reason{Kernel, Data, NotRecorded, HostFunction, Collective, Managed, Incomplete, Before, Uninitialised, Varies, Race, Peer, NotReached, Pointer, Crash, Source, ByName}

// texts complete the sentence "N results are unproved: …".
var texts = map[Reason]string{
	Kernel:        "computed by kernels that no library here implements",
	Data:          "they depend on data that the trace lacks",
	NotRecorded:   "the trace lacks the result",
	HostFunction:  "host functions are stubs that write nothing",
	Collective:    "collectives may transfer data without recorded calls",
	Managed:       "the program may access the memory without a call",
	Incomplete:    "they depend on calls that the trace lacks",
	Before:        "they depend on calls from before the recorded window",
	Uninitialised: "they depend on memory that nothing has written",
	Varies:        "repeated runs gave several results",
	Race:          "they depend on memory that two streams use in no order",
	Peer:          "they depend on a process that is not in the trace",
	NotReached:    "the replay ended before the comparison",
	Pointer:       "they depend on words that may be addresses and were not relocated",
	Crash:         "a kernel crashed before, and may have written anywhere",
	Source:        "the program may have changed the source of a copy after the call",
	ByName:        "they depend on calls that are recorded by name only",
}

// Text completes the sentence "the results are unproved: …".
func (r Reason) Text() string { return texts[r] }

// Code returns a reason's number in a plan, from 1; 0 for a reason that is not in Reasons.
func (r Reason) Code() uint8 { return uint8(slices.Index(Reasons, r) + 1) }

// ByCode returns the reason with a code, "" if there is none.
func ByCode(code uint8) Reason {
	if code == 0 || int(code) > len(Reasons) {
		return ""
	}
	return Reasons[code-1]
}

// A Tally counts recorded results by their state. The zero value is empty.
type Tally struct {
	Results    uint64 `json:"total"`                // number of recorded results
	Proved     uint64 `json:"proved"`               // proved results, including tolerated ones
	Tolerated  uint64 `json:"tolerated"`            // proved results that are equal only within the tolerance
	Different  uint64 `json:"different"`            // results that differ
	Unproved   uint64 `json:"unproved"`             // results that are neither
	OtherBytes uint64 `json:"unproved_other_bytes"` // unproved results whose bytes are not the recorded ones

	// Other counts returned values and call outputs that differ. They are not results.
	Other uint64 `json:"-"`

	by map[Reason]uint64 // unproved results
}

// Add counts one result. why is used only for IsUnproved.
func (t *Tally) Add(s State, why Reason) {
	t.Results++
	switch s {
	case IsTolerated:
		t.Tolerated++
		t.Proved++
	case IsProved:
		t.Proved++
	case IsDifferent:
		t.Different++
	case IsUnproved:
		t.Unproved++
		if t.by == nil {
			t.by = map[Reason]uint64{}
		}
		t.by[why]++
	}
}

// Verdict returns Identical, Different or Unproved.
func (t *Tally) Verdict() Verdict {
	switch {
	case t.Different+t.Other > 0:
		return Different
	case t.Unproved > 0 || t.Results == 0:
		return Unproved
	}
	return Identical
}

// AddUnproved counts n unproved results with one reason, some of which have other bytes.
func (t *Tally) AddUnproved(why Reason, n, otherBytes int) {
	for range n {
		t.Add(IsUnproved, why)
	}
	t.OtherBytes += uint64(otherBytes)
}

// String describes the outcome in one line, as "nothing differs; 12 of 16 results are unproved: …".
func (t *Tally) String() string {
	switch t.Verdict() {
	case Different:
		s := fmt.Sprintf("different: %s of %s %s", human.Count(t.Different), human.Plural(t.Results, "result"), verb(t.Different, "differs", "differ"))
		if t.Different == 0 {
			s = fmt.Sprintf("different: %s %s", human.Count(t.Other), verb(t.Other, "returned value or output differs", "returned values or outputs differ"))
		}
		if t.Unproved > 0 {
			s += "; " + t.unproved()
		}
		return s
	case Identical:
		s := "identical: " + human.Plural(t.Results, "result")
		if t.Tolerated > 0 {
			s += fmt.Sprintf(" (%s within the tolerance)", human.Count(t.Tolerated))
		}
		return s
	}
	if t.Results == 0 {
		return "nothing differs; the trace has no results, so nothing is proved"
	}
	if t.OtherBytes > 0 {
		return "nothing that could be proved differs; " + t.unproved()
	}
	return "nothing differs; " + t.unproved()
}

// unproved returns the number of unproved results and the reasons, the most frequent first.
func (t *Tally) unproved() string {
	reasons := slices.SortedFunc(maps.Keys(t.by), func(a, b Reason) int {
		return cmp.Or(cmp.Compare(t.by[b], t.by[a]), cmp.Compare(a.Code(), b.Code()))
	})
	var why []string
	for _, r := range reasons {
		text := r.Text()
		if t.by[r] == 1 {
			text = strings.Replace(text, "they depend", "it depends", 1)
		}
		if len(reasons) > 1 {
			text = fmt.Sprintf("%s (%s)", text, human.Count(t.by[r]))
		}
		why = append(why, text)
	}
	other := ""
	if t.OtherBytes > 0 {
		other = fmt.Sprintf(" (%s with other bytes)", human.Count(t.OtherBytes))
	}
	return fmt.Sprintf("%s of %s %s unproved%s: %s", human.Count(t.Unproved), human.Plural(t.Results, "result"), verb(t.Unproved, "is", "are"), other, strings.Join(why, "; "))
}

func verb(n uint64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
