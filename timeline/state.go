// Package timeline gives calls their meaning: handles become objects, addresses become places in allocations, launches get kernel names, and
// copies become tasks on streams.
//
// A State is advanced call by call, in the order in which the calls began, and describes that moment; apply.go has the table of its handlers. A
// Walk runs a State through a whole trace in bounded memory and reports calls, tasks, ranges, steps and counters to a Visitor. A LiveWalk does
// the same for calls that are still being recorded. Load keeps a small trace in memory, for callers that need another order.
//
// Analyses, exporters and the compiler for replays call this package. It reads traces and the binaries that they hold, and changes neither. A
// State and a Walk belong to one goroutine.
//
// Stability: Before version 1.0 of acltrace, exported names may change with a line in CHANGELOG.md.
package timeline

import (
	"cmp"
	"slices"
	"sort"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/operator"
)

// currentDevice returns the current device and context for a thread. A thread that has selected none gets the device that its process uses, if
// there is only one.
func (s *State) currentDevice(process, thread uint32) currentDevice {
	if t := s.current[thread]; len(t) > 0 {
		return t[len(t)-1]
	}
	if d := s.devices[process]; len(d) == 1 {
		return currentDevice{device: d[0]}
	}
	return currentDevice{device: NoDevice}
}

// CurrentDevice returns the device that a thread has selected, NoDevice if it is unknown.
func (s *State) CurrentDevice(process, thread uint32) int {
	return s.currentDevice(process, thread).device
}

// Model returns the API model of the calls.
func (s *State) Model() *api.Model { return s.model }

// SameDevice reports whether two lanes in a process may be on one device. A process with one device may not name it everywhere.
func (s *State) SameDevice(process uint32, a, b int) bool {
	return a == b || len(s.devices[process]) < 2
}

// selectDevice follows the calls that select a device or a context for their thread, or that give a context its device.
func (s *State) selectDevice(e *Event) {
	c, f := e.Call, e.Fn
	number := func(param int8) int { return int(int32(c.Args[f.Params[param].Word])) }
	for _, u := range e.Uses {
		if o := u.Object; o.Kind == api.Context {
			if f.Device >= 0 {
				o.Device = number(f.Device)
			}
			if t := s.current[c.Thread]; o.Ended == c.Index && len(t) > 0 && t[len(t)-1].context == o {
				s.current[c.Thread] = t[:len(t)-1]
			}
		}
	}
	if f.Selects < 0 && f.Stack != api.Pop {
		return
	}
	now, before := currentDevice{device: NoDevice, call: c.Index}, s.current[c.Thread]
	if f.Stack != api.Push {
		before = before[:max(len(before)-1, 0)]
	}
	switch {
	case f.Stack == api.Pop:
		s.current[c.Thread] = before
		return
	case f.Params[f.Selects].Role == api.Value:
		now.device = number(f.Selects)
	default:
		u, ok := e.Use(int(f.Selects))
		if !ok {
			if f.Params[f.Selects].Role == api.Use && c.Args[f.Params[f.Selects].Word] == 0 {
				s.current[c.Thread] = before // none is current now
			}
			return
		}
		now.device, now.context = u.Object.Device, u.Object
	}
	s.current[c.Thread] = append(before, now)
	if d := s.devices[e.Process]; now.device != NoDevice && !slices.Contains(d, now.device) {
		s.devices[e.Process] = append(d, now.device)
	}
}

// LaneKey returns the lane that gets the work of a call.
func (s *State) LaneKey(e *Event) LaneKey {
	at := s.currentDevice(e.Process, e.Call.Thread)
	k := LaneKey{Process: e.Process, Stream: e.Stream, Device: at.device, Synchronous: e.Fn.Stream < 0}
	switch {
	case k.Stream != nil:
		if k.Stream.Device == NoDevice {
			k.Stream.Device = at.device // older than the trace: a thread can only use streams of its device
		}
		k.Device = k.Stream.Device
	case !k.Synchronous:
		k.Context = at.context
	}
	return k
}

