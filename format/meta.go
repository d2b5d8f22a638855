package format

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Meta says what was recorded, where and how. It is stored as JSON, because a person with no tool must be able to read it, and
// because keys are added more often than anything else in the file.
type Meta struct {
	UUID       string            `json:"uuid"` // names the recording; made by Create when empty
	Host       string            `json:"host,omitempty"`
	Argv       []string          `json:"argv,omitempty"`
	Env        map[string]string `json:"env,omitempty"` // only variables on the recorder's list
	CapturedBy string            `json:"captured_by,omitempty"`
	API        string            `json:"api,omitempty"`
	Simulated  bool              `json:"simulated"`
	Device     Device            `json:"device"`
	StartWall  int64             `json:"start_wall_ns"` // nanoseconds since 1970 UTC, at the moment of StartMono
	StartMono  int64             `json:"start_mono_ns"` // CLOCK_MONOTONIC in nanoseconds; all times in the trace count from here
	EndNS      int64             `json:"end_ns"`        // end of the recording, on the clock of Call.Start; 0 while it runs
	ExitCode   int               `json:"exit_code"`
	ExitSignal int               `json:"exit_signal,omitempty"`
	Payloads
	Tracer    Tracer    `json:"tracer"`
	Coverage  Coverage  `json:"coverage"`
	Libraries []Library `json:"libraries,omitempty"`
	Kernels
	DeviceTime *DeviceTime `json:"device_time,omitempty"` // nil: no task was to be measured by the device's clock
	// Ended says what is known of the program's end where that is not all in ExitCode and ExitSignal, empty where it is.
	Ended string `json:"ended,omitempty"`
	Derivation

	// Extra holds the keys that this version does not know. They are written back as they were.
	Extra map[string]json.RawMessage `json:"-"`
}

// Payloads says which data of calls was recorded.
type Payloads struct {
	PayloadLevel string `json:"payload_level,omitempty"`
	TakenEarly   uint64 `json:"taken_early,omitempty"` // payloads with the Reason TakenEarly
	// HostVisibleMissing is the size in bytes of managed memory and registered host memory whose content is not in the trace.
	HostVisibleMissing uint64 `json:"host_visible_missing,omitempty"`
	Policy             string `json:"policy,omitempty"`
	Replayable         bool   `json:"replayable"`
}

// Kernels are the kernel libraries that the simulator loaded.
type Kernels struct {
	KernelLibraries []string          `json:"kernel_libraries,omitempty"`
	KernelBuildIDs  map[string]string `json:"kernel_build_ids,omitempty"` // by path; "sha256:" and a hash for one without a build id
}

// Derivation says how the file was made: from which part of the program's calls, and from which other files.
type Derivation struct {
	// Sealed says why a flight recorder has made a trace of the calls that it kept, empty for other traces.
	Sealed string `json:"sealed,omitempty"`
	// Merged are the recordings that the trace was put together from, in the order of their ranks; empty for one that was not.
	Merged []Merged `json:"merged,omitempty"`
	// BlobFile is the file that has the contents of the payloads, by its way from the folder of the trace; empty where
	// they are in the trace. The Writer sets it.
	BlobFile string `json:"blob_file,omitempty"`
	// BlobsOf is the name of the trace whose payloads the file has, in the blob file of one.
	BlobsOf string `json:"blobs_of,omitempty"`
	// Recovered says why the trace is what was left of another, empty for one as it was recorded. The end of the
	// program may then not be known.
	Recovered string `json:"recovered,omitempty"`
	// Window is the part of the program's calls that was to be recorded; empty in recordings of format 1.0.
	Window Window `json:"window,omitempty"`
	// Extracted says which launch the trace was made for, nil for other traces.
	Extracted *Extracted `json:"extracted,omitempty"`
}

// Extracted is the launch that a trace was made for.
type Extracted struct {
	Launch  uint64 `json:"launch"`  // its call
	Alone   bool   `json:"alone"`   // the device has nothing to do before it, and the program waits for it at once
	Results int    `json:"results"` // how many copies show what it wrote
}

// Device is what the program ran on.
type Device struct {
	Name          string `json:"name,omitempty"`
	Count         int    `json:"count,omitempty"`
	MemoryBytes   uint64 `json:"memory_bytes,omitempty"`
	DriverVersion string `json:"driver_version,omitempty"`
	Runtime       string `json:"runtime_version,omitempty"`
}

// DeviceTime says of how many tasks the device's own time is known, and how well it is put on the clock of the calls.
type DeviceTime struct {
	Every    int    `json:"every"`            // tasks of a thread, of which one was to be measured; 1 for all
	GapNS    int64  `json:"gap_ns,omitempty"` // at least, between two measured tasks of a thread
	Measured uint64 `json:"measured"`
	// Those that were to be measured and were not: the program has never waited for them; it had not waited for so many that all
	// pairs of events were in use; a stream was captured; there was no room in the ring; the runtime has refused; the times made
	// no sense on the clock of the calls.
	NeverSynchronized uint64 `json:"never_synchronized,omitempty"`
	PoolExhausted     uint64 `json:"pool_exhausted,omitempty"`
	Captured          uint64 `json:"captured,omitempty"`
	Lost              uint64 `json:"lost,omitempty"`
	Refused           uint64 `json:"refused,omitempty"`
	Unsound           uint64 `json:"unsound,omitempty"`
	// Jumps is how often the two clocks were found to have jumped.
	Jumps uint64 `json:"jumps,omitempty"`
	// How far off, at most, the times of the tasks are on the clock of the calls: of half of the tasks, and of all. Durations are the
	// device's own.
	TypicalErrorNS int64 `json:"typical_error_ns"`
	ErrorNS        int64 `json:"error_ns"`
}

