package blame

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// maxOthers limits the earlier failed calls that a Report lists, to the latest ones.
const maxOthers = 8

// candidates are the calls of a trace of which one is the failure.
type candidates struct {
	fault      *format.Call            // first device error, by its start: call numbers of several threads are not in the order of time
	open       []*format.Call          // calls that never returned
	cut        []*format.Call          // calls during which the recording ended
	longest    map[uint16]int64        // longest duration of the other calls, by function
	unfinished *format.Call            // of open, the one that stood for the longest time
	waits      map[waiter]*waitSeries  // waits that timed out and did not succeed since
	wrong      *format.Call            // first failed call, without those in outlived
	short      map[uint32]*format.Call // first failed allocation since the last launch, by process that ended with exit code 0
	outlived   *format.Call            // first failed allocation after which its process went on, and ended with exit code 0
	answer     *format.Call            // last call that an error answered, after which its thread only ended things
	standing   map[waiter]standing     // failures of processes that an error ended, without those that a later success made good
	captures   []*format.Call          // failed calls with a code for captures, the oldest ones
}

// hangs is the least time in nanoseconds after which a call in progress at the end of a recording is worth a hint.
const hangs = 1e9

// standing is the last failure of a thread's calls of a function.
type standing struct {
	call *format.Call
	ends bool // the call was to end something, as programs do on their way out
}

// waiter identifies the waits that repeat each other.
type waiter struct {
	thread uint32
	fn     uint16
}

type waitSeries struct{ first *format.Call }

// maxCaptureFailures limits the calls with a code for captures that are kept.
const maxCaptureFailures = 1 << 12

// find finds the failed call: the one that the options name, or the first device error or the call that broke a capture, whichever is earlier, or
// the call that never returned, or the first wait in a series that timed out, or the failure that ended the program, or the first failed call. A failed allocation that its program outlived comes after those. A question that an error answered
// is the last choice, and only if the program did nothing afterwards.
func (b *blamer) find() error {
	if b.o.Call != nil {
		c, err := b.r.Call(*b.o.Call)
		if err != nil {
			return err
		}
		if f := b.m.Func(api.ID(c.Func)); c.Flags&format.Unfinished == 0 && (f == nil || !f.Failed(c.Ret)) {
			return fmt.Errorf("%s: call %d %s did not fail", b.r.Path(), c.Index, b.r.Schema().FuncName(c.Func))
		}
		return b.failed(c)
	}
	if b.o.Task != nil {
		b.evidence.task = b.o.Task
		b.until = math.MaxInt64
	}
	x, err := b.candidates()
	if err != nil {
		return err
	}
	broke, err := b.broken(x.captures)
	if err != nil {
		return err
	}
	var timeout *format.Call
	for _, s := range x.waits {
		if timeout == nil || s.first.Start < timeout.Start {
			timeout = s.first
		}
	}
	if x.fault != nil && broke != nil && x.fault.Start < broke.Start {
		broke = nil
	}
	if broke == nil {
		b.rep.Capture = nil
	}
	for _, c := range []*format.Call{broke, x.fault, x.unfinished, timeout} {
		if c != nil {
			return b.failed(c)
		}
	}
	fatal, err := b.fatal(x)
	if err != nil {
		return err
	}
	switch wrong := cmp.Or(fatal, x.wrong, x.outlived, x.answer); {
	case wrong != nil && b.o.Task == nil:
		b.rep.Survived = wrong == x.outlived || wrong != fatal && wrong == x.wrong && b.inError(wrong)
		b.rep.EndedWell = wrong == x.outlived
		return b.failed(wrong)
	case b.o.Task == nil && len(b.rep.Died) == 0:
		b.unfailed, b.until = true, math.MaxInt64
		b.inProgress(x)
	}
	return nil
}

