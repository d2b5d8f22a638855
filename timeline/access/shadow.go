package access

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// shadow tracks the content of device memory as far as the trace determines it, to find the arguments that kernels have there.
//
// A byte is known if every write that may have touched it has a certain place in the order, if the trace has the content of the last write, and
// if no kernel that got an address of the allocation may have changed it. Writes through pointers in device memory and writes by processes
// outside the trace are not seen.
type shadow struct {
	*tracker // that has the shadow
	order    *order.Order[*timeline.Object, struct{}]
	call     order.Call[*timeline.Object] // the current one
	lanes    map[timeline.LaneKey]int
	procs    map[uint32]*process
	spoiled  map[uint64]uint64 // by call that reads device memory: a later call that may have overwritten it earlier
	found    map[uint64]uint64 // spoiled calls that this pass finds
	unseen   string            // why nothing is known in this trace, "" if something is
	cost     int               // memory in use, in bytes, about
	number   uint64            // latest write

	// The current call:
	args  []byte // in device memory
	known bool
	why   string
}

// process has the device memory of one process.
type process struct {
	sh     *shadow
	id     uint32
	host   int
	lost   int // lane for lost calls, -1 for none
	memory map[*timeline.Object]*memory
	any    []write      // writes to unknown addresses
	gaps   []format.Gap // not reached yet
	off    string       // why nothing is known from here on, "" if something is
}

// noDevArgs is why other calls have no DevArgs.
const noDevArgs = "the call has no arguments in device memory"

const (
	// maxShadow is the longest copy whose content is kept, in bytes. Arguments are shorter.
	maxShadow = 64 << 10
	// maxCost bounds shadow.cost.
	maxCost = 64 << 20
	// maxWide bounds the long writes that an allocation keeps apart, and maxReads its reads by tasks in flight.
	maxWide  = 256
	maxReads = 1024
)

func (sh *shadow) process(id uint32) *process {
	p := sh.procs[id]
	if p == nil {
		p = &process{sh: sh, id: id, host: sh.State.OrderLane(&timeline.LaneKey{Process: id}).Host, lost: -1, memory: map[*timeline.Object]*memory{}, off: sh.unseen}
		sh.procs[id] = p
		threads := sh.r.Threads()
		for _, g := range sh.r.Gaps() {
			if int(g.Thread) >= len(threads) || threads[g.Thread].Process == id {
				p.gaps = append(p.gaps, g)
			}
		}
		slices.SortFunc(p.gaps, func(a, b format.Gap) int { return int(min(max(a.From-b.From, -1), 1)) })
	}
	return p
}

// apply takes in a call that was applied to the State.
func (sh *shadow) apply(e *timeline.Event) {
	sh.args, sh.known, sh.why = nil, false, noDevArgs
	c, f := e.Call, e.Fn
	p := sh.process(e.Process)
	for len(p.gaps) > 0 && p.gaps[0].From <= c.End {
		p.lose(&p.gaps[0], c)
		p.gaps = p.gaps[1:]
	}
	if f == nil {
		return
	}
	sh.extend(e)
	if f.Capture != api.NoCapture {
		p.off = "tasks were captured into a graph before"
	}
	for _, u := range e.Uses {
		if u.Object.Ended == c.Index && c.Index != timeline.NoCall {
			p.forget(u.Object)
		}
	}
	k := &sh.call
	sh.State.OrderCall(k, e)
	switch {
	case e.Captured == nil && puts(k):
		k.Lane, k.Task = sh.lane(sh.State.LaneKey(e)), 0
	case f.Sync.Wait() == api.SyncStream:
		k.Lane = sh.lane(sh.State.WaitedLane(e))
	}
	sh.order.Apply(k)
	switch {
	case k.Task >= 0:
		p.writes(e, sh.order.Stamp(), !k.Failed && !k.Unfinished)
	case f.Task == api.Kernel && k.Failed:
		sh.why = "the launch failed"
	case f.Task == api.Kernel:
		sh.why = cmp.Or(p.off, "the launch is part of a graph")
	}
}

// puts reports whether a call puts a task on a lane. A copy that failed may have written some of its target.
func puts(k *order.Call[*timeline.Object]) bool {
	switch f := k.Fn; {
	case copies(f):
		return true
	case f.Composite:
		return f.Stream >= 0 && !k.Failed
	case f.Task == api.Record, f.Task == api.Wait, f.Task == api.Reset:
		return !k.Failed && !k.Unfinished
	default:
		return f.Task != api.NoTask && !k.Failed
	}
}

// copies reports whether a call copies or fills memory at addresses.
func copies(f *api.Func) bool {
	return !f.Composite && (f.Task == api.Fill || f.Task == api.Copy && !slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.CopyDesc != nil }))
}

// lose takes in that calls before the next one were lost. They may write anything until the device is synchronized.
func (p *process) lose(g *format.Gap, next *format.Call) {
	sh, from := p.sh, min(g.From, next.Start)
	if p.lost < 0 {
		p.lost = sh.order.Lanes()
		sh.order.Lane(order.Lane{Process: p.id, Host: p.host, Device: order.Any})
	}
	sh.order.Apply(&order.Call[*timeline.Object]{Fn: &api.Func{}, Thread: format.NoThread, Process: p.id, Host: p.host, Start: from, End: g.To, Lane: p.lost})
	t := sh.order.Stamp()
	sh.order.Lost(p.id, from, g.To)
	p.anywhere(t, timeline.NoCall)
	for o := range p.memory {
		p.forget(o)
	}
	p.any = append(p.any[:0], p.any[len(p.any)-1])
}

