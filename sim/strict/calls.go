package strict

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Findings returns the findings so far, in order.
func (c *Checker) Findings() (all []Finding) {
	c.do(func() {
		for _, f := range c.findings.order {
			all = append(all, *f)
		}
	})
	return all
}

// End checks for leaks at process exit. initialized means that the runtime was not finalized.
func (c *Checker) End(initialized bool) {
	c.do(func() {
		if initialized && c.objects.inits != nil {
			c.found(&Finding{Kind: Unbalanced, Parts: []Part{{"has no aclFinalize after it, until the end of the process", c.objects.inits}}})
		}
		for _, x := range c.sources {
			if x.torn {
				c.compare(x, nil)
			}
		}
		c.leaks(nil)
	})
}

// do calls a function with the lock held, if strict mode is on.
func (c *Checker) do(f func()) {
	if c != nil { // inlined, since every task comes here
		c.locked(f)
	}
}

func (c *Checker) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// by is do with the current call of a thread; nil if the runtime itself acts.
func (c *Checker) by(t *Thread, f func(call *Call)) {
	if c == nil {
		return
	}
	var call *Call
	if t != nil {
		call = c.call(t)
	}
	c.do(func() { f(call) })
}

// Close stops checking.
func (c *Checker) Close() {
	c.do(func() { c.findings.closed = true })
}

// Enter counts a call of the thread, from 0 as in traces, and returns the enclosing call.
func (c *Checker) Enter(t *Thread, function string) *Call {
	outer := t.inside
	t.inside = c.newCall(t, function)
	return outer
}

func (c *Checker) newCall(t *Thread, function string) *Call {
	call := &Call{Function: function, InThread: t.calls, Thread: t.ID, Stream: -1}
	if t.Number != nil {
		call.InTrace = *t.Number
	}
	t.calls++
	c.do(func() {
		call.InProcess = c.calls
		c.calls++
	})
	return call
}

// Leave records the handles that a successful call created.
func (c *Checker) Leave(t *Thread, f *api.Func, words []uint64, result uint64, outer *Call) {
	call := t.inside
	t.inside = outer
	if f.RetError && result != 0 {
		return
	}
	for i := range f.Params {
		p := &f.Params[i]
		switch w := words[p.Word]; {
		case (p.Role == api.New || p.Role == api.Find) && p.Words == 1 && w != 0 && p.Elem == 8:
			if h := *(*uint64)(space.Pointer(w)); space.KindOf(h) != 0 {
				c.do(func() {
					if c.objects.made[h] == nil {
						c.objects.made[h] = call
					}
				})
			}
		case p.Role == api.End && space.KindOf(w) != 0:
			c.do(func() { delete(c.objects.made, w) })
		}
	}
}

// call returns the thread's current call. Calls without Enter get their name from Options.Function.
func (c *Checker) call(t *Thread) *Call {
	if t.inside != nil {
		return t.inside
	}
	return c.newCall(t, c.opts.Function())
}

// On returns the thread's current call, with a stream and a kernel.
func (c *Checker) On(t *Thread, s *Stream, kernel string) *Call {
	call := *c.call(t)
	call.Stream, call.Kernel = s.ID, kernel
	return &call
}

// leakable are the kinds of objects that a program must end.
var leakable = map[space.Kind]string{space.KindContext: "a context", space.KindStream: "a stream", space.KindEvent: "an event", space.KindImage: "a binary",
	space.KindBinary: "a loaded binary", space.KindGraph: "a model", space.KindNotify: "a notify", space.KindCounter: "a counting notify", space.KindPhysical: "physical memory", space.KindPool: "a memory pool"}

// leaks finds live objects and memory. end is the call that ends the runtime; nil at process exit. The caller holds
// the lock.
func (c *Checker) leaks(end *Call) {
	when := "before aclFinalize"
	if end == nil {
		when = "before the end of the process"
	}
	type left struct {
		call *Call
		does string
	}
	var all []left
	for h, call := range c.objects.made {
		if leakable[space.KindOf(h)] != "" && c.opts.Live(h) {
			all = append(all, left{call, fmt.Sprintf("creates %s, %#x, that is not released %s", leakable[space.KindOf(h)], h, when)})
		}
	}
	for _, r := range c.memory.holdings.All() {
		if r.Value.what == ConditionWord { // reported as a leaked model
			continue
		}
		all = append(all, left{r.Value.call, fmt.Sprintf("allocates %s of %s at %#x that is not freed %s", r.Value.what, human.Plural(r.Size, "byte"), r.Addr, when)})
	}
	clear(c.objects.made)
	c.memory.holdings.Clear()
	slices.SortFunc(all, func(a, b left) int { return int(a.call.InProcess) - int(b.call.InProcess) })
	for _, l := range all {
		f := &Finding{Kind: Leak, Parts: []Part{{l.does, l.call}}}
		if end != nil {
			f.Parts = append(f.Parts, Part{"ends the runtime", end})
		}
		c.found(f)
	}
}

