package sim

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/acltrace/acltrace/sim/device"
)

// Strict mode finds what a runtime may let pass and a device punishes later. Its core is a happens-before checker. Actors are the
// streams, each with a clock that counts its tasks, and the host. An actor knows, for each actor, how far that is done for sure: a
// stream knows what the host knew when the task was submitted, and what a record that it waited for knew; the host knows what it
// has synchronized with. Each access of a task, a blocking copy or a free is held against the last accesses to the same bytes: where
// one of two writes, the earlier one must be known to the actor of the later one. So a mistake is found in whatever order the two
// happened to run.
//
// All threads of the program are one actor: what one of them has waited for is done for the others too, since the locks by which
// they tell each other can't be seen. Host functions belong to the host and are in the order of their streams.
//
// What the program itself does with host memory can't be seen either. The bytes of a pinned buffer are hashed when an asynchronous
// copy from it is called, when it runs, and when the host first knows that it is done: they have to be the same.
//
// The file strictcalls.go holds what the functions of the runtime tell the checker.

// vector is how far each actor is done, by number. The host's number is 0.
type vector []uint64

func (v vector) at(n int) uint64 {
	if n < len(v) {
		return v[n]
	}
	return 0
}

// set raises what is known of one actor.
func (v *vector) set(n int, to uint64) {
	for len(*v) <= n {
		*v = append(*v, 0)
	}
	(*v)[n] = max((*v)[n], to)
}

func (v *vector) join(o vector) {
	for n, c := range o {
		if c > v.at(n) {
			v.set(n, c)
		}
	}
}

// actor is a stream, or a part of a model that runs.
type actor struct {
	n     int
	knows vector
	seen  *vector // of the host's, joined last
	task  *checked
	via   *Call // that runs the model
}

// checked is what is kept for a task.
type checked struct {
	call *Call
	host *vector // what the host knew at the call
	at   uint64  // time of the host at the call
}

// observer is who touches memory.
type observer struct {
	n     int
	time  uint64 // of its own
	host  uint64 // how far it knows the host
	knows *vector
	call  *Call
	outs  []device.Span // that it writes from what it reads
}

// after tells whether an access is done for the observer.
func (o *observer) after(u *accessed) bool {
	if u.n == 0 {
		return o.host >= u.time
	}
	return o.knows.at(u.n) >= u.time
}

// accessed is one access to memory.
type accessed struct {
	device.Span
	write bool
	n     int // of the actor
	time  uint64
	call  *Call
	outs  []device.Span // of a read: what is written from it
}

func (u *accessed) part() Part {
	verb := "reads"
	if u.write {
		verb = "writes"
	}
	return Part{fmt.Sprintf("%s %d bytes at %#x", verb, u.Size, u.Addr), u.call}
}

// cell is the last accesses to a range of bytes: a write, and the reads since then that no other access is known to follow.
type cell struct {
	write accessed
	reads []accessed
}

// holding is memory that the program has, or had until it was freed.
type holding struct {
	device.Span
	what  string
	host  bool // the host's memory
	call  *Call
	since uint64    // time of the host
	freed *accessed // nil while it lives
	old   *holding
}

func (h *holding) part() *Part {
	return &Part{fmt.Sprintf("%s of %d bytes at %#x", h.what, h.Size, h.Addr), h.call}
}

// source is a host buffer that an asynchronous copy reads.
type source struct {
	x        transfer
	sum      uint64
	hostRuns uint64 // of host functions, at the call
	ordered  bool   // whoever may have changed it was in the order of the streams, or is an access like any other
	torn     bool   // it had changed when the copy ran
	n        int    // of the actor, once the copy has run
	time     uint64
	call     *Call
}

const (
	// maxSources bounds the host buffers that are watched, maxFreed the freed memory that is remembered: the oldest are forgotten.
	maxSources = 4096
	maxFreed   = 16384
	// maxRows bounds the rows of a 2-D copy that are looked at one by one; a copy of more is not looked at.
	maxRows = 1 << 16
)

// checker is strict mode. It is nil where that is off.
type checker struct {
	sim    *Sim
	report func(*Finding)
	seed   maphash.Seed

	mu        sync.Mutex
	calls     uint64
	time      uint64  // of the host
	host      *vector // what the host knows; replaced, never changed
	times     []uint64
	idle      []int // numbers of actors that have ended
	memory    device.Regions[*cell]
	holdings  device.Regions[*holding]
	freed     device.Regions[*holding]
	racy      device.Regions[struct{}] // live memory that was found in a race
	freedOld  []*holding
	sources   []*source
	hostRuns  uint64
	words     map[uint64]*vector // of value writes and waits, which order streams
	world     vector             // what was told to other processes
	inits     *Call
	ends      *Call
	made      map[uint64]*Call // handles, by the call that made them
	failures  map[*npu]bool    // devices on which a task has failed
	resetting *Call            // the last one that has ended a context
	closed    bool
	findings  map[string]*Finding
	order     []*Finding
}

