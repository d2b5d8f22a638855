package stats

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
)

// A habit is something that programs do in each step and that costs time: the calls that a line of the program makes together.
type habit int

const (
	syncRead   habit = iota // the host waits for the stream and copies a few bytes from the device
	toDevice                // the host waits for the stream and copies pageable memory to the device
	explicit                // the host waits for the device, and copies nothing then
	emptyCache              // the host waits for the device and frees memory of it
	allocates               // memory of the device is allocated, or freed without a wait
	recaptures              // a graph is captured
	habitCount
)

func (h habit) kind() FindingKind {
	return [...]FindingKind{SyncReads, PageableCopies, Synchronizes, EmptiesCache, Allocates, Recaptures}[h]
}

// smallRead limits the bytes of a copy that reads a value and not a result.
const smallRead = 4 << 10

// habits sums up the habits of the process that has the steps, in typical steps.
type habits struct {
	process uint32
	threads []habitThread
	lanes   []laneWork
	records map[int]record // latest ones, by the event's Object.ID
	now     [habitCount]habitSum
	typical [habitCount]habitSum
	steps   int64
}

// habitSum has the sum of one habit.
type habitSum struct {
	n, of  uint64 // times, and calls
	ns     int64  // in all these calls
	bytes  uint64 // copied, allocated or freed
	steps  int64  // typical steps with the habit
	fn     string // of the copy, the wait or the allocation
	call   uint64 // first such call of the latest typical step with the habit
	step   int    // number of that step
	thread string // that makes the call
}

// habitThread is the latest wait of a thread, before it is known what the wait is for.
type habitThread struct {
	waited  *pendingWait
	room    pendingWait
	capture int64 // start of the latest capture
	reads   bool  // the latest task is an asynchronous copy of a few bytes from the device
	freeing bool  // the latest wait was for the device and was followed by frees
}

type pendingWait struct {
	call   uint64
	fn     string
	ns     int64
	device bool
	idle   bool // it waits for nothing new, or for a copy to the host
	// The step that it ended, if what follows it is in the next one:
	ended, counts bool
	step          int
}

// call takes a call in a step and its task, nil for none.
func (x *habits) call(w *timeline.Walk, h *timeline.HostCall, k *timeline.Task) {
	if h.Fn == nil || h.Failed() || w.Process(h.Thread) != x.process {
		return
	}
	idle := x.idle(w, h, k)
	if h.Step < 0 {
		return
	}
	t, took := grow.At(&x.threads, int(h.Thread)), w.CallEnd(h)-h.Start
	add := func(of habit, ns int64, bytes uint64, again bool) {
		s := &x.now[of]
		if s.n == 0 {
			s.fn, s.call, s.step, s.thread = h.Name, h.Index, h.Step, w.ThreadName(h.Thread)
		}
		if s.of++; !again {
			s.n++
		}
		s.ns, s.bytes = s.ns+ns, s.bytes+bytes
	}
	bytes, made, freed := deviceMemory(h)
	switch copied := k != nil && k.Kind == api.Copy; {
	case h.Fn.Sync == api.SyncDevice || h.Fn.Sync == api.SyncStream || h.Fn.Sync == api.SyncEvent:
		if freed { // a free that waits
			add(allocates, took, bytes, false)
			return
		}
		if t.reads {
			add(syncRead, took, 0, true)
			t.reads, t.waited = false, nil
			return
		}
		if w := t.waited; w != nil && w.device && idle {
			w.ns += took // a second wait for the same, as before a cache is emptied
			return
		}
		x.flush(t)
		t.room = pendingWait{call: h.Index, fn: h.Name, ns: took, device: h.Fn.Sync == api.SyncDevice, idle: idle}
		t.waited, t.freeing = &t.room, false
	case copied && w.Lanes[k.Lane].Synchronous && (k.Direction() == "DtoH" && k.Bytes <= smallRead || k.Direction() == "HtoD" && k.Unpinned):
		if t.waited != nil && t.waited.device { // a copy waits for its stream, if at all
			x.flush(t)
		}
		if t.waited != nil {
			took += t.waited.ns
		}
		t.waited = nil
		if k.Direction() == "DtoH" {
			add(syncRead, took, k.Bytes, false)
		} else {
			add(toDevice, took, k.Bytes, false)
		}
	case copied && k.Direction() == "DtoH" && k.Bytes <= smallRead:
		x.flush(t)
		add(syncRead, took, k.Bytes, false)
		t.reads = true
		return
	case copied && w.Lanes[k.Lane].Synchronous && k.Direction() == "DtoH":
		t.waited, t.freeing = nil, false // the wait is for this result
	case h.Fn.Capture == api.CaptureBegin:
		x.flush(t)
		t.capture = h.Start
	case captures(h.Fn):
		if t.capture > 0 {
			took += h.Start - t.capture
		}
		add(recaptures, took, 0, false)
	case made:
		x.flush(t)
		add(allocates, took, bytes, false)
	case freed && (t.freeing || t.waited != nil && t.waited.device):
		if t.waited != nil {
			took += t.waited.ns
		}
		add(emptyCache, took, bytes, t.freeing)
		t.waited, t.freeing = nil, true
		return
	case freed:
		add(allocates, took, bytes, true)
	case k != nil:
		x.flush(t)
	default:
		return // a query between a wait and its copy
	}
	t.reads = false
}

