package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A FindingKind says what a Finding is about.
type FindingKind string

// Kinds of findings. Those up to PilesUp have no cost in time.
const (
	Killed      FindingKind = "killed"               // signal Code with the Name killed process PID, Count processes in all
	FailedCalls FindingKind = "failed_calls"         // Count calls failed; Call is the first one, with Code
	Outlived    FindingKind = "outlived_allocations" // Count allocations failed, and their programs launched more and ended with exit code 0; Call is the first one, with Code, of Bytes
	Unfinished  FindingKind = "unfinished"           // Count calls hung, or ran when their process crashed; Call is the first one
	NoEnd       FindingKind = "no_end"               // Count calls may be over, but their end was not seen; Call is the first one
	LostCalls   FindingKind = "lost_calls"           // Count calls are missing, 0 if their number is not known
	Relaunched  FindingKind = "relaunched"           // Count launches of the kernel Name were repeated after an error; Call is the first one
	Grows       FindingKind = "memory_grows"         // device memory grows from step to step: see Growth
	PilesUp     FindingKind = "objects_grow"         // Count more objects of the kind Name exist after Steps steps; Func makes them

	// Faults of captured graphs: Graph says more. Count times; Call is the first one, of Func.
	KeptArguments   = FindingKind(graphs.KeptArguments)
	MisfitUpdate    = FindingKind(graphs.MisfitUpdate)
	EarlyUpdate     = FindingKind(graphs.EarlyUpdate)
	LateUpdate      = FindingKind(graphs.LateUpdate)
	UnorderedInput  = FindingKind(graphs.UnorderedInput)
	MissingRecord   = FindingKind(graphs.MissingRecord)
	ExtraRecord     = FindingKind(graphs.ExtraRecord)
	FreedMemory     = FindingKind(graphs.FreedMemory)
	RefusedCall     = FindingKind(graphs.RefusedCall)
	UnjoinedStream  = FindingKind(graphs.UnjoinedStream)
	SlowUpdate      = FindingKind(graphs.SlowUpdate)
	CapturedStreams = FindingKind(graphs.CapturedStreams)

	// UnusedGraphs: Count captures, of which no graph runs in the Of steps that follow; Call is the first one, of Func.
	UnusedGraphs FindingKind = "unused_graphs"

	SlowSteps      FindingKind = "slow_steps"             // Count steps took over twice the median; Step is the longest: see Steps.Longest
	OddSteps       FindingKind = "odd_steps"              // Count steps do more than most and took NS; Step is the longest, of EachNS
	EagerSteps     FindingKind = "eager_steps"            // Count of Of steps since the first run of a graph run none, but launch the kernels of steps that do. They take NS, the others EachNS; Step is the longest
	Waits          FindingKind = "waiting"                // the thread in Shares waits for the device, mostly in Func
	Launches       FindingKind = "launching"              // it launches
	Copies         FindingKind = "copying"                // it copies, mostly in Func in the direction Name
	OtherCalls     FindingKind = "other_calls"            // it makes other calls, mostly of Func
	Blocked        FindingKind = "blocked"                // it waits outside calls: for another thread, a file or a time to pass
	OwnTime        FindingKind = "own_time"               // it runs outside calls: see Shares.Gaps
	SyncReads      FindingKind = "synchronous_reads"      // Count times in Steps of Of typical steps the host waits for a few bytes from the device; Call is the first one in Step
	PageableCopies FindingKind = "pageable_copies"        // the same of copies of pageable memory to the device for which the host waits
	Synchronizes   FindingKind = "explicit_synchronizing" // the same of waits for the device after which nothing is copied
	EmptiesCache   FindingKind = "emptied_cache"          // the same of waits for the device after which its memory is freed
	Allocates      FindingKind = "step_allocations"       // the same of allocations of device memory
	Recaptures     FindingKind = "step_captures"          // the same of captures of graphs
	// FrequentOperator: the operator Name runs Count times in Steps of Of typical steps, hundreds of times in each, with small launches. Share is its part of a step on the host.
	FrequentOperator FindingKind = "frequent_operator"
	IdleDevice       FindingKind = "idle"         // a device had no work; Stats.Idle has the longest times
	ShortTasks       FindingKind = "short_tasks"  // a device had no work after most kernels, which take NS; the host launches one every EveryNS. Without device times: Count launches a step, and Share is waiting
	HiddenWaits      FindingKind = "hidden_waits" // Count asynchronous copies of pageable memory by Func may have waited; Call is the first one
	Stalls           FindingKind = "stalls"       // Steps of Of typical steps have a gap of NS that the others lack: see Gap
	Recorder         FindingKind = "recording"    // the recorder took the program's time
	OddRank          FindingKind = "odd_rank"     // Rank, or process PID, spends more on Name (kernels, copying, own_time or waiting) than the median rank; Share is the part more
	LateRank         FindingKind = "late_rank"    // Rank came last to Count of Of collectives; the one with the longest wait, NS, is not in the cost
)