// NewState returns the state before the first call.
func NewState(m *api.Model) *State {
	return &State{model: m, byFunc: make([]*funcHandlers, m.Funcs[len(m.Funcs)-1].ID+1), live: map[key]*Object{}, graphOf: map[*Object]*Object{}, found: map[*Object][]*Object{}, marks: marks{unnumbered: unnumbered{}}, allocs: map[uint32]*ranges{}, reserved: map[uint32]*ranges{},
		current: map[uint32][]currentDevice{}, devices: map[uint32][]int{},
		exchange: exchange{shared: map[string]uint64{}, taken: map[string][]*Object{}, exported: map[string]*Object{}}}
}

// used returns the object for a handle that a call uses, nil for no handle and for the default stream of a context.
func (s *State) used(e *Event, kind api.Object, h uint64) *Object {
	if kind == api.Stream && h <= s.model.Constants {
		h = s.model.StreamOf(e.Fn, h, e.Call.Thread)
	}
	o := s.handle(e.Process, kind, h)
	if o != nil && o.Handle != s.model.StreamHandle(o.Handle) {
		o.Constant = true
	}
	return o
}

// maxEnded bounds the ended objects that are known by handle.
const maxEnded = 1 << 12

// handle returns the object for a handle. An unknown handle becomes an object older than the trace, or one with a Former.
func (s *State) handle(process uint32, kind api.Object, h uint64) *Object {
	if h == 0 {
		return nil
	}
	k := key{process, kind, h}
	r := &s.recent[k.slot()]
	if r.key == k {
		return r.o
	}
	o := s.known(k)
	if o == nil {
		o = s.create(k, NoCall)
		o.Former = s.formers[k]
	}
	if len(s.deferred) == 0 {
		r.key, r.o = k, o
	}
	return o
}

// Changes counts how often an object was made or ended, or got or lost its handle. While it stays, handles and addresses mean the same objects.
func (s *State) Changes() uint64 { return s.changes }

// Known returns the object for a handle, nil if the trace shows none.
func (s *State) Known(process uint32, kind api.Object, h uint64) *Object {
	return s.known(key{process, kind, h})
}

// known returns the object that has a handle, or that gets it when its making call returns.
func (s *State) known(k key) *Object {
	o := s.live[k]
	for i := 0; o == nil && i < len(s.deferred); i++ {
		if g := s.deferred[i].o; g.key() == k {
			o = g
		}
	}
	return o
}

// publish gives deferred objects their handles and addresses if their making calls have returned by now.
func (s *State) publish(now int64) {
	if len(s.unpublished) == 0 {
		return
	}
	s.unpublished = slices.DeleteFunc(s.unpublished, func(y unpublished) bool { return y.until <= now })
	for i := 0; i < len(s.deferred); {
		y := s.deferred[i]
		if y.until > now {
			i++
			continue
		}
		s.deferred = slices.Delete(s.deferred, i, i+1)
		s.changes++
		k := y.o.key()
		if old := s.live[k]; old != nil && old != y.o {
			s.end(old, y.o.Created)
		}
		s.live[k] = y.o
		s.forget(k)
		if y.o.Kind.Memory() {
			s.ranges(y.o.Process, y.o.Kind).add(y.o)
		}
	}
}

// deferUntil defers the handle and the addresses of an object until its making call returns.
func (s *State) deferUntil(y unpublished) {
	i, _ := slices.BinarySearchFunc(s.deferred, y.until, func(c unpublished, t int64) int { return cmp.Compare(c.until, t) })
	s.deferred = slices.Insert(s.deferred, i, y)
}

// returnsLater reports whether another thread is making the object in a call that returns after this one.
func (s *State) returnsLater(o *Object, c *format.Call) (unpublished, bool) {
	for _, y := range s.unpublished {
		if y.o == o && y.maker != c.Thread && y.until > c.End {
			return y, true
		}
	}
	return unpublished{}, false
}

// forget drops a key from State.recent.
func (s *State) forget(k key) { s.recent[k.slot()].o, s.recent[k.slot()].key = nil, key{} }

// named is handle for End parameters: an allocation must be known.
func (s *State) named(process uint32, kind api.Object, h uint64) *Object {
	if !kind.Memory() {
		return s.handle(process, kind, h)
	}
	o := s.Known(process, kind, h)
	if o == nil && kind == api.Device {
		o = s.Known(process, api.Owned, h) // imported by a key
	}
	return o
}

func (s *State) create(k key, call uint64) *Object {
	o := s.object(k, call)
	s.forget(k)
	s.live[k] = o
	return o
}

