// Package report says what is in a trace: Info in total, Lines call by call, Stats by function, kernel, stream and
// direction. The JSON forms are stable: keys are added, never renamed. It reads traces and writes to what it is given.
package report

import (
	"cmp"
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Info is what a trace holds, as `acltrace info --json` prints it.
type Info struct {
	Format struct {
		Major uint16 `json:"major"`
		Minor uint16 `json:"minor"`
	} `json:"format"`
	format.Scope
	Simulated  bool          `json:"simulated"`
	CapturedBy string        `json:"captured_by"`
	API        string        `json:"api"`
	Command    []string      `json:"command"`
	Host       string        `json:"host"`
	ExitCode   int           `json:"exit_code"`
	ExitSignal int           `json:"exit_signal"`
	Device     format.Device `json:"device"`
	Processes  int           `json:"processes"`
	Threads    int           `json:"threads"`
	// ProcessList has those that called the runtime, in the order of their first calls.
	ProcessList []InfoProcess     `json:"process_list"`
	StartNS     int64             `json:"start_ns"` // nanoseconds since 1970 UTC
	EndNS       int64             `json:"end_ns"`
	Clock       InfoClock         `json:"clock"`
	Env         map[string]string `json:"env"` // the variables that tell of the job: ranks, the runtime's settings, the span around it
	Calls       InfoCalls         `json:"calls"`
	// Standing are calls that have not returned, if the trace is being recorded. They are not in the file.
	Standing   []Standing         `json:"standing,omitempty"`
	Payload    InfoPayload        `json:"payload"`
	Gaps       InfoGaps           `json:"gaps"`
	Coverage   InfoCoverage       `json:"coverage"`
	Tracer     format.Tracer      `json:"tracer"`
	Replayable bool               `json:"replayable"`
	Policy     string             `json:"policy"`
	Libraries  []format.Library   `json:"libraries"`
	Unknown    map[string]uint64  `json:"unknown,omitempty"` // what this version of acltrace could not read, by kind
	Damage     []string           `json:"damage,omitempty"`
	DeviceTime *format.DeviceTime `json:"device_time,omitempty"` // which tasks were measured by the device's clock; absent where none was to be
	Ended      string             `json:"ended,omitempty"`       // what is known of the program's end where its exit code is not
	Sealed     string             `json:"sealed,omitempty"`      // why a flight recorder has made the trace
	Recovered  string             `json:"recovered,omitempty"`   // why the trace is what was left of another
	Recovery   *format.Recovery   `json:"recovery,omitempty"`    // what a file without a readable end still held
	path       string
	losses     []string // what the trace lacks
	cut        string   // why the end is missing
	ended      bool     // the recording came to its end, whatever has become of the file
}

// InfoClock is one moment on two clocks, by which traces of different machines are joined.
type InfoClock struct {
	WallNS int64 `json:"wall_ns"` // since 1970 UTC
	MonoNS int64 `json:"mono_ns"` // CLOCK_MONOTONIC; all times in the trace count from here
}

type InfoCalls struct {
	Total      uint64            `json:"total"`
	Failed     uint64            `json:"failed"`
	Unfinished uint64            `json:"unfinished"`
	ByFunction map[string]uint64 `json:"by_function"`
}

type InfoPayload struct {
	Level string `json:"level"`
	// Pieces counts the program's data: arguments, strings and what copies moved. Those up to 4 KiB lie among the calls, longer ones are blobs.
	Pieces      uint64 `json:"pieces"`
	Blobs       uint64 `json:"blobs"`
	Bytes       uint64 `json:"bytes"`
	StoredBytes uint64 `json:"stored_bytes"`
	TakenEarly  uint64 `json:"taken_early"` // that an asynchronous copy may have read from pinned memory after it had changed
	// VisibleMissing is the size of managed memory and registered host memory whose content is missing.
	VisibleMissing uint64 `json:"host_visible_missing,omitempty"`
	// BlobFile has the contents, where the trace has none.
	BlobFile *InfoBlobFile `json:"blob_file,omitempty"`
}

type InfoBlobFile struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Complete bool   `json:"complete"`
	Problem  string `json:"problem,omitempty"` // why it can't be read
}

type InfoGaps struct {
	Count     int    `json:"count"`
	CallsLost uint64 `json:"calls_lost"`
	// CallsLost counts neither those that a flight recorder has let go of nor those made while recording was off, as outside of --steps.
	CallsOlder uint64 `json:"calls_older,omitempty"`
	CallsOff   uint64 `json:"calls_off,omitempty"`
	Off        int    `json:"off,omitempty"`   // gaps in which recording was off
	Older      int    `json:"older,omitempty"` // gaps of a flight recorder
}

