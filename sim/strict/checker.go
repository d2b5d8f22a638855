package strict

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/acltrace/acltrace/sim/device/space"
)

// Vector is how far each actor is done, by number. The host's number is 0.
type Vector []uint64

func (v Vector) at(n int) uint64 {
	if n < len(v) {
		return v[n]
	}
	return 0
}

// set raises what is known of one actor.
func (v *Vector) set(n int, to uint64) {
	for len(*v) <= n {
		*v = append(*v, 0)
	}
	(*v)[n] = max((*v)[n], to)
}

func (v *Vector) join(o Vector) {
	for n, c := range o {
		if c > v.at(n) {
			v.set(n, c)
		}
	}
}

// actor is a stream, or a part of a model that runs.
type actor struct {
	n     int
	knows Vector
	seen  *Vector // of the host's, joined last
	task  *Task
	via   *Call // that runs the model
}

// checked is what is kept for a task.
type Task struct {
	call *Call
	host *Vector // what the host knew at the call
	at   uint64  // time of the host at the call
}

// observer is who touches memory.
type observer struct {
	n     int
	time  uint64 // of its own
	host  uint64 // how far it knows the host
	knows *Vector
	call  *Call
	outs  []space.Span // that it writes from what it reads
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
	space.Span
	write bool
	n     int // of the actor
	time  uint64
	call  *Call
	outs  []space.Span // of a read: what is written from it
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
	space.Span
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
type Source struct {
	x        Copy
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

// Checker is strict mode. A nil Checker checks nothing.
type Checker struct {
	opts Options
	seed maphash.Seed

	mu       sync.Mutex
	calls    uint64
	time     uint64  // of the host
	host     *Vector // what the host knows; replaced, never changed
	hostRuns uint64  // host functions that have begun or returned
	times    []uint64
	idle     []int              // numbers of actors that have ended
	words    map[uint64]*Vector // of value writes and waits, which order streams
	world    Vector             // known to other processes
	sources  []*Source
	memory   Memory
	objects  objects
	findings findings
}

// Options connect a checker with the runtime.
type Options struct {
	// Report is called with each new finding, on the thread that has met it, which waits. It calls nothing of the runtime. Nil for none.
	Report func(*Finding)
	// Function returns the name of the function of the runtime that the caller is in.
	Function func() string
	// Live reports whether a handle is that of a live object.
	Live func(handle uint64) bool
	// Locate returns where an address lies.
	Locate func(addr uint64) Place
	// Race marks memory that was written from memory found in a race.
	Race func(written []space.Span)
}

// Place is where memory lies.
type Place struct {
	Device  int32 // -1 for none
	Pinned  bool  // host memory that the runtime knows
	Managed bool
}

// memory is what is known about addresses.
type Memory struct {
	accesses space.Regions[*cell]
	holdings space.Regions[*holding]
	freed    space.Regions[*holding]
	oldest   []*holding              // freed memory, oldest first
	racy     space.Regions[struct{}] // live memory that was found in a race
}

// objects are the beginning and the end of the program's objects.
type objects struct {
	inits     *Call
	ends      *Call
	made      map[uint64]*Call // handles, by the call that made them
	failures  map[int32]bool   // devices on which a task has failed
	resetting *Call            // the last one that has ended a context
}

// New makes a checker.
func New(o Options) *Checker {
	return &Checker{opts: o, seed: maphash.MakeSeed(), host: &Vector{}, times: []uint64{0}, words: map[uint64]*Vector{},
		objects:  objects{made: map[uint64]*Call{}, failures: map[int32]bool{}},
		findings: findings{byKey: map[string]*Finding{}}}
}

// Stream is what a checker knows about a stream.
type Stream struct {
	ID     int32
	Device int32
	actor  *actor // under the lock of the checker
}

// Part returns the stream without what its tasks know: a part of a model runs under the number of the stream.
func (s *Stream) Part() Stream { return Stream{ID: s.ID, Device: s.Device} }

// Thread is what a checker knows about a thread.
type Thread struct {
	ID     uint32 // as the system knows it
	inside *Call
	calls  uint64
}

// Copy is a copy of rows.
type Copy struct {
	Dst, Src       uint64
	Width, Height  uint64
	DPitch, SPitch uint64
	Staged         bool // the bytes were taken at the call
}

// newActor makes an actor that knows what another one does. The caller holds the lock.
func (c *Checker) newActor(from *actor) *actor {
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
func (c *Checker) endActor(a *actor) { c.idle = append(c.idle, a.n) }

// beginTask is the begin of a task of an actor's.
func (c *Checker) beginTask(a *actor, k *Task) {
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
		a.task = &Task{call: &call, host: k.host, at: k.at}
	}
}

// learn lets the host know what is known elsewhere, by a call (nil where that is not known). Buffers whose copies are now known to
// be done may change from here on.
func (c *Checker) learn(v Vector, by *Call) {
	old := *c.host
	if !slices.ContainsFunc(indexes(v), func(n int) bool { return n > 0 && v[n] > old.at(n) }) {
		return
	}
	grown := slices.Clone(old)
	grown.join(v)
	c.host = &grown
	c.sources = slices.DeleteFunc(c.sources, func(x *Source) bool {
		done := x.call != nil && grown.at(x.n) >= x.time
		if done {
			c.compare(x, by)
		}
		return done
	})
}

func indexes(v Vector) []int {
	all := make([]int, len(v))
	for n := range all {
		all[n] = n
	}
	return all
}

// byHost is the host as it makes an access.
func (c *Checker) byHost(call *Call) observer {
	c.time++
	return observer{time: c.time, host: c.time, knows: c.host, call: call}
}

// by is an actor in its task.
func (a *actor) by() observer {
	return observer{n: a.n, time: a.knows[a.n], host: a.knows.at(0), knows: &a.knows, call: a.task.call}
}

// touch is an access to a range.
func (c *Checker) touch(o observer, s space.Span, access uint32) {
	if s.Size == 0 || s.Addr+s.Size < s.Addr {
		return
	}
	u := accessed{Span: s, write: access&space.Write != 0, n: o.n, time: o.time, call: o.call}
	if access&space.Read != 0 {
		u.outs = o.outs
	}
	if !c.alive(&o, &u) {
		return
	}
	if u.write {
		for _, x := range c.sources {
			if x.x.Src < s.End() && s.Addr < x.x.Src+x.x.SPitch*x.x.Height {
				x.ordered = true
			}
		}
	}
	c.wordsIn(s, func(w *Vector) { c.word(&o, w, u.write) })
	c.cut(s.Addr)
	c.cut(s.End())
	next := s.Addr
	var whole *cell // of all of the range, where there is one already
	count := 0
	for at := c.memory.accesses.At(s.Addr); at.OK() && at.Get().Addr < s.End(); at.Next() {
		r := at.Get()
		if r.Addr > next {
			c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: next, Size: r.Addr - next}, V: newCell(u)})
			count++
		}
		next = r.End()
		c.against(&o, &u, r)
		r.V.add(&o, u)
		whole = r.V
		count++
	}
	if next < s.End() {
		c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: next, Size: s.End() - next}, V: newCell(u)})
		count++
	}
	if count > 1 && u.write {
		space.TakeOut(&c.memory.accesses, s)
		if whole == nil {
			whole = &cell{}
		}
		*whole = *newCell(u)
		c.memory.accesses.Insert(space.Region[*cell]{Span: s, V: whole})
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
func (c *Checker) against(o *observer, u *accessed, r space.Region[*cell]) {
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
func (c *Checker) conflict(a, b *accessed, at space.Span) {
	if c.isWord(at) {
		return
	}
	f := &Finding{Kind: StreamRace, Parts: []Part{a.part(), b.part()}}
	h, ok := c.memory.holdings.Find(at.Addr)
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
func (c *Checker) race(at space.Span, outs []space.Span) {
	from, to := at.Addr, at.End()
	for _, r := range space.TakeOut(&c.memory.racy, at) {
		from, to = min(from, r.Addr), max(to, r.End())
	}
	c.memory.racy.Insert(space.Region[struct{}]{Span: space.Span{Addr: from, Size: to - from}})
	c.opts.Race(outs)
}

// Racy reports whether some memory in a range was found in a race.
func (c *Checker) Racy(s space.Span) bool {
	if c == nil {
		return false
	}
	at := c.memory.racy.At(s.Addr)
	return at.OK() && at.Get().Addr < s.End()
}

// alive tells whether there is memory at an access that is to be looked at, and finds that it was freed.
func (c *Checker) alive(o *observer, u *accessed) bool {
	if h, ok := c.memory.holdings.Find(u.Addr); ok {
		if o.n != 0 && o.host < h.V.since && h.V.old != nil {
			c.lost(o, u, h.V.old) // what lay here when the task was called has been freed since
			return false
		}
		return true
	}
	if h, ok := c.memory.freed.Find(u.Addr); ok && (o.n != 0 || !h.V.host) {
		c.lost(o, u, h.V)
	}
	return false
}

// lost is an access to memory that has been freed.
func (c *Checker) lost(o *observer, u *accessed, h *holding) {
	kind := FreedInFlight
	if o.after(h.freed) {
		kind = UseAfterFree
	}
	c.found(&Finding{Kind: kind, Parts: []Part{{"frees it", h.freed.call}, u.part()}, Memory: h.part()})
}

// cut makes a range begin at an address.
func (c *Checker) cut(addr uint64) {
	r, ok := c.memory.accesses.Find(addr)
	if !ok || r.Addr == addr {
		return
	}
	c.memory.accesses.Remove(r.Addr)
	c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: r.Addr, Size: addr - r.Addr}, V: r.V})
	c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: addr, Size: r.End() - addr}, V: &cell{r.V.write, slices.Clone(r.V.reads)}})
}

