package timeline

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Follow has the State follow the content of device memory from its beginning, for DevArgs. It reads the trace once or
// more where it has to, so that a launch whose arguments a later call may have overwritten too early is known to be one.
func (s *State) Follow(r *format.Reader) error {
	asks := false
	counts, err := r.Counts()
	if err != nil {
		return err
	}
	for _, fc := range counts.Functions {
		if f := s.model.Func(api.ID(fc.Func)); f != nil {
			asks = asks || slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.DevArgs })
		}
	}
	if !asks {
		return nil
	}
	late := map[uint64][]format.Data{}
	for d, err := range r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			return err
		}
		if d.Dir == format.DirIn && d.Status == format.Whole && d.Len <= maxShadow {
			k := *d
			k.Bytes = slices.Clone(d.Bytes)
			late[d.Call] = append(late[d.Call], k)
		}
	}
	spoiled := map[uint64]uint64{}
	// What is spoiled is unknown, and a launch with unknown arguments may write anything: until nothing more is found.
	for range 8 {
		pass := NewState(s.model)
		pass.shadow = newShadow(r, s.model, late, spoiled)
		threads := r.Threads()
		for c, err := range r.CallsByStart(nil) {
			if err != nil {
				return err
			}
			var process uint32
			if int(c.Thread) < len(threads) {
				process = threads[c.Thread].Process
			}
			pass.Apply(process, c)
		}
		before := len(spoiled)
		maps.Copy(pass.shadow.found, spoiled)
		if spoiled = pass.shadow.found; len(spoiled) == before {
			s.shadow = newShadow(r, s.model, late, spoiled)
			return nil
		}
	}
	s.shadow = newShadow(r, s.model, late, spoiled)
	s.shadow.unseen = "too many calls may have overwritten arguments of others"
	return nil
}

func newShadow(r *format.Reader, m *api.Model, late map[uint64][]format.Data, spoiled map[uint64]uint64) *shadow {
	sh := &shadow{r: r, late: late, spoiled: spoiled, procs: map[uint32]*shadowProcess{}, found: map[uint64]uint64{}}
	for name, n := range r.Meta().Coverage.PassedBy {
		if f := m.Lookup(name); n > 0 && f != nil && slices.ContainsFunc(f.Params, func(p api.Param) bool { return strings.HasSuffix(p.Type, "Stream") }) {
			sh.unseen = name + " was called and is not in the trace"
		}
	}
	if n := r.Meta().Coverage.Refused; n > 0 {
		sh.unseen = fmt.Sprintf("%d threads were not recorded", n)
	}
	return sh
}

func (sh *shadow) process(p uint32) *shadowProcess {
	sp := sh.procs[p]
	if sp == nil {
		sp = &shadowProcess{order: newOrder(), memory: map[*Object]*memory{}, off: sh.unseen}
		sh.procs[p] = sp
		threads := sh.r.Threads()
		for _, g := range sh.r.Gaps() {
			if int(g.Thread) >= len(threads) || threads[g.Thread].Process == p {
				sp.gaps = append(sp.gaps, g)
			}
		}
		slices.SortFunc(sp.gaps, func(a, b format.Gap) int { return int(min(max(a.From-b.From, -1), 1)) })
	}
	return sp
}

// lostKey is the lane of calls that are not in the trace.
var lostKey = laneKey{device: NoDevice, lost: true}