type InfoCoverage struct {
	Hooked   int               `json:"hooked"`
	PassedBy map[string]uint64 `json:"passed_by"`
	// AskedFor are those of PassedBy of which only that was seen: the program has asked for them, so often.
	AskedFor []string          `json:"asked_for"`
	Unhooked []format.Unhooked `json:"unhooked"`
	Binder   string            `json:"binder,omitempty"` // how the shim came before the runtime: preload or audit
	Refused  int               `json:"refused"`          // threads of which nothing is recorded, for want of memory
	// Unsized are launches and nodes without arguments, since nothing told their sizes, CutArguments arguments that were too large.
	Unsized      uint64 `json:"unsized,omitempty"`
	CutArguments uint64 `json:"cut_arguments,omitempty"`
}

// NewInfo reads what a trace holds. path is for the reader of the text form.
func NewInfo(path string, r *format.Reader, of *api.Model) (*Info, error) {
	m := r.Meta()
	in := &Info{Simulated: m.Simulated, CapturedBy: m.CapturedBy, API: m.API, Command: m.Argv, Host: m.Host,
		ExitCode: m.ExitCode, ExitSignal: m.ExitSignal, Device: m.Device, Processes: len(r.Processes()), Threads: len(r.Threads()),
		StartNS: m.StartWall, EndNS: m.StartWall + m.EndNS, Tracer: m.Tracer, Replayable: m.Replayable, Policy: m.Policy, Libraries: m.Libraries,
		Ended: m.Ended, Sealed: m.Sealed, Recovered: m.Recovered, DeviceTime: m.DeviceTime, Clock: InfoClock{m.StartWall, m.StartMono}, Env: m.Env, Recovery: r.Recovered(), path: path, ended: m.EndNS != 0}
	for _, p := range r.Processes() {
		in.ProcessList = append(in.ProcessList, newInfoProcess(&p, m.StartWall))
	}
	if in.Env == nil {
		in.Env = map[string]string{}
	}
	if rec := in.Recovery; rec != nil && m.EndNS == 0 {
		in.EndNS = m.StartWall + rec.LastTime
	}
	in.Format.Major, in.Format.Minor = r.Version()
	in.Coverage = InfoCoverage{m.Coverage.Hooked, m.Coverage.PassedBy, []string{}, m.Coverage.Unhooked, m.Coverage.Binder, m.Coverage.Refused, m.Coverage.Unsized, m.Coverage.CutArguments}
	if in.Coverage.PassedBy == nil {
		in.Coverage.PassedBy = map[string]uint64{}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Coverage.PassedBy)) {
		if !of.Counted(name) {
			in.Coverage.AskedFor = append(in.Coverage.AskedFor, name)
		}
	}
	if in.Coverage.Unhooked == nil {
		in.Coverage.Unhooked = []format.Unhooked{}
	}
	counts, err := r.Counts()
	if err != nil {
		return nil, err
	}
	in.Calls.ByFunction = map[string]uint64{}
	in.Calls.Total, in.Calls.Failed, in.Calls.Unfinished = counts.Calls, counts.Failed, counts.Unfinished
	for _, f := range counts.Functions {
		in.Calls.ByFunction[r.Schema().FuncName(f.Func)] += f.Calls
	}
	blobs, err := r.BlobStats()
	if err != nil {
		return nil, err
	}
	pieces, err := r.Pieces()
	if err != nil {
		return nil, err
	}
	in.Payload = InfoPayload{Level: m.PayloadLevel, Pieces: pieces, Blobs: blobs.Blobs, Bytes: blobs.Bytes, StoredBytes: blobs.Stored, TakenEarly: m.TakenEarly, VisibleMissing: m.HostVisibleMissing}
	if f := r.BlobFile(); f != nil {
		in.Payload.BlobFile = &InfoBlobFile{Path: f.Path, Bytes: f.Size, Complete: f.Err == nil && f.Recovered == nil}
		if f.Err != nil {
			in.Payload.BlobFile.Problem = f.Err.Error()
		}
	}
	for _, g := range r.Gaps() {
		in.Gaps.Count++
		switch g.Reason {
		case format.Outdated:
			in.Gaps.CallsOlder += g.Calls
			in.Gaps.Older++
		case format.Detached:
			in.Gaps.CallsOff += g.Calls
			in.Gaps.Off++
		default:
			in.Gaps.CallsLost += g.Calls
		}
	}
	c := r.Completeness()
	in.Scope, in.cut, in.losses = c.Scope(), c.Cut, losses(c)
	in.Unknown = r.Unknown()
	for _, d := range r.Damage() {
		in.Damage = append(in.Damage, d.Error())
	}
	return in, nil
}

