package record

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/flight"
	"github.com/acltrace/acltrace/record/rows"
)

// Payload is how much of the copied data is stored.
type Payload string

const (
	Small Payload = "small" // copies up to SmallLimit
	Full  Payload = "full"  // all copies
	Hash  Payload = "hash"  // hash and length of all copies
	None  Payload = "none"
)

// SmallLimit is the size in bytes of the largest payload at the level Small.
const SmallLimit = 64 << 10

// VisibleLimit is the size in bytes of managed memory and registered host memory up to which Capture.Replayable stores its
// content.
const VisibleLimit = 64 << 20

// SmallestCopy is the size in bytes of the smallest payload with Capture.NoSmall.
const SmallestCopy = 4096

// Options are the parameters of a recording. The zero value of each field is its default.
type Options struct {
	Model *api.Model // required
	// Output is the file to write, required. %h, %p and %r stand for the host, the PID of the program and its rank. If the program is a
	// launcher, Run writes a file for each rank.
	Output    string
	Overwrite bool     // replace files named Output or BlobFile
	Keep      int      // without Overwrite: number of older files that were moved aside for Output and stay; default 10
	BlobFile  string   // file for the contents of payloads, "" to store them in Output; %h and %r as there
	Command   []string // program and arguments, required by Run
	Env       []string // default the caller's environment
	Sim       bool     // run the program on the simulator
	Stdin     *os.File // default the caller's, as for Stdout and Stderr
	Stdout    *os.File
	Stderr    *os.File

	Capture Capture
	Limits  Limits
	Ring    *Ring // keep the newest calls and seal them when something happens; nil records everything
	Steps   Steps

	Follower Follower          // receives what is recorded during the recording; nil for none
	Waiting  func(what string) // receives the reason of a long wait, or of tasks that are not measured; nil for none
	State    string            // folder of the list of loaded kernel libraries; default statedir.Path
	Version  string            // of acltrace, for the trace
}

// Capture are the parameters of the probe.
type Capture struct {
	Calls
	Probe      string  // "shim" (default) or "ebpf"
	Bind       string  // shim: how it precedes the runtime, "auto" (default, means "preload"), "preload" or "audit"
	Library    string  // ebpf: path of the runtime library, if the program does not name it
	DropRights bool    // ebpf: drop capabilities that are not needed once the probes are attached
	Payload    Payload // default Small
	Replayable bool    // implies the level Full, Limits.Block and no limit of the size
	NoSmall    bool    // leave out copies below SmallestCopy
	Marks      Marks   // those that frameworks make only for a tool
}

// Marks are the marks that a framework is made to make: torch_npu makes some if the name of a library of the vendor's tools is in LD_PRELOAD.
type Marks string

// The marks. A framework makes one kind at most.
const (
	MarkRanges Marks = "ranges" // ranges and moments of mstx
	MarkMemory Marks = "memory" // the regions of its allocator
)

// tools are the names of the libraries for which a framework looks.
var tools = map[Marks]string{MarkRanges: "libmspti.so", MarkMemory: "libascend_kernel_hook.so"}

// Limits are limits of time, size and memory.
type Limits struct {
	Buffers
	For     time.Duration // how long to record, from the start of recording; 0 for no limit
	MaxSize int64         // bytes of the trace at which recording ends, payloads at nine tenths; default a tenth of the free space, at most 10 GiB
}

// Calls selects what the shim records of each call. session.Ask starts an armed recording.
type Calls = ring.Calls

// Operators is what the shim records of operators.
type Operators = ring.Operators

// The levels of Operators.
const (
	OperatorNames  = ring.OperatorNames
	NoOperators    = ring.NoOperators
	OperatorShapes = ring.OperatorShapes
	OperatorsAll   = ring.OperatorsAll
)

// Buffers are the rings between programs and the recorder.
type Buffers = ring.Buffers

// Steps select the steps that are recorded.
type Steps struct {
	Range  *StepRange // nil for all
	Marker string     // what separates steps: see step.NewCounter
}

// StepRange is a range of steps, counted from 0. Both ends are included.
type StepRange struct{ First, Last int }

// ParseSteps parses A:B or A.
func ParseSteps(s string) (*StepRange, error) {
	n, err := human.ParseNumbers(s)
	if err != nil {
		return nil, err
	}
	return &StepRange{First: int(n.First), Last: int(n.Last)}, nil
}

// Ring are the parameters of a flight recorder.
type Ring = flight.Options

// Follower receives what is recorded during the recording.
type Follower = rows.Follower

// defaults fills in the defaults.
func (o *Options) defaults() {
	c := &o.Capture
	if c.Replayable {
		c.Payload, o.Limits.Block = Full, o.Limits.Block || c.Probe != "ebpf" // a probe in the kernel can't wait
	}
	if c.Payload == "" {
		c.Payload = Small
	}
	if c.Probe == "" {
		c.Probe = "shim"
	}
	if c.Bind == "" || c.Bind == "auto" {
		c.Bind = "preload"
	}
}