// Tracer is the program that recorded, and what it cost.
type Tracer struct {
	Version string  `json:"version,omitempty"`
	CostNS  float64 `json:"cost_ns,omitempty"` // added to one call, measured at start
	// ClockJumps is how often the processor's counter was found to have jumped: times in the 100 ms before may be wrong.
	ClockJumps int `json:"clock_jumps,omitempty"`
	// PayloadNS is the time of the program's threads that hashing and copying payloads took, Copies the part of copies.
	PayloadNS int64           `json:"payload_ns,omitempty"`
	Copies    *RecordedCopies `json:"copies,omitempty"`
}

// RecordedCopies sums up the payloads of copies that were hashed or copied.
type RecordedCopies struct {
	Count       uint64 `json:"count"`
	Bytes       uint64 `json:"bytes"`
	RecordingNS int64  `json:"recording_ns"` // that they took the program's threads
	CallsNS     int64  `json:"calls_ns"`     // that the calls took, without that
}

// Coverage counts the functions that were seen and those that went past the recorder.
type Coverage struct {
	Binder   string            `json:"binder,omitempty"` // how the shim came before the runtime: preload or audit
	Hooked   int               `json:"hooked"`
	PassedBy map[string]uint64 `json:"passed_by,omitempty"` // calls by function
	Unhooked []Unhooked        `json:"unhooked,omitempty"`
	Refused  int               `json:"refused,omitempty"` // threads of which nothing is recorded, for want of memory
	// Unsized are the launches and nodes whose arguments are not in the trace since nothing told their sizes, CutArguments arguments that were
	// too large.
	Unsized      uint64 `json:"unsized,omitempty"`
	CutArguments uint64 `json:"cut_arguments,omitempty"`
}

// Unhooked is a process, or a library in one, whose calls could not be seen.
type Unhooked struct {
	PID    int    `json:"pid"` // 0: all
	Exe    string `json:"exe"`
	Reason string `json:"reason"`
}

// Subject names the process, or the file if it has no probe in any.
func (u *Unhooked) Subject() string {
	if u.PID == 0 {
		return u.Exe
	}
	return fmt.Sprintf("process %d, %s", u.PID, u.Exe)
}

// Library is a shared object that the program had loaded.
type Library struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id,omitempty"`
}

// Process is a row of the process table.
type Process struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid,omitempty"`
	// ForkedFrom is the PID of the process that it was forked from after that had called the runtime, 0 for none. Runtimes fail in such
	// a process.
	ForkedFrom int   `json:"forked_from,omitempty"`
	Start      int64 `json:"start_ns"` // on the clock of Call.Start
	// End is when the process was found to have ended, at most some tenths of a second later, on the same clock; 0 if nobody has seen that.
	// The three that follow say how.
	End      int64    `json:"end_ns,omitempty"`
	Killed   bool     `json:"killed,omitempty"` // by a signal, which is 0 where it is not known
	Exe      string   `json:"exe,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	ExitCode int      `json:"exit_code,omitempty"`
	Signal   int      `json:"signal,omitempty"`
	Rank     int      `json:"rank,omitempty"`
	Host     string   `json:"host,omitempty"` // where it is not Meta.Host
	// Maps are the mappings of code that stacks point into, where stacks were recorded.
	Maps []Mapping `json:"maps,omitempty"`
}

// Mapping is a part of a file that a process has mapped as code.
type Mapping struct {
	Start   uint64 `json:"start"` // address
	End     uint64 `json:"end"`
	Offset  uint64 `json:"offset"` // in the file
	Path    string `json:"path"`
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
func NewUUID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return uuidText(u)
}

func uuidText(u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func parseUUID(s string) (u [16]byte, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("uuid %q is not 32 hexadecimal digits", s)
	}
	return [16]byte(b), nil
}

// Merged is a recording that has become a part of another trace.
type Merged struct {
	UUID  string `json:"uuid"`
	Host  string `json:"host,omitempty"`
	Rank  int    `json:"rank"`
	Shift int64  `json:"shift_ns"` // that was added to its times at its beginning
	// ErrorNS is how far the ends of collectives lie apart from those of the first rank, half of them, or how much what
	// must come before what leaves open, if that is less: nanoseconds. 0 where nothing but the wall clocks tells.
	ErrorNS int64 `json:"error_ns,omitempty"`
	// Matched is the number of collectives that bound its clock.
	Matched int `json:"matched"`
}

// RankVariables are those of the environment in which launchers tell a program its rank; the first one that is there counts.
var RankVariables = []string{"RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}

// A Window is the part of the program's calls that was to be recorded.
type Window string

// The windows.
const (
	WindowWhole     Window = "whole"
	WindowRing      Window = "ring"      // the newest calls, kept by a flight recorder
	WindowSteps     Window = "steps"     // chosen steps
	WindowArmed     Window = "armed"     // the times at which recording was on
	WindowAttached  Window = "attached"  // from some moment on: the program ran already
	WindowExtracted Window = "extracted" // one launch and what it needs
)
