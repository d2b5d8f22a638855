// Package rows turns the calls and payloads that a probe sees into trace rows.
//
// The recorder creates one Builder for a recording and passes it to the probe as its Sink, so that all methods run on the
// goroutine that drains the rings. Payloads arrive apart from their calls, in parts, some of them long after the call. The
// Builder assigns each payload to its call and counts missing data. Finish ends the recording. Package flight moves a
// Builder from one file to the next.
//
// A Builder never opens or closes files, and it never changes the recorded program.
package rows

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/host"
)

// Options are the parameters of a Builder.
type Options struct {
	Model    *api.Model
	Meta     *format.Meta // StartMono is the trace's time 0
	HashOnly bool         // store payloads as hashes only
	Visible  bool         // the probe records memory that programs and devices access without a call
	MaxSize  int64        // bytes of the file, 0 for no limit; payloads end at nine tenths
	Follower Follower     // nil for none
	// Now returns the present time on CLOCK_MONOTONIC: calls that have not returned last until then. nil for a recording that is over.
	Now func() int64
	// Undrained says that the probe never calls Drained. The Builder then derives it from call times.
	Undrained bool
}

// Hooks are functions that the Builder calls. Each may be nil.
type Hooks struct {
	// Call runs before a call is written.
	Call func(f *api.Func, c *format.Call) error
	// Keep reports whether a call is written.
	Keep func(f *api.Func, c *format.Call, pieces []probe.Piece) (bool, error)
	// Joined runs for each new process.
	Joined func(p *probe.Process)
	// ThreadName returns a thread's name, "" if unknown. nil: threads have no names.
	ThreadName func(pid, tid int) string
}

// Counts are a recording's numbers of calls.
type Counts struct {
	Calls      uint64 // written
	Marks      uint64 // of Calls: marks of operators
	Failed     uint64
	NoMemory   uint64 // of Failed: allocations
	Unfinished uint64
	NoEnd      uint64 // of Unfinished: their end was not seen
	Cut        uint64 // of Unfinished: the recording ended first
	Lost       uint64 // that the probe had no room for
	Nested     uint64 // of Lost: made inside other calls, as by signal handlers
	NoRing     uint64 // of Lost: made by threads without a ring
}

// Made returns how many calls the programs have made, as far as the probe knows.
func (c *Counts) Made() uint64 { return c.Calls + c.Lost }

// A Builder writes calls, payloads, processes and threads into a segment. It implements probe.Sink.
type Builder struct {
	Hooks Hooks
	Count Counts
	Lacks format.Reason // why calls are missing, NoReason if none are
	Last  int64         // latest time seen, on the trace's clock

	Payloads  Payloads
	Processes Processes

	o        Options
	origin   int64   // CLOCK_MONOTONIC at the trace's time 0
	rules    []rules // by function id
	seg      *Segment
	row      format.Call // current call; its slices are reused
	threads  threads
	given    spans
	times    *taskTimes
	follower Follower
	reported int64  // time of the latest Follower.Drained that was derived from calls
	device   string // name that the runtime reported
}

// New returns a Builder that writes to w. If w is nil, Turn must be called before anything is written.
func New(o *Options, w *format.Writer) *Builder {
	b := &Builder{
		o: *o, origin: o.Meta.StartMono, rules: newRules(o.Model), seg: &Segment{W: w}, threads: newThreads(), Payloads: newPayloads(), Processes: newProcesses(o.Model),
		given: spans{window: o.Model.Device, byProcess: map[int][]span{}},
	}
	b.times = newTaskTimes(b)
	b.follower = o.Follower
	if o.Follower == nil {
		b.follower = nobody{}
	}
	b.follower.Begin(o.Meta)
	return b
}

// Device returns the device name that the runtime reported to the program, "" if it did not.
func (b *Builder) Device() string { return b.device }

// time converts CLOCK_MONOTONIC to the trace's clock.
func (b *Builder) time(mono int64) int64 {
	t := mono - b.origin
	b.Last = max(b.Last, t)
	return t
}

// now returns the present time on the trace's clock, or the latest time seen if the recording is over.
func (b *Builder) now() int64 {
	if b.o.Now == nil {
		return b.Last
	}
	return b.time(b.o.Now())
}

// Process adds a process.
func (b *Builder) Process(p *probe.Process) error {
	row := format.Process{PID: p.PID, PPID: p.PPID, ForkedFrom: p.ForkedFrom, Start: b.time(p.Start), Exe: p.Exe, Argv: p.Argv}
	if row.Simulated = b.Processes.learn(p); p.Local != 0 {
		row.Resource = host.Resource(p.Local, b.Processes.environment(p))
	}
	rank, ok := b.Processes.rank(p)
	own := host.Recorded(b.o.Model, rank.Variables)
	maps.DeleteFunc(own, func(name, _ string) bool { return strings.HasPrefix(name, b.o.Model.Simulator.Prefix) }) // the recorder sets some
	row.Rank, row.Env = rank.Number, b.o.Meta.OwnEnv(own)
	i, err := b.seg.W.Process(row)
	if err != nil {
		return err
	}
	if ok {
		b.Processes.Ranks[i] = rank
	}
	b.Processes.variables[i] = rank.Variables
	b.Processes.add(i, row)
	b.follower.Process(&row)
	if b.Hooks.Joined != nil {
		b.Hooks.Joined(p)
	}
	return nil
}