// hold is memory that the program gets.
func (c *Checker) hold(call *Call, s space.Span, what string, host bool) {
	c.time++
	h := &holding{Span: s, what: what, host: host, call: call, since: c.time}
	for _, r := range space.TakeOut(&c.memory.freed, s) {
		h.old = r.V
		h.old.old = nil
	}
	c.forget(s)
	c.memory.holdings.Insert(space.Region[*holding]{Span: s, V: h})
}

// release is the end of memory that begins at an address. Whoever is not known to be done with it uses it in flight.
func (c *Checker) release(o observer, addr uint64) {
	r, ok := c.memory.holdings.Find(addr)
	if !ok || r.Addr != addr {
		return
	}
	h := r.V
	u := &accessed{Span: h.Span, write: true, n: o.n, time: o.time, call: o.call}
	for at := c.memory.accesses.At(addr); at.OK() && at.Get().Addr < h.End(); at.Next() {
		l := at.Get().V
		for _, x := range append(slices.Clone(l.reads), l.write) {
			if x.call != nil && !o.after(&x) {
				c.found(&Finding{Kind: FreedInFlight, Parts: []Part{x.part(), {"frees it", o.call}}, Memory: h.part()})
			}
		}
	}
	c.sources = slices.DeleteFunc(c.sources, func(x *Source) bool {
		inside := h.Holds(x.x.Src, 1)
		if inside && x.call != nil {
			c.compare(x, o.call)
		}
		return inside
	})
	c.forget(h.Span)
	h.freed, h.old = u, nil
	c.memory.freed.Insert(space.Region[*holding]{Span: h.Span, V: h})
	if c.memory.oldest = append(c.memory.oldest, h); len(c.memory.oldest) > maxFreed {
		old := c.memory.oldest[0]
		c.memory.oldest[0] = nil
		c.memory.oldest = c.memory.oldest[1:]
		if f, ok := c.memory.freed.Find(old.Addr); ok && f.V == old {
			c.memory.freed.Remove(old.Addr)
		}
	}
}

