package replay

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/sandbox"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Report says what a replay has shown. As JSON it is what `acltrace replay --json` prints; keys are only ever added.
type Report struct {
	Verdict verify.Verdict `json:"verdict"`
	// Identical is true if Verdict is verify.Identical.
	Identical bool `json:"identical"`
	format.Scope
	Conditions
	Proof
	Missing
	Others
	Times

	Repeat *Repeat `json:"repeat,omitempty"`

	Findings []Finding `json:"findings,omitempty"` // of Options.Strict

	Note string `json:"note,omitempty"` // what Identical does not say by itself

	Coverage
	Crash *Crash `json:"crash,omitempty"`
	Log   string `json:"log,omitempty"` // the end of what the library had to say, where the replay went wrong
}

// Conditions are those that the replay ran under.
type Conditions struct {
	// TrustsKernels is true if the library can't report kernels that it lacks: results are proved on the assumption that it ran all.
	TrustsKernels bool `json:"trusts_kernels,omitempty"`
	// KernelLibraries are those that the simulator has loaded.
	KernelLibraries []KernelLibrary `json:"kernel_libraries"`
	// IgnoredVariables are variables of the recording's simulator that the replay did not set, though it does not decide them itself.
	IgnoredVariables []compile.IgnoredVariable `json:"ignored_variables,omitempty"`
	// Sandbox is the sandbox that the replay ran in, nil if it ran in none.
	Sandbox *sandbox.Sandbox `json:"sandbox"`
}

// Proof is the outcome of the comparison.
type Proof struct {
	// Results counts the recorded results by their outcome.
	Results  verify.Tally `json:"results"`
	Verified struct {
		Results uint64 `json:"results"` // proved
		Bytes   uint64 `json:"bytes"`
		// Tolerated are results among them that are equal only within the tolerance.
		Tolerated uint64 `json:"tolerated,omitempty"`
	} `json:"verified"`
	Unverified  []compile.Unverified `json:"unverified"` // unproved
	Differences []Difference         `json:"differences"`
}

// Missing are the calls that were not made.
type Missing struct {
	// Unsupported are calls that could not be made, and Lost.
	Unsupported []compile.Unsupported `json:"unsupported"`
	// Lost are calls that the trace lacks.
	Lost []compile.Unsupported `json:"lost,omitempty"`
	// LeftOut are calls that enclose others, of which only those are made.
	LeftOut []compile.Unsupported `json:"left_out"`
	// AskedFor are functions that the program has asked the runtime for and that the recorder does not know, or tables of such: whether
	// it has called them the trace does not say, and they do not count.
	AskedFor []string `json:"asked_for,omitempty"`
}

// Others are outcomes that are neither equal nor different.
type Others struct {
	// OtherMachine are answers about the machine and its devices, as their number, that are others here. They do not count either.
	OtherMachine      []Difference    `json:"other_machine,omitempty"`
	OtherMachineTotal int             `json:"other_machine_total,omitempty"`
	Uninitialised     []Uninitialised `json:"uninitialised"` // told apart from differences
}

// Times are those of the recording and of the replay.
type Times struct {
	RecordedNS int64        `json:"recorded_ns"` // from the first call to the end of the last
	ReplayedNS int64        `json:"replayed_ns"`
	Pace       Pace         `json:"pace"`
	Streams    []StreamTime `json:"streams"`         // the time of the calls that name each stream
	Cores      *Cores       `json:"cores,omitempty"` // why a replay may have been late
}

// Coverage counts the parts of the trace that were replayed.
type Coverage struct {
	Calls          uint64                `json:"calls"`               // in the trace
	Replayed       uint64                `json:"replayed"`            // made; a run of polls counts once
	Placement      string                `json:"placement,omitempty"` // "same" or "moved"; none where nothing was allocated
	Relocated      []compile.Relocated   `json:"relocated"`
	RelocatedTotal int                   `json:"relocated_total"`
	Volatile       uint64                `json:"volatile"` // outputs that another run may answer otherwise, not compared
	Substituted    []compile.Substituted `json:"substituted"`
	Ambiguous      []compile.Ambiguous   `json:"ambiguous"`
	AmbiguousTotal int                   `json:"ambiguous_total"`
	DifferingTotal int                   `json:"differences_total"`
}

