package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/rows"
)

// Result is how a recording ended.
type Result struct {
	ExitCode   int // of the program; 128 and the number of the signal that ended it
	Signal     int // signal that ended the program, 0 for none
	Stop       Stop
	Output     string     // name of the trace
	Ranks      []RankFile // traces of the ranks, if the program was a launcher and Options.Output has %r
	File       FileResult
	Sealed     []string          // with a Ring: the traces, in the order in which they were sealed
	Calls      uint64            // in the trace
	Failed     uint64            // of Calls
	Unfinished uint64            // of Calls
	Lost       uint64            // calls that the rings had no room for
	Unwritten  uint64            // calls that could not be written to the file
	Refused    int               // threads that could not be recorded
	Ringless   Ringless          // about Refused
	Processes  int               // processes that called the runtime
	Died       []Died            // processes that were killed or crashed, except the program itself
	PassedBy   map[string]uint64 // calls of functions that the shim does not know, by name
	Unhooked   []format.Unhooked // processes and libraries whose calls are missing
	NoShim     []format.Unhooked // processes that can't have loaded the shim
	Partial
	Apart
	Kernels  KernelResult
	Salvaged []string // traces that were made of what killed recorders had left
	Left     []Left   // rings that are in no trace yet, of this recording or of earlier ones
	// Incomplete is the error that ended the recording before the program ended, nil for none.
	Incomplete error
}

// Apart has calls that are told apart from others.
type Apart struct {
	Marks    uint64 // of Result.Calls: marks of operators
	NoMemory uint64 // of Result.Failed: allocations
	Nested   uint64 // of Result.Lost: calls inside other calls, as from signal handlers
}

// Partial says where the trace lacks a part that it was to have.
type Partial struct {
	Cut    uint64          // of Unfinished: the recording ended during them
	Asleep []format.Asleep // threads that slept throughout an attached recording
	Missed *MissedSteps    // nil if all selected steps are in the trace
}

// Ringless describes threads that could not be recorded.
type Ringless struct {
	Calls uint64       // of Result.Lost
	Why   ring.Refusal // the most frequent reason
}

// A Stop is why recording stopped.
type Stop string

// The reasons.
const (
	Ended    Stop = "ended"  // the program, or the last process, ended
	Time     Stop = "time"   // Limits.For
	Selected Stop = "steps"  // the last selected step
	Size     Stop = "size"   // Limits.MaxSize
	Asked    Stop = "asked"  // a request, or a signal to the recorder
	Failed   Stop = "failed" // see Incomplete
)

// A RankFile is the trace of one rank.
type RankFile struct {
	Rank   int
	Output string
	Calls  uint64
	Bytes  int64
}

// FileResult is what became of the file of a trace.
type FileResult struct {
	Bytes     int64
	BlobFile  string   // file with the contents of payloads, "" if they are in the trace
	BlobBytes int64    // of that file
	OlderKept bool     // no call was recorded, and Output is an older file
	Moved     []string // new names of older files
	Look      int      // with a ring: index in Sealed of the trace that explains most
	Missing   string   // why there is no file, "" if there is
	Full      bool     // the file reached its maximum size before the program ended
	NoRoom    int64    // the maximum size, if it left no room for a call, else 0
	DiskFull  bool     // NoRoom was derived from the free space, not from Limits.MaxSize
}

// KernelResult is what became of the kernels on the simulator.
type KernelResult struct {
	Unexecuted []string // launched kernels that no kernel library implements, sorted
	Crashed    []string // kernels that crashed in their own code, sorted
	// NotComputed are launched operators that no kernel library computes, sorted.
	NotComputed []string
	// Forgotten is why the user's list lacks kernel libraries of the program. A replay does not load those by itself.
	Forgotten error
}

// MissedSteps reports selected steps that the program has not reached.
type MissedSteps struct {
	Wanted StepRange
	Made   int    // steps of the process that has made the most
	By     string // what separated them
}

// Died is a process that was killed or crashed.
type Died = rows.Died

// finish writes the meta data that is known only at the end, and closes the trace.
func (r *recorder) finish(res *Result) {
	b, m := r.rows, &r.meta
	m.EndNS = r.now()
	if ended := r.uprobes.ended; ended != 0 {
		m.EndNS = max(ended-m.StartMono, b.Last)
	}
	m.ExitCode, m.ExitSignal = cmp.Or(res.ExitCode, r.target.code), res.Signal
	m.Coverage.PassedBy, m.Coverage.Unhooked, m.Coverage.Refused = res.PassedBy, res.Unhooked, res.Refused
	r.describe(m)
	list := r.kernels.listed()
	res.Kernels = KernelResult{Unexecuted: list.Missing, Crashed: list.Crashed, NotComputed: list.NotComputed, Forgotten: r.kernels.err}
	var err error
	if r.flight != nil {
		err = r.finishRing(res)
	} else {
		err = r.finishFile(res)
	}
	r.file.pruning.Wait()
	if res.Incomplete = errors.Join(res.Incomplete, r.file.unnamed); res.Incomplete == nil {
		res.Incomplete = err
	}
	if res.Stop = cmp.Or(res.Stop, r.window.stopped, Ended); res.Incomplete != nil {
		res.Stop = Failed
	}
	res.File.Full, res.Missed = r.file.full, r.steps.missed()
	res.Died = slices.DeleteFunc(b.Processes.Died, func(d Died) bool { return d.PID == r.target.root })
	n := &b.Count
	res.Calls, res.Marks, res.Failed, res.NoMemory, res.Unfinished, res.Cut, res.Lost, res.Nested, res.Ringless.Calls, res.Processes = n.Calls, n.Marks, n.Failed, n.NoMemory, n.Unfinished, n.Cut, n.Lost, n.Nested, n.NoRing, b.Processes.Len()
	if r.flight == nil {
		res.Calls = b.Writer().Calls() - res.Unwritten
	}
	res.Output, res.File.Moved = r.file.name, r.file.moved
	if r.flight != nil {
		res.File.Moved = r.flight.Moved()
	}
	if len(res.Ranks) > 0 {
		res.Output = res.Ranks[0].Output
	}
	if st, err := os.Stat(res.Output); err == nil && res.File.Missing == "" && !res.File.OlderKept {
		res.File.Bytes = st.Size()
	}
	if st, err := os.Stat(r.file.blobs); err == nil {
		res.File.BlobFile, res.File.BlobBytes = r.file.blobs, st.Size()
	}
	b.End(m.EndNS)
}

