package strict

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Vector is each actor's known progress, by number. The host is number 0.
type Vector []uint64

func (v Vector) at(n int) uint64 {
	if n < len(v) {
		return v[n]
	}
	return 0
}

// set raises the known progress of one actor.
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

// actor is a stream or a running graph lane.
type actor struct {
	n     int
	knows Vector
	seen  *Vector // host knowledge joined last
	task  *Task
	via   *Call // call that runs the model
}

// Task is the state for a task.
type Task struct {
	call *Call
	host *Vector // host knowledge at the call
	at   uint64  // host time at the call
}

// observer is an actor that makes an access.
type observer struct {
	n     int
	time  uint64 // own time
	host  uint64 // known host time
	knows *Vector
	call  *Call
	outs  []space.Span // memory written from the bytes it reads
}

// after reports whether the observer knows an access to be done.
func (o *observer) after(u *accessed) bool {
	if u.n == 0 {
		return o.host >= u.time
	}
	return o.knows.at(u.n) >= u.time
}

// accessed is one access.
type accessed struct {
	space.Span
	write bool
	n     int // actor number
	time  uint64
	call  *Call
	outs  []space.Span // of a read: memory written from it
}

func (u *accessed) part() Part {
	verb := "reads"
	if u.write {
		verb = "writes"
	}
	return Part{fmt.Sprintf("%s %s at %#x", verb, human.Plural(u.Size, "byte"), u.Addr), u.call}
}

// cell has the last accesses to a range: a write, and later reads that are not known to precede another access.
type cell struct {
	write accessed
	reads []accessed
}

// holding is memory that the program has or had.
type holding struct {
	space.Span
	what  string
	host  bool // host memory
	call  *Call
	since uint64    // host time
	freed *accessed // nil while it is live
	old   *holding
}

func (h *holding) part() *Part {
	return &Part{fmt.Sprintf("%s of %s at %#x", h.what, human.Plural(h.Size, "byte"), h.Addr), h.call}
}

// Source is a host buffer that an asynchronous copy reads.
type Source struct {
	x        Copy
	sum      uint64
	hostRuns uint64 // number of host functions at the call
	ordered  bool   // changes since the call are ordered, or are checked as accesses
	torn     bool   // the bytes had changed when the copy ran
	n        int    // actor number, after the copy has run
	time     uint64
	call     *Call
}

const (
	// Limits of watched host buffers and of remembered freed memory. The oldest entries are dropped.
	maxSources = 4096
	maxFreed   = 16384
	// maxRows limits the rows in a checked 2-D copy.
	maxRows = 1 << 16
)

// Checker is strict mode. A nil Checker checks nothing.
type Checker struct {
	opts Options
	seed maphash.Seed

	mu       sync.Mutex
	calls    uint64
	time     uint64  // host time
	host     *Vector // host knowledge; replaced, never changed
	hostRuns uint64  // host functions that began or returned
	times    []uint64
	idle     []int              // free actor numbers
	words    map[uint64]*Vector // words of value writes and waits, which order streams
	world    Vector             // known to other processes
	sources  []*Source
	memory   Memory
	objects  objects
	findings findings
}

// Options connect a Checker with the runtime.
type Options struct {
	// Report is called with each new finding on the thread that caused it. It must not call the runtime. May be nil.
	Report func(*Finding)
	// Function returns the runtime function on the caller's stack.
	Function func() string
	// Live reports whether a handle is live.
	Live func(handle uint64) bool
	// Locate returns where an address is.
	Locate func(addr uint64) Place
	// Race marks memory that was written from memory in a race.
	Race func(written []space.Span)
}

// Place says where memory is.
type Place struct {
	Device  int32 // -1 for none
	Pinned  bool  // host memory of the runtime
	Managed bool
}

// memory is the state for addresses.
type Memory struct {
	accesses space.Regions[*cell]
	holdings space.Regions[*holding]
	freed    space.Regions[*holding]
	oldest   []*holding              // freed memory, oldest first
	racy     space.Regions[struct{}] // live memory in races
}

// objects is the state for handles and devices.
type objects struct {
	inits     *Call
	ends      *Call
	made      map[uint64]*Call // handle → call that created it
	failures  map[int32]bool   // devices with a failed task
	resetting *Call            // last call that ended a context
}

// New creates a checker.
func New(o Options) *Checker {
	return &Checker{opts: o, seed: maphash.MakeSeed(), host: &Vector{}, times: []uint64{0}, words: map[uint64]*Vector{},
		objects:  objects{made: map[uint64]*Call{}, failures: map[int32]bool{}},
		findings: findings{byKey: map[string]*Finding{}}}
}