// forget drops all that is known about a range.
func (c *Checker) forget(s space.Span) {
	c.cut(s.Addr)
	c.cut(s.End())
	space.TakeOut(&c.memory.accesses, s)
	space.TakeOut(&c.memory.holdings, s)
	for _, r := range space.TakeOut(&c.memory.racy, s) { // its neighbours stay
		if r.Addr < s.Addr {
			c.memory.racy.Insert(space.Region[struct{}]{Span: space.Span{Addr: r.Addr, Size: s.Addr - r.Addr}})
		}
		if r.End() > s.End() {
			c.memory.racy.Insert(space.Region[struct{}]{Span: space.Span{Addr: s.End(), Size: r.End() - s.End()}})
		}
	}
	for addr := range c.words {
		if s.Holds(addr, 1) {
			delete(c.words, addr)
		}
	}
}

// wordsIn calls a function for each word in a range that streams wait for.
func (c *Checker) wordsIn(s space.Span, f func(w *Vector)) {
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
func (c *Checker) word(o *observer, w *Vector, write bool) {
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

func (c *Checker) isWord(s space.Span) bool {
	if s.Size > 8 || len(c.words) == 0 {
		return false
	}
	_, ok := c.words[s.Addr/8*8]
	return ok && s.End() <= s.Addr/8*8+8
}

// sumOf hashes the bytes that a copy reads; false where they can't be read.
func (c *Checker) sumOf(x *Copy) (uint64, bool) {
	var h maphash.Hash
	h.SetSeed(c.seed)
	err := space.Guard(func() {
		for i := range x.Height {
			h.Write(space.Bytes(x.Src+i*x.SPitch, x.Width))
		}
	})
	return h.Sum64(), err == nil
}

// differs tells whether the program has changed a host buffer since the call of the copy from it.
func (c *Checker) differs(x *Source) bool {
	if x.ordered || x.hostRuns != c.hostRuns {
		return false
	}
	sum, ok := c.sumOf(&x.x)
	return ok && sum != x.sum
}

// compare finds that the program has changed a host buffer before a call by which it knows that the copy is done.
func (c *Checker) compare(x *Source, by *Call) {
	if !x.torn && !c.differs(x) {
		return
	}
	f := &Finding{Kind: HostBufferReused, Parts: []Part{{fmt.Sprintf("reads %d bytes at %#x", x.x.Width*x.x.Height, x.x.Src), x.call}}}
	if by != nil {
		f.Parts = append(f.Parts, Part{"is the first that waits for the copy; the program has changed the bytes before", by})
	}
	if h, ok := c.memory.holdings.Find(x.x.Src); ok {
		f.Memory = h.V.part()
	}
	c.found(f)
}