func newChecker(s *Sim, report func(*Finding)) *checker {
	return &checker{sim: s, report: report, seed: maphash.MakeSeed(), host: &vector{}, times: []uint64{0},
		words: map[uint64]*vector{}, made: map[uint64]*Call{}, failures: map[*npu]bool{}, findings: map[string]*Finding{}}
}

// found counts a finding and reports it if it is new. The caller holds the lock.
func (c *checker) found(f *Finding) {
	if c.closed {
		return
	}
	if len(f.Parts) == 2 && f.Parts[1].Call.InProcess < f.Parts[0].Call.InProcess {
		f.Parts[0], f.Parts[1] = f.Parts[1], f.Parts[0]
	}
	k := f.key()
	if old := c.findings[k]; old != nil {
		old.Count++
		return
	}
	f.Count = 1
	c.findings[k] = f
	c.order = append(c.order, f)
	if c.report != nil {
		c.report(f)
	}
}

// newActor makes an actor that knows what another one does. The caller holds the lock.
func (c *checker) newActor(from *actor) *actor {
	a := &actor{}
	if n := len(c.idle); n > 0 {
		a.n, c.idle = c.idle[n-1], c.idle[:n-1]
	} else {
		a.n = len(c.times)
		c.times = append(c.times, 0)
	}
	if from != nil {
		a.knows = slices.Clone(from.knows)
		a.via = from.task.call
	}
	a.knows.set(a.n, c.times[a.n])
	return a
}

// endActor lets another one have the actor's number.
func (c *checker) endActor(a *actor) { c.idle = append(c.idle, a.n) }

// beginTask is the begin of a task of an actor's.
func (c *checker) beginTask(a *actor, k *checked) {
	if k.host != a.seen {
		a.knows.join(*k.host)
		a.seen = k.host
	}
	a.knows.set(0, k.at)
	c.times[a.n]++
	a.knows.set(a.n, c.times[a.n])
	a.task = k
	if a.via != nil {
		call := *k.call
		call.via = a.via
		a.task = &checked{call: &call, host: k.host, at: k.at}
	}
}

// learn lets the host know what is known elsewhere, by a call (nil where that is not known). Buffers whose copies are now known to
// be done may change from here on.
func (c *checker) learn(v vector, by *Call) {
	old := *c.host
	if !slices.ContainsFunc(indexes(v), func(n int) bool { return n > 0 && v[n] > old.at(n) }) {
		return
	}
	grown := slices.Clone(old)
	grown.join(v)
	c.host = &grown
	c.sources = slices.DeleteFunc(c.sources, func(x *source) bool {
		done := x.call != nil && grown.at(x.n) >= x.time
		if done {
			c.compare(x, by)
		}
		return done
	})
}

func indexes(v vector) []int {
	all := make([]int, len(v))
	for n := range all {
		all[n] = n
	}
	return all
}

// byHost is the host as it makes an access.
func (c *checker) byHost(call *Call) observer {
	c.time++
	return observer{time: c.time, host: c.time, knows: c.host, call: call}
}

// by is an actor in its task.
func (a *actor) by() observer {
	return observer{n: a.n, time: a.knows[a.n], host: a.knows.at(0), knows: &a.knows, call: a.task.call}
}

// touch is an access to a range.
func (c *checker) touch(o observer, s device.Span, access uint32) {
	if s.Size == 0 || s.Addr+s.Size < s.Addr {
		return
	}
	u := accessed{Span: s, write: access&device.Write != 0, n: o.n, time: o.time, call: o.call}
	if access&device.Read != 0 {
		u.outs = o.outs
	}
	if !c.alive(&o, &u) {
		return
	}
	if u.write {
		for _, x := range c.sources {
			if x.x.src < s.End() && s.Addr < x.x.src+x.x.spitch*x.x.height {
				x.ordered = true
			}
		}
	}
	c.wordsIn(s, func(w *vector) { c.word(&o, w, u.write) })
	c.cut(s.Addr)
	c.cut(s.End())
	next := s.Addr
	var whole *cell // of all of the range, where there is one already
	count := 0
	for at := c.memory.At(s.Addr); at.OK() && at.Get().Addr < s.End(); at.Next() {
		r := at.Get()
		if r.Addr > next {
			c.memory.Insert(device.Region[*cell]{Span: device.Span{Addr: next, Size: r.Addr - next}, V: newCell(u)})
			count++
		}
		next = r.End()
		c.against(&o, &u, r)
		r.V.add(&o, u)
		whole = r.V
		count++
	}
	if next < s.End() {
		c.memory.Insert(device.Region[*cell]{Span: device.Span{Addr: next, Size: s.End() - next}, V: newCell(u)})
		count++
	}
	if count > 1 && u.write {
		device.TakeOut(&c.memory, s)
		if whole == nil {
			whole = &cell{}
		}
		*whole = *newCell(u)
		c.memory.Insert(device.Region[*cell]{Span: s, V: whole})
	}
}