// Stream is the checker's state for a stream.
type Stream struct {
	ID     int32
	Device int32
	actor  *actor // needs the checker's lock
}

// Part returns a stream state for a graph lane with the same id.
func (s *Stream) Part() Stream { return Stream{ID: s.ID, Device: s.Device} }

// Thread is the checker's state for a thread.
type Thread struct {
	ID     uint32  // system thread id
	Number *uint64 // 1 + the number of the call in a replayed trace, 0 outside a replay; may be nil
	inside *Call
	calls  uint64
}

// Copy copies rows.
type Copy struct {
	Dst, Src       uint64
	Width, Height  uint64
	DPitch, SPitch uint64
	Staged         bool // the bytes were taken at the call
}

// newActor creates an actor with the knowledge of another one. The caller holds the lock.
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

// endActor frees the actor's number.
func (c *Checker) endActor(a *actor) { c.idle = append(c.idle, a.n) }

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

// learn adds knowledge to the host, by a call or nil. Buffers of copies that are now known to be done may change
// afterwards.
func (c *Checker) learn(v Vector, by *Call) {
	old := *c.host
	news := false
	for n := 1; n < len(v) && !news; n++ {
		news = v[n] > old.at(n)
	}
	if !news {
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

// byHost returns the host as an observer.
func (c *Checker) byHost(call *Call) observer {
	c.time++
	return observer{time: c.time, host: c.time, knows: c.host, call: call}
}

// by returns an actor as an observer.
func (a *actor) by() observer {
	return observer{n: a.n, time: a.knows[a.n], host: a.knows.at(0), knows: &a.knows, call: a.task.call}
}

// touch records and checks an access to a range.
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
	var whole *cell // one of several, for the whole range
	count := 0
	for at := c.memory.accesses.At(s.Addr); at.OK() && at.Get().Addr < s.End(); at.Next() {
		r := at.Get()
		if r.Addr > next {
			c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: next, Size: r.Addr - next}, Value: newCell(u)})
			count++
		}
		next = r.End()
		c.against(&o, &u, r)
		r.Value.add(&o, u)
		whole = r.Value
		count++
	}
	if next < s.End() {
		c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: next, Size: s.End() - next}, Value: newCell(u)})
		count++
	}
	if count > 1 && u.write {
		space.TakeOut(&c.memory.accesses, s)
		*whole = *newCell(u)
		c.memory.accesses.Insert(space.Region[*cell]{Span: s, Value: whole})
	}
}

func newCell(u accessed) *cell {
	if u.write {
		return &cell{write: u}
	}
	return &cell{reads: []accessed{u}}
}

// add records an access and drops accesses that are known to precede it.
func (l *cell) add(o *observer, u accessed) {
	if u.write {
		l.write, l.reads = u, l.reads[:0]
		return
	}
	l.reads = slices.DeleteFunc(l.reads, func(r accessed) bool { return o.after(&r) })
	l.reads = append(l.reads, u)
}

// against compares an access with the last ones to a range.
func (c *Checker) against(o *observer, u *accessed, r space.Region[*cell]) {
	if w := &r.Value.write; w.call != nil && !o.after(w) {
		c.conflict(w, u, r.Span)
		return
	}
	if !u.write {
		return
	}
	for i := range r.Value.reads {
		if x := &r.Value.reads[i]; !o.after(x) {
			c.conflict(x, u, r.Span)
			return
		}
	}
}

// conflict reports two unordered accesses.
func (c *Checker) conflict(a, b *accessed, at space.Span) {
	if c.isWord(at) {
		return
	}
	f := &Finding{Kind: StreamRace, Parts: []Part{a.part(), b.part()}}
	h, ok := c.memory.holdings.Find(at.Addr)
	if ok {
		f.Memory = h.Value.part()
	}
	if a.n == 0 || b.n == 0 {
		f.Kind = MissingSync
		host, task := a, b
		if b.n == 0 {
			host, task = b, a
		}
		if ok && h.Value.host && host.write && !task.write {
			f.Kind = HostBufferReused
		}
	}
	c.found(f)
	c.race(at, a.outs)
}

// race records memory in a race, and marks the memory written from it.
func (c *Checker) race(at space.Span, outs []space.Span) {
	from, to := at.Addr, at.End()
	for _, r := range space.TakeOut(&c.memory.racy, at) {
		from, to = min(from, r.Addr), max(to, r.End())
	}
	c.memory.racy.Insert(space.Region[struct{}]{Span: space.Span{Addr: from, Size: to - from}})
	c.opts.Race(outs)
}

