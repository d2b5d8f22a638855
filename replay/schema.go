package replay

import (
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/sandbox"
	"github.com/acltrace/acltrace/replay/verify"
)

// NotCompared is the Report.Note about a replay without Options.Verify.
const NotCompared = "results were not compared"

// Report is a replay's result. `acltrace replay --json` prints it; keys are only ever added.
type Report struct {
	Verdict   verify.Verdict `json:"verdict"`
	Identical bool           `json:"identical"` // the verdict is identical
	format.Scope
	Conditions
	Proof
	Missing
	Others
	Times

	Repeat *Repeat `json:"repeat,omitempty"` // runs of --repeat
	Eager  *Eager  `json:"eager,omitempty"`  // what --graphs eager played

	Findings  []Finding `json:"findings,omitempty"`  // mistakes found by --strict
	Unchecked []string  `json:"unchecked,omitempty"` // accesses that --strict did not check

	Note string `json:"note,omitempty"` // limits of the verdict, as a sentence

	SameFailure *Difference `json:"same_failure,omitempty"` // first call that returned the device error of the trace again

	Coverage
	Crash *Crash `json:"crash,omitempty"` // how the replay ended early
	Log   string `json:"log,omitempty"`   // last output of the runtime library: of a simulator always, of others unless all is identical

	sources []Difference // first differing bytes of results that are unproved (verify.Source)
}

// Conditions are the replay's conditions.
type Conditions struct {
	// TrustsKernels is set if the library can't report missing kernels: all kernels count as executed.
	TrustsKernels    bool                      `json:"trusts_kernels,omitempty"`
	Replayable       bool                      `json:"replayable"`                  // the trace was recorded with --replayable
	Simulated        bool                      `json:"simulated"`                   // the trace was recorded on the simulator: collectives do nothing but the calls inside
	KernelLibraries  []KernelLibrary           `json:"kernel_libraries"`            // kernel libraries that the simulator loaded
	NotComputed      *NotComputed              `json:"not_computed,omitempty"`      // operators that no kernel library here computes, on the simulator
	IgnoredVariables []compile.IgnoredVariable `json:"ignored_variables,omitempty"` // recorded simulator variables that the replay neither set nor replaced
	Sandbox          *sandbox.Sandbox          `json:"sandbox"`                     // sandbox of the replay, nil if there was none
}

// Proof is the comparison's outcome.
type Proof struct {
	Results  verify.Tally `json:"results"` // recorded results by outcome
	Verified struct {
		Results   uint64 `json:"results"`             // number of proved results
		Bytes     uint64 `json:"bytes"`               // size of the proved results
		Tolerated uint64 `json:"tolerated,omitempty"` // proved results that are equal only within the tolerance
	} `json:"verified"` // results that were proved
	Unverified  []compile.Unverified `json:"unverified"`  // results that are neither proved nor different
	Differences []Difference         `json:"differences"` // values that differ from the recording
}

// Missing are the calls that were not made.
type Missing struct {
	Unsupported []compile.Unsupported `json:"unsupported"`         // calls that could not be made, including lost
	Lost        []compile.Unsupported `json:"lost,omitempty"`      // calls that are missing from the trace
	LeftOut     []compile.Unsupported `json:"left_out"`            // composite calls, replaced by the calls inside
	AskedFor    []string              `json:"asked_for,omitempty"` // functions that the program looked up and the recorder does not know; calls unknown
}

// Others are outcomes that are neither equal nor different.
type Others struct {
	OtherMachine      []Difference    `json:"other_machine,omitempty"`       // values about the machine and its devices that differ here; they do not count
	OtherMachineTotal int             `json:"other_machine_total,omitempty"` // number of these values
	Reported          []Reported      `json:"reported,omitempty"`            // calls that reported a failed task earlier or later than recorded; they do not count
	ReportedTotal     int             `json:"reported_total,omitempty"`      // number of these calls
	Uninitialised     []Uninitialised `json:"uninitialised"`                 // differing results from memory that no recorded call wrote; they are unproved
}

// Times are the recorded and the replayed times.
type Times struct {
	RecordedNS int64        `json:"recorded_ns"`     // recorded duration, from the first call to the last end
	ReplayedNS int64        `json:"replayed_ns"`     // the same in the replay
	Pace       Pace         `json:"pace"`            // how well a paced replay kept the times
	Streams    []StreamTime `json:"streams"`         // times by stream, for the calls that name it
	Cores      *Cores       `json:"cores,omitempty"` // time that threads waited for a processor core: possible reasons for lateness
}

// Coverage counts the replayed parts.
type Coverage struct {
	Calls          uint64                `json:"calls"`               // number of calls in the trace
	Replayed       uint64                `json:"replayed"`            // number of calls made; successive polls count once
	HostFunctions  uint64                `json:"host_functions"`      // runs of the program's functions by the runtime; none is made
	Stubs          []compile.Stubbed     `json:"stubs,omitempty"`     // launches of the program's functions, which stubs replace
	Placement      string                `json:"placement,omitempty"` // "same" or "moved" addresses; empty if no runtime library was called
	Seed           *uint64               `json:"seed,omitempty"`      // seed of --place move
	Relocated      []compile.Relocated   `json:"relocated"`           // words that were rewritten as device addresses
	RelocatedTotal int                   `json:"relocated_total"`     // number of rewritten words
	Guesses        []compile.Guess       `json:"guesses"`             // words that may be addresses and were not rewritten; none with the same addresses
	GuessesTotal   int                   `json:"guesses_total"`       // number of guesses
	Volatile       uint64                `json:"volatile"`            // number of outputs that may differ between runs, not compared
	Substituted    []compile.Substituted `json:"substituted"`         // payloads that the trace lacks, replaced by zeros
	Ambiguous      []compile.Ambiguous   `json:"ambiguous"`           // pairs of calls without a recorded order
	AmbiguousTotal int                   `json:"ambiguous_total"`     // number of such pairs
	DifferingTotal int                   `json:"differences_total"`   // number of differences
}

