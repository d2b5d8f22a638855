package sim

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
)

// What the runtime's functions tell the checker. All methods do nothing where strict mode is off. None may be called with the
// checker's lock held.

// Strict turns strict mode on.
type Strict struct {
	// Report is called with each finding when it is met first, on the thread that has met it, which waits. It calls nothing of the
	// simulator. Nil for none.
	Report func(*Finding)
}

// Findings returns what strict mode has found so far, in the order of finding.
func (s *Sim) Findings() []Finding {
	c := s.strict
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Finding
	for _, f := range c.order {
		all = append(all, *f)
	}
	return all
}

// EndStrict looks for what is left at the end of the process, and returns all findings.
func (s *Sim) EndStrict() []Finding {
	if c := s.strict; c != nil {
		c.mu.Lock()
		if s.life.inits.Load() > 0 && c.inits != nil {
			c.found(&Finding{Kind: Unbalanced, Parts: []Part{{"is followed by no aclFinalize before the end of the process", c.inits}}})
		}
		for _, x := range c.sources {
			if x.torn {
				c.compare(x, nil)
			}
		}
		c.leaks(nil)
		c.mu.Unlock()
	}
	return s.Findings()
}

// locked takes the lock, where strict mode is on.
func (c *checker) locked() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	return true
}

// lockedFor is locked for what a call tells, which it returns; nil where strict mode is off.
func (c *checker) lockedFor(t *Thread) *Call {
	if c == nil {
		return nil
	}
	call := t.call()
	c.mu.Lock()
	return call
}

// close ends the search.
func (c *checker) close() {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	c.closed = true
}

// enter counts a call of the thread's and returns the one that it is inside of.
func (c *checker) enter(t *Thread, fn api.ID) *Call {
	outer := t.inside
	t.inside = c.newCall(t, acl.Model.Func(fn).Name)
	return outer
}

func (c *checker) newCall(t *Thread, function string) *Call {
	c.mu.Lock()
	c.calls++
	n := c.calls
	c.mu.Unlock()
	t.calls++
	return &Call{Function: function, InThread: t.calls, InProcess: n, Thread: t.tid, Stream: -1}
}

// leave notes the handles that a successful call has made or found first.
func (c *checker) leave(t *Thread, fn api.ID, words []uint64, result uint64, outer *Call) {
	call := t.inside
	t.inside = outer
	f := acl.Model.Func(fn)
	if f.RetError && result != 0 {
		return
	}
	for i := range f.Params {
		p := &f.Params[i]
		switch w := words[p.Word]; {
		case (p.Role == api.New || p.Role == api.Find) && p.Words == 1 && w != 0 && p.Elem == 8:
			if h := *(*uint64)(device.Pointer(w)); device.KindOf(h) != 0 {
				c.mu.Lock()
				if c.made[h] == nil {
					c.made[h] = call
				}
				c.mu.Unlock()
			}
		case p.Role == api.End && device.KindOf(w) != 0:
			c.mu.Lock()
			delete(c.made, w)
			c.mu.Unlock()
		}
	}
}

// call is the call that the thread is in. One that was not made through Thread.Call is found on the stack.
func (t *Thread) call() *Call {
	if t.inside != nil {
		return t.inside
	}
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	name := ""
	for {
		f, more := frames.Next()
		if m, ok := strings.CutPrefix(f.Function, threadMethods); ok && m[0] >= 'A' && m[0] <= 'Z' {
			name = m
		} else if name != "" || !more {
			break
		}
	}
	return t.sim.strict.newCall(t, functionOf(name))
}

// waitingCall is the call by which the program waits; nil where there is no thread.
func (t *Thread) waitingCall() *Call {
	if t == nil {
		return nil
	}
	return t.call()
}

var threadMethods = reflect.TypeFor[Thread]().PkgPath() + ".(*Thread)."

// functionOf is the function of the runtime that a method of Thread is.
func functionOf(method string) string {
	for _, name := range []string{"aclrt" + method, "acl" + method, "acl" + strings.ToLower(method[:min(1, len(method))]) + method[min(1, len(method)):]} {
		if acl.Model.Lookup(name) != nil {
			return name
		}
	}
	return method
}

// on is the call with the stream that it names.
func (t *Thread) on(s *stream, kernel string) *Call {
	c := *t.call()
	c.Stream, c.Kernel = s.id, kernel
	return &c
}

// leakable are the kinds of objects that a program has to end, with their names.
var leakable = map[device.Kind]string{device.KindContext: "a context", device.KindStream: "a stream", device.KindEvent: "an event", device.KindImage: "a binary",
	device.KindBinary: "a loaded binary", device.KindGraph: "a model", device.KindNotify: "a notify", device.KindCounter: "a counting notify", device.KindPhysical: "physical memory", device.KindPool: "a memory pool"}