// lane returns the number of a lane.
func (sh *shadow) lane(k timeline.LaneKey) int {
	i, ok := sh.lanes[k]
	if !ok {
		i = sh.order.Lanes()
		sh.lanes[k] = i
		sh.order.Lane(sh.State.OrderLane(&k))
	}
	return i
}

// writes takes in the writes by a call's task. ok is false if the call failed or has not returned.
func (p *process) writes(e *timeline.Event, t order.Stamp, ok bool) {
	switch f := e.Fn; {
	case f.Composite:
		p.reached(e, t) // a collective's buffers
	case copies(f):
		p.copy(e, t, ok)
	case f.Task == api.Kernel:
		p.launch(e, t)
	case f.Task != api.Record && f.Task != api.Wait && f.Task != api.Reset:
		p.anywhere(t, e.Call.Index)
	}
}

// launch finds a kernel's arguments in device memory, and takes in its possible writes.
func (p *process) launch(e *timeline.Event, t order.Stamp) {
	c, f, sh := e.Call, e.Fn, p.sh
	for i := range f.Params {
		if q := &f.Params[i]; q.Role == api.DevArgs {
			n, _ := q.Size.Bytes(f, c.Args)
			sh.args, sh.why = p.load(c.Args[q.Word], n, &t, c.Index)
			sh.known = sh.why == ""
		}
	}
	p.reached(e, t)
}

// reached records that a task may have written any byte in the allocations that its call names.
func (p *process) reached(e *timeline.Event, t order.Stamp) {
	accesses, all := p.sh.of(e, 4) // a superfluous address only makes more bytes unknown
	if !all {
		p.anywhere(t, e.Call.Index)
		return
	}
	var to []*timeline.Object
	for i := range accesses {
		if accesses[i].Kind == Reads {
			continue
		}
		if o, _, ok := p.sh.State.Find(p.id, accesses[i].Addr); ok && o.Kind == api.Device && o.Ended == timeline.NoCall && !slices.Contains(to, o) {
			to = append(to, o)
		}
	}
	for _, o := range to {
		m := p.shadowOf(o)
		m.whole = latest(m.whole, p.sh.write(0, math.MaxUint64, t, e.Call.Index))
		p.overtaken(m, 0, math.MaxUint64, &t, e.Call.Index)
	}
}

// copy takes in the writes by a copy or a fill, or by a batch of copies, which have no order among each other. ok is false if the call failed or
// has not returned: then the content is unknown.
func (p *process) copy(e *timeline.Event, t order.Stamp, ok bool) {
	f, sh := e.Fn, p.sh
	source, target := -1, -1
	for i := range f.Params {
		switch f.Params[i].Role {
		case api.Reads:
			source = i
		case api.Writes, api.Fills:
			target = i
		}
	}
	all := false
	if sh.buf = sh.buf[:0]; target >= 0 {
		sh.buf, all = sh.named(sh.buf, e, target)
	}
	for i := range sh.buf {
		a := &sh.buf[i]
		w := sh.write(0, a.Size, t, e.Call.Index)
		switch q := &f.Params[target]; {
		case !ok || a.Size > maxShadow || q.Size.Pitch >= 0: // rows may have gaps
		case q.Role == api.Fills:
			if v := f.Param("value"); v >= 0 && (q.Size.Unit == 1 || q.Size.Unit == 4) {
				w.known, w.fill = true, binary.LittleEndian.AppendUint64(nil, e.Call.Args[f.Params[v].Word])[:q.Size.Unit]
			}
		case source >= 0:
			p.fetch(e, source, a, &w)
		}
		p.store(a.Addr, w)
	}
	if !all {
		p.anywhere(t, e.Call.Index)
	}
}

// fetch sets the content of a write by a copy: from the shadow of its source, or from the trace for a source in host memory.
func (p *process) fetch(e *timeline.Event, source int, a *Access, w *write) {
	sh := p.sh
	addr, ok := sh.address(e, source, a.item())
	if !ok {
		return
	}
	if o, _, found := sh.State.Find(p.id, addr); found && o.Kind == api.Device {
		b, why := p.load(addr, a.Size, &w.Stamp, e.Call.Index)
		w.bytes, w.known = b, why == ""
	} else if d := sh.Whole(source, a.item(), format.DirIn); d != nil && d.Len == a.Size {
		if w.blob = d.Blob; d.Blob == 0 {
			w.bytes = slices.Clone(d.Bytes)
		}
		w.known = d.Blob != 0 || uint64(len(d.Bytes)) == d.Len
	}
}

// anywhere records that a task may have written any memory.
func (p *process) anywhere(t order.Stamp, call uint64) {
	p.any = latest(p.any, p.sh.write(0, math.MaxUint64, t, call))
	for _, m := range p.memory {
		p.overtaken(m, 0, math.MaxUint64, &t, call)
	}
}