// kind returns the kind of the finding about the part.
func (p Part) kind() FindingKind {
	return [...]FindingKind{Waits, Launches, Copies, OtherCalls, Recorder, Blocked, OwnTime}[p]
}

func (p Part) String() string { return string(p.kind()) }

// A Finding is a likely reason for lost time or a wrong result, and where to look. Its Kind says which fields it has.
type Finding struct {
	// Kind is killed, failed_calls, outlived_allocations, unfinished, no_end, lost_calls, relaunched, memory_grows, objects_grow, kept_arguments, misfit_update, early_update, late_update, unordered_input, missing_record,
	// extra_record, freed_memory, refused_call, unjoined_stream, slow_update, captured_streams, unused_graphs, slow_steps, odd_steps, eager_steps, waiting, launching, copying, other_calls, blocked, own_time,
	// stalls, synchronous_reads, pageable_copies, explicit_synchronizing, emptied_cache, step_allocations, step_captures, frequent_operator, idle, short_tasks, hidden_waits, recording, odd_rank or late_rank.
	Kind    FindingKind     `json:"kind"`
	CostNS  int64           `json:"cost_ns"`            // in the whole trace, 0 for the kinds up to unused_graphs
	Share   float64         `json:"share,omitempty"`    // part of the time: shares of a step, or of a device's time
	Count   uint64          `json:"count,omitempty"`    // calls, steps, launches or collectives
	Of      uint64          `json:"of,omitempty"`       // all collectives of the rank, or all typical steps
	Steps   int64           `json:"steps,omitempty"`    // typical steps in which it happens
	Bytes   uint64          `json:"bytes,omitempty"`    // copied, or by which memory grows
	NS      int64           `json:"ns,omitempty"`       // part of a step, longest step, odd steps, or mean kernel time
	EachNS  int64           `json:"each_ns,omitempty"`  // mean time of a call, or the longest odd step
	EveryNS int64           `json:"every_ns,omitempty"` // mean time between two launches
	Step    *int            `json:"step,omitempty"`     // longest step, or a step near the median
	Call    *uint64         `json:"call,omitempty"`     // number of the first call
	Func    string          `json:"func,omitempty"`     // function called first, or the one with most time
	Name    string          `json:"name,omitempty"`     // name of the error, the kernel, the operator or the copy direction
	Code    int64           `json:"code,omitempty"`     // returned error
	Fault   bool            `json:"fault,omitempty"`    // the device reported the error
	PID     int             `json:"pid,omitempty"`      // the killed or odd process
	Device  *Device         `json:"device,omitempty"`   // device that had no work
	Rank    *int            `json:"rank,omitempty"`     // the late or odd rank, the rank of the killed process, or of the thread in Shares
	Growth  *Growth         `json:"growth,omitempty"`
	Gap     *Gap            `json:"gap,omitempty"`    // of stalls
	Thread  string          `json:"thread,omitempty"` // that stalls, or that prepares Count of Of operators a step while the steps' thread does not run
	Graph   *graphs.Finding `json:"graph,omitempty"`  // of a fault of a captured graph
	For     FindingKind     `json:"for,omitempty"`    // what most of the waits are for: synchronous_reads or explicit_synchronizing
}