// Racy reports whether memory in a range was in a race.
func (c *Checker) Racy(s space.Span) bool {
	if c == nil {
		return false
	}
	at := c.memory.racy.At(s.Addr)
	return at.OK() && at.Get().Addr < s.End()
}

// alive reports whether to check an access, and reports accesses to freed memory.
func (c *Checker) alive(o *observer, u *accessed) bool {
	if h, ok := c.memory.holdings.Find(u.Addr); ok {
		if o.n != 0 && o.host < h.Value.since && h.Value.old != nil {
			c.lost(o, u, h.Value.old) // the memory was freed after the task was submitted
			return false
		}
		return true
	}
	if h, ok := c.memory.freed.Find(u.Addr); ok && (o.n != 0 || !h.Value.host) {
		c.lost(o, u, h.Value)
	}
	return false
}

// lost reports an access to freed memory.
func (c *Checker) lost(o *observer, u *accessed, h *holding) {
	kind := FreedInFlight
	if o.after(h.freed) {
		kind = UseAfterFree
	}
	c.found(&Finding{Kind: kind, Parts: []Part{{"frees it", h.freed.call}, u.part()}, Memory: h.part()})
}

// cut splits the range at an address.
func (c *Checker) cut(addr uint64) {
	r, ok := c.memory.accesses.Find(addr)
	if !ok || r.Addr == addr {
		return
	}
	c.memory.accesses.Remove(r.Addr)
	c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: r.Addr, Size: addr - r.Addr}, Value: r.Value})
	c.memory.accesses.Insert(space.Region[*cell]{Span: space.Span{Addr: addr, Size: r.End() - addr}, Value: &cell{r.Value.write, slices.Clone(r.Value.reads)}})
}

// hold records new memory.
func (c *Checker) hold(call *Call, s space.Span, what string, host bool) {
	c.time++
	h := &holding{Span: s, what: what, host: host, call: call, since: c.time}
	for _, r := range space.TakeOut(&c.memory.freed, s) {
		h.old = r.Value
		h.old.old = nil
	}
	c.forget(s)
	c.memory.holdings.Insert(space.Region[*holding]{Span: s, Value: h})
}

// release records the end of memory. Actors that are not known to be done with it use it in flight.
func (c *Checker) release(o observer, addr uint64) {
	r, ok := c.memory.holdings.Find(addr)
	if !ok || r.Addr != addr {
		return
	}
	h := r.Value
	u := &accessed{Span: h.Span, n: o.n, time: o.time, call: o.call}
	for at := c.memory.accesses.At(addr); at.OK() && at.Get().Addr < h.End(); at.Next() {
		l := at.Get().Value
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
	c.memory.freed.Insert(space.Region[*holding]{Span: h.Span, Value: h})
	if c.memory.oldest = append(c.memory.oldest, h); len(c.memory.oldest) > maxFreed {
		old := c.memory.oldest[0]
		c.memory.oldest[0] = nil
		c.memory.oldest = c.memory.oldest[1:]
		if f, ok := c.memory.freed.Find(old.Addr); ok && f.Value == old {
			c.memory.freed.Remove(old.Addr)
		}
	}
}

// forget drops the state of a range.
func (c *Checker) forget(s space.Span) {
	c.cut(s.Addr)
	c.cut(s.End())
	space.TakeOut(&c.memory.accesses, s)
	space.TakeOut(&c.memory.holdings, s)
	for _, r := range space.TakeOut(&c.memory.racy, s) { // the neighbours stay
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

// wordsIn calls a function for each known word in a range.
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

// word records an access to a word. A reader gets the knowledge of all writers.
func (c *Checker) word(o *observer, w *Vector, write bool) {
	if write {
		w.join(*o.knows)
		w.set(0, o.host)
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

// sumOf hashes the source of a copy; false if it can't be read.
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

// differs reports whether a host buffer has changed since the copy was submitted.
func (c *Checker) differs(x *Source) bool {
	if x.ordered || x.hostRuns != c.hostRuns {
		return false
	}
	sum, ok := c.sumOf(&x.x)
	return ok && sum != x.sum
}

// compare reports a host buffer that changed before the host knew that the copy was done.
func (c *Checker) compare(x *Source, by *Call) {
	if !x.torn && !c.differs(x) {
		return
	}
	f := &Finding{Kind: HostBufferReused, Parts: []Part{{fmt.Sprintf("reads %s at %#x", human.Plural(x.x.Width*x.x.Height, "byte"), x.x.Src), x.call}}}
	if by != nil {
		f.Parts = append(f.Parts, Part{"is the first wait for the copy; the program changed the bytes before it", by})
	}
	if h, ok := c.memory.holdings.Find(x.x.Src); ok {
		f.Memory = h.Value.part()
	}
	c.found(f)
}
