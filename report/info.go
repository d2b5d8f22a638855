// Package report writes findings for people and scripts: text, tables, JSON, CSV, and the escaping that a terminal
// needs.
//
// Info, Lines and Live read a trace or a recording themselves. All other text comes from findings: packages analyze/*
// and replay. cmd/acltrace calls this package with a finding and a writer. JSON forms are stable: keys are added, never
// renamed. Names from a trace reach the writer escaped, through Printf. This package opens no file and ends no process.
package report

import (
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Info is the summary of a trace, as `acltrace info --json` prints it. Embedding keeps the JSON keys flat.
type Info struct {
	Format InfoFormat `json:"format"`
	format.Scope
	InfoProgram
	InfoExtent
	Env        map[string]string `json:"env"` // variables of the job: ranks, runtime settings, trace context
	Calls      InfoCalls         `json:"calls"`
	Standing   []Standing        `json:"standing,omitempty"` // calls in progress of a live recording; the file does not have them
	Payload    InfoPayload       `json:"payload"`
	Gaps       InfoGaps          `json:"gaps"`
	Coverage   InfoCoverage      `json:"coverage"`
	Tracer     format.Tracer     `json:"tracer"`
	Replayable bool              `json:"replayable"` // all data for a replay is in the trace
	Policy     string            `json:"policy"`     // drop or block
	Libraries  []format.Library  `json:"libraries"`
	InfoIntegrity
	path   string
	losses []string // missing parts of the trace
	cut    string   // why the end is missing
	ended  bool     // the recording ended normally, even if the file was damaged later
}

// InfoFormat is the version of the file format.
type InfoFormat struct {
	Major uint16 `json:"major"`
	Minor uint16 `json:"minor"`
}

// InfoProgram is the recorded program and its machine.
type InfoProgram struct {
	Simulated  bool          `json:"simulated"`   // the program ran on the simulator
	CapturedBy string        `json:"captured_by"` // shim or ebpf
	API        string        `json:"api"`         // runtime
	Command    []string      `json:"command"`     // of the first process
	Host       string        `json:"host"`
	ExitCode   int           `json:"exit_code"` // of the first process
	ExitSignal int           `json:"exit_signal"`
	Device     format.Device `json:"device"`
}

// InfoExtent is the extent of a trace in processes, threads and time.
type InfoExtent struct {
	Processes   int           `json:"processes"`
	Threads     int           `json:"threads"`
	ProcessList []InfoProcess `json:"process_list"` // those that called the runtime, in the order of their first calls
	StartNS     int64         `json:"start_ns"`     // since 1970 UTC
	EndNS       int64         `json:"end_ns"`       // since 1970 UTC
	Clock       InfoClock     `json:"clock"`
}

// InfoIntegrity describes damage to the file, unmeasured tasks, and how the recording ended.
type InfoIntegrity struct {
	Unknown    map[string]uint64  `json:"unknown,omitempty"` // records that this version cannot read, by kind
	Damage     []string           `json:"damage,omitempty"`
	DeviceTime *format.DeviceTime `json:"device_time,omitempty"` // nil if no task was to be measured by the device's clock
	Ended      string             `json:"ended,omitempty"`       // how the program ended, if its exit code is not known
	Sealed     string             `json:"sealed,omitempty"`      // why a flight recorder saved the trace
	Recovered  string             `json:"recovered,omitempty"`   // why the trace was recovered from another one
	Recovery   *format.Recovery   `json:"recovery,omitempty"`    // content of a file without a readable end
}

// InfoClock is one moment on two clocks. Traces from different machines are joined by it.
type InfoClock struct {
	WallNS int64 `json:"wall_ns"` // since 1970 UTC
	MonoNS int64 `json:"mono_ns"` // CLOCK_MONOTONIC; all times in the trace count from here
}

type InfoCalls struct {
	Total      uint64            `json:"total"`
	Failed     uint64            `json:"failed"`      // returned an error
	Unfinished uint64            `json:"unfinished"`  // had not returned at the end
	ByFunction map[string]uint64 `json:"by_function"` // number of calls
}

type InfoPayload struct {
	Level string `json:"level"` // of --payload
	// Pieces counts the program's data: arguments, strings and copied memory. Data up to 4 KiB is stored in the calls,
	// longer data as blobs.
	Pieces      uint64 `json:"pieces"`
	Blobs       uint64 `json:"blobs"` // payloads that the file stores once
	Bytes       uint64 `json:"bytes"`
	StoredBytes uint64 `json:"stored_bytes"` // compressed
	TakenEarly  uint64 `json:"taken_early"`  // pinned memory read at the call, which may differ from the copied content
	// VisibleMissing is the size in bytes of managed and registered host memory with missing content.
	VisibleMissing uint64 `json:"host_visible_missing,omitempty"`
	// BlobFile has the blobs, if the trace does not.
	BlobFile *InfoBlobFile `json:"blob_file,omitempty"`
}

type InfoBlobFile struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Complete bool   `json:"complete"`
	Problem  string `json:"problem,omitempty"` // why it is unreadable
}

type InfoGaps struct {
	Count     int    `json:"count"`
	CallsLost uint64 `json:"calls_lost"` // if their number is known
	// CallsOlder counts calls that a flight recorder dropped, CallsOff calls while recording was off, as outside
	// --steps. CallsLost includes neither.
	CallsOlder uint64 `json:"calls_older,omitempty"`
	CallsOff   uint64 `json:"calls_off,omitempty"` // calls that were left out on request
	Off        int    `json:"off,omitempty"`       // gaps in which recording was off
	Older      int    `json:"older,omitempty"`     // gaps from a flight recorder
}