// Pace is a paced replay's accuracy.
type Pace struct {
	Mode               string    `json:"mode"`                // asap, recorded, or scaled: and a factor
	ErrorPercent       float64   `json:"error_percent"`       // replayed_ns compared with recorded_ns times the factor
	Late               *Lateness `json:"late,omitempty"`      // how late calls began, nil for asap
	UnexplainedPercent float64   `json:"unexplained_percent"` // error_percent without the time in cores
}

// Cores is how long threads were ready to run without a core. Only a part makes a replay longer: threads wait at the same time, and the
// program's pauses make up for lateness.
type Cores struct {
	Threads  []ThreadCore `json:"threads"`   // replayed threads, from their first call to their last
	Library  CoreTime     `json:"library"`   // sum over the runtime's own threads that existed at the end
	StolenNS int64        `json:"stolen_ns"` // time that a virtual machine's host took cores away, in steps of 10 ms
}

// ThreadCore is a captured thread's CoreTime.
type ThreadCore struct {
	TID int `json:"tid"` // thread id in the recording
	CoreTime
}

// CoreTime is the time that threads were on a core, and ready to run without one, as the system reports it.
type CoreTime struct {
	RanNS    int64 `json:"ran_ns"`    // time on a core
	WaitedNS int64 `json:"waited_ns"` // time ready to run without a core
}

// Without returns the total time without a core.
func (c *Cores) Without() int64 {
	ns := c.Library.WaitedNS + c.StolenNS
	for _, t := range c.Threads {
		ns += t.WaitedNS
	}
	return ns
}

// Lateness is how late calls began in a paced replay, in nanoseconds: median, 99th percentile and maximum. Times count from the run's
// start, so the program's pauses make up for delays.
type Lateness struct {
	P50  int64 `json:"p50_ns"`  // median delay; times count from the run's start
	P99  int64 `json:"p99_ns"`  // 99th percentile of delays
	Max  int64 `json:"max_ns"`  // longest delay
	Last int64 `json:"last_ns"` // delay of the last call
}

// StreamTime is a stream's host time: from the first call that names it to the last call's end.
type StreamTime struct {
	Stream       string    `json:"stream"`         // stream name
	RecordedNS   int64     `json:"recorded_ns"`    // from the first call that names it to the last call's end, on the host
	ReplayedNS   int64     `json:"replayed_ns"`    // the same in the replay
	ErrorPercent float64   `json:"error_percent"`  // replayed_ns compared with recorded_ns times the factor
	Late         *Lateness `json:"late,omitempty"` // how late these calls began, nil for asap
	from, to     int64
	first, last  uint64
	late         lateTimes
	lastLate     int64
}

// Difference is a value that differs from the recording. Want and Got are hexadecimal bytes from Offset on, or returned values.
type Difference struct {
	Call        uint64 `json:"call"`            // call number
	Func        string `json:"func"`            // function
	Param       string `json:"param,omitempty"` // parameter name, empty for the returned value
	Offset      uint64 `json:"offset"`          // first differing byte
	Want        string `json:"want"`            // recorded value: hexadecimal bytes from the offset, at most 16, or a number
	Got         string `json:"got"`             // value in the replay, as want
	Bytes       uint64 `json:"bytes,omitempty"` // number of differing bytes
	lab.History        // of the first differing byte

	result bool
	length bool // the length differs, and the bytes were not compared
	item   uint32
}

// Reported is a call that reported a failed task at another moment than in the recording.
type Reported struct {
	Call    uint64 `json:"call"`    // call number
	Func    string `json:"func"`    // function
	Want    string `json:"want"`    // recorded error code
	Got     string `json:"got"`     // error code in the replay
	Earlier bool   `json:"earlier"` // the recorded call succeeded, so the failure is reported earlier
}

// Uninitialised is a differing result from memory that no recorded call wrote.
type Uninitialised struct {
	Call   uint64 `json:"call"`   // call number
	Func   string `json:"func"`   // function
	Param  string `json:"param"`  // parameter name
	Offset uint64 `json:"offset"` // first differing byte
	Bytes  uint64 `json:"bytes"`  // number of differing bytes
}

// Crash is a player's premature end, and the recorded call that it was in.
type Crash struct {
	Call    uint64   `json:"call"`     // call number
	Func    string   `json:"func"`     // function
	Signal  string   `json:"signal"`   // signal, or the exit status, or timeout
	Args    []string `json:"args"`     // recorded arguments, as NAME=value
	StartNS int64    `json:"start_ns"` // recorded start of the call
	TID     int      `json:"tid"`      // thread id in the recording
}

// TimedOut is the Crash.Signal for a call that took too long.
const TimedOut = "timeout"

// Refused reports whether some call can't be made, so that nothing is run.
func (r *Report) Refused() bool { return len(r.Unsupported) > len(r.Lost) }