// leaks finds what lives still. end is the call that ends the runtime, nil at the end of the process. The caller holds the lock.
func (c *checker) leaks(end *Call) {
	when := "before aclFinalize"
	if end == nil {
		when = "before the end of the process"
	}
	type left struct {
		call *Call
		does string
	}
	var all []left
	for h, call := range c.made {
		if leakable[device.KindOf(h)] != "" && c.sim.live(h) {
			all = append(all, left{call, fmt.Sprintf("makes %s, %#x, that is not ended %s", leakable[device.KindOf(h)], h, when)})
		}
	}
	for _, r := range c.holdings.All() {
		if r.V.what == conditionWord { // the model is what leaks
			continue
		}
		all = append(all, left{r.V.call, fmt.Sprintf("makes %s of %d bytes at %#x that is not given back %s", r.V.what, r.Size, r.Addr, when)})
	}
	clear(c.made)
	c.holdings.Clear()
	slices.SortFunc(all, func(a, b left) int { return int(a.call.InProcess) - int(b.call.InProcess) })
	for _, l := range all {
		f := &Finding{Kind: Leak, Parts: []Part{{l.does, l.call}}}
		if end != nil {
			f.Parts = append(f.Parts, Part{"ends the runtime", end})
		}
		c.found(f)
	}
}

// initialized, finalized and notBalanced are what aclInit and aclFinalize tell.
func (c *checker) initialized(t *Thread) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	c.inits = call
}

func (c *checker) finalized(t *Thread) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	c.ends, c.inits = call, nil
	c.leaks(call)
}

func (c *checker) notBalanced(t *Thread) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	f := &Finding{Kind: Unbalanced, Parts: []Part{{"has no aclInit before it", call}}}
	if c.ends != nil {
		f.Parts = []Part{{"ends the runtime", c.ends}, {"ends it again", call}}
	}
	c.found(f)
}

// single reports a finding of a call of the thread's alone, and of the one that made an object where it is known.
func (c *checker) single(t *Thread, kind FindingKind, s *stream, kernel string, handle uint64, made, does string) {
	if c == nil {
		return
	}
	call := t.on(s, kernel)
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Finding{Kind: kind, Parts: []Part{{does, call}}}
	if m := c.made[handle]; m != nil {
		f.Parts = []Part{{made, m}, {does, call}}
	}
	c.found(f)
}

// pageable finds that a copy with pageable memory is called on a stream that is captured.
func (c *checker) pageable(t *Thread, s *stream, x *transfer) {
	if c == nil {
		return
	}
	p := s.program.capture.Load()
	if p == nil {
		return
	}
	call := t.on(s, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Finding{Kind: PageableInCapture, Parts: []Part{{fmt.Sprintf("copies %d bytes from %#x to %#x", x.width*x.height, x.src, x.dst), call}}}
	if p.call != nil {
		f.Parts = append(f.Parts, Part{"begins the capture", p.call})
	}
	c.found(f)
}

// submitted makes what is kept for a task.
func (c *checker) submitted(t *Thread, s *stream, k *task) *checked {
	call := t.on(s, k.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time++
	return &checked{call: call, host: c.host, at: c.time}
}

// begin is told when the turn of a task has come.
func (c *checker) begin(s *stream, k *task) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	if s.actor == nil {
		s.actor = c.newActor(nil)
	}
	if k.check == nil { // an internal one
		k.check = &checked{call: &Call{Function: string(k.kind), Stream: s.id}, host: c.host, at: c.time}
	}
	c.beginTask(s.actor, k.check)
}

// beginLane has the part of a model begin behind the task of another stream.
func (c *checker) beginLane(s, lane *stream) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	if s.actor == nil {
		s.actor = c.newActor(nil)
	}
	lane.actor = c.newActor(s.actor)
}

// endLanes has a stream go on behind the parts of a model.
func (c *checker) endLanes(s *stream, lanes []*stream) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	for _, l := range lanes {
		if l.actor != nil {
			s.actor.knows.join(l.actor.knows)
			c.endActor(l.actor)
			l.actor = nil
		}
	}
}

// done lets the host know all that a stream knows, by a call of the thread's (nil where the runtime itself waits).
func (c *checker) done(t *Thread, s *stream) {
	if c == nil {
		return
	}
	call := t.waitingCall()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.actor != nil {
		c.learn(s.actor.knows, call)
	}
}