type InfoCoverage struct {
	Hooked   int               `json:"hooked"`    // functions that were recorded with their arguments
	PassedBy map[string]uint64 `json:"passed_by"` // calls of functions that were counted by name
	// AskedFor are functions in PassedBy that the program only looked up.
	AskedFor []string          `json:"asked_for"`
	Unhooked []format.Unhooked `json:"unhooked"`
	Binder   string            `json:"binder,omitempty"` // how the shim was loaded before the runtime: preload or audit
	Refused  int               `json:"refused"`          // threads without a recording, for want of memory
	// Unsized counts launches and nodes with arguments of unknown size, CutArguments arguments over the limit. Neither
	// are recorded.
	Unsized      uint64 `json:"unsized,omitempty"`
	CutArguments uint64 `json:"cut_arguments,omitempty"`
}

// NewInfo reads the summary of a trace. The text form prints path.
func NewInfo(path string, r *format.Reader, of *api.Model) (*Info, error) {
	m, c := r.Meta(), r.Completeness()
	in := &Info{
		Scope: c.Scope(),
		InfoProgram: InfoProgram{Simulated: m.Simulated, CapturedBy: m.CapturedBy, API: m.API, Command: m.Argv, Host: m.Host,
			ExitCode: m.ExitCode, ExitSignal: m.ExitSignal, Device: m.Device},
		InfoExtent: InfoExtent{Processes: len(r.Processes()), Threads: len(r.Threads()), StartNS: m.StartWall, EndNS: m.StartWall + m.EndNS,
			Clock: InfoClock{m.StartWall, m.StartMono}},
		Env: m.Env, Gaps: newInfoGaps(r.Gaps()), Coverage: newInfoCoverage(&m.Coverage, of), Tracer: m.Tracer, Replayable: m.Replayable, Policy: m.Policy,
		Libraries: m.Libraries,
		InfoIntegrity: InfoIntegrity{Unknown: r.Unknown(), DeviceTime: m.DeviceTime, Ended: m.Ended, Sealed: m.Sealed, Recovered: m.Recovered,
			Recovery: r.Recovered()},
		path: path, losses: losses(c), cut: c.Cut, ended: m.EndNS != 0,
	}
	in.Format.Major, in.Format.Minor = r.Version()
	for _, p := range r.Processes() {
		in.ProcessList = append(in.ProcessList, newInfoProcess(&p, m.StartWall))
	}
	if in.Env == nil {
		in.Env = map[string]string{}
	}
	if rec := in.Recovery; rec != nil && m.EndNS == 0 {
		in.EndNS = m.StartWall + rec.LastTime
	}
	for _, d := range r.Damage() {
		in.Damage = append(in.Damage, d.Error())
	}
	counts, err := r.Counts()
	if err != nil {
		return nil, err
	}
	in.Calls = InfoCalls{Total: counts.Calls, Failed: counts.Failed, Unfinished: counts.Unfinished, ByFunction: map[string]uint64{}}
	for _, f := range counts.Functions {
		in.Calls.ByFunction[r.Schema().FuncName(f.Func)] += f.Calls
	}
	in.Payload, err = newInfoPayload(r)
	return in, err
}

func newInfoPayload(r *format.Reader) (InfoPayload, error) {
	m := r.Meta()
	blobs, err := r.BlobStats()
	if err != nil {
		return InfoPayload{}, err
	}
	pieces, err := r.Pieces()
	if err != nil {
		return InfoPayload{}, err
	}
	p := InfoPayload{Level: m.PayloadLevel, Pieces: pieces, Blobs: blobs.Blobs, Bytes: blobs.Bytes, StoredBytes: blobs.Stored, TakenEarly: m.TakenEarly, VisibleMissing: m.HostVisibleMissing}
	if f := r.BlobFile(); f != nil {
		p.BlobFile = &InfoBlobFile{Path: f.Path, Bytes: f.Size, Complete: f.Err == nil && f.Recovered == nil}
		if f.Err != nil {
			p.BlobFile.Problem = f.Err.Error()
		}
	}
	return p, nil
}

func newInfoGaps(gaps []format.Gap) InfoGaps {
	in := InfoGaps{Count: len(gaps)}
	for _, g := range gaps {
		switch g.Reason {
		case format.Outdated:
			in.CallsOlder += g.Calls
			in.Older++
		case format.Detached:
			in.CallsOff += g.Calls
			in.Off++
		default:
			in.CallsLost += g.Calls
		}
	}
	return in
}

func newInfoCoverage(c *format.Coverage, of *api.Model) InfoCoverage {
	in := InfoCoverage{c.Hooked, c.PassedBy, []string{}, c.Unhooked, c.Binder, c.Refused, c.Unsized, c.CutArguments}
	if in.PassedBy == nil {
		in.PassedBy = map[string]uint64{}
	}
	for _, name := range slices.Sorted(maps.Keys(in.PassedBy)) {
		if !of.Counted(name) {
			in.AskedFor = append(in.AskedFor, name)
		}
	}
	if in.Unhooked == nil {
		in.Unhooked = []format.Unhooked{}
	}
	return in
}