// laneWork counts the tasks of a lane: all, those up to the latest copy to the host, which a graph may make, and those that the host has waited for.
type laneWork struct{ tasks, copied, waited int }

// wait waits for the first tasks of a lane, and reports whether one is new, and whether a new one is a copy to the host.
func (l *laneWork) wait(tasks int) (work, result bool) {
	work, result = tasks > l.waited, l.copied > l.waited && l.copied <= tasks
	l.waited = max(l.waited, tasks)
	return work, result
}

// record is the lane on which an event was recorded, and the lane's tasks until then.
type record struct{ lane, tasks int }

// maxRecords bounds the records that are known.
const maxRecords = 1 << 12

// idle follows tasks and waits of the process, and reports whether a wait waits for nothing new, or for a copy to the host.
func (x *habits) idle(w *timeline.Walk, h *timeline.HostCall, k *timeline.Task) bool {
	work, result := false, false
	switch {
	case k != nil && !w.Lanes[k.Lane].Synchronous:
		l := grow.At(&x.lanes, k.Lane)
		switch l.tasks++; {
		case k.Direction() == "DtoH" || k.Content != nil && k.Content.Reads:
			l.copied = l.tasks
		case k.Kind == api.Record && k.Object != nil:
			if x.records == nil || len(x.records) == maxRecords {
				x.records = map[int]record{}
			}
			x.records[k.Object.ID] = record{k.Lane, l.tasks}
		}
		return false
	case h.Fn.Sync == api.SyncDevice:
		for i := range x.lanes {
			a, b := x.lanes[i].wait(x.lanes[i].tasks)
			work, result = work || a, result || b
		}
	case h.Fn.Sync == api.SyncStream:
		if h.Waits >= 0 {
			l := grow.At(&x.lanes, int(h.Waits))
			work, result = l.wait(l.tasks)
		}
	case h.Fn.Sync == api.SyncEvent:
		if r, ok := x.records[int(h.Waits)]; ok {
			work, result = x.lanes[r.lane].wait(r.tasks)
		}
	default:
		return false
	}
	return !work || result
}

// flush counts a wait that no copy and no free followed, unless it is idle.
func (x *habits) flush(t *habitThread) {
	if w := t.waited; w != nil && !w.idle && (!w.ended || w.counts) {
		s := &x.now[explicit]
		if w.ended {
			if s = &x.typical[explicit]; s.steps == 0 || s.step != w.step {
				s.fn, s.call, s.step, s.steps = w.fn, w.call, w.step, s.steps+1
			}
		} else if s.n == 0 {
			s.fn, s.call, s.step = w.fn, w.call, -1
		}
		s.n, s.of, s.ns = s.n+1, s.of+1, s.ns+w.ns
	}
	t.waited, t.freeing = nil, false
}