// Pace says how well the recorded time was kept.
type Pace struct {
	Mode string `json:"mode"` // Options.Pace
	// ErrorPercent is how much longer the replay took than it should have, from the first call to the end of the last.
	ErrorPercent float64 `json:"error_percent"`
	// Late says how long after their times calls began.
	Late *Lateness `json:"late,omitempty"`
	// UnexplainedPercent is what is left of ErrorPercent when all of Report.Cores is taken off: not the machine's doing.
	UnexplainedPercent float64 `json:"unexplained_percent"`
}

// Cores says how long threads were ready to run and had no core. Not all of that makes a replay longer: threads wait beside each other, and
// being late is made up for where the program had waited.
type Cores struct {
	Threads []ThreadCore `json:"threads"` // the captured ones, from their first call to their last
	// Library are the threads of the runtime's own, in all processes, that were there at the end.
	Library CoreTime `json:"library"`
	// StolenNS is what the host of a virtual machine has taken of all its cores, which no thread notices; it is told in steps of 10 ms.
	StolenNS int64 `json:"stolen_ns"`
}

// ThreadCore is the CoreTime of a captured thread.
type ThreadCore struct {
	TID int `json:"tid"` // when it was recorded
	CoreTime
}

// CoreTime is how long threads were on a core, and ready to run without one, by the system's account.
type CoreTime struct {
	RanNS    int64 `json:"ran_ns"`
	WaitedNS int64 `json:"waited_ns"`
}

// Without is all the time without a core.
func (c *Cores) Without() int64 {
	ns := c.Library.WaitedNS + c.StolenNS
	for _, t := range c.Threads {
		ns += t.WaitedNS
	}
	return ns
}

// cores is nil where the run did not come to its end, or the system tells nothing.
func (p *judge) cores(o *outcome) *Cores {
	h := o.header
	c := &Cores{Threads: []ThreadCore{}, Library: CoreTime{int64(h.Library.Ran), int64(h.Library.Waited)}, StolenNS: int64(h.Stolen[1] - h.Stolen[0])}
	ran := uint64(0)
	for t := range p.Threads {
		core := o.threads[t].Core
		ran += core.Ran
		c.Threads = append(c.Threads, ThreadCore{p.Threads[t].TID, CoreTime{int64(core.Ran), int64(core.Waited)}})
	}
	if h.Status != plan.RunDone || ran == 0 {
		return nil
	}
	return c
}

// Lateness is how long after their times calls began, in nanoseconds, where the pace is kept: half of them, 99 of 100, and all of them
// no later than that. Times are those of the whole run, so being late is made up for where the program had waited; Last is what is left
// of it at the last call.
type Lateness struct {
	P50  int64 `json:"p50_ns"`
	P99  int64 `json:"p99_ns"`
	Max  int64 `json:"max_ns"`
	Last int64 `json:"last_ns"`
}

// StreamTime is the time of a stream on the host: from the first call that names it to the end of the last.
type StreamTime struct {
	Stream       string  `json:"stream"`
	RecordedNS   int64   `json:"recorded_ns"`
	ReplayedNS   int64   `json:"replayed_ns"`
	ErrorPercent float64 `json:"error_percent"` // as Pace.ErrorPercent
	// Late is that of the calls that name the stream.
	Late        *Lateness `json:"late,omitempty"`
	from, to    int64
	first, last uint64
	late        lateTimes
	lastLate    int64
}