// finishRing seals the ring.
func (r *recorder) finishRing(res *Result) (err error) {
	if r.ending == "" {
		r.ending = fmt.Sprintf("the program ended with code %d", res.ExitCode)
		if res.Signal != 0 {
			r.ending = fmt.Sprintf("the program was ended by signal %d", res.Signal)
		}
	}
	res.Sealed, err = r.flight.End(r.ending)
	res.File.Look = r.flight.Best(res.Signal != 0)
	if r.unsealed = err != nil; r.unsealed && len(res.Sealed) == 0 {
		if res.File.Missing = err.Error(); !host.Exists(filepath.Dir(r.file.name)) {
			res.File.Missing = r.file.missing()
		}
	}
	res.File.OlderKept = len(res.Sealed) == 0 && err == nil
	return err
}

// finishFile closes the file of a recording without a ring.
func (r *recorder) finishFile(res *Result) (err error) {
	b, m, w := r.rows, &r.meta, r.rows.Writer()
	res.File.OlderKept, err = r.file.settle(w)
	if r.o.Capture.NoSmall || b.Payloads.Cut || b.Payloads.Unkept > 0 || b.Count.Lost > 0 || b.Lacks != format.NoReason || res.Incomplete != nil || res.Refused > 0 || r.unseen.damaged {
		m.Replayable = false
	}
	if res.Incomplete != nil && b.Last < m.EndNS { // the number of later calls is unknown
		_ = w.Gap(format.Gap{Thread: format.NoThread, From: b.Last, To: m.EndNS, Reason: format.WriteFailed})
	}
	err = errors.Join(err, w.SetMeta(m), w.Close())
	if res.Unwritten = w.Lost(); !res.File.OlderKept {
		res.File.Missing = r.file.missing()
	}
	if err == nil && r.launches(res) {
		if failed := r.split(res); failed != nil {
			err = fmt.Errorf("%s has the calls of all ranks: %w", r.file.name, failed)
		}
	}
	if w.Calls() == 0 && r.file.full {
		res.File.NoRoom, res.File.DiskFull = r.file.maxSize, r.file.tenth
	}
	return err
}

// describe sets the meta data about the program and the machine that the recording has collected.
func (r *recorder) describe(m *format.Meta) {
	b := r.rows
	b.Processes.LookAgain()
	m.Libraries = nil
	for path, seen := range b.Processes.Libraries {
		if path == r.o.Model.Simulator.Symbol { // reported by the process
			m.Simulated = true
			continue
		}
		l := format.Library{Path: path}
		if seen {
			l.BuildID = elffile.BuildID(path)
		}
		m.Libraries = append(m.Libraries, l)
		if seen && artifacts.Simulates(r.o.Model, path) {
			m.Simulated = true
		}
	}
	slices.SortFunc(m.Libraries, func(a, b format.Library) int { return strings.Compare(a.Path, b.Path) })
	if m.Device.Name = b.Device(); m.Simulated {
		m.Device.Name = "simulator"
	}
	r.kernels.describe(m, b.Processes.KernelLibs)
	r.kernels.remember(&r.o, &b.Processes)
	p := &b.Payloads
	m.TakenEarly, m.HostVisibleMissing = p.Early, p.Unkept
	if m.Tracer.PayloadNS = p.NS; p.Copies.Count > 0 {
		copies := p.Copies
		m.Tracer.Copies = &copies
	}
	m.Coverage.Unsized, m.Coverage.CutArguments, m.Coverage.NoEnd, m.Coverage.Cut = p.Unsized, p.CutArguments, b.Count.NoEnd, b.Count.Cut
	if r.uprobes.hooked != nil {
		m.Coverage.Hooked = *r.uprobes.hooked
		return
	}
	m.Coverage.Hooked = 0
	for i := range r.o.Model.Funcs {
		if f := &r.o.Model.Funcs[i]; f.Modelled && f.Form == nil && (f.Operand == api.NoOperand || r.o.Capture.Operators == OperatorsAll) {
			m.Coverage.Hooked++
		}
	}
}
