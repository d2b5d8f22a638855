package format

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// Meta describes the recording. It is stored as JSON, because a person must be able to read it without a tool, and
// because new keys are more frequent than any other change to the file.
type Meta struct {
	UUID       string            `json:"uuid"` // identity of the recording; made by Create if empty
	Host       string            `json:"host,omitempty"`
	Argv       []string          `json:"argv,omitempty"`
	Env        map[string]string `json:"env,omitempty"` // only variables on the recorder's list
	CapturedBy string            `json:"captured_by,omitempty"`
	API        string            `json:"api,omitempty"`
	Simulated  bool              `json:"simulated"`
	Device     Device            `json:"device"`
	StartWall  int64             `json:"start_wall_ns"` // nanoseconds since 1970 UTC, at the moment of StartMono
	StartMono  int64             `json:"start_mono_ns"` // CLOCK_MONOTONIC in nanoseconds; origin of all times in the trace
	EndNS      int64             `json:"end_ns"`        // end of the recording, on Call.Start's clock; 0 while it runs
	ExitCode   int               `json:"exit_code"`
	ExitSignal int               `json:"exit_signal,omitempty"`
	Payloads
	Tracer    Tracer    `json:"tracer"`
	Coverage  Coverage  `json:"coverage"`
	Libraries []Library `json:"libraries,omitempty"`
	Kernels
	DeviceTime *DeviceTime `json:"device_time,omitempty"` // nil: no task was measured with the device's clock
	// Ended describes the program's end if ExitCode and ExitSignal do not, otherwise empty.
	Ended string `json:"ended,omitempty"`
	Derivation

	// Extra holds unknown keys. They are written back unchanged.
	Extra map[string]json.RawMessage `json:"-"`
}

// Payloads describes the recorded data.
type Payloads struct {
	PayloadLevel string `json:"payload_level,omitempty"`
	TakenEarly   uint64 `json:"taken_early,omitempty"` // payloads with the Reason TakenEarly
	// HostVisibleMissing is the size in bytes of managed memory and registered host memory without content in the trace.
	HostVisibleMissing uint64 `json:"host_visible_missing,omitempty"`
	Policy             string `json:"policy,omitempty"`
	Replayable         bool   `json:"replayable"`
}

// Kernels are the kernel libraries that the simulator loaded.
type Kernels struct {
	KernelLibraries []string          `json:"kernel_libraries,omitempty"`
	KernelBuildIDs  map[string]string `json:"kernel_build_ids,omitempty"` // by path; "sha256:" and a hash for a library without a build id
}

// Derivation describes the file's origin: the part of the program's calls, and other files.
type Derivation struct {
	// Sealed is the reason why a flight recorder saved the trace, empty for other traces.
	Sealed string `json:"sealed,omitempty"`
	// Merged are the recordings in a merged trace, in the order of their ranks; otherwise empty.
	Merged []Merged `json:"merged,omitempty"`
	// BlobFile is the file with the payload contents, relative to the folder of the trace; empty if
	// they are in the trace. The Writer sets it.
	BlobFile string `json:"blob_file,omitempty"`
	// BlobsOf, in a blob file, is the name of the trace that refers to it.
	BlobsOf string `json:"blobs_of,omitempty"`
	// Recovered is the reason why only a part of another trace was left, otherwise empty. The program's
	// end may then be unknown.
	Recovered string `json:"recovered,omitempty"`
	// Window is the wanted part of the program's calls; empty in recordings with format 1.0.
	Window Window `json:"window,omitempty"`
	// Divided means that the trace has one rank of a recording of a launcher. DeviceTime and Coverage count tasks, functions and threads
	// of all ranks.
	Divided bool `json:"divided,omitempty"`
	// Extracted is the launch that the trace was made for, nil for other traces.
	Extracted *Extracted `json:"extracted,omitempty"`
}

// Extracted is the launch that a trace was made for.
type Extracted struct {
	Launch  uint64 `json:"launch"`  // its call
	Alone   bool   `json:"alone"`   // the device is idle before it, and the program waits for it at once
	Results int    `json:"results"` // number of copies that show its outputs
}

// Device is the program's accelerator.
type Device struct {
	Name          string `json:"name,omitempty"`            // as reported to the program; "simulator" for simulated ones
	DriverVersion string `json:"driver_version,omitempty"`  // driver version where it was recorded
	Runtime       string `json:"runtime_version,omitempty"` // runtime version where it was recorded
}