// apply takes in a call, whose meaning is known.
func (sh *shadow) apply(s *State, process uint32, e *Event) {
	sh.bytes, sh.known, sh.why = nil, false, "the call has no arguments in device memory"
	if sh.touches == nil {
		sh.touches = newTouches(s, sh.r, sh.late, 4)
	}
	c, f := e.Call, e.Fn
	sp := sh.process(process)
	for len(sp.gaps) > 0 && sp.gaps[0].From <= c.End {
		// A lost call is a write of anything to anywhere, over when the device is.
		sh.anywhere(sp, sp.task(sp.lane(lostKey), &format.Call{Thread: format.NoThread, Start: sp.gaps[0].From, End: sp.gaps[0].To}), NoCall)
		sp.gaps = sp.gaps[1:]
	}
	if f == nil || len(c.Args) != int(f.Words) {
		return
	}
	if f.Capture == api.CaptureBegin {
		sp.off = "tasks were captured into a graph before"
	}
	sp.advance(c.Start)
	done := c.Flags&format.Unfinished == 0
	failed := done && f.Failed(c.Ret)
	for _, u := range e.Uses {
		switch {
		case u.Object.Kind == api.ArgsList && f.Task == api.NoTask:
			sh.touches.list(e, u.Object)
		case u.Object.Ended == c.Index && c.Index != NoCall:
			sh.forget(sp, u.Object)
		}
	}
	switch {
	case f.Composite && f.Stream >= 0:
		if !failed {
			sh.reached(s, sp, process, e, sp.task(sh.laneOf(s, sp, process, e), c)) // the buffers of a collective
		}
	case f.Task == api.Kernel:
		if failed {
			sh.why = "the launch failed"
		} else {
			sh.launch(s, sp, process, e)
		}
	case f.Task == api.Record, f.Task == api.Wait, f.Task == api.Reset:
		if done && !failed {
			t := sp.task(sh.laneOf(s, sp, process, e), c)
			sp.link(e, &t)
		}
	case f.Task == api.Copy && slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.CopyDesc != nil }):
		if !failed {
			sh.anywhere(sp, sp.task(sh.laneOf(s, sp, process, e), c), c.Index)
		}
	case f.Task == api.Copy || f.Task == api.Fill:
		sh.copy(s, sp, process, e, done && !failed)
	case f.Task != api.NoTask:
		if !failed {
			sh.anywhere(sp, sp.task(sh.laneOf(s, sp, process, e), c), c.Index)
		}
	}
	if done && !failed {
		sh.sync(s, sp, process, e)
	}
}

func (sh *shadow) laneOf(s *State, sp *shadowProcess, process uint32, e *Event) int {
	k := s.laneKey(process, e)
	if k.synchronous {
		// Calls without a stream are in order with those of their thread.
		k.thread = e.Call.Thread
	}
	return sp.lane(k)
}

func (sh *shadow) sync(s *State, sp *shadowProcess, process uint32, e *Event) {
	switch e.Fn.Sync {
	case api.SyncDevice:
		device := s.seat(process, e.Call.Thread).device
		var lanes []int
		for i := range sp.lanes {
			if s.oneDevice(process, sp.lanes[i].key.device, device) {
				lanes = append(lanes, i)
			}
		}
		sp.over(e.Call, lanes...)
	case api.SyncStream, api.PollStream:
		if e.Fn.Sync == api.SyncStream || s.polled(e) {
			k := s.waitedKey(process, e)
			sp.over(e.Call, sp.lane(k))
		}
	case api.SyncEvent, api.PollEvent:
		if e.Fn.Sync == api.SyncEvent || s.polled(e) {
			if b, ok := sp.event(e); ok {
				sp.pending = append(sp.pending, completion{e.Call.End, b})
			}
		}
	}
}

// launch finds the arguments of a kernel, and notes what it may write.
func (sh *shadow) launch(s *State, sp *shadowProcess, process uint32, e *Event) {
	c, f := e.Call, e.Fn
	t := sp.task(sh.laneOf(s, sp, process, e), c)
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.DevArgs {
			n, _ := p.Size.Bytes(f, c.Args)
			sh.bytes, sh.why = sh.load(s, sp, process, c.Args[p.Word], n, &t, c.Index)
			sh.known = sh.why == ""
		}
	}
	sh.reached(s, sp, process, e, t)
}

// reached notes that a task may have written anything that its call names.
func (sh *shadow) reached(s *State, sp *shadowProcess, process uint32, e *Event, t stamp) {
	touches, all := sh.touches.Of(e)
	if !all {
		sh.anywhere(sp, t, e.Call.Index)
		return
	}
	var to []*Object
	for i := range touches {
		if touches[i].Kind == Reads {
			continue
		}
		if o, _, ok := s.Find(process, touches[i].Addr); ok && o.Kind == api.Device && !slices.Contains(to, o) {
			to = append(to, o)
		}
	}
	sh.touched(sp, to, t, e.Call.Index)
}

