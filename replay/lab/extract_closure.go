package lab

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline/access"
)

// A closure is the set of calls that a launch needs. It begins with the launch and the calls that show its results, and grows in passes
// over the journal until a pass adds nothing:
//
// A forward pass finds the waits and synchronizations that order the closure's tasks, where nothing else does.
//
// A backward pass adds the calls that may have written memory that later calls in the closure read, made or prepared the objects that
// they use, selected their devices, and recorded the events that they wait for.
type closure struct {
	v       *survey
	end     int64 // calls that begin later are not considered
	keep    bits
	ordered bits // waits and synchronizations that the forward pass has found
	changed bool

	need     map[int]bool    // objects that the closure's calls use
	pinned   map[int]bool    // roots whose memory streams wait for: every write counts
	signals  map[int]bool    // notifies and counters that streams wait for
	selected map[uint32]bool // processes with a thread that uses another thread's selection

	last map[uint32]lastCall // by process

	backwardPass
}

// lastCall is the last call in the closure with which a process uses a device.
type lastCall struct {
	process, thread uint32

	over bool // after that the process uses no device
}

type device struct {
	process uint32
	number  int
}

// A backwardPass is the state during a backward pass: the needs of later calls in the closure.
type backwardPass struct {
	live      map[int]*spans  // by root: content
	lanes     map[int]bool    // with later tasks
	devices   map[device]bool // with a later wait for all tasks
	events    map[int]bool    // records
	threads   map[uint32]bool // selections
	processes map[uint32]bool // initializations
	capturing map[int]bool    // streams whose capture becomes a needed graph
	aside     map[uint32][]uint64
	allSets   map[uint32]bool // processes with a later reset in the closure
}

func newClosure(v *survey, roots []uint64, end int64) *closure {
	x := &closure{v: v, end: end, last: map[uint32]lastCall{}, need: map[int]bool{}, pinned: map[int]bool{}, signals: map[int]bool{}, selected: map[uint32]bool{}}
	for _, n := range roots {
		x.keep.set(n)
	}
	return x
}

// complete runs passes until the closure is complete.
func (x *closure) complete(stop func() error) error {
	for x.changed = true; x.changed; {
		if err := stop(); err != nil {
			return err
		}
		x.changed = false
		if err := x.backward(); err != nil {
			return err
		}
		if err := x.forward(); err != nil {
			return err
		}
	}
	return nil
}

func (x *closure) backward() error {
	x.backwardPass = backwardPass{live: map[int]*spans{}, lanes: map[int]bool{}, devices: map[device]bool{}, events: map[int]bool{}, threads: map[uint32]bool{},
		processes: map[uint32]bool{}, capturing: map[int]bool{}, aside: map[uint32][]uint64{}, allSets: map[uint32]bool{}}
	process := map[uint32]uint32{} // by thread
	for s, err := range x.v.j.backward(x.skips) {
		if err != nil {
			return err
		}
		if s.start > x.end {
			continue
		}
		if x.keep.has(s.index) || x.needs(s) {
			x.add(s.index)
			x.take(s)
			process[s.thread] = s.process
		} else {
			x.pass(s)
		}
	}
	for t := range x.threads {
		if p := process[t]; !x.selected[p] {
			x.selected[p], x.changed = true, true // the thread uses its process's device
		}
	}
	return nil
}

// skips reports whether the closure needs no call in a slab.
func (x *closure) skips(d *digest) bool {
	const most = 1 << 12 // objects that are looked for one by one
	if d.special || len(x.need) > most || len(x.aside) > 0 || x.keep.any(d.low, d.high) || x.ordered.any(d.low, d.high) {
		return false
	}
	if d.ended.any(func(o int) bool { return x.need[o] }) || d.events.any(func(o int) bool { return x.events[o] }) ||
		d.wrote.any(func(o int) bool { return x.live[o] != nil || x.pinned[o] }) ||
		d.threads.any(func(t int) bool { return x.threads[uint32(t)] || len(x.selected) > 0 || len(x.allSets) > 0 }) {
		return false
	}
	for o := range x.need {
		if d.made != 0 && o >= d.made && o <= d.to {
			return false
		}
	}
	return true
}