// candidates reads all calls.
func (b *blamer) candidates() (*candidates, error) {
	x := &candidates{waits: map[waiter]*waitSeries{}, longest: map[uint16]int64{}, standing: map[waiter]standing{}, short: map[uint32]*format.Call{}}
	for c, err := range b.r.Calls(&format.Filter{NoArgs: true, NoData: true}) {
		if err != nil {
			return nil, err
		}
		f := b.m.Func(api.ID(c.Func))
		if took := c.End - c.Start; c.Flags&format.Unfinished == 0 && took > x.longest[c.Func] {
			x.longest[c.Func] = took
		}
		switch {
		case f == nil:
		case c.Flags&format.Unfinished != 0:
			// A thread that serves callbacks waits by design. A call that contains others stands because of them.
			switch {
			case f.PollsCallbacks || f.Composite:
			case c.Flags&format.Cut != 0:
				x.cut = append(x.cut, c.Clone())
			case c.Flags&format.NoEnd == 0:
				x.open = append(x.open, c.Clone())
			}
		case !f.Failed(c.Ret):
			if f.Sync != api.NoSync && len(x.waits) > 0 {
				delete(x.waits, waiter{c.Thread, c.Func})
			}
			if len(x.standing) > 0 && f.Allocates() == nil {
				delete(x.standing, waiter{c.Thread, c.Func})
			}
			if p := b.r.ProcessOf(c.Thread); len(x.short) > 0 && x.short[p] != nil && (f.Task == api.Kernel || f.Task == api.GraphRun) {
				earliest(&x.outlived, x.short[p])
				delete(x.short, p)
			}
			if x.answer != nil && x.answer.Thread == c.Thread && f.RetError && !ending(f) { // asking for the message is no success
				x.answer = nil
			}
		case f.Answered(c.Ret):
			b.rep.Answered++
			x.answer = c.Clone()
		default:
			b.rep.Failed++
			if p := b.r.ProcessOf(c.Thread); f.Allocates() != nil && b.endedWell(p) {
				if x.short[p] == nil {
					x.short[p] = c.Clone()
				}
				continue
			}
			x.see(b.m, f, c)
			if b.inError(c) {
				x.standing[waiter{c.Thread, c.Func}] = standing{c.Clone(), ending(f)}
			}
		}
	}
	for _, c := range x.short {
		x.see(b.m, b.m.Func(api.ID(c.Func)), c)
	}
	stood := int64(-1)
	for _, c := range x.open {
		if took := b.stood(c); took > stood && (took > x.longest[c.Func] || !b.asked(c)) {
			x.unfinished, stood = c, took
		}
	}
	return x, nil
}

// asked reports whether a signal asked a call's process to end. A call that was in progress then may be as good as any other.
func (b *blamer) asked(c *format.Call) bool {
	p := b.r.ProcessOf(c.Thread)
	if int(p) >= len(b.r.Processes()) {
		return false
	}
	q := &b.r.Processes()[p]
	return q.Killed && !q.Crashed()
}

// see follows a failed call.
func (x *candidates) see(m *api.Model, f *api.Func, c *format.Call) {
	code := int32(c.Ret)
	earliest(&x.wrong, c)
	if slices.Contains(m.Classes.Capture, code) && len(x.captures) < maxCaptureFailures {
		x.captures = append(x.captures, c.Clone())
	}
	switch m.ErrorClass(code) {
	case api.DeviceFault:
		earliest(&x.fault, c)
	case api.TimedOut:
		if k := (waiter{c.Thread, c.Func}); f.Sync != api.NoSync && x.waits[k] == nil {
			x.waits[k] = &waitSeries{c.Clone()}
		}
	}
}

// inProgress lists the calls that were in progress when the recording ended, if they had taken longer than any other call of their function.
func (b *blamer) inProgress(x *candidates) {
	for _, c := range x.cut {
		if took := b.stood(c); took > x.longest[c.Func] && took > hangs && len(b.rep.Cut) < maxSuspects {
			b.rep.Cut = append(b.rep.Cut, Call{Index: c.Index})
		}
	}
	slices.SortFunc(b.rep.Cut, func(x, y Call) int { return cmp.Compare(x.Index, y.Index) })
	for i := range b.rep.Cut {
		b.wanted[b.rep.Cut[i].Index] = append(b.wanted[b.rep.Cut[i].Index], &b.rep.Cut[i])
	}
}

