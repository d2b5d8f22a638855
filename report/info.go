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
	"github.com/acltrace/acltrace/internal/standing"
)

// Info is the summary of a trace, as `acltrace info --json` prints it. Embedding keeps the JSON keys flat.
type Info struct {
	Format InfoFormat `json:"format"`
	format.Scope
	InfoProgram
	InfoExtent
	Env        map[string]string `json:"env"`                 // recorded environment: ranks, runtime settings, trace context
	Calls      InfoCalls         `json:"calls"`               // numbers of calls
	Recording  bool              `json:"recording,omitempty"` // a recorder of this machine is writing the trace
	Standing   []standing.Call   `json:"standing,omitempty"`  // calls in progress of a live recording; the file does not have them
	Payload    InfoPayload       `json:"payload"`             // recorded data of the program
	Gaps       InfoGaps          `json:"gaps"`                // times with calls that are not in the trace
	Coverage   InfoCoverage      `json:"coverage"`            // functions and processes that were recorded, or passed by
	Tracer     format.Tracer     `json:"tracer"`
	Replayable bool              `json:"replayable"`          // all data for a replay is in the trace
	Policy     string            `json:"policy"`              // if a buffer is full: drop calls, or block the program; empty for imported traces
	Libraries  []format.Library  `json:"libraries"`           // shared objects that the program loaded
	Operators  *InfoOperators    `json:"operators,omitempty"` // operators that the program ran, nil for none
	Unmarked   string            `json:"unmarked,omitempty"`  // library of a framework that makes marks only for a tool, and made none
	InfoIntegrity
	path string
	// noMemory is the number of failed allocations.
	noMemory uint64
	losses   []string // missing parts of the trace
	cut      string   // why the end is missing
	ended    bool     // the recording ended normally, even if the file was damaged later
}

// InfoFormat is the version of the file format.
type InfoFormat struct {
	Major uint16 `json:"major"` // changes if older versions can't read the file
	Minor uint16 `json:"minor"` // changes with additions that older versions skip
}

// InfoProgram is the recorded program and its machine.
type InfoProgram struct {
	Simulated  bool          `json:"simulated"`   // the program ran on the simulator
	CapturedBy string        `json:"captured_by"` // shim or ebpf, or the profiler of an imported trace
	API        string        `json:"api"`         // runtime: acl or cuda
	Command    []string      `json:"command"`     // command line of the first process
	Host       string        `json:"host"`        // host name of the machine
	ExitCode   int           `json:"exit_code"`   // exit code of the first process; 128 and the signal if one killed it, 0 if not known
	ExitSignal int           `json:"exit_signal"` // signal that killed the first process, 0 for none
	Device     format.Device `json:"device"`
}

// InfoExtent is the extent of a trace in processes, threads and time.
type InfoExtent struct {
	Processes   int           `json:"processes"`    // number of processes that called the runtime
	Threads     int           `json:"threads"`      // number of threads that called the runtime
	ProcessList []InfoProcess `json:"process_list"` // processes that called the runtime, in the order of their first calls
	StartNS     int64         `json:"start_ns"`     // start of the recording, since 1970 UTC
	EndNS       int64         `json:"end_ns"`       // end of the recording, since 1970 UTC; end of the last call if the file has no end
	Clock       InfoClock     `json:"clock"`
}

// InfoIntegrity describes damage to the file, unmeasured tasks, and how the recording ended.
type InfoIntegrity struct {
	Unknown    map[string]uint64  `json:"unknown,omitempty"`     // records that this version cannot read, by kind
	Damage     []string           `json:"damage,omitempty"`      // damaged places of the file, one message each
	DeviceTime *format.DeviceTime `json:"device_time,omitempty"` // nil if no task was to be measured by the device's clock
	Ended      string             `json:"ended,omitempty"`       // how the program ended, if exit_code and exit_signal do not describe it
	Sealed     string             `json:"sealed,omitempty"`      // why a flight recorder saved the trace
	Divided    bool               `json:"divided,omitempty"`     // one rank of a recording: device_time and coverage count all ranks
	Recovered  string             `json:"recovered,omitempty"`   // why the trace was recovered from another one
	Recovery   *format.Recovery   `json:"recovery,omitempty"`    // content if the file's end can't be read
}