func (x *closure) add(call uint64) {
	if x.keep.set(call) {
		x.changed = true
	}
}

func mark[K comparable](x *closure, set map[K]bool, k K) {
	if !set[k] {
		set[k], x.changed = true, true
	}
}

// resets reports whether the call ends a device, or everything.
func (s *step) resets() bool { return s.fn.Ends != "" }

// selects reports whether the call selects its thread's device or context.
func (s *step) selects() bool { return s.fn.Selects >= 0 || s.fn.Stack != api.Replace }

// needs reports whether later calls in the closure need a call.
func (x *closure) needs(s *step) bool {
	f := s.fn
	switch {
	case x.ordered.has(s.index):
		return f.Task != api.Wait || x.active(s.lane)
	case s.is&stepOK == 0:
		return false
	case s.updated != 0 && x.need[s.updated]:
		return true
	case slices.ContainsFunc(s.made, func(o int) bool { return x.need[o] }), slices.ContainsFunc(s.ended, func(o int) bool { return x.need[o] }):
		return true
	case s.graph != 0:
		if s.is&stepByStream != 0 {
			return x.capturing[s.graph]
		}
		return x.need[s.graph] || x.need[x.v.captures.graph[s.graph]]
	case f.Capture != api.NoCapture:
		return slices.ContainsFunc(s.uses, func(o int) bool { return x.capturing[o] })
	case x.writes(s):
		return true
	case f.Task == api.Wait:
		return s.is&stepSignals != 0 && x.active(s.lane)
	case f.Task == api.Record:
		return x.events[s.event] || x.signals[s.event]
	case f.Task == api.Reset:
		return x.need[s.event]
	case f.Task != api.NoTask, f.Sync != api.NoSync, s.resets():
		return false
	case s.selects():
		return x.threads[s.thread] || x.selected[s.process] || x.allSets[s.process] && len(x.aside[s.process]) == 0
	case f.Initializes:
		return x.processes[s.process]
	case slices.ContainsFunc(s.shows, func(o int) bool { return x.live[o] != nil }):
		return true
	case s.is&stepQueries != 0:
		return false
	case len(s.uses) > 0:
		return slices.ContainsFunc(s.uses, func(o int) bool { return x.need[o] })
	}
	return x.processes[s.process] && s.sets()
}

// sets reports whether the call changes a setting for the process or the thread.
func (s *step) sets() bool {
	return !s.fn.PollsCallbacks && s.fn.Subscribes == "" && !slices.ContainsFunc(s.fn.Params, func(p api.Param) bool { return p.Role == api.Callback })
}

// writes reports whether the call may write content that later calls in the closure read.
func (x *closure) writes(s *step) bool {
	runs := access.Runs(s.fn)
	for i := range s.areas {
		a := &s.areas[i]
		if a.kind != access.Writes && !(a.kind == access.Names && runs) {
			continue
		}
		if x.pinned[a.root] || x.live[a.root].overlaps(a.lo, a.hi) {
			return true
		}
	}
	return false
}

func (x *closure) active(lane int) bool {
	l := x.v.lane[lane]
	return x.lanes[lane] || x.devices[device{l.order.Process, l.device}]
}