// Text writes the form for people.
func (in *Info) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { Printf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("trace", "%s (format %d.%d)", in.path, in.Format.Major, in.Format.Minor)
	row("command", "%s", strings.Join(in.Command, " "))
	ended := fmt.Sprintf("exit code %d", in.ExitCode)
	if in.ExitSignal != 0 {
		ended = fmt.Sprintf("killed by signal %d", in.ExitSignal)
	}
	if in.Ended != "" {
		ended = in.Ended
	}
	if in.Recovered != "" {
		ended = "not known: recovered from a trace that was not whole: " + in.Recovered
	} else if in.cut != "" && !in.ended {
		ended = "not known: the recorder did not finish the file"
	}
	if in.Sealed != "" {
		ended = "the newest calls, sealed by a flight recorder: " + in.Sealed
	}
	profile := in.CapturedBy == "msprof"
	if !profile { // which does not say
		row("ended", "%s", ended)
	}
	by := "not known"
	switch {
	case in.CapturedBy == "ebpf":
		by = "eBPF"
	case profile:
		by = in.CapturedBy
	case in.CapturedBy != "":
		by = "the " + in.CapturedBy
	}
	row("recorded", "%s on %s, %s, by %s", time.Unix(0, in.StartNS).UTC().Format("2006-01-02 15:04:05 UTC"), cmp.Or(in.Host, "not known"), human.Duration(in.EndNS-in.StartNS), by)
	device := in.Device.Name
	if in.Simulated {
		device = "simulated: no device was involved"
	} else if device == "" {
		device = "not known"
	}
	row("device", "%s", device)
	if in.Device.Runtime != "" || in.Device.DriverVersion != "" {
		row("versions", "runtime %s, driver %s", cmp.Or(in.Device.Runtime, "not known"), cmp.Or(in.Device.DriverVersion, "not known"))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		row("environment", "%s=%s", name, in.Env[name])
	}
	row("processes", "%d, %s", in.Processes, human.Plural(uint64(in.Threads), "thread"))
	for i, line := range in.processes() {
		if i == mostProcesses {
			row("", "and %d more: --json lists all", len(in.ProcessList)-i)
			break
		}
		row("", "%s", line)
	}
	row("calls", "%d, %d failed, %d unfinished", in.Calls.Total, in.Calls.Failed, in.Calls.Unfinished)
	for i := range in.Standing {
		name := ""
		if i == 0 {
			name = "in progress"
		}
		if i == mostStanding {
			row("", "and %d more threads in calls", len(in.Standing)-i)
			break
		}
		row(name, "%s", &in.Standing[i])
	}
	row("payload", "%s of the program's data (arguments, strings, what copies moved); longer ones are %s, %s, %s stored (level %s)", human.Plural(in.Payload.Pieces, "piece"), human.Plural(in.Payload.Blobs, "blob"), human.Bytes(in.Payload.Bytes), human.Bytes(in.Payload.StoredBytes), in.Payload.Level)
	if f := in.Payload.BlobFile; f != nil {
		switch {
		case f.Problem != "":
			row("", "in %s, which can't be read: %s; put it there, or beside the trace", f.Path, f.Problem)
		case !f.Complete:
			row("", "in %s, which was cut off", f.Path)
		default:
			row("", "in %s", f.Path)
		}
	}
	if in.Payload.TakenEarly > 0 {
		row("", "%s taken at the call from pinned memory, which the program may have changed before the copy", human.Plural(in.Payload.TakenEarly, "payload"))
	}
	if in.Gaps.Count > 0 {
		others := ""
		if n := in.Gaps.CallsOlder; n > 0 {
			others = fmt.Sprintf(", %s older than what the flight recorder kept", human.Plural(n, "call"))
		}
		switch n := in.Gaps.CallsOff; {
		case n > 0:
			others += fmt.Sprintf(", %s while recording was off", human.Plural(n, "call"))
		case in.Gaps.Off > 0:
			others += ", recording was off"
			if in.Gaps.Off < in.Gaps.Count {
				others += fmt.Sprintf(" at %d of them", in.Gaps.Off)
			}
		}
		row("gaps", "%d, %s lost%s", in.Gaps.Count, human.Plural(in.Gaps.CallsLost, "call"), others)
	} else {
		row("gaps", "none")
	}
	switch {
	case profile:
		row("replayable", "no: a profile has neither arguments nor data; acltrace replay --backend virtual plays its times")
	case in.CapturedBy == "ebpf":
		row("replayable", "not in full: results of asynchronous copies, and what was made before the recording are not in it")
	default:
		how := "yes"
		switch {
		case in.Payload.VisibleMissing > 0:
			how = fmt.Sprintf("no, managed memory: the content of %s that the program accesses without a call is missing", human.Bytes(in.Payload.VisibleMissing))
			if in.Payload.Level != "full" || in.Policy != "block" {
				how += "; record with --replayable"
			}
		case in.Replayable:
		case in.Payload.Level == "full" && in.Policy == "block":
			how = "not in full: calls are missing"
		default:
			how = "not in full: record with --replayable"
		}
		row("replayable", "%s", how)
	}
	if n := in.Tracer.ClockJumps; n > 0 {
		row("clock", "jumped %s, as in a suspended machine: times in the 100 ms before are wrong", human.Plural(uint64(n), "time"))
	}
	if in.Tracer.CostNS > 0 {
		row("cost", "%.0f ns added to a launch with 64 bytes of arguments", in.Tracer.CostNS)
	}
	if ns := in.Tracer.PayloadNS; ns > 0 {
		row("recording", "%s%s of the program's threads in all", recordedCopies(in.Tracer.Copies, "", "; "), human.Duration(ns))
	}
	if d := in.DeviceTime; d != nil {
		in.deviceTime(row)
	}
	binder := ""
	if in.Coverage.Binder != "" {
		binder = ", bound by " + in.Coverage.Binder
	}
	if !profile {
		row("coverage", "%d functions hooked%s, %s passed by", in.Coverage.Hooked, binder, human.Plural(uint64(len(in.Coverage.PassedBy)-len(in.Coverage.AskedFor)), "other"))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Coverage.PassedBy)) {
		if !slices.Contains(in.Coverage.AskedFor, name) {
			row("passed by", "%s, called %s", name, human.Plural(in.Coverage.PassedBy[name], "time"))
		}
	}
	for _, name := range in.Coverage.AskedFor {
		row("asked for", "%s, %s; whether it was called is not known", name, human.Plural(in.Coverage.PassedBy[name], "time"))
	}
	for _, u := range in.Coverage.Unhooked {
		row("not seen", "%s: %s", u.Subject(), u.Reason)
	}
	if in.Coverage.Refused > 0 {
		row("not recorded", "%s: their rings could not be made, for want of memory or of the right to", human.Plural(uint64(in.Coverage.Refused), "thread"))
	}
	if n := in.Coverage.Unsized; n > 0 {
		row("not recorded", "the arguments of %s by an array of pointers: nothing told their sizes", human.Plural(n, "launch"))
	}
	if n := in.Coverage.CutArguments; n > 0 {
		row("not recorded", "%s of kernels, for their size", human.Plural(n, "argument"))
	}
	for _, l := range in.Libraries {
		row("library", "%s %s", l.Path, l.BuildID)
	}
	complete := "yes"
	if !in.Complete {
		complete = "no: " + strings.Join(in.losses, ", ")
	}
	row("complete", "%s", complete)
	if in.Window != format.WindowWhole {
		row("window", "%s", in.Window)
	}
	if r := in.Recovery; r != nil {
		row("cut", "%s: read by its %s; %s in none of them, %s missing (acltrace recover makes a whole file of it)", r.Reason,
			human.Plural(uint64(r.Chunks), "whole chunk"), human.Bytes(uint64(r.LostBytes)), human.Plural(r.LostChunks, "chunk"))
	}
	for kind, n := range in.Unknown {
		row("unknown", "%s: %d (a newer acltrace wrote this file)", kind, n)
	}
	for _, d := range in.Damage {
		row("damaged", "%s", d)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	names := make([]string, 0, len(in.Calls.ByFunction))
	for n := range in.Calls.ByFunction {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := in.Calls.ByFunction[names[i]], in.Calls.ByFunction[names[j]]
		return a > b || a == b && names[i] < names[j]
	})
	Printf(t, "\n")
	for _, n := range names {
		Printf(t, "  %s\t%d\n", n, in.Calls.ByFunction[n])
	}
	return t.Flush()
}