// InfoClock is one moment on two clocks. Traces from different machines are joined by it.
type InfoClock struct {
	WallNS int64 `json:"wall_ns"` // time of day at that moment, since 1970 UTC
	MonoNS int64 `json:"mono_ns"` // CLOCK_MONOTONIC at that moment; all times in the trace count from here
}

type InfoCalls struct {
	Total      uint64            `json:"total"`           // calls in the trace, with unfinished ones
	Marks      uint64            `json:"marks,omitempty"` // marks of operators, which are not counted as calls
	Failed     uint64            `json:"failed"`          // calls that returned an error, without those in answered
	Answered   uint64            `json:"answered"`        // questions that an error answered with no, and repeated initializations
	Unfinished uint64            `json:"unfinished"`      // calls that had not returned at the end
	ByFunction map[string]uint64 `json:"by_function"`     // number of calls by function
}

type InfoPayload struct {
	Level string `json:"level"` // --payload of the recording: small, full, hash or none
	// Pieces is the number of arguments, strings and copies with data. Data up to 4 KiB is stored in the calls, longer
	// data as blobs. With a blob file, also the short contents of copies are in blobs, those of many calls in one.
	Pieces         uint64        `json:"pieces"`
	Blobs          uint64        `json:"blobs"`                          // payloads stored outside the calls: over 4 KiB, or only a hash; with blob_file, short contents of many calls are one
	Bytes          uint64        `json:"bytes"`                          // size of the blobs in the program, each blob once
	StoredBytes    uint64        `json:"stored_bytes"`                   // compressed size of the blobs in the trace or blob file
	TakenEarly     uint64        `json:"taken_early"`                    // payloads read from pinned memory at the call; the copied content may differ
	VisibleMissing uint64        `json:"host_visible_missing,omitempty"` // managed and registered host memory without content, in bytes
	BlobFile       *InfoBlobFile `json:"blob_file,omitempty"`            // file with the blobs, nil if the trace has them
}

type InfoBlobFile struct {
	Path     string `json:"path"`              // file of --blobs
	Bytes    int64  `json:"bytes"`             // its size
	Complete bool   `json:"complete"`          // it is readable to its end
	Problem  string `json:"problem,omitempty"` // why it is unreadable
}

type InfoGaps struct {
	Count      int    `json:"count"`                 // number of gaps, including off and older
	CallsLost  uint64 `json:"calls_lost"`            // calls known to be lost, except calls_older and calls_off
	CallsOlder uint64 `json:"calls_older,omitempty"` // calls that a flight recorder dropped for newer ones
	CallsOff   uint64 `json:"calls_off,omitempty"`   // calls while recording was off, as outside --steps
	Off        int    `json:"off,omitempty"`         // number of gaps in which recording was off
	Older      int    `json:"older,omitempty"`       // number of gaps from a flight recorder
}