// Ended records how a process has ended.
func (b *Builder) Ended(e *probe.End) error {
	i, ok := b.Processes.index[e.PID]
	if ok {
		b.Processes.reported(e.PID, slices.DeleteFunc(e.Libraries, func(path string) bool { return !b.Processes.model.OfOperators(filepath.Base(path)) }))
	}
	if !ok || e.Replaced {
		return nil
	}
	row := &b.Processes.rows[i]
	row.End, row.Killed, row.Signal = max(e.Seen-b.origin, 1), !e.Clean, e.Signal
	row.ExitCode, row.ExitUnknown = e.Code, e.Clean && e.Code == probe.NoCode
	if e.Code == probe.NoCode {
		row.ExitCode = 0
	}
	if row.Killed {
		b.Processes.killed(e, b.threads.latest(e.PID))
	}
	return b.seg.W.UpdateProcess(i, *row)
}

// thread returns a thread, which it adds if it is new.
func (b *Builder) thread(k threadKey) (*thread, error) {
	if t := b.threads.find(k); t != nil {
		return t, nil
	}
	proc, ok := b.Processes.index[k.pid]
	if !ok {
		if err := b.Process(&probe.Process{PID: k.pid, Local: k.pid}); err != nil {
			return nil, err
		}
		proc = b.Processes.index[k.pid]
	}
	row := format.Thread{Process: proc, TID: k.tid}
	if b.Hooks.ThreadName != nil {
		row.Name = b.Hooks.ThreadName(k.pid, k.tid)
	}
	i, err := b.seg.W.Thread(row)
	if err != nil {
		return nil, err
	}
	b.follower.Thread(&row)
	return b.threads.add(k, i, row), nil
}

// Standing writes a call that has not returned into the current segment. It is not counted, since it is written again when
// it returns.
func (b *Builder) Standing(c *probe.Call) error {
	t, err := b.thread(threadKey{c.PID, c.TID})
	if err != nil {
		return err
	}
	start := c.Start - b.origin
	out := format.Call{Func: uint16(c.Func), Thread: t.index, Flags: format.Unfinished, Start: start, End: max(b.now(), start), Args: c.Words}
	params := len(b.rules[c.Func].fn.Params)
	for i := range c.Pieces {
		if p := &c.Pieces[i]; p.Dir == probe.In && int(p.Param) < params {
			d := data(p)
			if d.Time = start; d.Status == format.Whole {
				d.Bytes = p.Bytes
			}
			out.Data = append(out.Data, d)
		}
	}
	_, err = b.seg.W.Call(&out)
	return err
}

// Gap records calls that the probe had no room for.
func (b *Builder) Gap(g *probe.Gap) error {
	thread := format.NoThread
	if g.PID != 0 {
		t, err := b.thread(threadKey{g.PID, g.TID})
		if err != nil {
			return err
		}
		thread = t.index
	}
	b.Count.Lost += g.Calls
	why := format.Dropped
	switch g.Reason {
	case probe.Nested:
		b.Count.Nested += g.Calls
		why = format.Nested
	case probe.NoRing:
		b.Count.NoRing += g.Calls
	}
	b.Lacks = why
	return b.Missing(format.Gap{Thread: thread, From: b.time(g.From), To: b.time(g.To), Calls: g.Calls, Reason: why})
}

// Missing records that calls are missing.
func (b *Builder) Missing(g format.Gap) error {
	b.follower.Gap(&g)
	return b.seg.W.Gap(g)
}

// Drained reports to the follower that all calls that ended before a time, on CLOCK_MONOTONIC, were written.
func (b *Builder) Drained(before int64) { b.follower.Drained(before - b.origin - lag) }

// End reports to the follower that the recording has ended.
func (b *Builder) End(at int64) { b.follower.End(at) }

// DeviceTime returns how device times were measured.
func (b *Builder) DeviceTime() format.DeviceTime { return b.times.summary }

// Finish records data that can't be completed any more: task times, partial payloads and results that were not awaited.
func (b *Builder) Finish() error {
	if err := b.times.finish(); err != nil {
		return fmt.Errorf("times of tasks on the device: %w", err)
	}
	for k, p := range b.Payloads.parts {
		b.threads.byKey[k.threadKey].arrived(k.seq, k.param)
		if err := b.abandon(k, p, format.Dropped); err != nil {
			return fmt.Errorf("payload of call %d: %w", p.data.Call, err)
		}
	}
	for pid, maps := range b.Processes.maps {
		i := b.Processes.index[pid]
		row := b.Processes.rows[i]
		row.Maps = maps
		if err := b.seg.W.UpdateProcess(i, row); err != nil {
			return fmt.Errorf("mappings of process %d: %w", pid, err)
		}
	}
	return b.unsynchronized(nil)
}

// learnCode reads a process's code mappings again if a stack has an address outside the known ones: the process may have
// loaded more code.
func (b *Builder) learnCode(pid int, stack []byte) {
	ps := &b.Processes
	for s := stack; len(s) >= 8; s = s[8:] {
		pc := word(s[:8])
		if slices.ContainsFunc(ps.maps[pid], func(m format.Mapping) bool { return pc >= m.Start && pc < m.End }) {
			continue
		}
		if now := host.Code(ps.local[pid]); len(now) > 0 {
			ps.maps[pid] = now
		}
		break
	}
}