// touched notes that a task may have written anything to some allocations.
func (sh *shadow) touched(sp *shadowProcess, to []*Object, t stamp, call uint64) {
	for _, o := range to {
		if o.Ended != NoCall {
			continue
		}
		m := sp.shadowOf(o)
		m.whole = latest(m.whole, sh.write(0, math.MaxUint64, t, call))
		sh.overtaken(sp, m, 0, math.MaxUint64, &t, call)
	}
}

// copy notes what a copy or a fill has written.
func (sh *shadow) copy(s *State, sp *shadowProcess, process uint32, e *Event, ok bool) {
	c, f := e.Call, e.Fn
	t := sp.task(sh.laneOf(s, sp, process, e), c)
	source, target := -1, -1
	for i := range f.Params {
		switch f.Params[i].Role {
		case api.Reads:
			source = i
		case api.Writes, api.Fills:
			target = i
		}
	}
	if target < 0 {
		sh.anywhere(sp, t, c.Index)
		return
	}
	p := &f.Params[target]
	if p.ItemSizes >= 0 {
		sh.batch(s, sp, process, e, source, target, t, ok)
		return
	}
	n, fits := p.Size.Bytes(f, c.Args)
	if !fits {
		n = math.MaxInt64
	}
	if n == 0 {
		return
	}
	w := sh.write(0, n, t, c.Index)
	switch {
	case p.Size.Pitch >= 0:
		// Of rows with gaps, all that they span.
		pitch, height := c.Args[f.Params[p.Size.Pitch].Word], c.Args[f.Params[p.Size.Mul[1]].Word]
		if w.hi = pitch * height; height != 0 && w.hi/height != pitch {
			w.hi = math.MaxInt64
		}
	case !ok || n > maxShadow:
	case p.Role == api.Fills:
		if v := f.Param("value"); v >= 0 && (p.Size.Unit == 1 || p.Size.Unit == 4) {
			w.known, w.fill = true, bytesOf(c.Args[f.Params[v].Word])[:p.Size.Unit]
		}
	case source >= 0:
		sh.fetch(s, sp, process, c, source, 0, c.Args[f.Params[source].Word], n, &w)
	}
	sh.store(s, sp, process, c.Args[p.Word], w)
}

func bytesOf(v uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	return b
}

// fetch learns what a copy has moved: from the trace, or from the shadow of the device memory that it has read.
func (sh *shadow) fetch(s *State, sp *shadowProcess, process uint32, c *format.Call, param int, item uint32, addr, n uint64, w *write) {
	if o, _, found := s.Find(process, addr); found && o.Kind == api.Device {
		b, why := sh.load(s, sp, process, addr, n, &w.stamp, c.Index)
		w.bytes, w.known = b, why == ""
		return
	}
	for _, data := range [][]format.Data{c.Data, sh.late[c.Index]} {
		for i := range data {
			d := &data[i]
			if int(d.Param) != param || d.Item != item || d.Dir != format.DirIn || d.Status != format.Whole || d.Len != n {
				continue
			}
			if w.blob = d.Blob; d.Blob == 0 {
				w.bytes = slices.Clone(d.Bytes)
			}
			w.known = d.Blob != 0 || uint64(len(d.Bytes)) == n
			return
		}
	}
}

// batch notes the copies of an array of buffers, which are in no order among each other.
func (sh *shadow) batch(s *State, sp *shadowProcess, process uint32, e *Event, source, target int, t stamp, ok bool) {
	c, f := e.Call, e.Fn
	to, ok1 := sh.touches.data(c, target, 0)
	sizes, ok2 := sh.touches.data(c, int(f.Params[target].ItemSizes), 0)
	from, ok3 := []byte(nil), false
	if source >= 0 {
		from, ok3 = sh.touches.data(c, source, 0)
	}
	if !ok1 || !ok2 || !ok3 || len(to) != len(sizes) || len(to) != len(from) {
		sh.anywhere(sp, t, c.Index)
		return
	}
	for i := 0; i+8 <= len(to); i += 8 {
		n := word(sizes[i:])
		w := sh.write(0, n, t, c.Index)
		if ok && n <= maxShadow {
			sh.fetch(s, sp, process, c, source, uint32(1+i/8), word(from[i:]), n, &w)
		}
		sh.store(s, sp, process, word(to[i:]), w)
	}
}