// DeviceTime counts tasks with a known device time, and describes the error on the clock of the calls.
type DeviceTime struct {
	Every             int    `json:"every"`                        // N if one task in N is measured; 1 for all
	GapNS             int64  `json:"gap_ns,omitempty"`             // least time between two measured tasks of a thread
	Measured          uint64 `json:"measured"`                     // tasks measured by the device's clock
	NeverSynchronized uint64 `json:"never_synchronized,omitempty"` // not measured: the program never waited for these tasks
	PoolExhausted     uint64 `json:"pool_exhausted,omitempty"`     // not measured: all event pairs were in use
	Captured          uint64 `json:"captured,omitempty"`           // not measured: a stream was being captured
	Lost              uint64 `json:"lost,omitempty"`               // not measured: the ring was full
	Refused           uint64 `json:"refused,omitempty"`            // not measured: the runtime refused, and the process measured no more
	Unsound           uint64 `json:"unsound,omitempty"`            // not measured: the times contradict the calls' clock
	Jumps             uint64 `json:"jumps,omitempty"`              // jumps between the device's and the host's clock
	TypicalErrorNS    int64  `json:"typical_error_ns"`             // the tasks' median error bound on the calls' clock
	ErrorNS           int64  `json:"error_ns"`                     // largest error bound on the calls' clock; durations are the device's own
}

// Values of Tracer.Operators.
const (
	OperatorNames = "names" // their boundaries, with names
	NoOperators   = "none"
	// OperatorShapes also has a description of each launch. The recorder told operators that the runtime wants it, and kept it: see Kept.
	OperatorShapes = "shapes"
	// OperatorsAll also has the calls that make and end the arguments of operators.
	OperatorsAll = "all"
)

// Tracer is the recorder and its cost.
type Tracer struct {
	Version    string          `json:"version,omitempty"`         // version of the recorder
	CostNS     float64         `json:"cost_ns,omitempty"`         // added to a launch with 64 bytes of arguments, measured at start
	Stacks     int             `json:"stack_frames,omitempty"`    // frames of a call that were kept, at most; 0 for none, and in traces of older versions
	Operators  string          `json:"operators,omitempty"`       // names if marks of operators were recorded, none if the user left them out; "" if the recorder has no marks, or probed only the file of --library
	Marks      string          `json:"framework_marks,omitempty"` // ranges or memory if the recorder made the framework make these marks
	ClockJumps int             `json:"clock_jumps,omitempty"`     // jumps of the processor's counter; times in the 100 ms before may be wrong
	GapNS      int64           `json:"gap_ns,omitempty"`          // gaps between a thread's calls over this were divided into running and not running; 0: none
	PayloadNS  int64           `json:"payload_ns,omitempty"`      // time that the program's threads spent on payloads, with copying
	Copies     *RecordedCopies `json:"copies,omitempty"`          // the part of payload_ns for copies, nil for none
}

// RecordedCopies sums up the payloads of copies that were hashed or copied.
type RecordedCopies struct {
	Count       uint64 `json:"count"`        // recorded copies
	Bytes       uint64 `json:"bytes"`        // size of the copied data
	RecordingNS int64  `json:"recording_ns"` // time that the program's threads spent on recording
	CallsNS     int64  `json:"calls_ns"`     // duration in calls, without recording_ns
}

// Coverage counts hooked functions and calls that passed by the recorder.
type Coverage struct {
	Binder   string            `json:"binder,omitempty"` // way of interposition: preload or audit
	Hooked   int               `json:"hooked"`
	PassedBy map[string]uint64 `json:"passed_by,omitempty"` // calls by function
	Unhooked []Unhooked        `json:"unhooked,omitempty"`
	Refused  int               `json:"refused,omitempty"` // threads without any record, for lack of memory
	// Unsized are launches and nodes without arguments in the trace, because their sizes are unknown; CutArguments are arguments that were
	// too large.
	Unsized      uint64 `json:"unsized,omitempty"`
	CutArguments uint64 `json:"cut_arguments,omitempty"`
	// NoEnd are unfinished calls that may be over, because their end was not seen; Endless are the functions whose end no probe sees.
	NoEnd   uint64   `json:"no_end,omitempty"`
	Cut     uint64   `json:"cut,omitempty"` // unfinished calls during which the recording ended
	Endless []string `json:"endless,omitempty"`
	Asleep  []Asleep `json:"asleep,omitempty"`
}