func newCell(u accessed) *cell {
	if u.write {
		return &cell{write: u}
	}
	return &cell{reads: []accessed{u}}
}

// add notes an access. What is known to be before it need not be kept beside it.
func (l *cell) add(o *observer, u accessed) {
	if u.write {
		l.write, l.reads = u, l.reads[:0]
		return
	}
	l.reads = slices.DeleteFunc(l.reads, func(r accessed) bool { return o.after(&r) })
	l.reads = append(l.reads, u)
}

// against holds an access against the last ones to a range.
func (c *checker) against(o *observer, u *accessed, r device.Region[*cell]) {
	if w := &r.V.write; w.call != nil && !o.after(w) {
		c.conflict(w, u, r.Span)
		return
	}
	if !u.write {
		return
	}
	for i := range r.V.reads {
		if x := &r.V.reads[i]; !o.after(x) {
			c.conflict(x, u, r.Span)
			return
		}
	}
}

// conflict is two accesses without an order.
func (c *checker) conflict(a, b *accessed, at device.Span) {
	if c.isWord(at) {
		return
	}
	f := &Finding{Kind: StreamRace, Parts: []Part{a.part(), b.part()}}
	h, ok := c.holdings.Find(at.Addr)
	if ok {
		f.Memory = h.V.part()
	}
	if a.n == 0 || b.n == 0 {
		f.Kind = MissingSync
		host, task := a, b
		if b.n == 0 {
			host, task = b, a
		}
		if ok && h.V.host && host.write && !task.write {
			f.Kind = HostBufferReused
		}
	}
	c.found(f)
	c.race(at, a.outs)
}

// race notes memory that was found in a race, and marks what the earlier task has written from it.
func (c *checker) race(at device.Span, outs []device.Span) {
	from, to := at.Addr, at.End()
	for _, r := range device.TakeOut(&c.racy, at) {
		from, to = min(from, r.Addr), max(to, r.End())
	}
	c.racy.Insert(device.Region[struct{}]{Span: device.Span{Addr: from, Size: to - from}})
	name := RaceMark
	for _, s := range outs {
		c.sim.mark(s, &name)
	}
	c.sim.unknowns.any.Store(true)
}

// isRacy reports whether some memory in a range was found in a race.
func (c *checker) isRacy(s device.Span) bool {
	if c == nil {
		return false
	}
	at := c.racy.At(s.Addr)
	return at.OK() && at.Get().Addr < s.End()
}

// alive tells whether there is memory at an access that is to be looked at, and finds that it was freed.
func (c *checker) alive(o *observer, u *accessed) bool {
	if h, ok := c.holdings.Find(u.Addr); ok {
		if o.n != 0 && o.host < h.V.since && h.V.old != nil {
			c.lost(o, u, h.V.old) // what lay here when the task was called has been freed since
			return false
		}
		return true
	}
	if h, ok := c.freed.Find(u.Addr); ok && (o.n != 0 || !h.V.host) {
		c.lost(o, u, h.V)
	}
	return false
}

// lost is an access to memory that has been freed.
func (c *checker) lost(o *observer, u *accessed, h *holding) {
	kind := FreedInFlight
	if o.after(h.freed) {
		kind = UseAfterFree
	}
	c.found(&Finding{Kind: kind, Parts: []Part{{"frees it", h.freed.call}, u.part()}, Memory: h.part()})
}

// cut makes a range begin at an address.
func (c *checker) cut(addr uint64) {
	r, ok := c.memory.Find(addr)
	if !ok || r.Addr == addr {
		return
	}
	c.memory.Remove(r.Addr)
	c.memory.Insert(device.Region[*cell]{Span: device.Span{Addr: r.Addr, Size: addr - r.Addr}, V: r.V})
	c.memory.Insert(device.Region[*cell]{Span: device.Span{Addr: addr, Size: r.End() - addr}, V: &cell{r.V.write, slices.Clone(r.V.reads)}})
}

// hold is memory that the program gets.
func (c *checker) hold(call *Call, s device.Span, what string, host bool) {
	c.time++
	h := &holding{Span: s, what: what, host: host, call: call, since: c.time}
	for _, r := range device.TakeOut(&c.freed, s) {
		h.old = r.V
		h.old.old = nil
	}
	c.forget(s)
	c.holdings.Insert(device.Region[*holding]{Span: s, V: h})
}