// operators returns Tracer.Operators of the trace.
func (o *Options) operators() string {
	switch {
	case o.Capture.Probe == "ebpf" && o.Capture.Library != "" || !slices.ContainsFunc(o.Model.Layers, func(l api.Layer) bool { return l.Marks }):
		return ""
	case o.Capture.Operators == ring.NoOperators:
		return format.NoOperators
	case o.Capture.Operators == ring.OperatorShapes:
		return format.OperatorShapes
	case o.Capture.Operators == ring.OperatorsAll:
		return format.OperatorsAll
	}
	return format.OperatorNames
}

// Conflict is a reason why options can't be combined.
type Conflict string

// The conflicts. Each is named after the options that it concerns.
const (
	DeviceTimeWithoutShim Conflict = "DeviceTime needs events on the program's streams, which only the shim can record"
	ShapesWithoutShim     Conflict = "OperatorShapes needs the shim: a probe in the kernel changes no answers"
	OperandsWithoutShim   Conflict = "OperatorsAll needs the shim: probes at the end of so many calls are slow"
	MarksWithoutShim      Conflict = "Marks need the shim, which is loaded when the program starts"
	UnknownMarks          Conflict = "Marks has an unknown value"
	BlockWithoutShim      Conflict = "Block needs the shim: a probe in the kernel can't wait for the recorder"
	AuditWithoutShim      Conflict = "Bind applies to the shim only"
	UnknownBind           Conflict = "Bind has an unknown value"
	AuditImpossible       Conflict = "Bind audit is not possible for this program"
	ArmedWithoutShim      Conflict = "Armed needs the shim"
	RingConflict          Conflict = "Ring needs the shim, and excludes Replayable: calls that have left the ring can't be replayed"
	BlobFileWithRing      Conflict = "BlobFile excludes Ring, which is kept in memory"
	BlobFileByPID         Conflict = "BlobFile contains %p, which is unknown when the file is created"
	MaxSizeWithRing       Conflict = "MaxSize excludes Ring, which has its own size"
	StepsConflict         Conflict = "Steps need the shim, and exclude Ring, which keeps the newest calls of any step"
	LibraryUnknown        Conflict = "Library is required"
)

// OptionError reports options that can't be combined, or an option that this program needs or does not support.
type OptionError struct {
	Conflict Conflict
	Value    string // of the option, if the message needs it
	Err      error  // cause, nil for none
}

func (e *OptionError) Error() string {
	s := string(e.Conflict)
	if e.Value != "" {
		s += fmt.Sprintf(" (%s)", e.Value)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *OptionError) Unwrap() error { return e.Err }

// check returns an OptionError if options can't be combined. Defaults must be filled in.
func (o *Options) check() error {
	c := &o.Capture
	shim := c.Probe == "shim"
	for _, r := range []struct {
		conflicts bool
		reason    Conflict
		value     string
	}{
		{c.DeviceTime != 0 && !shim, DeviceTimeWithoutShim, ""},
		{c.Operators == ring.OperatorShapes && !shim, ShapesWithoutShim, ""},
		{c.Operators == ring.OperatorsAll && !shim, OperandsWithoutShim, ""},
		{c.Marks != "" && !shim, MarksWithoutShim, ""},
		{c.Marks != "" && tools[c.Marks] == "", UnknownMarks, string(c.Marks)},
		{o.Limits.Block && c.Probe == "ebpf", BlockWithoutShim, ""},
		{c.Bind == "audit" && !shim, AuditWithoutShim, c.Probe},
		{c.Bind != "audit" && c.Bind != "preload", UnknownBind, c.Bind},
		{c.Armed && !shim, ArmedWithoutShim, ""},
		{o.Ring != nil && (!shim || c.Replayable), RingConflict, ""},
		{o.BlobFile != "" && o.Ring != nil, BlobFileWithRing, ""},
		{strings.Contains(o.BlobFile, "%p"), BlobFileByPID, ""},
		{o.Ring != nil && o.Limits.MaxSize != 0, MaxSizeWithRing, ""},
		{o.Steps.Range != nil && (!shim || o.Ring != nil), StepsConflict, ""},
	} {
		if r.conflicts {
			return &OptionError{Conflict: r.reason, Value: r.value}
		}
	}
	return nil
}

// limit returns the size in bytes up to which payloads are captured.
func (p Payload) limit() uint64 {
	switch p {
	case Small:
		return SmallLimit
	case Full, Hash:
		return ^uint64(0)
	}
	return 0
}

// window returns which part of the program's calls is recorded. started means that the recorder starts the program.
func (o *Options) window(started bool) format.Window {
	switch {
	case o.Ring != nil:
		return format.WindowRing
	case o.Steps.Range != nil:
		return format.WindowSteps
	case o.Capture.Armed:
		return format.WindowArmed
	case !started:
		return format.WindowAttached
	}
	return format.WindowWhole
}