// Asleep is a thread that slept from the beginning to the end of a recording that was attached, so that it made no call.
type Asleep struct {
	PID     int    `json:"pid"`               // process id
	TID     int    `json:"tid"`               // thread id
	Name    string `json:"name"`              // name of the thread
	Library string `json:"library,omitempty"` // runtime library with addresses on its stack: it may be in a call; empty if the stack is unreadable
}

func (a *Asleep) String() string {
	s := fmt.Sprintf("thread %d (%s) of process %d made no call: it has slept since before the recording", a.TID, a.Name, a.PID)
	if a.Library == "" {
		return s
	}
	return s + ", perhaps in a call: its stack has addresses of " + a.Library
}

// Unhooked is a process, or a library in one, whose calls were invisible.
type Unhooked struct {
	PID    int           `json:"pid"`             // process id, 0 for all processes
	Exe    string        `json:"exe"`             // file of the program or library; empty if the process ended before it was read
	Reason string        `json:"reason"`          // why its calls were not recorded, as a sentence
	Cause  UnhookedCause `json:"cause,omitempty"` // linked in, no loader, no uprobe, outlived or crash guard; empty for other reasons
}

// UnhookedCause is a reason for Unhooked.
type UnhookedCause string

// The causes.
const (
	LinkedIn   UnhookedCause = "linked in"   // runtime functions are linked into the program
	NoLoader   UnhookedCause = "no loader"   // the program is linked statically
	NoUprobe   UnhookedCause = "no uprobe"   // the kernel allows none on some functions
	Outlived   UnhookedCause = "outlived"    // the process outlived the recording
	CrashGuard UnhookedCause = "crash guard" // the program crashed in code of acltrace
)

// Subject names the process with its file, or the file if no process has probes in it. The file of a process that ended early may be unknown.
func (u *Unhooked) Subject() string {
	switch {
	case u.PID == 0:
		return u.Exe
	case u.Exe == "":
		return fmt.Sprintf("process %d", u.PID)
	}
	return fmt.Sprintf("process %d, %s", u.PID, u.Exe)
}

// Library is a shared object that the program had loaded.
type Library struct {
	Path    string `json:"path"`               // path of the file
	BuildID string `json:"build_id,omitempty"` // hexadecimal build id, if the file was readable and has one
}

