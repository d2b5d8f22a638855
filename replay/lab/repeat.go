package lab

import (
	"slices"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Runs compares a plan's runs.
type Runs struct {
	Times []time.Duration // from the first call to the last end, by run
	// Varying are the instructions whose outcomes differ from the first run, with the reasons.
	Varying map[int]verify.Reason

	plan     *compile.Plan
	poison   bool
	first    []plan.Result // from the first run
	launches []LaunchTimes
	spans    [][2]int // instructions of each launch and of the call that waits for it
	// unordered means that results differ without a difference in new memory, so that no difference is evidence of memory
	// that nothing has written.
	unordered bool
}

// NewRuns prepares the comparison. of describes an extract, nil for other traces. poison says that new memory has the byte Poison in
// each run.
func NewRuns(p *compile.Plan, of *format.Extracted, poison bool) *Runs {
	r := &Runs{Varying: map[int]verify.Reason{}, plan: p, poison: poison}
	r.launches, r.spans = timed(p, of)
	return r
}

// Add compares the results of a run with those of the first run, which must stay valid until then. nsPerCount is the length of a clock
// tick.
func (r *Runs) Add(results []plan.Result, nsPerCount float64, elapsed time.Duration) {
	run := len(r.Times)
	r.Times = append(r.Times, elapsed)
	for i := range r.launches {
		r.launches[i].time(results, nsPerCount, r.spans[i])
	}
	if run == 0 {
		r.first = results
		return
	}
	for i := range results {
		a, b := &r.first[i], &results[i]
		if !same(r.plan.File.At(i), a, b) {
			r.Varying[i] = r.variation(r.Varying[i], run)
		}
		r.unordered = r.unordered || r.Varying[i] == verify.Varies || verify.ByCode(uint8(b.Flags>>plan.ReasonShift)) == verify.Race
	}
	if r.unordered {
		for i := range r.Varying {
			r.Varying[i] = verify.Varies
		}
	}
}

// same reports whether two runs of an instruction have the same outcome. All values within the tolerance are one outcome, and all moments at
// which a failed task is reported.
func same(in *plan.Instruction, a, b *plan.Result) bool {
	const flags = plan.ResultDone | plan.ResultDiffers
	switch either := a.Flags | b.Flags; {
	case a.Flags&flags != b.Flags&flags:
		return false
	case in.Op == plan.OpCheck:
		return a.Ret == b.Ret || either&plan.ResultTolerated != 0 && either&plan.ResultDiffers == 0
	case in.Op == plan.OpCall: // an uncompared value is an address or a handle
		return (a.Ret^b.Ret)<<(64-in.Bits) == 0 || either&plan.ResultReported != 0
	}
	return true
}

// variation returns why an instruction's outcome differs in a run. was is the reason found so far.
func (r *Runs) variation(was verify.Reason, run int) verify.Reason {
	if r.poison && was != verify.Varies && Poison(run) != Poison(0) {
		return verify.Uninitialised
	}
	return verify.Varies // new memory had the same byte in it
}

// Poison returns the byte for new device memory in the n-th run, counted from 0. Two bytes alternate.
func Poison(n int) byte {
	return [...]byte{0xa5, 0x5a}[n%2]
}

// Launches returns the launches' durations in all runs.
func (r *Runs) Launches() []LaunchTimes {
	for i := range r.launches {
		if l := &r.launches[i]; len(l.NS) > 0 {
			sorted := slices.Sorted(slices.Values(l.NS))
			l.Min, l.Median, l.Max = sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
		}
	}
	return r.launches
}

// LaunchTimes are a launch's durations in each run: from its call to the end of the first wait for its stream.
type LaunchTimes struct {
	Call   uint64  `json:"call"`            // number of the launching call
	Kernel string  `json:"kernel"`          // kernel name
	NS     []int64 `json:"ns"`              // duration in each run, from the call until the first wait for its stream ended
	Min    int64   `json:"min_ns"`          // shortest duration
	Median int64   `json:"median_ns"`       // median duration
	Max    int64   `json:"max_ns"`          // longest duration
	Alone  bool    `json:"alone,omitempty"` // the device was otherwise idle
}

// maxLaunches is how many launches are timed individually at most.
const maxLaunches = 64

// timed finds the launches, or an extract's launch, each with the instructions of its call and of the waiting call. It finds none if
// there are more than maxLaunches.
func timed(p *compile.Plan, of *format.Extracted) (launches []LaunchTimes, spans [][2]int) {
	// A played call has its instruction's number.
	type played struct {
		plan.Instruction
		n int
	}
	type launch struct {
		played
		process int
		wait    played // Call is the launch itself if no call waits
	}
	var all []launch
	for t := range p.Threads {
		for n, in := range p.File.Instructions(t) {
			if in.Kernel == 0 || of != nil && in.Call != of.Launch {
				continue
			}
			if len(all) == 16*maxLaunches {
				return nil, nil
			}
			c := played{*in, n}
			all = append(all, launch{c, p.Threads[t].Process, c})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	for t := range p.Threads {
		for n, w := range p.File.Instructions(t) {
			if !w.Recorded() {
				continue
			}
			if sync := p.File.Funcs[w.Fn].Sync; sync != api.SyncDevice && sync != api.SyncStream {
				continue
			}
			for i := range all {
				l := &all[i]
				if p.Threads[t].Process == l.process && waitsFor(p, w, l.Stream) && w.At >= l.At+l.Dur && (l.wait.Call == l.Call || w.At+w.Dur < l.wait.At+l.wait.Dur) {
					l.wait = played{*w, n}
				}
			}
		}
	}
	for _, l := range all {
		if l.wait.Call == l.Call {
			continue
		}
		launches = append(launches, LaunchTimes{Call: l.Call, Kernel: p.File.Kernels[l.Kernel-1], Alone: of != nil && of.Alone})
		spans = append(spans, [2]int{l.n, l.wait.n})
	}
	if len(launches) > maxLaunches {
		return nil, nil
	}
	return launches, spans
}

// waitsFor reports whether a call that waits for a stream or a device waits for a launch on a stream.
func waitsFor(p *compile.Plan, w *plan.Instruction, stream int32) bool {
	if w.Stream >= 0 || stream < 0 {
		return w.Stream == stream
	}
	device := p.Streams[stream].Lane.Device
	return int(w.Stream) == plan.WaitsFor(device) || int(w.Stream) == plan.WaitsFor(timeline.NoDevice) || device == timeline.NoDevice
}

// time adds the launch's duration in a run.
func (l *LaunchTimes) time(results []plan.Result, nsPerCount float64, span [2]int) {
	if a, b := &results[span[0]], &results[span[1]]; a.Flags&b.Flags&plan.ResultDone != 0 {
		l.NS = append(l.NS, int64(float64(b.End-a.Start)*nsPerCount))
	}
}
