package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/rows"
)

// Result says how a recording ended.
type Result struct {
	ExitCode   int               // of the program; 128 and the number of the signal that ended it
	Signal     int               // that ended the program, 0 for none
	Calls      uint64            // in the file
	Nested     uint64            // of the lost calls, those made inside other calls, as signal handlers do
	Unwritten  uint64            // calls that were recorded and could not be written
	Failed     uint64            // of these
	Unfinished uint64            // of these
	Lost       uint64            // calls that are missing
	Refused    int               // threads that could not be recorded
	Processes  int               // that called the runtime
	Bytes      int64             // of the file
	BlobFile   string            // name of the file with the contents of payloads, "" where they are in the trace
	BlobBytes  int64             // of that file
	PassedBy   map[string]uint64 // calls of functions that the shim does not know, by name
	Unhooked   []format.Unhooked // processes and libraries whose calls were not seen
	NoCall     string            // why no call was seen, "" if calls were seen or nothing shows why
	Unexecuted []string          // kernels that were launched on the simulator and that no kernel library implements, sorted
	Crashed    []string          // kernels that crashed in their own code on the simulator, sorted
	// Forgotten is why the list of this user's kernel libraries lacks those of the program, nil if it has them: a replay does not load
	// them by itself.
	Forgotten error
	Output    string   // name of the file
	OlderKept bool     // no call was recorded, and Output is the older file that had the name
	Moved     []string // new names of the older files that had the name of Output
	NoFile    string   // why there is no file, "" if there is
	NoRoom    int64    // the largest size of the file, if that left no room for a call, else 0
	DiskFull  bool     // NoRoom is a part of the free space, not given by Options.MaxSize
	Sealed    []string // with a Ring: the files, in the order in which they were sealed
	Full      bool     // the trace had its largest size before the program ended
	Died      []Died   // processes that a signal has ended, other than the program itself
	Missed    string   // why steps that were wanted are not in the trace, "" where all are
	Salvaged  []string // traces of what recorders that were killed had left
	Left      []Left   // rings that are in no trace yet, of this recording or of earlier ones
	// Incomplete is the error that ended the recording before the program, nil for none: the program ran on.
	Incomplete error
}

// Died is a process that was killed or crashed.
type Died = rows.Died

// finish writes the meta data that is known only at the end, and closes the trace.
func (r *recorder) finish(res *Result) (*Result, error) {
	b, m := r.rows, &r.meta
	m.EndNS = r.now()
	if ended := r.uprobes.ended; ended != 0 {
		m.EndNS = max(ended-m.StartMono, b.Last)
	}
	m.ExitCode, m.ExitSignal = cmp.Or(res.ExitCode, r.target.code), res.Signal
	m.Coverage.PassedBy, m.Coverage.Unhooked, m.Coverage.Refused = res.PassedBy, res.Unhooked, res.Refused
	r.describe(m)
	res.Unexecuted, res.Crashed = r.kernels.failed()
	res.Forgotten = r.kernels.err
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
	res.Full, res.Missed = r.file.full, r.steps.missed()
	res.Died = slices.DeleteFunc(b.Processes.Died, func(d Died) bool { return d.PID == r.target.root })
	n := &b.Count
	res.Calls, res.Failed, res.Unfinished, res.Lost, res.Nested, res.Processes = n.Calls, n.Failed, n.Unfinished, n.Lost, n.Nested, b.Processes.Len()
	if r.flight == nil {
		res.Calls = b.Writer().Calls() - res.Unwritten
	}
	res.Output, res.Moved = r.file.name, r.file.moved
	if r.flight != nil {
		res.Moved = r.flight.Moved()
	}
	if st, err := os.Stat(res.Output); err == nil && res.NoFile == "" && !res.OlderKept {
		res.Bytes = st.Size()
	}
	if st, err := os.Stat(r.file.blobs); err == nil {
		res.BlobFile, res.BlobBytes = r.file.blobs, st.Size()
	}
	b.End(m.EndNS)
	return res, nil
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
	if r.unsealed = err != nil; r.unsealed && len(res.Sealed) == 0 {
		if res.NoFile = err.Error(); !host.Exists(filepath.Dir(r.file.name)) {
			res.NoFile = r.file.missing()
		}
	}
	res.OlderKept = len(res.Sealed) == 0 && err == nil
	return err
}

// finishFile closes the file of a recording without a ring.
func (r *recorder) finishFile(res *Result) (err error) {
	b, m, w := r.rows, &r.meta, r.rows.Writer()
	res.OlderKept, err = r.file.settle(w)
	if r.o.NoSmall || b.Payloads.Cut || b.Payloads.Unkept > 0 || b.Count.Lost > 0 || b.Lacks != format.NoReason || res.Incomplete != nil || res.Refused > 0 || r.unseen.damaged {
		m.Replayable = false
	}
	if res.Incomplete != nil && b.Last < m.EndNS { // the number of later calls is unknown
		_ = w.Gap(format.Gap{Thread: format.NoThread, From: b.Last, To: m.EndNS, Reason: format.WriteFailed})
	}
	err = errors.Join(err, w.SetMeta(m), w.Close())
	if res.Unwritten = w.Lost(); !res.OlderKept {
		res.NoFile = r.file.missing()
	}
	if w.Calls() == 0 && r.file.full {
		res.NoRoom, res.DiskFull = r.file.maxSize, r.file.tenth
	}
	return err
}

// describe sets the meta data about the program and the machine that the recording has collected.
func (r *recorder) describe(m *format.Meta) {
	b := r.rows
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
	m.Coverage.Unsized, m.Coverage.CutArguments = p.Unsized, p.CutArguments
	if r.uprobes.hooked != nil {
		m.Coverage.Hooked = *r.uprobes.hooked
		return
	}
	m.Coverage.Hooked = 0
	for i := range r.o.Model.Funcs {
		if f := &r.o.Model.Funcs[i]; f.Modelled && f.Form == nil {
			m.Coverage.Hooked++
		}
	}
}