// Process is a row of the process table.
type Process struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid,omitempty"`
	// ForkedFrom is the PID of its parent if that had called the runtime before the fork, otherwise 0. Runtimes fail in such
	// a process.
	ForkedFrom int   `json:"forked_from,omitempty"`
	Start      int64 `json:"start_ns"` // on the clock of Call.Start
	// End is the time at which the process was found to have ended, at most some tenths of a second late, on the same clock; 0 if unknown.
	// Killed, ExitCode, ExitUnknown and Signal describe the end.
	End      int64    `json:"end_ns,omitempty"`
	Killed   bool     `json:"killed,omitempty"` // by a signal, which is 0 if unknown
	Exe      string   `json:"exe,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	ExitCode int      `json:"exit_code,omitempty"`
	// ExitUnknown means that the process ended by itself, but ExitCode is not known.
	ExitUnknown bool `json:"exit_unknown,omitempty"`
	Signal      int  `json:"signal,omitempty"`
	Rank        int  `json:"rank,omitempty"`
	// Joined means that Rank is the one with which the process joined its largest communicator: its environment has none.
	Joined bool `json:"joined,omitempty"`
	// Env has the variables of Meta.Env that differ in this process, as a launcher sets them for each of its ranks.
	Env       map[string]string `json:"env,omitempty"`
	Host      string            `json:"host,omitempty"`      // if not Meta.Host
	Simulated bool              `json:"simulated,omitempty"` // it was found to use a simulator when it began
	// Resource has attributes of the process, its container and its host, by their names in OpenTelemetry's conventions.
	Resource map[string]string `json:"resource,omitempty"`
	// Devices are the devices that the runtime described to the process, by number.
	Devices []ProcessDevice `json:"devices,omitempty"`
	// Maps are the code mappings for stacks, if stacks were recorded.
	Maps []Mapping `json:"maps,omitempty"`
}

// OwnEnv returns the variables of a process that differ from those of the trace, nil for none.
func (m *Meta) OwnEnv(env map[string]string) map[string]string {
	var own map[string]string
	for name, value := range env {
		if m.Env[name] != value {
			if own == nil {
				own = map[string]string{}
			}
			own[name] = value
		}
	}
	return own
}

// Ranked reports whether Rank is known: from a merge, from the environment of the process, or from its communicators.
func (p *Process) Ranked(m *Meta) bool {
	return p.Joined || len(m.Merged) > 0 || slices.ContainsFunc(RankVariables, func(name string) bool { return p.Env[name] != "" })
}

// Crashed reports whether a signal killed the process. Signals that ask a program to end do not count.
func (p *Process) Crashed() bool { return p.Killed && !AsksToEnd(p.Signal) }

// EndedWell reports whether the process is known to have ended with exit code 0.
func (p *Process) EndedWell() bool {
	return p.End > 0 && !p.Killed && !p.ExitUnknown && p.ExitCode == 0
}

// AsksToEnd reports whether a signal asks a program to end, as Ctrl-C does. A program that it ends has not failed.
func AsksToEnd(signal int) bool {
	s := syscall.Signal(signal)
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

// Program returns the file of the program, "program" if it is not known.
func (p *Process) Program() string {
	switch {
	case p.Exe != "":
		return p.Exe
	case len(p.Argv) > 0:
		return p.Argv[0]
	}
	return "program"
}

// ProcessDevice has the facts that a process learned about a device from the runtime. Unknown facts are empty.
type ProcessDevice struct {
	Number      int    `json:"number"` // in the process
	UUID        string `json:"uuid,omitempty"`
	PCI         string `json:"pci,omitempty"`         // bus id, such as 0000:61:00.0
	HostNumber  *int   `json:"host_number,omitempty"` // on the host
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
}

// Mapping is a file range that a process has mapped as code.
type Mapping struct {
	Start   uint64 `json:"start"` // address
	End     uint64 `json:"end"`
	Offset  uint64 `json:"offset"` // in the file
	Path    string `json:"path"`   // "" for code that the program has generated
	BuildID string `json:"build_id,omitempty"`
}

// Thread is a row of the thread table.
type Thread struct {
	Process uint32 `json:"process"` // index into the process table
	TID     int    `json:"tid"`
	Name    string `json:"name,omitempty"`
}

type plainMeta Meta

var metaKeys = func() map[string]bool {
	keys := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Meta]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys[key] = !f.Anonymous
	}
	return keys
}()

// MarshalJSON writes the known keys and Extra.
func (m Meta) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(plainMeta(m))
	if err != nil || len(m.Extra) == 0 {
		return b, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	for k, v := range m.Extra {
		if !metaKeys[k] {
			all[k] = v
		}
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads the known keys and keeps the others in Extra.
func (m *Meta) UnmarshalJSON(b []byte) error {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	var p plainMeta
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	p.Extra = nil
	for k, v := range all {
		if metaKeys[k] {
			continue
		}
		if p.Extra == nil {
			p.Extra = map[string]json.RawMessage{}
		}
		p.Extra[k] = v
	}
	*m = Meta(p)
	return nil
}

// NewUUID returns a random UUID in its usual text form.
func NewUUID() string { return uuid.NewString() }

// Merged is a recording that has become a part of another trace.
type Merged struct {
	UUID  string `json:"uuid"`
	Host  string `json:"host,omitempty"`
	Rank  int    `json:"rank"`
	Shift int64  `json:"shift_ns"` // added to its times at its beginning
	// ErrorNS is half the spread of collectives' ends against the first rank, or the slack that
	// order leaves, whichever is less: nanoseconds. 0 if only the wall clocks are known.
	ErrorNS int64 `json:"error_ns,omitempty"`
	// Matched is the number of collectives that bound its clock.
	Matched int `json:"matched"`
	// OneClock: it has the clock of an earlier rank, which ran on the same host.
	OneClock bool `json:"one_clock,omitempty"`
}

// RankVariables are the environment variables in which launchers pass the rank; the first one that is set counts.
var RankVariables = []string{"RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}

// A Window is the wanted part of the program's calls.
type Window string

// The windows.
const (
	WindowWhole     Window = "whole"
	WindowRing      Window = "ring"      // the newest calls, kept by a flight recorder
	WindowSteps     Window = "steps"     // chosen steps
	WindowArmed     Window = "armed"     // the times with recording on
	WindowAttached  Window = "attached"  // the program ran already
	WindowExtracted Window = "extracted" // one launch and its inputs
)
