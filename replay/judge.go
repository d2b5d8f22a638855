package replay

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// cores returns nil if the run did not end normally, or the system reports nothing.
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

// tell adds the call's recorded data. A nil Crash stays nil.
func (c *Crash) tell(r *format.Reader, m *api.Model) error {
	if c == nil {
		return nil
	}
	s := timeline.NewState(m)
	for k, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := s.Apply(r.ProcessOf(k.Thread), k)
		if k.Index != c.Call {
			continue
		}
		c.StartNS, c.TID = k.Start, r.Threads()[k.Thread].TID
		for _, a := range e.Args(nil, m) {
			if !a.Out {
				c.Args = append(c.Args, a.Name+"="+a.Text())
			}
		}
		return nil
	}
	return nil
}

// outcome is the result from one player run.
type outcome struct {
	mapped  []byte // the whole results file
	header  *plan.ResultHeader
	threads []plan.ResultThread
	slots   []uint64
	insts   []plan.Result
	details []plan.Detail
	kernels []string // names for results
	missing []string // functions missing in the library
	others  bool     // some kernels are not those of the recording
	crash   *Crash
	log     string
}

// close unmaps the results.
func (o *outcome) close() {
	_ = syscall.Munmap(o.mapped)
	*o = outcome{}
}

// read judges the results of a run. state is the end of the player, or of its wrapper.
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
	case o.header.Status != plan.RunDone: // a wrapper's exit status is meaningless
		o.crash = p.crash(o, state, hung)
		if w := p.o.Wrapper; o.header.Status == 0 && !hung && len(w) > 0 {
			return nil, fmt.Errorf("%s ended (%s) before the player had loaded the library\n%s", w[0], state, log)
		}
		if o.header.Status == 0 && !hung {
			return nil, fmt.Errorf("the player crashed while it loaded the library (%s)\n%s", o.crash.Signal, log)
		}
	}
	return o, nil
}