// take records the needs of a call in the closure.
func (x *closure) take(s *step) {
	f := s.fn
	for _, o := range s.uses {
		mark(x, x.need, o)
	}
	if s.is&stepOK != 0 && s.graph == 0 {
		x.content(s)
	}
	if s.lane != 0 {
		x.lanes[s.lane] = true
		if f.Sync == api.SyncDevice {
			x.devices[device{s.process, x.v.lane[s.lane].device}] = true
		}
	}
	switch {
	case s.graph != 0:
	case s.is&stepSignals != 0 && s.event != 0:
		mark(x, x.signals, s.event)
	case s.is&stepSignals != 0:
		mark(x, x.pinned, s.flag.root)
	case f.Task == api.Wait, f.Sync.Wait() == api.SyncEvent:
		x.events[s.event] = true
	case f.Task == api.Record:
		delete(x.events, s.event)
	}
	switch f.Capture {
	case api.CaptureEnd:
		for _, o := range s.uses {
			x.capturing[o] = true
		}
	case api.CaptureBegin:
		for _, o := range s.uses {
			delete(x.capturing, o)
		}
	}
	switch {
	case s.resets():
		x.allSets[s.process] = true
	case f.Initializes:
	case s.selects():
		if f.Stack == api.Replace {
			delete(x.threads, s.thread)
		}
		x.unaside(s.process)
	default:
		x.threads[s.thread], x.processes[s.process] = true, true
		x.unaside(s.process)
	}
}

// unaside adds a process's calls that were put aside.
func (x *closure) unaside(process uint32) {
	if aside := x.aside[process]; len(aside) > 0 {
		for _, call := range aside {
			x.add(call)
		}
		x.allSets[process] = true
		delete(x.aside, process)
	}
}

// content records the content that a call in the closure reads or overwrites.
func (x *closure) content(s *step) {
	for _, o := range s.made {
		delete(x.live, o)
	}
	for i := range s.areas {
		if a := &s.areas[i]; a.kind == access.Writes && a.exact {
			if l := x.live[a.root]; l != nil {
				if l.remove(a.lo, a.hi); a.all || len(l.list) == 0 {
					delete(x.live, a.root)
				}
			}
		}
	}
	for i := range s.areas {
		a := &s.areas[i]
		if a.kind == access.Reads || a.kind == access.Names && access.Runs(s.fn) {
			l := x.live[a.root]
			if l == nil {
				l = &spans{}
				x.live[a.root] = l
			}
			l.add(a.lo, a.hi)
		}
	}
}

// pass goes over a call that is not in the closure. Resets, and the selections before them, are put aside: the closure has them if it has
// earlier calls of the process.
func (x *closure) pass(s *step) {
	if s.is&stepOK == 0 {
		return
	}
	switch {
	case s.resets():
		x.aside[s.process] = append(x.aside[s.process], s.index)
		if s.fn.Ends == "all" {
			delete(x.processes, s.process)
		}
	case s.selects() && len(x.aside[s.process]) > 0:
		x.aside[s.process] = append(x.aside[s.process], s.index)
	}
}

// lacks lists the objects that no call in the closure makes, calls that can't be in an extract, and launches that may write any memory.
func (x *closure) lacks(launched int64) (lacks []string, err error) {
	made := map[int]bool{}
	for s, err := range x.v.j.forward(func(d *digest) bool { return !d.lacks && !x.keep.any(d.low, d.high) }) {
		if err != nil {
			return nil, err
		}
		if s.start > x.end {
			break
		}
		say := func(what string) { lacks = append(lacks, fmt.Sprintf("call %d %s: %s", s.index, s.fn.Name, what)) }
		if s.is&stepLacks != 0 && s.start <= launched {
			say("the memory that it reads and writes is unknown, since its arguments are")
		}
		if !x.keep.has(s.index) {
			continue
		}
		if l, ok := x.last[s.process]; s.resets() {
			x.last[s.process] = lastCall{s.process, l.thread, true}
		} else if !s.selects() && !s.fn.Initializes || !ok {
			x.last[s.process] = lastCall{process: s.process, thread: s.thread}
		}
		for _, o := range s.made {
			made[o] = true
		}
		for _, o := range s.uses {
			if !made[o] {
				made[o] = true
				if old := x.v.old[o]; old != "" {
					say("its " + old)
				} else {
					say("it uses an object of a call that can't be replayed")
				}
			}
		}
		switch {
		case s.fn.Collective:
			say("it works together with other ranks, whose calls are not extracted")
		case s.is&stepSignals != 0 && s.fn.Task == api.Wait && s.is&stepAwaited == 0 && s.graph == 0:
			say("it waits for a signal that no earlier call gives, unless a run of a graph does")
		}
	}
	return lacks, nil
}