// ended is the end of a stream, whose work was waited for.
func (c *checker) ended(s *stream) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	if s.actor != nil {
		c.endActor(s.actor)
		s.actor = nil
	}
}

// tells has something hold what the stream knows in its task; hears lets the stream know it.
func (c *checker) tells(s *stream, v *vector) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	v.join(s.actor.knows)
}

func (c *checker) hears(s *stream, v *vector) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	s.actor.knows.join(*v)
}

// knows lets the host know what a record tells.
func (c *checker) knows(t *Thread, v *vector) {
	if c == nil {
		return
	}
	call := t.waitingCall()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(*v, call)
}

// tellsOthers and hearsOthers are records and waits that other processes may stand between; the host hears by s nil.
func (c *checker) tellsOthers(s *stream) {
	if c != nil {
		c.tells(s, &c.world)
	}
}

func (c *checker) hearsOthers(s *stream) {
	switch {
	case c == nil:
	case s == nil:
		c.knows(nil, &c.world)
	default:
		c.hears(s, &c.world)
	}
}

// hostBegins lets the host, in a function of the program's, know all that the stream knows.
func (c *checker) hostBegins(s *stream) {
	if c == nil {
		return
	}
	c.done(nil, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hostRuns++
}

// hostReturns has the stream go on behind a function of the program's.
func (c *checker) hostReturns(s *stream) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	c.hostRuns++
	c.time++
	s.actor.knows.join(*c.host)
	s.actor.knows.set(0, c.time)
}

// taskTouches is an access of the task that a stream runs.
func (c *checker) taskTouches(s *stream, addr, n uint64, access uint32) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	c.touch(s.actor.by(), device.Span{Addr: addr, Size: n}, access)
}

// hostTouches is an access of a call that returns when it is done.
func (c *checker) hostTouches(t *Thread, addr, n uint64, access uint32) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	c.touch(c.byHost(call), device.Span{Addr: addr, Size: n}, access)
}

// rows calls a function for each side of each row.
func (x *transfer) rows(f func(s device.Span, access uint32)) {
	if x.height > maxRows {
		return
	}
	for i := range x.height {
		if x.staged == nil {
			f(device.Span{Addr: x.src + i*x.spitch, Size: x.width}, device.Read)
		}
		f(device.Span{Addr: x.dst + i*x.dpitch, Size: x.width}, device.Write)
	}
}

// hostCopies is a blocking copy.
func (c *checker) hostCopies(t *Thread, x *transfer) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	o := c.byHost(call)
	o.outs = x.outs()
	x.rows(func(s device.Span, access uint32) { c.touch(o, s, access) })
}

// watch hashes the host buffer that an asynchronous copy will read.
func (c *checker) watch(s *stream, x *transfer) *source {
	if c == nil || x.staged != nil || s.program.capture.Load() != nil || s.program.bound.Load() != nil || c.sim.locate(x.src).typ != acl.ACL_MEM_LOCATION_TYPE_HOST {
		return nil
	}
	w := &source{x: *x}
	c.mu.Lock()
	w.hostRuns, w.ordered = c.hostRuns, c.pending(x)
	if len(c.sources) == maxSources {
		c.sources = slices.Delete(c.sources, 0, maxSources/2)
	}
	c.sources = append(c.sources, w) // before it is hashed: a task that writes the buffer meanwhile finds it here
	c.mu.Unlock()
	sum, ok := c.sumOf(x)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.sum, w.ordered = sum, w.ordered || !ok
	return w
}

// pending tells whether a task that has begun to write the source of a copy is not known to be done.
func (c *checker) pending(x *transfer) bool {
	for at := c.memory.At(x.src); at.OK() && at.Get().Addr < x.src+x.spitch*x.height; at.Next() {
		if w := &at.Get().V.write; w.n != 0 && c.host.at(w.n) < w.time {
			return true
		}
	}
	return false
}

// taskCopies is an asynchronous copy as it runs.
func (c *checker) taskCopies(s *stream, x *transfer, w *source) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	a := s.actor
	o := a.by()
	if w != nil {
		w.call = a.task.call
		w.n, w.time = a.n, o.time
		if o.host > a.task.at {
			w.ordered = true // the copy is behind something that the host has done since
		}
		w.torn = c.differs(w)
	}
	from, to := c.sim.locate(x.src).dev, c.sim.locate(x.dst).dev
	if own := s.ctx.dev; (from != nil || to != nil) && from != own && to != own {
		d := from
		if d == nil {
			d = to
		}
		at := x.src
		if from == nil {
			at = x.dst
		}
		f := &Finding{Kind: WrongDevice, Parts: []Part{{
			fmt.Sprintf("copies %d bytes from %#x to %#x, memory of device %d, by a stream of device %d", x.width*x.height, x.src, x.dst, d.id, own.id), a.task.call}}}
		if h, ok := c.holdings.Find(at); ok {
			p := h.V.part()
			p.Does = "makes " + p.Does
			f.Parts = append(f.Parts, *p)
		}
		c.found(f)
	}
	o.outs = x.outs()
	x.rows(func(sp device.Span, access uint32) { c.touch(o, sp, access) })
}