// crash finds the call in which a player died. If the signal handler did not report the thread, it prefers a call to a wait, and the one
// that began last.
func (p *judge) crash(o *outcome, state *os.ProcessState, hung bool) *Crash {
	c := &Crash{Signal: state.String(), Args: []string{}}
	if state.Success() {
		c.Signal = "it did not reach its end" // a wrapper has no signal
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

// callName returns the function for the call that an instruction belongs to.
func (p *judge) callName(from, to int) string {
	for i := from; i < to; i++ {
		if in := p.File.At(i); in.Op != plan.OpWait {
			return p.File.Funcs[in.Fn].Name
		}
	}
	return ""
}

// moved returns the error about an allocation at another address.
func (o *outcome) moved(p *judge) error {
	for _, d := range p.Found.DeviceBlocks {
		if got := o.slots[d.Slot]; got != 0 && got != d.Object.Handle { // 0: the allocation was not reached
			return fmt.Errorf("the allocation of call %d is at %#x, and was at %#x; place auto or move allows this", d.Object.Created, got, d.Object.Handle)
		}
	}
	return nil
}

// judge turns a plan's outcomes into a Report.
type judge struct {
	*compile.Plan
	o   *Options
	lib backend.Backend
}

// report combines the compiler's findings and, unless o is nil, a run's. varying are the instructions whose outcomes differ between
// repeated runs.
func (p *judge) report(o *outcome, varying map[int]verify.Reason) *Report {
	opts := p.o
	f := &p.Found
	r := &Report{
		Verdict:    verify.NotCompared,
		Scope:      f.Scope,
		Conditions: Conditions{Replayable: f.Replayable, Simulated: f.Simulated, KernelLibraries: []KernelLibrary{}, IgnoredVariables: f.Ignored},
		Proof:      Proof{Unverified: append([]compile.Unverified{}, f.Unproved()...), Differences: []Difference{}},
		Missing: Missing{
			Unsupported: append(append([]compile.Unsupported{}, f.Unsupported...), f.Absent...), Lost: f.Absent, LeftOut: append([]compile.Unsupported{}, f.LeftOut...), AskedFor: f.Asked,
		},
		Others: Others{Uninitialised: []Uninitialised{}},
		Times:  Times{RecordedNS: f.To - f.From, Pace: Pace{Mode: opts.Pace}, Streams: []StreamTime{}},
		Coverage: Coverage{
			Calls: f.Calls, HostFunctions: f.Hosted, Stubs: f.Stubs, Guesses: []compile.Guess{}, Relocated: append([]compile.Relocated{}, f.Relocated...), RelocatedTotal: f.Relocations, Volatile: f.Volatile,
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
	computes := p.lib.Computes()
	if computes {
		r.Placement = "same"
		if o.moved(p) != nil {
			r.Placement = "moved"
			r.Guesses, r.GuessesTotal = append(r.Guesses, f.Guesses...), f.GuessesTotal
			if opts.Place == compile.PlaceMove && p.lib.Placement() == backend.ByCall {
				r.Seed = &opts.seed
			}
		}
	}
	p.results(r, o, varying)
	slices.SortStableFunc(r.Differences, func(a, b Difference) int { return cmp.Compare(a.Call, b.Call) })
	r.Crash, r.Sandbox = o.crash, o.describe()
	r.TrustsKernels = opts.Verify && computes && o.header.Reports == 0
	r.judge(opts)
	switch {
	case !computes:
		r.Note = "no library was called: times are those of the player, and nothing was compared"
	case p.Found.Cut != "":
		r.Note = "the trace was cut (" + p.Found.Cut + "): its undamaged part was replayed"
	case !opts.Verify:
		r.Note = NotCompared
	case o.header.Stopped != 0:
		r.Note = "the replay ended at a call whose result later calls need"
	case len(f.Asked) > 0:
		r.Note = fmt.Sprintf("the program looked up %s functions that the recorder does not know, for example %s: their calls are not in the trace", human.Count(len(f.Asked)), f.Asked[0])
	}
	if r.Verdict != verify.Identical || o.header.Reports != 0 {
		r.Log = o.log // a simulator warns of kernels that it did not run
	}
	return r
}

// judge sets the verdict.
func (r *Report) judge(opts *Options) {
	r.Verdict = verify.NotCompared
	if !opts.Verify {
		return
	}
	if r.Placement == "same" { // all addresses are the recorded ones
		r.Unverified = slices.DeleteFunc(r.Unverified, func(u compile.Unverified) bool { return u.Code == verify.Pointer })
	}
	for _, u := range r.Unverified {
		r.Results.AddUnproved(u.Code, u.Results, u.OtherBytes)
	}
	r.Verdict = r.Results.Verdict()
	if r.Crash != nil && r.Verdict == verify.Identical {
		r.Verdict = verify.Unproved // all results were compared, but the run did not end normally
	}
	r.Identical = r.Verdict == verify.Identical
	r.Verified.Results, r.Verified.Tolerated = r.Results.Proved, r.Results.Tolerated
}

// nsPerCount returns the nanoseconds in a clock tick, 0 if the run did not end normally.
func (o *outcome) nsPerCount() float64 {
	h := o.header
	if h.Counter[1] <= h.Counter[0] {
		return 0
	}
	return float64(h.NS[1]-h.NS[0]) / float64(h.Counter[1]-h.Counter[0])
}

// A resultState collects consecutive checks for one result.
type resultState struct {
	call  uint64
	state verify.State
	code  verify.Reason // for IsUnproved
	why   string
	open  bool
	other bool // some bytes differ
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

// reason describes why the library can't prove a result.
func (p *judge) reason(o *outcome, code verify.Reason, res *plan.Result) string {
	if why := p.Found.Because[code]; why != "" {
		return why
	}
	if code == verify.NotReached {
		return "a failed task was reported earlier than in the recording, so the result may not have been computed"
	}
	if n := res.Flags >> plan.KernelShift; code == verify.Kernel && n > 0 && int(n) <= len(o.kernels) {
		return fmt.Sprintf("no library here implements kernel %s, which computes it", human.Kernel(o.kernels[n-1]))
	}
	return code.Text()
}

// checkedName returns a check's parameter.
func (p *judge) checkedName(in *plan.Instruction) string {
	if ps := p.File.Funcs[in.Fn].Params; int(in.Words) < len(ps) {
		return ps[in.Words].Name
	}
	return access.MemoryParam.Name
}

// compared adds one comparison.
func (p *judge) compared(r *Report, s *resultState, in *plan.Instruction, res *plan.Result, o *outcome, varies verify.Reason) {
	if in.At == 0 {
		s.count(r)
		*s = resultState{call: in.Call, open: true}
	}
	code := verify.ByCode(in.Reason())
	if in.Flags&plan.InstUnmarked != 0 {
		code = "" // handled by the player
	}
	why := code.Text()
	if n := uint8(res.Flags >> plan.ReasonShift); n != 0 && code == "" {
		code = verify.ByCode(n)
		why = p.reason(o, code, res)
	}
	if code == verify.Source && o.others {
		code = "" // the kernels may be the cause
	}
	if (code == "" || code == verify.Uninitialised) && in.Bits&plan.CheckGuess != 0 && r.Placement == "moved" { // an address may lead to unwritten memory
		code = verify.Pointer
		why = p.reason(o, code, res)
	}
	switch {
	case res.Flags&plan.ResultDone == 0:
		s.set(verify.IsUnproved, verify.NotReached, "the replay ended before the comparison")
		return
	case varies != "" && code != verify.Race: // a race is the cause
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
			if code == verify.Source && len(r.sources) < compile.MaxListed {
				r.sources = append(r.sources, p.differingBytes(in, o.detail(res)))
			}
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

// results reads all instruction outcomes.
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
		failed := uint64(timeline.NoCall) // latest call that failed here only: it has no outputs to compare
		for n, in := range p.File.Instructions(t) {
			res := &o.insts[n]
			if in.Op == plan.OpCheck && (!verifies || in.Call == failed && !in.OfResult()) {
				continue
			}
			if in.OfResult() {
				p.compared(r, &result, in, res, o, varying[n])
				continue
			}
			differs := res.Flags&plan.ResultDiffers != 0 && varying[n] == ""
			if varying[n] != "" && res.Flags&plan.ResultDone != 0 && in.Flags&plan.InstAside == 0 {
				r.Unverified = compile.AddUnverified(r.Unverified, in.Call, varying[n], p.File.Funcs[in.Fn].Name+" gave another result in a repeated run")
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
				behind := int64(float64(int64(res.Start-h.Origin))*ns) - int64(float64(in.At)*p.Scale)
				if p.Scale > 0 {
					late.add(behind)
				}
				if res.End > end {
					lastLate = behind
				}
				start, end = min(start, res.Start), max(end, res.End)
				if in.Stream >= 0 {
					if streams[in.Stream].add(in, res); p.Scale > 0 {
						streams[in.Stream].isLate(res, behind)
					}
				}
				if f := p.File.Funcs[in.Fn]; r.SameFailure == nil && !differs && f.RetError && int32(res.Ret) == int32(in.Want) && p.Model.DeviceFault(int32(res.Ret)) {
					d := p.returned(in, res)
					r.SameFailure = &d
				}
				switch {
				case differs:
					p.differingReturn(r, in, res)
					if p.File.Funcs[in.Fn].Failed(res.Ret) {
						failed = in.Call
					}
				case res.Flags&plan.ResultReported != 0:
					if r.ReportedTotal++; len(r.Reported) < compile.MaxListed {
						d := p.returned(in, res)
						r.Reported = append(r.Reported, Reported{d.Call, d.Func, d.Want, d.Got, in.Want == 0})
					}
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
			s.Stream, s.RecordedNS, s.ReplayedNS = p.Streams[i].Name, s.to-s.from, int64(float64(s.last-s.first)*ns)
			s.ErrorPercent = errorPercent(s.RecordedNS, s.ReplayedNS, scale)
			if p.Scale > 0 {
				s.Late = s.late.lateness(s.lastLate)
			}
			r.Streams = append(r.Streams, *s)
		}
	}
}

// isLate adds a call's lateness. The call was added before.
func (s *StreamTime) isLate(res *plan.Result, late int64) {
	s.late.add(late)
	if res.End == s.last {
		s.lastLate = late
	}
}

func (s *StreamTime) add(in *plan.Instruction, res *plan.Result) {
	start, end := int64(in.At), int64(in.At+in.Dur)
	if s.last == 0 {
		s.from, s.to, s.first, s.last = start, end, res.Start, res.End
	}
	s.from, s.to = min(s.from, start), max(s.to, end)
	s.first, s.last = min(s.first, res.Start), max(s.last, res.End)
}

// errorPercent returns a duration's relative deviation, rounded to a thousandth.
func errorPercent(recorded, replayed int64, scale float64) float64 {
	want := float64(recorded) * scale
	if want <= 0 {
		return 0
	}
	return math.Round(1e5*(float64(replayed)-want)/want) / 1e3
}

// tell computes how far a replay's duration deviates.
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

// returned describes a returned value that differs.
func (p *judge) returned(in *plan.Instruction, res *plan.Result) Difference {
	f := p.File.Funcs[in.Fn]
	return Difference{Call: in.Call, Func: f.Name, Want: compile.Returned(f, p.Model, in.Want), Got: compile.Returned(f, p.Model, res.Ret)}
}

func (p *judge) differingReturn(r *Report, in *plan.Instruction, res *plan.Result) {
	f, d := p.File.Funcs[in.Fn], p.returned(in, res)
	if res.Flags&plan.ResultTimeout != 0 {
		d.Want, d.Got = "complete", "not complete after "+human.Duration(int64(p.UntilNS))
	}
	if r.Placement == "moved" && in.Call > p.Found.GuessLaunch && f.RetError && p.Model.DeviceFault(int32(res.Ret)) {
		why := fmt.Sprintf("it returned %s: the launch of call %d depends on words that may be addresses", d.Got, p.Found.GuessLaunch)
		r.Unverified = compile.AddUnverified(r.Unverified, in.Call, verify.Pointer, why)
		return
	}
	r.differ(d)
}

// detail describes a comparison's differing bytes.
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
		// A number is easier to read in decimal.
		if !in.OfResult() && in.Len <= 8 && (q.Role == api.Out || q.Role == api.InOut) {
			d.Got, d.Want = fmt.Sprintf("%#x", plan.Number(got)), fmt.Sprintf("%#x", plan.Number(want))
		}
	}
	if in.Want == plan.CheckLength {
		recorded, here := plan.Number(want), plan.Number(got)
		d.length = true
		d.Offset, d.Bytes = min(recorded, here), max(recorded, here)-min(recorded, here)
		d.Want, d.Got = human.Count(recorded)+" bytes", human.Count(here)+" bytes"
	}
	return d
}