func (sh *shadow) write(lo, hi uint64, t stamp, call uint64) write {
	sh.number++
	return write{lo: lo, hi: hi, stamp: t, number: sh.number, call: call}
}

// anywhere notes that a task may have written any memory.
func (sh *shadow) anywhere(sp *shadowProcess, t stamp, call uint64) {
	sp.any = latest(sp.any, sh.write(0, math.MaxUint64, t, call))
	for _, m := range sp.memory {
		sh.overtaken(sp, m, 0, math.MaxUint64, &t, call)
	}
}

// latest adds a write to those of which only the last one of each lane matters.
func latest(ws []write, w write) []write {
	for i := range ws {
		if ws[i].lane == w.lane && ws[i].thread == w.thread {
			if ws[i].number < w.number {
				ws[i] = w
			}
			return ws
		}
	}
	return append(ws, w)
}

func (sp *shadowProcess) shadowOf(o *Object) *memory {
	m := sp.memory[o]
	if m == nil {
		m = &memory{}
		sp.memory[o] = m
	}
	return m
}

// cost is about what a write takes of memory.
func (w *write) cost() int { return 160 + len(w.bytes) }

// forget drops the shadow of an allocation.
func (sh *shadow) forget(sp *shadowProcess, o *Object) {
	if m := sp.memory[o]; m != nil {
		for i := range m.near {
			sh.cost -= m.near[i].cost()
		}
		delete(sp.memory, o)
	}
}

// store notes a write to an address; the write's range begins with 0.
func (sh *shadow) store(s *State, sp *shadowProcess, process uint32, addr uint64, w write) {
	o, off, ok := s.Find(process, addr)
	if !ok || o.Kind != api.Device || w.hi == 0 {
		return
	}
	w.lo, w.hi = off, off+min(w.hi, o.Size-off)
	m := sp.shadowOf(o)
	sh.overtaken(sp, m, w.lo, w.hi, &w.stamp, w.call)
	// What is certain to be overwritten is gone.
	from, to := m.span(w.lo, w.hi)
	n := from
	for i := from; i < to; i++ {
		if old := &m.near[i]; old.lo >= w.lo && old.hi <= w.hi && old.precedes(&w.stamp) {
			sh.cost -= old.cost()
			continue
		}
		m.near[n] = m.near[i]
		n++
	}
	m.near = slices.Delete(m.near, n, to)
	m.wide = slices.DeleteFunc(m.wide, func(old write) bool { return old.lo >= w.lo && old.hi <= w.hi && old.precedes(&w.stamp) })
	if w.hi-w.lo > maxShadow {
		if m.wide = append(m.wide, w); len(m.wide) > maxWide {
			for _, old := range m.wide {
				old.lo, old.hi = 0, math.MaxUint64
				m.whole = latest(m.whole, old)
			}
			m.wide = nil
		}
		return
	}
	if sh.cost += w.cost(); sh.cost > maxCost {
		sh.cost = 0
		for _, p := range sh.procs {
			p.off = "the trace copies more small pieces to the device than are followed"
			p.memory = map[*Object]*memory{}
		}
		return
	}
	i, _ := slices.BinarySearchFunc(m.near, w.lo, func(x write, lo uint64) int {
		if x.lo <= lo {
			return -1
		}
		return 1
	})
	m.near = slices.Insert(m.near, i, w)
}

// span returns which of the near writes may overlap a range.
func (m *memory) span(lo, hi uint64) (from, to int) {
	at := func(v uint64) int {
		i, _ := slices.BinarySearchFunc(m.near, v, func(x write, v uint64) int {
			if x.lo < v {
				return -1
			}
			return 1
		})
		return i
	}
	return at(lo - min(lo, maxShadow)), at(hi)
}