// release is the end of memory that begins at an address. Whoever is not known to be done with it uses it in flight.
func (c *checker) release(o observer, addr uint64) {
	r, ok := c.holdings.Find(addr)
	if !ok || r.Addr != addr {
		return
	}
	h := r.V
	u := &accessed{Span: h.Span, write: true, n: o.n, time: o.time, call: o.call}
	for at := c.memory.At(addr); at.OK() && at.Get().Addr < h.End(); at.Next() {
		l := at.Get().V
		for _, x := range append(slices.Clone(l.reads), l.write) {
			if x.call != nil && !o.after(&x) {
				c.found(&Finding{Kind: FreedInFlight, Parts: []Part{x.part(), {"frees it", o.call}}, Memory: h.part()})
			}
		}
	}
	c.sources = slices.DeleteFunc(c.sources, func(x *source) bool {
		inside := h.Holds(x.x.src, 1)
		if inside && x.call != nil {
			c.compare(x, o.call)
		}
		return inside
	})
	c.forget(h.Span)
	h.freed, h.old = u, nil
	c.freed.Insert(device.Region[*holding]{Span: h.Span, V: h})
	if c.freedOld = append(c.freedOld, h); len(c.freedOld) > maxFreed {
		old := c.freedOld[0]
		c.freedOld[0] = nil
		c.freedOld = c.freedOld[1:]
		if f, ok := c.freed.Find(old.Addr); ok && f.V == old {
			c.freed.Remove(old.Addr)
		}
	}
}

// forget drops all that is known about a range.
func (c *checker) forget(s device.Span) {
	c.cut(s.Addr)
	c.cut(s.End())
	device.TakeOut(&c.memory, s)
	device.TakeOut(&c.holdings, s)
	for _, r := range device.TakeOut(&c.racy, s) { // its neighbours stay
		if r.Addr < s.Addr {
			c.racy.Insert(device.Region[struct{}]{Span: device.Span{Addr: r.Addr, Size: s.Addr - r.Addr}})
		}
		if r.End() > s.End() {
			c.racy.Insert(device.Region[struct{}]{Span: device.Span{Addr: s.End(), Size: r.End() - s.End()}})
		}
	}
	for addr := range c.words {
		if s.Holds(addr, 1) {
			delete(c.words, addr)
		}
	}
}

// wordsIn calls a function for each word in a range that streams wait for.
func (c *checker) wordsIn(s device.Span, f func(w *vector)) {
	if s.Size/8 > uint64(len(c.words)) {
		for addr, w := range c.words {
			if addr+8 > s.Addr && addr < s.End() {
				f(w)
			}
		}
		return
	}
	for addr := s.Addr / 8 * 8; len(c.words) > 0 && addr < s.End(); addr += 8 {
		if w := c.words[addr]; w != nil {
			f(w)
		}
	}
}

// word is an access to a word that streams wait for: who reads it knows what those who have written it knew.
func (c *checker) word(o *observer, w *vector, write bool) {
	if write {
		w.join(*o.knows)
		w.set(0, o.host)
		w.set(o.n, o.time)
		return
	}
	if o.n == 0 {
		c.learn(*w, o.call)
		o.knows = c.host
		return
	}
	o.knows.join(*w)
	o.host = o.knows.at(0)
}

func (c *checker) isWord(s device.Span) bool {
	if s.Size > 8 || len(c.words) == 0 {
		return false
	}
	_, ok := c.words[s.Addr/8*8]
	return ok && s.End() <= s.Addr/8*8+8
}

// sumOf hashes the bytes that a copy reads; false where they can't be read.
func (c *checker) sumOf(x *transfer) (uint64, bool) {
	var h maphash.Hash
	h.SetSeed(c.seed)
	err := device.Guard(func() {
		for i := range x.height {
			h.Write(device.Bytes(x.src+i*x.spitch, x.width))
		}
	})
	return h.Sum64(), err == nil
}

// differs tells whether the program has changed a host buffer since the call of the copy from it.
func (c *checker) differs(x *source) bool {
	if x.ordered || x.hostRuns != c.hostRuns {
		return false
	}
	sum, ok := c.sumOf(&x.x)
	return ok && sum != x.sum
}

// compare finds that the program has changed a host buffer before a call by which it knows that the copy is done.
func (c *checker) compare(x *source, by *Call) {
	if !x.torn && !c.differs(x) {
		return
	}
	f := &Finding{Kind: HostBufferReused, Parts: []Part{{fmt.Sprintf("reads %d bytes at %#x", x.x.width*x.x.height, x.x.src), x.call}}}
	if by != nil {
		f.Parts = append(f.Parts, Part{"is the first that waits for the copy; the program has changed the bytes before", by})
	}
	if h, ok := c.holdings.Find(x.x.src); ok {
		f.Memory = h.V.part()
	}
	c.found(f)
}