// Difference is a value that came out otherwise. Want and Got are bytes in hexadecimal from Offset on, or returned values.
type Difference struct {
	Call   uint64 `json:"call"`
	Func   string `json:"func"`
	Param  string `json:"param,omitempty"` // "" for the returned value
	Offset uint64 `json:"offset"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	Bytes  uint64 `json:"bytes,omitempty"` // that differ
	// Chain are the calls that wrote, or may have written, the first differing byte, from the last copy in on.
	Chain      []Writer `json:"chain,omitempty"`
	Reason     string   `json:"reason,omitempty"` // why it may differ, where that is known
	ChainTotal int      `json:"chain_total,omitempty"`

	result bool
	length bool // the result has another length: its bytes were not compared
	item   uint32
}

// Uninitialised is a result that came out otherwise, of memory that nothing in the trace has written before.
type Uninitialised struct {
	Call   uint64 `json:"call"`
	Func   string `json:"func"`
	Param  string `json:"param"`
	Offset uint64 `json:"offset"` // of the first byte that differs
	Bytes  uint64 `json:"bytes"`  // that differ
}

// Crash is the end of a player that did not come to the end of its plan, and the recorded call that it was in.
type Crash struct {
	Call    uint64   `json:"call"`
	Func    string   `json:"func"`
	Signal  string   `json:"signal"`   // or its exit status, or TimedOut
	Args    []string `json:"args"`     // as recorded, NAME=value
	StartNS int64    `json:"start_ns"` // since the beginning of the trace
	TID     int      `json:"tid"`
}

// TimedOut is the Crash.Signal of a call that took too long.
const TimedOut = "timeout"

// tell adds what the trace says of the call.
func (c *Crash) tell(r *format.Reader, m *api.Model) error {
	s := timeline.NewState(m)
	threads := r.Threads()
	for k, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := s.Apply(threads[k.Thread].Process, k)
		if k.Index != c.Call {
			continue
		}
		c.StartNS, c.TID = k.Start, threads[k.Thread].TID
		for _, a := range e.Args(nil, m) {
			if !a.Out {
				c.Args = append(c.Args, a.Name+"="+a.Text())
			}
		}
		return nil
	}
	return nil
}

// outcome is what a run of the player has left.
type outcome struct {
	mapped  []byte // all of it
	header  *plan.ResultHeader
	threads []plan.ResultThread
	slots   []uint64
	insts   []plan.Result
	details []plan.Detail
	kernels []string // names that results refer to
	missing []string // functions that the library lacks
	crash   *Crash
	log     string
}

// close gives back the memory of the results.
func (o *outcome) close() {
	_ = syscall.Munmap(o.mapped)
	*o = outcome{}
}

// read judges the results of a run. state is how the player, or what was put before it, ended.
func (p *judge) read(b []byte, state *os.ProcessState, hung bool, log string) (*outcome, error) {
	h := &p.File.Header
	if uint64(len(b)) != h.ResBytes {
		return nil, fmt.Errorf("the player has left %d bytes of results, not %d", len(b), h.ResBytes)
	}
	o := &outcome{
		mapped: b,
		header: &plan.View[plan.ResultHeader](b, 0, 1)[0], threads: plan.View[plan.ResultThread](b, h.ResThreads, h.Threads.Count),
		slots: plan.View[uint64](b, h.ResSlots, h.Slots), insts: plan.View[plan.Result](b, h.ResInstructions, h.Instructions),
		details: plan.View[plan.Detail](b, h.ResDetails, (h.ResKernels-h.ResDetails)/56), log: log,
	}
	for i := range min(uint64(o.header.Kernels), plan.KernelNames) {
		name, _, _ := bytes.Cut(b[h.ResKernels+i*plan.KernelName:][:plan.KernelName], []byte{0})
		o.kernels = append(o.kernels, string(name))
	}
	text := strings.TrimRight(string(o.header.Error[:]), "\x00")
	switch {
	case o.header.Status == plan.RunRefused:
		first, names, _ := strings.Cut(text, "\n")
		if lacks, ok := strings.CutPrefix(first, "enter the sandbox: "); ok {
			return nil, fmt.Errorf("%s: %w", lacks, ErrSandbox)
		}
		if names == "" {
			return nil, errors.New(first)
		}
		o.missing = strings.Split(names, "\n")
	case o.header.Status != plan.RunDone: // how a wrapper ended says nothing
		o.crash = p.crash(o, state, hung)
		if w := p.o.Wrapper; o.header.Status == 0 && !hung && len(w) > 0 {
			return nil, fmt.Errorf("%s ended (%s) before the player had loaded the library\n%s", w[0], state, log)
		}
		if o.header.Status == 0 && !hung {
			return nil, fmt.Errorf("the library took the player down while it was loaded (%s)\n%s", o.crash.Signal, log)
		}
	}
	return o, nil
}

// crash names the call that a player died in. Where the signal has not told which thread's it was, it is one that a thread was in, rather
// than one that waits, and the one that is known to have begun last.
func (p *judge) crash(o *outcome, state *os.ProcessState, hung bool) *Crash {
	c := &Crash{Signal: state.String(), Args: []string{}}
	if state.Success() {
		c.Signal = "it did not come to its end" // whatever was put before the player did
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.Signal = ws.Signal().String()
	}
	if hung {
		c.Signal = TimedOut
	}
	var best [3]uint64
	for t := range p.Threads {
		at := p.File.Thread(t)
		n := o.threads[t].Progress
		if n >= at.Count {
			continue
		}
		in, r := p.File.At(int(at.First+n)), &o.insts[at.First+n]
		var score [3]uint64
		if o.threads[t].Inside == n+1 {
			score = [3]uint64{1, 0, r.Start}
			if p.File.Funcs[in.Fn].Sync == api.NoSync {
				score[1] = 1
			}
		}
		if o.header.Crashed == uint32(t+1) {
			score[0] = 2
		}
		if c.Func == "" || slices.Compare(score[:], best[:]) >= 0 {
			best, c.Call, c.Func = score, in.Call, p.callName(int(at.First+n), int(at.First+at.Count))
		}
	}
	return c
}

// callName is the function of the call that the first of some instructions belongs to.
func (p *judge) callName(from, to int) string {
	for i := from; i < to; i++ {
		if in := p.File.At(i); in.Op != plan.OpWait {
			return p.File.Funcs[in.Fn].Name
		}
	}
	return ""
}

// moved is the error about an allocation that did not come to lie where it was.
func (o *outcome) moved(p *judge) error {
	for _, d := range p.Found.DeviceBlocks {
		if got := o.slots[d.Slot]; got != 0 && got != d.Object.Handle { // 0: the replay did not get there
			return fmt.Errorf("the allocation of call %d lies at %#x, not at %#x where it was; place auto or move allows that", d.Object.Created, got, d.Object.Handle)
		}
	}
	return nil
}

// judge turns the outcome of runs of a plan into a Report.
type judge struct {
	*compile.Plan
	o *Options
}

// report combines the findings of the planner and, unless o is nil, of a run. varying are the instructions with other outcomes
// in repeated runs.
func (p *judge) report(o *outcome, varying map[int]verify.Reason) *Report {
	opts := p.o
	f := &p.Found
	r := &Report{
		Verdict:    verify.NotCompared,
		Scope:      f.Scope,
		Conditions: Conditions{KernelLibraries: []KernelLibrary{}, IgnoredVariables: f.Ignored},
		Proof:      Proof{Unverified: append([]compile.Unverified{}, f.Unproved()...), Differences: []Difference{}},
		Missing: Missing{
			Unsupported: append(append([]compile.Unsupported{}, f.Unsupported...), f.Absent...), Lost: f.Absent, LeftOut: append([]compile.Unsupported{}, f.LeftOut...), AskedFor: f.Asked,
		},
		Others: Others{Uninitialised: []Uninitialised{}},
		Times:  Times{RecordedNS: f.To - f.From, Pace: Pace{Mode: opts.Pace}, Streams: []StreamTime{}},
		Coverage: Coverage{
			Calls: f.Calls, Relocated: append([]compile.Relocated{}, f.Relocated...), RelocatedTotal: f.Relocations, Volatile: f.Volatile,
			Substituted: append([]compile.Substituted{}, f.Substituted...), Ambiguous: append([]compile.Ambiguous{}, f.Ambiguous...), AmbiguousTotal: f.Ambiguities,
		},
	}
	if o == nil {
		r.Note = "nothing was run"
		if f.Calls == 0 {
			r.Note = "the trace has no calls to replay"
		}
		return r
	}
	p.results(r, o, varying)
	slices.SortStableFunc(r.Differences, func(a, b Difference) int { return cmp.Compare(a.Call, b.Call) })
	switch {
	case opts.Backend == Null: // there are no allocations
	case o.moved(p) != nil:
		r.Placement = "moved"
	default:
		r.Placement = "same"
	}
	r.Crash, r.Sandbox = o.crash, o.describe()
	r.TrustsKernels = opts.Verify && opts.Backend != Null && o.header.Reports == 0
	r.judge(opts)
	switch {
	case opts.Backend == Null:
		r.Note = "no library was called: times are those of the player alone, and nothing was compared"
	case p.Found.Cut != "":
		r.Note = "the trace was cut (" + p.Found.Cut + "): what is whole in it was replayed"
	case !opts.Verify:
		r.Note = "results were not compared: use --verify"
	case o.header.Stopped != 0:
		r.Note = "the replay ended at the first call that did not make what later calls need"
	case len(f.Asked) > 0:
		r.Note = fmt.Sprintf("the program has asked for %d functions that the recorder does not know, %s among them: calls of those are not in the trace", len(f.Asked), f.Asked[0])
	}
	if r.Verdict != verify.Identical {
		r.Log = o.log
	}
	return r
}

// Refused reports whether a call of the trace can't be made: nothing is run then.
func (r *Report) Refused() bool { return len(r.Unsupported) > len(r.Lost) }

// judge sets the verdict.
func (r *Report) judge(opts *Options) {
	r.Verdict = verify.NotCompared
	if !opts.Verify {
		return
	}
	if r.Placement == "same" { // every address is the recorded one
		r.Unverified = slices.DeleteFunc(r.Unverified, func(u compile.Unverified) bool { return u.Code == verify.Pointer })
	}
	for _, u := range r.Unverified {
		r.Results.AddUnproved(u.Code, u.Results, u.OtherBytes)
	}
	r.Verdict = r.Results.Verdict()
	if r.Crash != nil && r.Verdict == verify.Identical {
		r.Verdict = verify.Unproved // all results were compared, and the run did not come to its end
	}
	r.Identical = r.Verdict == verify.Identical
	r.Verified.Results, r.Verified.Tolerated = r.Results.Proved, r.Results.Tolerated
}

// nsPerCount is the length of a tick of the player's clock, 0 where the run did not come to its end.
func (o *outcome) nsPerCount() float64 {
	h := o.header
	if h.Counter[1] <= h.Counter[0] {
		return 0
	}
	return float64(h.NS[1]-h.NS[0]) / float64(h.Counter[1]-h.Counter[0])
}

// A resultState collects the state of one result from its checks, which follow each other.
type resultState struct {
	call  uint64
	state verify.State
	code  verify.Reason // of IsUnproved
	why   string
	open  bool
	other bool // some bytes are not the recorded ones
}

func (s *resultState) set(state verify.State, code verify.Reason, why string) {
	if state > s.state {
		s.state, s.code, s.why = state, code, why
	}
}

// count adds the result to the report.
func (s *resultState) count(r *Report) {
	switch {
	case !s.open:
	case s.state == verify.IsUnproved:
		r.Unverified = compile.AddUnverified(r.Unverified, s.call, s.code, s.why)
		if s.other {
			r.Unverified[len(r.Unverified)-1].OtherBytes++
		}
	default:
		r.Results.Add(s.state, "")
	}
	*s = resultState{}
}

// reason describes why the library does not vouch for a result.
func (p *judge) reason(o *outcome, code verify.Reason, res *plan.Result) string {
	if why := p.Found.Because[code]; why != "" {
		return why
	}
	if n := res.Flags >> plan.KernelShift; code == verify.Kernel && n > 0 && int(n) <= len(o.kernels) {
		return fmt.Sprintf("kernel %s computes it, which no library here implements", o.kernels[n-1])
	}
	return code.Text()
}

// checkedName is the name of the parameter that a check is of.
func (p *judge) checkedName(in *plan.Instruction) string {
	if ps := p.File.Funcs[in.Fn].Params; int(in.Words) < len(ps) {
		return ps[in.Words].Name
	}
	return compile.MemoryParam.Name
}

// compared adds the outcome of one comparison of a result.
func (p *judge) compared(r *Report, s *resultState, in *plan.Instruction, res *plan.Result, o *outcome, varies verify.Reason) {
	if in.At == 0 {
		s.count(r)
		*s = resultState{call: in.Call, open: true}
	}
	code := verify.ByCode(in.Bits)
	if in.Flags&plan.InstUnmarked != 0 {
		code = "" // the player has seen to it
	}
	why := code.Text()
	if n := uint8(res.Flags >> plan.ReasonShift); n != 0 && code == "" {
		code = verify.ByCode(n)
		why = p.reason(o, code, res)
	}
	switch {
	case res.Flags&plan.ResultDone == 0:
		s.set(verify.IsUnproved, verify.NotReached, "the replay ended before the comparison")
		return
	case varies != "":
		s.set(verify.IsUnproved, varies, varies.Text())
		return
	case code == "" && res.Flags&plan.ResultDiffers != 0:
		s.set(verify.IsDifferent, "", "")
		r.differ(p.differingBytes(in, o.detail(res)))
		return
	}
	switch {
	case code != "":
		s.set(verify.IsUnproved, code, why)
		if res.Flags&plan.ResultDiffers != 0 {
			s.other = true
			if code == verify.Uninitialised {
				r.Uninitialised = append(r.Uninitialised, Uninitialised{in.Call, p.File.Funcs[in.Fn].Name, p.checkedName(in), in.At + o.detail(res).First, o.detail(res).Count})
			}
		}
	case res.Flags&plan.ResultTolerated != 0:
		s.set(verify.IsTolerated, "", "")
		fallthrough
	default:
		r.Verified.Bytes += in.Len
	}
}

// results reads the outcome of every instruction.
func (p *judge) results(r *Report, o *outcome, varying map[int]verify.Reason) {
	start, end := uint64(math.MaxUint64), uint64(0)
	streams := make([]StreamTime, len(p.Streams))
	h := o.header
	ns := o.nsPerCount()
	var late lateTimes
	var lastLate int64
	var result resultState
	verifies := p.o.Verify
	for t := range p.Threads {
		call, stop := iter.Pull(p.File.Played(t))
		defer stop()
		for n, in := range p.File.Instructions(t) {
			res := &o.insts[n]
			if in.Op == plan.OpCheck && !verifies {
				continue
			}
			if in.OfResult() {
				p.compared(r, &result, in, res, o, varying[n])
				continue
			}
			differs := res.Flags&plan.ResultDiffers != 0 && varying[n] == ""
			if varying[n] != "" && res.Flags&plan.ResultDone != 0 && in.Flags&plan.InstAside == 0 {
				r.Unverified = compile.AddUnverified(r.Unverified, in.Call, varying[n], p.File.Funcs[in.Fn].Name+" answered otherwise in a repeated run")
			}
			if res.Flags&plan.ResultDone == 0 {
				continue
			}
			switch in.Op {
			case plan.OpCall, plan.OpUntil:
				if in.Flags&plan.InstAside != 0 {
					if differs {
						p.differingReturn(r, in, res)
					}
					continue
				}
				r.Replayed++
				behind := int64(float64(int64(res.Start-h.Origin))*ns) - int64(in.At)
				if p.Scale > 0 {
					late.add(behind)
				}
				if res.End > end {
					lastLate = behind
				}
				start, end = min(start, res.Start), max(end, res.End)
				g, ok := call()
				for ok && g.Call != in.Call {
					g, ok = call()
				}
				if ok && g.Stream >= 0 {
					if streams[g.Stream].add(g, res); p.Scale > 0 {
						streams[g.Stream].isLate(res, behind)
					}
				}
				if differs {
					p.differingReturn(r, in, res)
				}
			case plan.OpCheck:
				switch {
				case (in.Want == plan.CheckMachine || in.Want == plan.CheckExtent && plan.Number(o.detail(res).Got[:8]) >= in.At) && differs:
					if r.OtherMachineTotal++; len(r.OtherMachine) < compile.MaxListed {
						r.OtherMachine = append(r.OtherMachine, p.differingBytes(in, o.detail(res)))
					}
				case differs:
					r.differ(p.differingBytes(in, o.detail(res)))
				}
			}
		}
		result.count(r)
	}
	if end <= start || ns == 0 {
		return
	}
	r.Pace.Late = late.lateness(lastLate)
	scale := p.Scale
	if scale == 0 {
		scale = 1
	}
	r.ReplayedNS = int64(float64(end-start) * ns)
	r.Cores = p.cores(o)
	r.Pace.tell(r, scale)
	for i := range streams {
		if s := &streams[i]; s.last > s.first {
			s.Stream, s.RecordedNS, s.ReplayedNS = p.Streams[i], s.to-s.from, int64(float64(s.last-s.first)*ns)
			s.ErrorPercent = errorPercent(s.RecordedNS, s.ReplayedNS, scale)
			if p.Scale > 0 {
				s.Late = s.late.lateness(s.lastLate)
			}
			r.Streams = append(r.Streams, *s)
		}
	}
}

// isLate adds the lateness of a call that was added.
func (s *StreamTime) isLate(res *plan.Result, late int64) {
	s.late.add(late)
	if res.End == s.last {
		s.lastLate = late
	}
}

// add adds a call that was made.
func (s *StreamTime) add(g *plan.PlayedCall, res *plan.Result) {
	if s.last == 0 {
		s.from, s.to, s.first, s.last = g.Start, g.End, res.Start, res.End
	}
	s.from, s.to = min(s.from, g.Start), max(s.to, g.End)
	s.first, s.last = min(s.first, res.Start), max(s.last, res.End)
}

// errorPercent is how much longer something took than it should have, rounded to a thousandth.
func errorPercent(recorded, replayed int64, scale float64) float64 {
	want := float64(recorded) * scale
	if want <= 0 {
		return 0
	}
	return math.Round(1e5*(float64(replayed)-want)/want) / 1e3
}

// tell says by how much the time of a replay is off.
func (p *Pace) tell(r *Report, scale float64) {
	p.ErrorPercent = errorPercent(r.RecordedNS, r.ReplayedNS, scale)
	p.UnexplainedPercent = p.ErrorPercent
	if p.ErrorPercent > 0 && r.Cores != nil {
		p.UnexplainedPercent = max(0, errorPercent(r.RecordedNS, r.ReplayedNS-r.Cores.Without(), scale))
	}
}

func (r *Report) differ(d Difference) {
	r.DifferingTotal++
	if !d.result {
		r.Results.Other++
	}
	if len(r.Differences) < compile.MaxListed {
		r.Differences = append(r.Differences, d)
	}
}

func (p *judge) differingReturn(r *Report, in *plan.Instruction, res *plan.Result) {
	f := p.File.Funcs[in.Fn]
	d := Difference{Call: in.Call, Func: f.Name, Want: compile.Returned(f, p.Model, in.Want), Got: compile.Returned(f, p.Model, res.Ret)}
	if res.Flags&plan.ResultTimeout != 0 {
		d.Want, d.Got = "complete", fmt.Sprintf("not complete after %d ms", p.UntilNS/1e6)
	}
	r.differ(d)
}

// detail says how the bytes of a comparison differ.
func (o *outcome) detail(res *plan.Result) *plan.Detail {
	if res.Detail == 0 || uint64(res.Detail) > uint64(len(o.details)) {
		return &plan.Detail{}
	}
	return &o.details[res.Detail-1]
}

func (p *judge) differingBytes(in *plan.Instruction, res *plan.Detail) Difference {
	f := p.File.Funcs[in.Fn]
	got, want := res.Got[:min(res.Shown, 16)], res.Want[:min(res.Shown, 16)]
	d := Difference{
		Call: in.Call, Func: f.Name, Offset: in.At + res.First, Bytes: res.Count, result: in.OfResult(), item: in.RetSlot,
		Want: hex.EncodeToString(want), Got: hex.EncodeToString(got),
	}
	if in.Want == plan.CheckExtent {
		d.Offset = res.First
	}
	if int(in.Words) < len(f.Params) {
		q := &f.Params[in.Words]
		d.Param = q.Name
		// A number of the call's own is easier to read as one.
		if !in.OfResult() && in.Len <= 8 && (q.Role == api.Out || q.Role == api.InOut) {
			d.Got, d.Want = fmt.Sprintf("%#x", plan.Number(got)), fmt.Sprintf("%#x", plan.Number(want))
		}
	}
	if in.Want == plan.CheckLength {
		recorded, here := plan.Number(want), plan.Number(got)
		d.length = true
		d.Offset, d.Bytes = min(recorded, here), max(recorded, here)-min(recorded, here)
		d.Want, d.Got = fmt.Sprintf("%d bytes", recorded), fmt.Sprintf("%d bytes", here)
	}
	return d
}
