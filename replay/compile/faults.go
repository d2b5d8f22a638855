package compile

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
)

// A context that stops at a failed task returns the task's error from every later call that uses its streams. When that begins depends on
// the device. So the replay waits for the device before the first call that reported the failure, which then reports it again. Calls before it may
// succeed as recorded, or report the failure earlier. The wait changes nothing, since the error stays.

// reports notes a call that returned the error of a failed task.
func (p *faults) reports(process uint32, call uint64, start int64, code int32) {
	if !slices.Contains(p.codes, code) {
		p.codes = append(p.codes, code)
	}
	s := p.of[process]
	if s == nil {
		s = &stopped{lanes: map[uint64]bool{}, start: start, first: int64(call)}
		p.of[process] = s
	}
	if start < s.start {
		s.start, s.first = start, int64(call)
	}
}

// surveyFaults drops the processes whose contexts do not stop, and finds the streams of the first reports.
func (p *compiler) surveyFaults() error {
	if len(p.faults.of) == 0 {
		return nil
	}
	stops := map[uint32]bool{}
	var funcs []uint16
	for i := range p.Model.Funcs {
		f := &p.Model.Funcs[i]
		if f.Stops.Bits != 0 {
			funcs = append(funcs, uint16(f.ID))
		}
		if f.Sync == api.SyncDevice && len(f.Params) == 0 && p.faults.wait == nil {
			p.faults.wait = f
		}
	}
	if len(funcs) > 0 {
		for c, err := range p.r.Calls(&format.Filter{NoData: true, Funcs: funcs}) {
			if err != nil {
				return err
			}
			f := p.Model.Func(api.ID(c.Func))
			if len(c.Args) == int(f.Words) && f.Stops.Has(f, c.Args) {
				stops[p.r.ProcessOf(c.Thread)] = true
			}
		}
	}
	for process, s := range p.faults.of {
		if !stops[process] && !p.Model.Faults.Stops {
			delete(p.faults.of, process)
			continue
		}
		c, err := p.r.Call(uint64(s.first))
		if err != nil {
			return err
		}
		s.stream = noStream
		if f := p.Model.Func(api.ID(c.Func)); f.Stream >= 0 && len(c.Args) == int(f.Words) {
			s.stream = p.Model.StreamOf(f, c.Args[f.Params[f.Stream].Word], c.Thread)
		}
	}
	return nil
}

// report prepares for the failed tasks that the current call reports, or may report in the replay.
func (p *callCompiler) report(in *plan.Instruction) {
	s := p.faults.of[p.owner()]
	if s == nil || !p.f.RetError {
		return
	}
	fault := p.Model.DeviceFault(int32(p.c.Ret))
	if fault && !s.reported {
		s.reported = true
		p.waitForFault(in)
		return
	}
	if p.f.Sync == api.SyncDevice {
		s.reported = s.reported && !p.ok
		return
	}
	if stream, waits := p.waitedStream(s); !waits || stream != s.stream && len(s.lanes) > 1 {
		in.Flags |= plan.InstLate
	}
}

// waitForFault waits for the device before the call that reported a failed task first. That call must report it again. If it asks for an event,
// the wait must: the device may have refused to record the event, or recorded it before the failure.
func (p *callCompiler) waitForFault(in *plan.Instruction) {
	if p.f.Sync == api.SyncDevice || p.faults.wait == nil {
		return
	}
	wait := p.aside(p.faults.wait)
	wait.Bits = 0
	if p.f.Sync != api.NoSync && p.f.Event >= 0 {
		wait.Bits, wait.Want = in.Bits, in.Want
		in.Flags |= plan.InstLate
	}
	p.before = append(p.before, wait)
}

// waitedStream returns the stream whose tasks the current call waits for, false if it does not wait.
func (p *callCompiler) waitedStream(s *stopped) (stream uint64, waits bool) {
	if p.f.Stream >= 0 && p.f.Task != api.NoTask {
		s.lanes[p.Model.StreamOf(p.f, p.c.Args[p.f.Params[p.f.Stream].Word], p.c.Thread)] = true
	}
	lane, keys := -1, p.look.tasks.keys
	switch g := p.here(); {
	case !g.complete || p.f.Sync.Polls():
	case g.lane >= 0:
		lane = g.lane
	case len(g.covers) == 1:
		lane = g.covers[0].lane
	}
	if lane >= 0 {
		return keys[lane].stream, true
	}
	return 0, false
}