type InfoCoverage struct {
	Hooked       int               `json:"hooked"`                  // functions that were recorded with their arguments
	PassedBy     map[string]uint64 `json:"passed_by"`               // calls and look-ups by name, for functions that were not hooked
	AskedFor     []string          `json:"asked_for"`               // functions in passed_by that the program only looked up or linked
	Below        []string          `json:"below"`                   // functions in asked_for under or beside the runtime: data may move unseen
	Unhooked     []format.Unhooked `json:"unhooked"`                // processes and libraries whose calls were invisible
	Binder       string            `json:"binder,omitempty"`        // how the shim was loaded before the runtime: preload or audit
	Refused      int               `json:"refused"`                 // threads that were not recorded because memory was short
	Unsized      uint64            `json:"unsized,omitempty"`       // launches and graph nodes without arguments, because their size is unknown
	CutArguments uint64            `json:"cut_arguments,omitempty"` // arguments over the size limit, which are not recorded
	NoEnd        uint64            `json:"no_end,omitempty"`        // unfinished calls that may be over, because their end was not seen
	Cut          uint64            `json:"cut,omitempty"`           // unfinished calls during which the recording ended
	Endless      []string          `json:"endless,omitempty"`       // functions whose end eBPF does not see: they may run callbacks
	Asleep       []format.Asleep   `json:"asleep,omitempty"`        // threads that slept throughout an attached recording
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
		InfoIntegrity: InfoIntegrity{Unknown: r.Unknown(), DeviceTime: m.DeviceTime, Ended: m.Ended, Sealed: m.Sealed, Divided: m.Divided, Recovered: m.Recovered,
			Recovery: r.Recovered()},
		Recording: c.Recording, path: path, losses: losses(c), cut: c.Cut, ended: m.EndNS != 0,
	}
	in.Format.Major, in.Format.Minor = r.Version()
	known := map[int]bool{}
	for _, p := range r.Processes() {
		known[p.PID] = true
	}
	for _, p := range r.Processes() {
		in.ProcessList = append(in.ProcessList, newInfoProcess(&p, m, known))
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
	apart, err := countApart(r, of, counts)
	if err != nil {
		return nil, err
	}
	in.Calls = InfoCalls{Total: counts.Calls, Failed: counts.Failed - apart.answered, Answered: apart.answered, Unfinished: counts.Unfinished, ByFunction: map[string]uint64{}}
	for _, f := range counts.Functions {
		if g := of.Func(api.ID(f.Func)); g != nil && g.Allocates() != nil {
			in.noMemory += f.Failed
		}
		in.Calls.Total -= apart.profiled[f.Func]
		if g := of.Func(api.ID(f.Func)); g != nil && g.EntryMark() {
			in.Calls.Marks += f.Calls
			in.Calls.Total -= f.Calls
		}
		if n := f.Calls - apart.profiled[f.Func]; n > 0 {
			in.Calls.ByFunction[r.Schema().FuncName(f.Func)] += n
		}
	}
	in.Operators, in.Unmarked = newInfoOperators(m, of, counts), withoutMarks(m, of, counts)
	in.Payload, err = newInfoPayload(r)
	return in, err
}

// apart has numbers of calls that are no failures, or that the program did not make.
type apart struct {
	answered uint64            // an error is the answer
	profiled map[uint16]uint64 // ranges of a profile, by function
}

// countApart reads the calls of those functions alone that may be counted apart.
func countApart(r *format.Reader, m *api.Model, counts *format.Counts) (out apart, err error) {
	out.profiled = map[uint16]uint64{}
	var funcs []uint16
	for _, c := range counts.Functions {
		if f := m.Func(api.ID(c.Func)); f != nil && (f.Annotation && !f.EntryMark() || c.Failed > 0 && (f.Question || f.Initializes || f.CaptureRules.Ends == "all")) {
			funcs = append(funcs, c.Func)
		}
	}
	if len(funcs) == 0 {
		return out, nil
	}
	for c, err := range r.Calls(&format.Filter{Funcs: funcs, NoArgs: true, NoData: true}) {
		switch {
		case err != nil:
			return out, err
		case c.Flags&format.Profiled != 0:
			out.profiled[c.Func]++
		case c.Flags&format.Unfinished == 0 && m.Func(api.ID(c.Func)).Answered(c.Ret):
			out.answered++
		}
	}
	out.answered = min(out.answered, counts.Failed)
	return out, nil
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
	in := InfoCoverage{c.Hooked, c.PassedBy, []string{}, []string{}, c.Unhooked, c.Binder, c.Refused, c.Unsized, c.CutArguments, c.NoEnd, c.Cut, c.Endless, c.Asleep}
	if in.PassedBy == nil {
		in.PassedBy = map[string]uint64{}
	}
	for _, name := range slices.Sorted(maps.Keys(in.PassedBy)) {
		if !of.Counted(name) {
			in.AskedFor = append(in.AskedFor, name)
			if of.Beneath(name) {
				in.Below = append(in.Below, name)
			}
		}
	}
	if in.Unhooked == nil {
		in.Unhooked = []format.Unhooked{}
	}
	return in
}