// overtaken finds the tasks that read memory and are not certain to be over before a later write to it.
func (sh *shadow) overtaken(sp *shadowProcess, m *memory, lo, hi uint64, t *stamp, call uint64) {
	n := 0
	for i := range m.reads {
		r := &m.reads[i]
		over := r.precedes(t)
		if !over && r.call != call && r.lo < hi && lo < r.hi {
			sh.found[r.call] = call
		}
		// What the host had seen complete by then is complete for all writes to come.
		if r.n > sp.done.at(r.lane) {
			m.reads[n] = *r
			n++
		}
	}
	m.reads = m.reads[:n]
}

// load returns what a task finds at an address, or why that is not known.
func (sh *shadow) load(s *State, sp *shadowProcess, process uint32, addr, n uint64, t *stamp, call uint64) ([]byte, string) {
	if sp.off != "" {
		return nil, sp.off
	}
	o, lo, ok := s.Find(process, addr)
	switch {
	case n == 0:
		return []byte{}, ""
	case !ok || o.Kind != api.Device:
		return nil, "the address is in no allocation of the trace"
	case n > o.Size-lo:
		return nil, "they reach beyond the allocation"
	case n > maxShadow:
		return nil, "they are too long"
	}
	hi := lo + n
	m := sp.shadowOf(o)
	m.reads = append(m.reads, read{lo, hi, *t, call})
	if len(m.reads) > maxReads {
		// Too many are in flight: of the oldest it is not known whether a write to come is faster.
		sh.found[m.reads[0].call] = NoCall
		m.reads = slices.Delete(m.reads, 0, 1)
	}
	if by, ok := sh.spoiled[call]; ok {
		if by == NoCall {
			return nil, "a later call may overwrite them before the launch"
		}
		return nil, fmt.Sprintf("call %d may overwrite them before the launch", by)
	}
	var writes []*write
	for _, ws := range [][]write{sp.any, m.whole, m.wide} {
		for i := range ws {
			if ws[i].lo < hi && lo < ws[i].hi {
				writes = append(writes, &ws[i])
			}
		}
	}
	from, to := m.span(lo, hi)
	for i := from; i < to; i++ {
		if m.near[i].hi > lo {
			writes = append(writes, &m.near[i])
		}
	}
	slices.SortFunc(writes, func(a, b *write) int { return int(int64(a.number) - int64(b.number)) })
	out, seen := make([]byte, n), make([]bool, n)
	for i, w := range writes {
		if !w.precedes(t) {
			return nil, w.name() + " may write them, in no certain order with the launch"
		}
		for _, old := range writes[:i] {
			if old.lo < w.hi && w.lo < old.hi && !old.precedes(&w.stamp) {
				return nil, fmt.Sprintf("%s and %s may write them, in no certain order", old.name(), w.name())
			}
		}
		a, b := max(lo, w.lo), min(hi, w.hi)
		for k := a; k < b; k++ {
			seen[k-lo] = w.known
		}
		if !w.known {
			continue
		}
		content := w.bytes
		if w.blob != 0 {
			var err error
			if content, err = sh.r.Blob(w.blob); err != nil || uint64(len(content)) < b-w.lo {
				return nil, fmt.Sprintf("the payload of call %d can't be read", w.call)
			}
		}
		for k := a; k < b; k++ {
			if w.fill != nil {
				out[k-lo] = w.fill[(k-w.lo)%uint64(len(w.fill))]
			} else {
				out[k-lo] = content[k-w.lo]
			}
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		at := lo + uint64(i)
		for _, w := range slices.Backward(writes) {
			if w.lo <= at && at < w.hi {
				return nil, w.name() + " may have written them, and what is not in the trace"
			}
		}
		return nil, fmt.Sprintf("nothing in the trace has written byte %d", i)
	}
	return out, ""
}

func (w *write) name() string {
	if w.call == NoCall {
		return "a call that was lost"
	}
	return fmt.Sprintf("call %d", w.call)
}

// Apply advances the state by one call of a process and returns its meaning, which is valid until the next Apply.
func (s *State) Apply(process uint32, c *format.Call) *Event {
	e := s.apply(process, c)
	if s.shadow != nil {
		s.shadow.apply(s, process, e)
	}
	return e
}