// Initialized, Finalized and NotBalanced report aclInit and aclFinalize.
func (c *Checker) Initialized(t *Thread) {
	c.by(t, func(call *Call) { c.objects.inits = call })
}

func (c *Checker) Finalized(t *Thread) {
	c.by(t, func(call *Call) {
		c.objects.ends, c.objects.inits = call, nil
		c.leaks(call)
	})
}

func (c *Checker) NotBalanced(t *Thread) {
	c.by(t, func(call *Call) {
		f := &Finding{Kind: Unbalanced, Parts: []Part{{"has no aclInit before it", call}}}
		if c.objects.ends != nil {
			f.Parts = []Part{{"ends the runtime", c.objects.ends}, {"ends it again", call}}
		}
		c.found(f)
	})
}

// Single reports a finding about one call, and about the call that created the object if that is known.
func (c *Checker) Single(t *Thread, kind FindingKind, s *Stream, kernel string, handle uint64, made, does string) {
	if c == nil {
		return
	}
	call := c.On(t, s, kernel)
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Finding{Kind: kind, Parts: []Part{{does, call}}}
	if m := c.objects.made[handle]; m != nil {
		f.Parts = []Part{{made, m}, {does, call}}
	}
	c.found(f)
}

// Pageable reports a copy with pageable memory on a captured stream. begin is the call that began the capture.
func (c *Checker) Pageable(t *Thread, s *Stream, x *Copy, begin *Call) {
	if c == nil {
		return
	}
	call := c.On(t, s, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Finding{Kind: PageableInCapture, Parts: []Part{{fmt.Sprintf("copies %s from %#x to %#x", human.Plural(x.Width*x.Height, "byte"), x.Src, x.Dst), call}}}
	if begin != nil {
		f.Parts = append(f.Parts, Part{"begins the capture", begin})
	}
	c.found(f)
}

// Submitted returns the state for a new task.
func (c *Checker) Submitted(t *Thread, s *Stream, kernel string) *Task {
	call := c.On(t, s, kernel)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time++
	return &Task{call: call, host: c.host, at: c.time}
}

// Begin begins a task. k is nil for a task of the runtime, and kind is its name.
func (c *Checker) Begin(s *Stream, k *Task, kind string) {
	c.do(func() {
		if s.actor == nil {
			s.actor = c.newActor(nil)
		}
		if k == nil {
			k = &Task{call: &Call{Function: kind, Stream: s.ID}, host: c.host, at: c.time}
		}
		c.beginTask(s.actor, k)
	})
}

// BeginLane starts a graph lane after the current task of a stream.
func (c *Checker) BeginLane(s, lane *Stream) {
	c.do(func() { lane.actor = c.newActor(s.actor) })
}

// EndLane joins a graph lane into a stream.
func (c *Checker) EndLane(s, l *Stream) {
	c.do(func() {
		if l.actor != nil {
			s.actor.knows.join(l.actor.knows)
			c.endActor(l.actor)
			l.actor = nil
		}
	})
}

// Done adds the stream's knowledge to the host, by a call of the thread; nil if the runtime waits.
func (c *Checker) Done(t *Thread, s *Stream) {
	c.by(t, func(call *Call) {
		if s.actor != nil {
			c.learn(s.actor.knows, call)
		}
	})
}

// Ended removes a stream after its work is done.
func (c *Checker) Ended(s *Stream) {
	c.do(func() {
		if s.actor != nil {
			c.endActor(s.actor)
			s.actor = nil
		}
	})
}

// Release stores the stream's knowledge in a record; Acquire adds a record's knowledge to the stream.
func (c *Checker) Release(s *Stream, v *Vector) {
	c.do(func() { v.join(s.actor.knows) })
}

func (c *Checker) Acquire(s *Stream, v *Vector) {
	c.do(func() { s.actor.knows.join(*v) })
}

// Knows adds a record's knowledge to the host.
func (c *Checker) Knows(t *Thread, v *Vector) {
	c.by(t, func(call *Call) { c.learn(*v, call) })
}

// ReleaseOthers and AcquireOthers are records and waits between processes. A nil stream means the host.
func (c *Checker) ReleaseOthers(s *Stream) {
	if c != nil {
		c.Release(s, &c.world)
	}
}

func (c *Checker) AcquireOthers(s *Stream) {
	switch {
	case c == nil:
	case s == nil:
		c.Knows(nil, &c.world)
	default:
		c.Acquire(s, &c.world)
	}
}

// HostBegins adds the stream's knowledge to the host, in a host function.
func (c *Checker) HostBegins(s *Stream) {
	c.Done(nil, s)
	c.do(func() { c.hostRuns++ })
}

// HostReturns continues the stream after a host function.
func (c *Checker) HostReturns(s *Stream) {
	c.do(func() {
		c.hostRuns++
		c.time++
		s.actor.knows.join(*c.host)
		s.actor.knows.set(0, c.time)
	})
}

// TaskTouches records an access by the stream's task.
func (c *Checker) TaskTouches(s *Stream, addr, n uint64, access uint32) {
	c.do(func() { c.touch(s.actor.by(), space.Span{Addr: addr, Size: n}, access) })
}

// HostTouches records an access by a blocking call.
func (c *Checker) HostTouches(t *Thread, addr, n uint64, access uint32) {
	c.by(t, func(call *Call) { c.touch(c.byHost(call), space.Span{Addr: addr, Size: n}, access) })
}

// rows calls a function for each row on each side.
func (x *Copy) rows(f func(s space.Span, access uint32)) {
	if x.Height > maxRows {
		return
	}
	for i := range x.Height {
		if !x.Staged {
			f(space.Span{Addr: x.Src + i*x.SPitch, Size: x.Width}, space.Read)
		}
		f(space.Span{Addr: x.Dst + i*x.DPitch, Size: x.Width}, space.Write)
	}
}

// HostCopies records a blocking copy.
func (c *Checker) HostCopies(t *Thread, x *Copy) {
	c.by(t, func(call *Call) {
		o := c.byHost(call)
		o.outs = x.outs()
		x.rows(func(s space.Span, access uint32) { c.touch(o, s, access) })
	})
}

// Watch hashes an asynchronous copy's host buffer.
func (c *Checker) Watch(x *Copy) *Source {
	if c == nil || x.Staged || !c.opts.Locate(x.Src).Pinned {
		return nil
	}
	w := &Source{x: *x}
	c.mu.Lock()
	w.hostRuns, w.ordered = c.hostRuns, c.pending(x)
	if len(c.sources) == maxSources {
		c.sources = slices.Delete(c.sources, 0, maxSources/2)
	}
	c.sources = append(c.sources, w) // before hashing, so that tasks that write the buffer find it
	c.mu.Unlock()
	sum, ok := c.sumOf(x)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.sum, w.ordered = sum, w.ordered || !ok
	return w
}

// pending reports whether a task may be writing the source of a copy.
func (c *Checker) pending(x *Copy) bool {
	for at := c.memory.accesses.At(x.Src); at.OK() && at.Get().Addr < x.Src+x.SPitch*x.Height; at.Next() {
		if w := &at.Get().Value.write; w.n != 0 && c.host.at(w.n) < w.time {
			return true
		}
	}
	return false
}

// TaskCopies records an asynchronous copy when it runs.
func (c *Checker) TaskCopies(s *Stream, x *Copy, w *Source) {
	c.do(func() {
		a := s.actor
		o := a.by()
		if w != nil {
			w.call = a.task.call
			w.n, w.time = a.n, o.time
			if o.host > a.task.at {
				w.ordered = true // a later host action precedes the copy
			}
			w.torn = c.differs(w)
		}
		from, to := c.opts.Locate(x.Src).Device, c.opts.Locate(x.Dst).Device
		if (from >= 0 || to >= 0) && from != s.Device && to != s.Device {
			d, at := from, x.Src
			if from < 0 {
				d, at = to, x.Dst
			}
			f := &Finding{Kind: WrongDevice, Parts: []Part{{
				fmt.Sprintf("copies %s from %#x to %#x, memory of device %d, by a stream of device %d", human.Plural(x.Width*x.Height, "byte"), x.Src, x.Dst, d, s.Device), a.task.call}}}
			if h, ok := c.memory.holdings.Find(at); ok {
				p := h.Value.part()
				p.Does = "allocates " + p.Does
				f.Parts = append(f.Parts, *p)
			}
			c.found(f)
		}
		o.outs = x.outs()
		x.rows(func(sp space.Span, access uint32) { c.touch(o, sp, access) })
	})
}

// outs returns the written range, with gaps between rows.
func (x *Copy) outs() []space.Span {
	if x.Height == 0 {
		return nil
	}
	return []space.Span{{Addr: x.Dst, Size: (x.Height-1)*x.DPitch + x.Width}}
}

// KernelTouches records a kernel's accesses.
func (c *Checker) KernelTouches(s *Stream, extents []space.Extent) {
	c.do(func() {
		o := s.actor.by()
		for _, x := range extents {
			if x.Access&space.Write != 0 && x.Size > 0 {
				o.outs = append(o.outs, space.Span{Addr: x.Addr, Size: x.Size})
			}
		}
		for _, x := range extents {
			c.touch(o, space.Span{Addr: x.Addr, Size: x.Size}, x.Access)
		}
	})
}

// TaskWord records a task that writes a word or waits for one.
func (c *Checker) TaskWord(s *Stream, addr uint64, write bool) {
	c.do(func() {
		o := s.actor.by()
		c.word(&o, c.wordAt(addr), write)
	})
}

// wordAt returns the knowledge in a word. It includes earlier writers of these bytes.
func (c *Checker) wordAt(addr uint64) *Vector {
	w := c.words[addr]
	if w == nil {
		w = &Vector{}
		if r, ok := c.memory.accesses.Find(addr); ok && r.Value.write.call != nil {
			w.set(r.Value.write.n, r.Value.write.time)
		}
		c.words[addr] = w
	}
	return w
}

// Memory kinds.
const (
	DeviceMemory     = "device memory"
	ManagedBytes     = "managed memory"
	PoolMemory       = "memory of a pool"
	MappingMemory    = "a mapping"
	ImportedMemory   = "memory of another process"
	PinnedMemory     = "pinned host memory"
	RegisteredMemory = "registered host memory"
	ConditionWord    = "the word of a condition"
)

// Gets records memory that a call returns; Gone records memory of the given kinds that a call frees.
func (c *Checker) Gets(t *Thread, addr, n uint64, what string) {
	c.by(t, func(call *Call) {
		p := c.opts.Locate(addr)
		c.hold(call, space.Span{Addr: addr, Size: n}, what, p.Device < 0 && !p.Managed)
	})
}

func (c *Checker) Gone(t *Thread, addr uint64, what ...string) {
	c.by(t, func(call *Call) {
		if h, ok := c.memory.holdings.Find(addr); ok && slices.Contains(what, h.Value.what) {
			c.release(c.byHost(call), addr)
		}
	})
}

// Drops records freed memory of the runtime.
func (c *Checker) Drops(s space.Span) {
	c.do(func() { c.forget(s) })
}

// TaskFrees records memory that a task frees.
func (c *Checker) TaskFrees(s *Stream, addr uint64) {
	c.do(func() { c.release(s.actor.by(), addr) })
}

// Resets records a call that ends a context.
func (c *Checker) Resets(t *Thread) {
	c.by(t, func(call *Call) { c.objects.resetting = call })
}

// Failed records a failed task. After a failure a program may reset the device without freeing memory.
func (c *Checker) Failed(s *Stream) {
	c.do(func() { c.objects.failures[s.Device] = true })
}

// AllGone checks for leaks when a device's last context ends.
func (c *Checker) AllGone(d int32, live []space.Span, arena space.Span) {
	c.do(func() {
		for _, r := range live {
			if h, ok := c.memory.holdings.Find(r.Addr); ok && !c.objects.failures[d] {
				f := &Finding{Kind: Leak, Parts: []Part{{
					fmt.Sprintf("allocates %s of %s at %#x that is not freed before the device is reset", h.Value.what, human.Plural(h.Size, "byte"), h.Addr), h.Value.call}}}
				if c.objects.resetting != nil {
					f.Parts = append(f.Parts, Part{"ends the memory of the device", c.objects.resetting})
				}
				c.found(f)
			}
			c.forget(r)
		}
		c.forget(arena)
		delete(c.objects.failures, d)
	})
}