// ending reports whether a function ends objects, resets a device or ends the runtime, as programs do on their way out.
func ending(f *api.Func) bool {
	return f.CaptureRules.Ends != "" || slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.End })
}

// inError reports whether a call's process ended by an error.
func (b *blamer) inError(c *format.Call) bool {
	p := b.r.ProcessOf(c.Thread)
	if int(p) >= len(b.r.Processes()) {
		return false
	}
	q := &b.r.Processes()[p]
	return q.ExitCode != 0 || q.Crashed()
}

// endedWell reports whether a process is known to have ended with exit code 0.
func (b *blamer) endedWell(process uint32) bool {
	return int(process) < len(b.r.Processes()) && b.r.Processes()[process].EndedWell()
}

// fatal returns the failure that ended a program: the last one that no later success of the same function on its thread made good, nil for none. A failed
// allocation comes first, unless the process got as much memory later, and calls that end things come last.
func (b *blamer) fatal(x *candidates) (fatal *format.Call, err error) {
	wanted := map[uint32]uint64{} // by process
	var funcs []uint16
	better := func(a, b standing) bool {
		if a.ends != b.ends {
			return b.ends
		}
		return a.call.Start > b.call.Start
	}
	var last standing
	for k, s := range x.standing {
		if b.m.Func(api.ID(k.fn)).Allocates() != nil {
			funcs = append(funcs, k.fn)
		} else if last.call == nil || better(s, last) {
			last = s
		}
	}
	if len(funcs) == 0 {
		return last.call, nil
	}
	failed := map[uint32]*format.Call{} // by process
	for c, err := range b.r.Calls(&format.Filter{Funcs: funcs, NoData: true}) {
		if err != nil {
			return nil, err
		}
		f := b.m.Func(api.ID(c.Func))
		if c.Flags&format.Unfinished != 0 || len(c.Args) != int(f.Words) {
			continue
		}
		p := b.r.ProcessOf(c.Thread)
		switch size, _ := f.Allocates().Size.Bytes(f, c.Args); {
		case f.Wrong(c.Ret) && b.inError(c):
			failed[p], wanted[p] = c.Clone(), size
		case !f.Failed(c.Ret) && size >= wanted[p]:
			delete(failed, p)
		}
	}
	for _, c := range failed {
		if fatal == nil || c.Start > fatal.Start {
			fatal = c
		}
	}
	return cmp.Or(fatal, last.call), nil
}

func earliest(first **format.Call, c *format.Call) {
	if *first == nil || c.Start < (*first).Start {
		*first = c.Clone()
	}
}

// stood returns how long a call that never returned had stood when its process or the trace ended.
func (b *blamer) stood(c *format.Call) int64 {
	end := c.End
	if p := b.r.ProcessOf(c.Thread); int(p) < len(b.r.Processes()) {
		end = max(end, b.r.Processes()[p].End)
	}
	return end - c.Start
}

func (b *blamer) failed(c *format.Call) error {
	b.failure, b.until, b.process = c, c.End, b.r.ProcessOf(c.Thread)
	if c.Flags&format.Unfinished != 0 {
		b.until = math.MaxInt64
	}
	for _, g := range b.r.Gaps() {
		if g.From <= c.End {
			b.rep.Lost += g.Calls
		}
	}
	return b.others()
}

// others lists the failed calls before the failure.
func (b *blamer) others() error {
	if b.o.Call != nil {
		return nil
	}
	for c, err := range b.r.Calls(&format.Filter{To: after(b.failure.Start), NoArgs: true, NoData: true}) {
		if err != nil {
			return err
		}
		if f := b.m.Func(api.ID(c.Func)); f == nil || !f.Wrong(c.Ret) || c.Flags&format.Unfinished != 0 || c.Index == b.failure.Index {
			continue
		}
		if b.rep.Before++; len(b.rep.Earlier) == maxOthers {
			b.rep.Earlier = slices.Delete(b.rep.Earlier, 0, 1)
		}
		b.rep.Earlier = append(b.rep.Earlier, Call{Index: c.Index})
	}
	return nil
}