func (s *State) object(k key, call uint64) *Object {
	s.objects++
	s.changes++
	return &Object{ID: s.objects, Kind: k.kind, Handle: k.handle, Process: k.process, Created: call, Ended: NoCall, Device: NoDevice}
}

// made returns the object that a call has made or found. For New it is always a new one, whatever had the handle before.
func (s *State) made(process uint32, p *api.Param, v uint64, c *format.Call) *Object {
	k := key{process, p.Object, v}
	old := s.known(k)
	if old != nil && p.Role == api.Find && old.Ended == NoCall {
		return old
	}
	o := s.object(k, c.Index)
	o.Device = s.currentDevice(process, c.Thread).device
	if p.Object == api.Stream && s.model.NonBlocking != 0 {
		f := s.model.Func(api.ID(c.Func))
		flags := slices.IndexFunc(f.Params, func(q api.Param) bool { return q.Flags })
		o.NonBlocking = flags >= 0 && c.Args[f.Params[flags].Word]&s.model.NonBlocking != 0
	}
	y := unpublished{o, c.End, c.Thread}
	s.unpublished = append(s.unpublished, y)
	switch other, later := s.returnsLater(old, c); {
	case later:
		// The making call that returns first had the handle first.
		s.drop(old)
		s.deferUntil(other)
		fallthrough
	case old == nil:
		s.live[k] = o
		s.forget(k)
	default:
		s.retire(old, c.Index)
		s.deferUntil(y)
	}
	return o
}

// end ends an object and removes its handle and addresses.
func (s *State) end(o *Object, call uint64) {
	s.retire(o, call)
	s.drop(o)
}

// retire records the call that has ended an object.
func (s *State) retire(o *Object, call uint64) {
	s.changes++
	was := o.Ended
	if o.Ended = call; was != NoCall {
		return // a new object with the same handle had ended it
	}
	if o.Kind == api.Graph {
		for _, n := range s.captures.End(o) {
			if n.Ended == NoCall {
				s.end(n, call)
			}
		}
	}
	// The program may keep a handle that it found in a binary that has ended. A later use means another object.
	for _, f := range s.found[o] {
		s.retire(f, call)
	}
	delete(s.found, o)
	delete(s.graphOf, o)
	s.memory.vacate(o)
	s.memory.leave(o)
	if o.Kind.OnHost() {
		for _, m := range slices.Clone(s.ranges(o.Process, o.Kind).sorted) {
			if m.Parent == o && m.Ended == NoCall {
				s.end(m, call)
			}
		}
	}
}

// keepEnded remembers an object that a call ended by its handle.
func (s *State) keepEnded(k key, o *Object) {
	if o.Kind.Memory() || o.Ended == NoCall {
		return
	}
	if s.formers == nil || len(s.formers) == maxEnded {
		s.formers = map[key]*Object{}
	}
	s.formers[k] = o
}

// drop removes the handle and the addresses of an object, deferred ones too.
func (s *State) drop(o *Object) {
	k := o.key()
	if s.live[k] == o {
		delete(s.live, k)
		s.forget(k)
		s.keepEnded(k, o)
	}
	s.deferred = slices.DeleteFunc(s.deferred, func(y unpublished) bool { return y.o == o })
	if o.Kind.Memory() {
		s.ranges(o.Process, o.Kind).remove(o)
	}
}

// DeviceMemory returns the device memory in use, in bytes.
func (s *State) DeviceMemory() uint64 { return s.memory.bytes }

// MemoryChanges reports the device memory that the latest call has allocated or freed.
func (s *State) MemoryChanges(changed func(o *Object, freed bool)) {
	for _, c := range s.memory.changes {
		changed(c.o, c.freed)
	}
}

// allocated records memory with a known size.
func (s *State) allocated(o *Object) {
	if slices.ContainsFunc(s.deferred, func(y unpublished) bool { return y.o == o }) {
		return
	}
	r := s.ranges(o.Process, o.Kind)
	c, waits := s.event.Call, false
	for _, old := range slices.Clone(r.within(o.Handle, o.Size)) {
		if old.Kind != o.Kind {
			continue
		}
		if y, later := s.returnsLater(old, c); later {
			s.drop(old)
			s.deferUntil(y)
		} else {
			waits = true
		}
	}
	if waits {
		s.deferUntil(unpublished{o, c.End, c.Thread})
	} else {
		r.add(o)
	}
}