// captures reports whether a function ends a capture and returns its graph: others update a part of a graph.
func captures(f *api.Func) bool {
	return f.Capture == api.CaptureEnd && slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.Graph && p.Role.Makes() })
}

// deviceMemory returns the size of the device memory that a call allocates or frees.
func deviceMemory(h *timeline.HostCall) (bytes uint64, made, freed bool) {
	for i := range h.Fn.Params {
		p := &h.Fn.Params[i]
		if p.Object != api.Device && p.Object != api.Physical {
			continue
		}
		switch p.Role {
		case api.New:
			if h.Raw != nil && len(h.Raw.Args) == int(h.Fn.Words) {
				bytes, _ = p.Size.Bytes(h.Fn, h.Raw.Args)
			}
			return bytes, true, false
		case api.End:
			return 0, false, true
		}
	}
	return 0, false, false
}

// step ends a step. Frees after a wait that ends it are in the next step.
func (x *habits) step(index int, counts bool) {
	for i := range x.threads {
		t := &x.threads[i]
		if w := t.waited; w != nil && w.device && !w.ended {
			w.ended, w.counts, w.step = true, counts, index
			continue
		}
		x.flush(t)
	}
	for i := range x.now {
		s, sum := &x.now[i], &x.typical[i]
		if counts && s.n > 0 {
			sum.n, sum.of, sum.ns, sum.bytes, sum.steps = sum.n+s.n, sum.of+s.of, sum.ns+s.ns, sum.bytes+s.bytes, sum.steps+1
			sum.fn, sum.call, sum.step, sum.thread = s.fn, s.call, index, s.thread
		}
		*s = habitSum{}
	}
	if counts {
		x.steps++
	}
}

// waitsFor returns the habit that most of the time in waits of typical steps is for, "" for none.
func (x *summer) waitsFor(ns int64) FindingKind {
	for _, h := range []habit{syncRead, explicit} {
		if s := &x.habits.typical[h]; ns > 0 && 2*min(s.ns, ns) > ns && 2*s.steps >= x.habits.steps {
			return h.kind()
		}
	}
	return ""
}

// worthRead is the least share of a step that is a finding of one read a step.
const worthRead = worthShare / 2

// habitFindings returns the habits of typical steps that are worth a look: they are in most steps, and cost a hundredth of their time, or are a read or a wait more often than
// once a step.
func (x *summer) habitFindings() (out []Finding) {
	sh := x.s.Shares
	if sh == nil || sh.Steps == 0 {
		return nil
	}
	for i := range x.habits.typical {
		s, of := &x.habits.typical[i], habit(i)
		total := float64(sh.Steps * sh.NS)
		share := float64(s.ns) / total
		often := float64(s.n) / float64(x.habits.steps)
		switch {
		case s.n == 0 || 2*s.steps < x.habits.steps:
			continue
		case of == syncRead || of == explicit:
			// One wait a step is how programs bound their steps. It is a finding if it is long, a read even if it is half as long, and no finding about all waits has it.
			covered, least := float64(sh.WaitingNS) >= worthShare*float64(sh.NS), worthShare
			if of == syncRead {
				least = worthRead
			}
			if often < 2 && (share < least || covered) || share < worthCost {
				continue
			}
		case of < emptyCache && share < worthCost:
			continue
		}
		f := Finding{Kind: of.kind(), Share: share, CostNS: s.ns, Count: s.n, Bytes: s.bytes, EachNS: s.ns / int64(s.n), Func: s.fn, Steps: s.steps, Of: uint64(x.habits.steps), Rank: sh.Rank}
		call, step := s.call, s.step
		f.Call, f.Step = &call, &step
		out = append(out, f)
	}
	return out
}