// A Capture is the capture that the failure broke.
type Capture struct {
	Begin Call    `json:"begin"`          // call that began it
	Mode  string  `json:"mode,omitempty"` // its mode, "" if the runtime has none
	End   *uint64 `json:"end,omitempty"`  // call that ended it, nil: none did

	from, to int64
	by       *format.Call // first call that it refused, nil for none
}

// broken returns the first call that a capture refused, on any thread of its process, and sets Report.Capture. It returns nil if there is none,
// or if a later capture of the process succeeded.
func (b *blamer) broken(refused []*format.Call) (*format.Call, error) {
	if len(refused) == 0 {
		return nil, nil
	}
	type at struct {
		process uint32
		stream  uint64
	}
	open := map[at]*Capture{}
	var all []*Capture
	first := map[uint32]*Capture{} // first broken one, by process
	var funcs []uint16
	for i := range b.m.Funcs {
		if f := &b.m.Funcs[i]; f.Capture != api.NoCapture && f.Stream >= 0 {
			if in := b.r.Schema().FuncByName(f.Name); in != nil {
				funcs = append(funcs, in.ID)
			}
		}
	}
	for c, err := range b.r.CallsByStart(&format.Filter{Funcs: funcs, NoData: true}) {
		if err != nil {
			return nil, err
		}
		f := b.m.Func(api.ID(c.Func))
		if f == nil || len(c.Args) != int(f.Words) || len(funcs) == 0 {
			continue
		}
		k, ok := at{b.r.ProcessOf(c.Thread), c.Args[f.Params[f.Stream].Word]}, c.Flags&format.Unfinished == 0 && !f.Failed(c.Ret)
		switch p := open[k]; {
		case (f.Capture == api.CaptureBegin || f.Capture == api.UpdateBegin) && ok:
			p = &Capture{Begin: Call{Index: c.Index}, Mode: mode(b.m, f, c), from: c.Start, to: math.MaxInt64}
			open[k], all = p, append(all, p)
		case (f.Capture == api.CaptureEnd || f.Capture == api.UpdateEnd) && p != nil:
			end := c.Index
			p.End, p.to = &end, c.End
			delete(open, k)
			p.by = p.refused(b.r, refused, k.process)
			if b := first[k.process]; ok && b != nil && b.to < c.Start {
				delete(first, k.process) // the program went on
			}
			if !ok && p.by != nil && first[k.process] == nil {
				first[k.process] = p
			}
		}
	}
	for k, p := range open {
		if p.by = p.refused(b.r, refused, k.process); p.by != nil && (first[k.process] == nil || first[k.process].from > p.from) {
			first[k.process] = p
		}
	}
	for _, p := range first {
		if b.rep.Capture == nil || p.by.Start < b.rep.Capture.by.Start {
			b.rep.Capture = p
		}
	}
	if b.rep.Capture == nil {
		return nil, nil
	}
	return b.rep.Capture.by, nil
}

// refused returns the first of the refused calls that began during the capture in its process.
func (x *Capture) refused(r *format.Reader, all []*format.Call, process uint32) (first *format.Call) {
	for _, c := range all {
		if r.ProcessOf(c.Thread) == process && c.Start >= x.from && c.Start <= x.to && (first == nil || c.Start < first.Start) {
			first = c
		}
	}
	return first
}

// mode returns the names of the enumeration values among a call's arguments.
func mode(m *api.Model, f *api.Func, c *format.Call) string {
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.Value {
			if name := m.EnumName(p.Type, int64(int32(c.Args[p.Word]))); name != "" {
				return name
			}
		}
	}
	return ""
}