// outs is what a copy writes, with the gaps between its rows.
func (x *transfer) outs() []device.Span {
	if x.height == 0 {
		return nil
	}
	return []device.Span{{Addr: x.dst, Size: (x.height-1)*x.dpitch + x.width}}
}

// kernelTouches is the accesses of a kernel.
func (c *checker) kernelTouches(s *stream, extents []device.Extent) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	o := s.actor.by()
	for _, x := range extents {
		if x.Access&device.Write != 0 && x.Size > 0 {
			o.outs = append(o.outs, device.Span{Addr: x.Addr, Size: x.Size})
		}
	}
	for _, x := range extents {
		c.touch(o, device.Span{Addr: x.Addr, Size: x.Size}, x.Access)
	}
}

// writesWord and readsWord are a task that writes a word that streams wait for, and one that has waited for it.
func (c *checker) writesWord(s *stream, addr uint64) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	o := s.actor.by()
	c.word(&o, c.wordAt(addr), true)
}

func (c *checker) readsWord(s *stream, addr uint64) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	o := s.actor.by()
	c.word(&o, c.wordAt(addr), false)
}

// wordAt is what is known to a word. Who wrote it before it was known as one is known too.
func (c *checker) wordAt(addr uint64) *vector {
	w := c.words[addr]
	if w == nil {
		w = &vector{}
		if r, ok := c.memory.Find(addr); ok && r.V.write.call != nil {
			w.set(r.V.write.n, r.V.write.time)
		}
		c.words[addr] = w
	}
	return w
}

// What memory is to the program.
const (
	deviceMemory     = "device memory"
	managedBytes     = "managed memory"
	poolMemory       = "memory of a pool"
	mappingMemory    = "a mapping"
	importedMemory   = "memory of another process"
	pinnedMemory     = "pinned host memory"
	registeredMemory = "registered host memory"
	conditionWord    = "the word of a condition"
)

// gets is memory that a call gives the program; gone memory, of one of some kinds, that one is about to end.
func (c *checker) gets(t *Thread, addr, n uint64, what string) {
	if c == nil {
		return
	}
	call := t.call()
	host := c.sim.locate(addr).dev == nil && !c.sim.managed.owns(addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold(call, device.Span{Addr: addr, Size: n}, what, host)
}

func (c *checker) gone(t *Thread, addr uint64, what ...string) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	if h, ok := c.holdings.Find(addr); ok && slices.Contains(what, h.V.what) {
		c.release(c.byHost(call), addr)
	}
}

// drops is memory of the runtime's own that ends.
func (c *checker) drops(s device.Span) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	c.forget(s)
}

// taskFrees is memory that a task ends.
func (c *checker) taskFrees(s *stream, addr uint64) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	c.release(s.actor.by(), addr)
}

// resets is told that a call ends a context of a device.
func (c *checker) resets(t *Thread) {
	call := c.lockedFor(t)
	if call == nil {
		return
	}
	defer c.mu.Unlock()
	c.resetting = call
}

// failed is told of a task that has failed: a program that resets the device then need not free its memory first.
func (c *checker) failed(s *stream) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	c.failures[s.ctx.dev] = true
}

// allGone is the end of a device's memory with its last context. What the program has not freed is a leak.
func (c *checker) allGone(d *npu) {
	if !c.locked() {
		return
	}
	defer c.mu.Unlock()
	for _, r := range d.mem.live.All() {
		if h, ok := c.holdings.Find(r.Addr); ok && !c.failures[d] {
			f := &Finding{Kind: Leak, Parts: []Part{{
				fmt.Sprintf("makes %s of %d bytes at %#x that is not given back before the device is reset", h.V.what, h.Size, h.Addr), h.V.call}}}
			if c.resetting != nil {
				f.Parts = append(f.Parts, Part{"ends the memory of the device", c.resetting})
			}
			c.found(f)
		}
		c.forget(r.Span)
	}
	c.forget(device.Span{Addr: d.mem.base, Size: d.mem.end - d.mem.base})
	delete(c.failures, d)
}