// Find returns the live allocation, on the device or the host, that holds an address, and the offset in it.
func (s *State) Find(process uint32, addr uint64) (*Object, uint64, bool) {
	r := s.allocs[process]
	if r == nil {
		return nil, 0, false
	}
	if o, off, ok := r.find(addr); ok {
		return o, off, ok
	}
	return s.deferredAt(process, addr, false)
}

// deferredAt returns the deferred allocation that will hold an address.
func (s *State) deferredAt(process uint32, addr uint64, reserved bool) (*Object, uint64, bool) {
	for _, y := range s.deferred {
		if off := addr - y.o.Handle; y.o.Process == process && y.o.Kind.Memory() && (y.o.Kind == api.Reservation) == reserved && off < y.o.Size {
			return y.o, off, true
		}
	}
	return nil, 0, false
}

// Reserved returns the reservation that holds an address, mapped or not, and the offset in it.
func (s *State) Reserved(process uint32, addr uint64) (*Object, uint64, bool) {
	r := s.reserved[process]
	if r == nil {
		return nil, 0, false
	}
	if o, off, ok := r.find(addr); ok {
		return o, off, ok
	}
	return s.deferredAt(process, addr, true)
}

// FindEnd is Find, but also accepts an address one past the end.
func (s *State) FindEnd(process uint32, addr uint64) (*Object, uint64, bool) {
	if o, off, ok := s.Find(process, addr); ok || addr == 0 {
		return o, off, ok
	}
	if o, off, ok := s.Find(process, addr-1); ok && off+1 == o.Size {
		return o, o.Size, true
	}
	return nil, 0, false
}

// Live returns the live allocations, sorted by address.
func (s *State) Live(process uint32) []*Object {
	if r := s.allocs[process]; r != nil {
		return r.sorted
	}
	return nil
}

// ranges returns the live allocations in a process that share a table with a kind. Reservations have their own, since they contain memory.
func (s *State) ranges(process uint32, kind api.Object) *ranges {
	all := s.allocs
	if kind == api.Reservation {
		all = s.reserved
	}
	r := all[process]
	if r == nil {
		r = &ranges{}
		all[process] = r
	}
	return r
}

// after returns the index of the first allocation that begins after an address.
func (r *ranges) after(addr uint64) int {
	return sort.Search(len(r.sorted), func(i int) bool { return r.sorted[i].Handle > addr })
}

// within returns the allocations that overlap an address range.
func (r *ranges) within(addr, size uint64) []*Object {
	from, to := r.after(addr), r.after(addr+size-1)
	if from > 0 && addr-r.sorted[from-1].Handle < r.sorted[from-1].Size {
		from--
	}
	return r.sorted[from:max(from, to)]
}

func (r *ranges) add(o *Object) { r.sorted = slices.Insert(r.sorted, r.after(o.Handle), o) }

func (r *ranges) remove(o *Object) {
	// Mapped memory may have the same address as its host memory.
	i := r.after(o.Handle) - 1
	for i > 0 && r.sorted[i] != o && r.sorted[i].Handle == o.Handle {
		i--
	}
	if i >= 0 && r.sorted[i] == o {
		r.sorted = slices.Delete(r.sorted, i, i+1)
	}
}

// find returns the allocation that holds an address. A registration is preferred to the allocation around it.
func (r *ranges) find(addr uint64) (*Object, uint64, bool) {
	i := r.after(addr) - 1
	if i < 0 {
		return nil, 0, false
	}
	for o := r.sorted[i]; o != nil; o = o.Parent {
		if off := addr - o.Handle; off < o.Size || off == 0 {
			return o, off, true
		}
		if o.Kind != api.Registered {
			break
		}
	}
	return nil, 0, false
}

// OperatorEnded calls a function with each part of an operator at its end. The part is valid until the function returns.
func (s *State) OperatorEnded(f func(*operator.Part)) { s.operators.Ended = f }

// OpenOperators finishes the State at the end of its calls, and returns for each thread the outermost operator that has begun and not ended, nil for none.
func (s *State) OpenOperators(threads int) []*operator.Part {
	s.operators.Finish()
	open := make([]*operator.Part, threads)
	for i := range open {
		open[i] = s.operators.Outermost(uint32(i))
	}
	return open
}