const (
	// worthShare is the least share of a step or of a device's time that is a finding.
	worthShare = 0.1
	// worthCost is the least part of the trace's time that is a finding.
	worthCost = 0.01
	// slowFactor is the number of medians that make a step slow.
	slowFactor = 2
)

// findings returns the findings: first those about lost or wrong calls, then those about time, the most expensive first. Waits for a device whose
// tasks have no times come last.
func (x *summer) findings() []Finding {
	out := append([]Finding{}, x.callFindings()...)
	if x.part {
		return out
	}
	out = append(out, x.memoryFindings()...)
	out = append(out, x.graphFindings()...)
	out = append(out, x.eager.unused.findings()...)
	if f := x.firsts.outlived; f != nil {
		out = append(out, Finding{Kind: Outlived, Count: x.firsts.survived, Call: &f.call, Func: f.fn, Code: f.code, Name: x.w.Model.ErrorName(f.code), Bytes: f.bytes})
	}
	for i := range x.habits.threads {
		x.habits.flush(&x.habits.threads[i])
	}
	timed := slices.Concat(x.stepFindings(), x.eagerFindings(), x.shareFindings(), x.habitFindings(), x.operatorFindings(), x.deviceFindings(), x.otherFindings(), x.rankFindings())
	late := func(f *Finding) int { // without device times, a wait has no cause
		if f.Kind == Waits && !x.s.Timed() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(timed, func(a, b Finding) int { return cmp.Or(late(&a)-late(&b), cmp.Compare(b.CostNS, a.CostNS)) })
	return append(out, timed...)
}

func (x *summer) callFindings() (out []Finding) {
	s := x.s
	if i, n := killed(x.w.Reader.Processes()); n > 0 {
		p := &x.w.Reader.Processes()[i]
		out = append(out, Finding{Kind: Killed, Count: n, PID: p.PID, Code: int64(p.Signal), Name: human.Signal(p.Signal), Rank: rankOf(x.w, uint32(i))})
	}
	x.firsts.finish()
	if f := x.firsts.failed; f != nil {
		out = append(out, Finding{Kind: FailedCalls, Count: x.firsts.failures, Call: &f.call, Func: f.fn, Code: f.code, Name: x.w.Model.ErrorName(f.code), Fault: x.w.Model.DeviceFault(int32(f.code))})
	}
	if n, call, fn := x.hung(); n > 0 {
		out = append(out, Finding{Kind: Unfinished, Count: n, Call: &call, Func: fn})
	}
	if f := x.firsts.noEnd; f != nil {
		out = append(out, Finding{Kind: NoEnd, Count: x.noEnds, Call: &f.call, Func: f.fn})
	}
	if c := x.w.Reader.Completeness(); s.Gaps > 0 || c.Cut != "" && !c.Recording && s.Selection == "" {
		out = append(out, Finding{Kind: LostCalls, Count: s.CallsLost})
	}
	for i := range s.Retries {
		r := &s.Retries[i]
		out = append(out, Finding{Kind: Relaunched, Count: r.Count, Call: &r.First, Name: r.Kernel, Code: r.Code})
	}
	return out
}

// rankOf returns the rank of a process, nil if it is not known.
func rankOf(w *timeline.Walk, process uint32) *int {
	list := w.Reader.Processes()
	if int(process) >= len(list) || !list[process].Ranked(w.Reader.Meta()) {
		return nil
	}
	return &list[process].Rank
}

// ProcessOf returns the id of a process, and its rank if it is known.
func ProcessOf(w *timeline.Walk, process uint32) (pid int, rank *int) {
	return w.PID(process), rankOf(w, process)
}

// openCall is a call that never returned.
type openCall struct {
	call    uint64
	start   int64
	process uint32
}

// maxOpen bounds the calls of a function that are kept because they never returned.
const maxOpen = 1 << 12

// hung counts the calls that ran when their process crashed, or that had run longer than all others of the function when the recording ended. The
// rest would have returned. It returns the first one too.
func (x *summer) hung() (n, first uint64, fn string) {
	processes := x.w.Reader.Processes()
	for _, f := range x.funcs {
		for _, c := range f.open {
			p := &format.Process{}
			if int(c.process) < len(processes) {
				p = &processes[c.process]
			}
			if end := max(x.w.End, cmp.Or(p.End, x.w.Reader.Meta().EndNS)); end-c.start <= f.times.max && !p.Crashed() {
				continue
			}
			if n++; n == 1 || c.call < first {
				first, fn = c.call, f.Func
			}
		}
	}
	return n, first, fn
}

// killed returns the index of the first process that crashed, and the number of such processes.
func killed(list []format.Process) (first int, n uint64) {
	for i := range list {
		if !list[i].Crashed() {
			continue
		}
		if n++; n == 1 || list[i].End < list[first].End {
			first = i
		}
	}
	return first, n
}

// graphFindings returns the faults of captured graphs.
func (x *summer) graphFindings() (out []Finding) {
	for _, f := range x.checker.Findings() {
		out = append(out, Finding{Kind: FindingKind(f.Kind), Count: f.Count, Call: &f.Call, Func: f.Func, Graph: &f})
	}
	return out
}

// Asked is a process that a signal ended, which asks programs to end.
type Asked struct {
	Process int    `json:"process"` // process id
	Signal  string `json:"signal"`  // its name
}

// asked returns the processes with calls that were asked to end.
func (x *summer) asked() (out []Asked) {
	threads := x.w.Reader.Threads()
	for i, p := range x.w.Reader.Processes() {
		if p.Killed && !p.Crashed() && slices.ContainsFunc(threads, func(t format.Thread) bool { return int(t.Process) == i }) {
			out = append(out, Asked{p.PID, human.Signal(p.Signal)})
		}
	}
	return out
}

func (x *summer) memoryFindings() (out []Finding) {
	if g := x.samples.growth(func(s *stepSample) uint64 { return s.bytes }); g != nil {
		out = append(out, Finding{Kind: Grows, Growth: g, Bytes: g.ToBytes - min(g.FromBytes, g.ToBytes)})
	}
	for i, kind := range kept {
		g := x.samples.growth(func(s *stepSample) uint64 { return s.live[i] })
		if g == nil {
			continue
		}
		// What a busy thread ends late, it ends before the program does.
		if more := g.ToBytes - min(g.FromBytes, g.ToBytes); 2*x.living.n[i] >= more {
			out = append(out, Finding{Kind: PilesUp, Name: string(kind), Func: x.living.made[i], Count: more, Steps: int64(g.Steps)})
		}
	}
	return out
}

func (x *summer) stepFindings() (out []Finding) {
	l, limit := x.s.Steps.Longest, slowFactor*x.s.Steps.P50NS
	stall, thread := x.within.stall()
	if l != nil && l.More != nil && l.More.Copies() && stall != nil && !stall.Copy && *stall.Step == l.Index {
		stall = nil // what this step copies says more
	}
	if stall != nil {
		out = append(out, Finding{Kind: Stalls, NS: stall.LongNS, CostNS: stall.LongNS * stall.Steps, Steps: stall.Steps, Of: uint64(x.within.n), Step: stall.Step, Gap: stall, Thread: thread})
	}
	if l != nil && l.NS > limit && (stall == nil || *stall.Step != l.Index) {
		n, sum := x.steps.above(limit)
		out = append(out, Finding{Kind: SlowSteps, Count: n, NS: l.NS, CostNS: sum - int64(n)*x.s.Steps.P50NS, Step: &l.Index})
	}
	if o := &x.odd; l != nil && o.longest > limit {
		out = append(out, Finding{Kind: OddSteps, Count: o.n, NS: o.ns, EachNS: o.longest, CostNS: max(o.ns-int64(o.n)*x.s.Steps.P50NS, o.longest-x.s.Steps.P50NS), Step: &o.index})
	}
	return out
}

// oddSteps sums up the steps that are unlike most.
type oddSteps struct {
	n           uint64
	ns, longest int64
	index       int // of the longest
}

func (o *oddSteps) add(p *step.Step) {
	ns := p.To - p.From
	o.n, o.ns = o.n+1, o.ns+ns
	if ns > o.longest {
		o.longest, o.index = ns, p.Index
	}
}

// shareFindings returns the parts of the time of the thread in Shares that are worth a look.
func (x *summer) shareFindings() (out []Finding) {
	sh := x.s.Shares
	if sh == nil || sh.NS == 0 {
		return nil
	}
	longest := Parts{}
	if l := x.s.Steps.Longest; l != nil {
		longest = l.Parts
	}
	for _, part := range AllParts {
		ns := part.Of(&sh.Parts)
		others := ns // without the longest step, which is a finding of its own
		if sh.Steps > 1 {
			others = max((ns*sh.Steps-part.Of(&longest))/(sh.Steps-1), 0)
		}
		if float64(others) < worthShare*float64(sh.NS) {
			continue
		}
		f := Finding{Kind: part.kind(), Share: float64(ns) / float64(sh.NS), CostNS: ns * max(sh.Steps, 1), NS: ns, Rank: sh.Rank}
		if c := x.within.most(part); c != nil {
			f.Func, f.Name, f.Count, f.Bytes, f.EachNS = c.Func, c.Direction, c.Calls, c.Bytes, c.NS/int64(c.Calls)
		}
		if part == PartWaiting {
			f.For = x.waitsFor(ns * sh.Steps)
		}
		if part == PartBlocked {
			f.Thread, f.Count, f.Of = x.within.preparer()
		}
		if at := x.samples.near(x.s.Steps.P50NS); at >= 0 {
			f.Step = &at
		}
		out = append(out, f)
	}
	return out
}

// deviceFindings returns the devices that were idle.
func (x *summer) deviceFindings() (out []Finding) {
	s := x.s
	for i := range s.Devices {
		d := &s.Devices[i]
		f := Finding{Kind: IdleDevice, CostNS: d.IdleNS(), Device: d}
		if d.SpanNS > 0 {
			f.Share = float64(d.IdleNS()) / float64(d.SpanNS)
		}
		if f.Share < worthShare {
			continue
		}
		if k := x.allKernels(); len(s.Devices) == 1 && k.measured > 0 && k.count > 0 && 2*uint64(d.IdleTimes) > k.count {
			// Most kernels are followed by idle time. It may still be long at some of them.
			long := int64(0)
			for j := range s.Idle {
				long += s.Idle[j].NS
			}
			if every := d.SpanNS / int64(k.count); d.IdleNS()/int64(d.IdleTimes) <= every && 2*long < d.IdleNS() {
				f.Kind, f.NS, f.EveryNS, f.Count = ShortTasks, k.ns/int64(k.measured), every, k.count
			}
		}
		out = append(out, f)
	}
	return out
}

// operatorFindings returns the operators that run very often in a step, with small launches: manyRuns times in the mean and in most typical steps, for
// worthShare of a step's time on the host. There are none if a step waits for the device for boundShare of its time: less work on the host would not make it shorter.
func (x *summer) operatorFindings() (out []Finding) {
	sh := x.s.Shares
	if sh == nil || sh.NS == 0 || x.operators.steps == 0 || float64(sh.WaitingNS) >= boundShare*float64(sh.NS) || x.s.Bound != nil && x.s.Bound.By == ByDevice {
		return nil
	}
	steps := x.operators.steps
	for name, h := range x.operators.byName {
		r := &h.typical
		share := float64(r.ns) / float64(steps*sh.NS)
		if r.runs < manyRuns*uint64(steps) || 2*h.steps < steps || share < worthShare || !r.small() {
			continue
		}
		step := h.step
		out = append(out, Finding{Kind: FrequentOperator, Share: share, CostNS: r.ns, Count: r.runs, EachNS: r.ns / int64(r.runs), Name: name, Steps: h.steps, Of: uint64(steps), Step: &step, Rank: sh.Rank})
	}
	slices.SortFunc(out, func(a, b Finding) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// otherFindings returns findings about copies that wait and ranks that are late.
func (x *summer) otherFindings() (out []Finding) {
	s := x.s
	if f := x.within.outpaced(); f != nil && !s.Timed() {
		out = append(out, *f)
	}
	for i := range s.HiddenSyncs {
		if h := &s.HiddenSyncs[i]; float64(h.HostNS) > worthCost*float64(s.SpanNS) {
			out = append(out, Finding{Kind: HiddenWaits, CostNS: h.HostNS, Count: h.Count, Bytes: h.Bytes, Call: &h.First, Func: h.Func, Name: h.Name})
		}
	}
	if s.Ranks != nil {
		for i := range s.Ranks.Ranks {
			// The longest wait is often the job's start.
			if r := &s.Ranks.Ranks[i]; float64(r.Caused-r.Longest) > worthCost*float64(s.SpanNS) {
				out = append(out, Finding{Kind: LateRank, CostNS: r.Caused - r.Longest, NS: r.Longest, Count: uint64(r.Last), Of: uint64(r.Met), Rank: &r.Rank})
			}
		}
	}
	return out
}

// kernelSum sums up all kernels.
type kernelSum struct {
	count, measured uint64
	ns              int64
}

func (x *summer) allKernels() (k kernelSum) {
	for i := range x.s.Kernels {
		t := &x.s.Kernels[i]
		k.count, k.measured, k.ns = k.count+t.Count, k.measured+t.Measured, k.ns+t.DeviceNS
	}
	return k
}

// firstCalls has the first call that failed, and the first whose end was not seen.
type firstCalls struct {
	failed, noEnd *firstCall
	failures      uint64
	outlived      *firstCall // first failed allocation of those that programs outlived
	survived      uint64     // number of those
	short         map[uint32]*shortage
}

type firstCall struct {
	call  uint64
	fn    string
	code  int64
	bytes uint64 // that an allocation asked for
}

// shortage is the failed allocations of a process since it last launched something. The process ended with exit code 0.
type shortage struct {
	first firstCall
	n     uint64
}

// fail takes a failed call.
func (x *firstCalls) fail(w *timeline.Walk, h *timeline.HostCall) {
	call := firstCall{call: h.Index, fn: h.Name, code: int64(int32(h.Ret))}
	p, memory := w.Reader.ProcessOf(h.Thread), h.Fn.Allocates()
	if list := w.Reader.Processes(); memory == nil || int(p) >= len(list) || !list[p].EndedWell() {
		x.failures++
		first(&x.failed, &call)
		return
	}
	s := x.short[p]
	if s == nil {
		call.bytes, _ = memory.Size.Bytes(h.Fn, h.Raw.Args)
		if x.short == nil {
			x.short = map[uint32]*shortage{}
		}
		s = &shortage{first: call}
		x.short[p] = s
	}
	s.n++
}

// launched takes a launch by a process: it has outlived what failed before.
func (x *firstCalls) launched(process uint32) {
	if s := x.short[process]; s != nil {
		x.survived += s.n
		first(&x.outlived, &s.first)
		delete(x.short, process)
	}
}

// finish takes the end of the trace: allocations failed after which nothing was launched.
func (x *firstCalls) finish() {
	for _, s := range x.short {
		x.failures += s.n
		first(&x.failed, &s.first)
	}
	clear(x.short)
}

// first keeps the first of two calls.
func first(is **firstCall, c *firstCall) {
	if *is == nil || c.call < (*is).call {
		*is = c
	}
}