// deviceTime says which tasks were measured by the device's clock.
func (in *Info) deviceTime(row func(name, format string, args ...any)) {
	d := in.DeviceTime
	which := "all"
	switch {
	case d.GapNS > 0:
		which = "one of a thread every " + human.Duration(d.GapNS)
	case d.Every > 1:
		which = fmt.Sprintf("one of %d", d.Every)
	}
	row("device time", "%s measured (%s), placed within %s of the calls' clock, half of them within %s", human.Plural(d.Measured, "task"), which, human.Duration(d.ErrorNS), human.Duration(d.TypicalErrorNS))
	for _, m := range []struct {
		n   uint64
		why string
	}{{d.NeverSynchronized, "the program never waited for them"}, {d.PoolExhausted, "too many at once that the program had not waited for"}, {d.Captured, "a stream was being captured"},
		{d.Lost, "no room in the ring"}, {d.Refused, "the runtime lacks what it takes or has refused, and its process was not measured from then on"},
		{d.Unsound, "the device's time does not go with the calls'"}} {
		if m.n > 0 {
			row("not measured", "%s: %s", human.Plural(m.n, "task"), m.why)
		}
	}
	if d.Jumps > 0 {
		row("", "the device's clock and the calls' went apart %s", human.Plural(d.Jumps, "time"))
	}
}
