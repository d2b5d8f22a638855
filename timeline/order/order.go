// Package order determines which work precedes which, why, and whether it is certain.
//
// An Order takes one Call after the other, in the order in which the calls began. Apply returns the edges of each call: the work that a wait
// covers, and the work that a task follows. This needs one record a lane and event. With Clocks, an Order also compares any two tasks: see
// Stamp and Precedes.
//
// The package is generic, since it lies below package timeline. K identifies an event or a notify, T is a value for the caller. An object
// that processes share has one key. The package reads no trace.
//
// # Rules
//
//   - A task follows the earlier tasks on its lane.
//   - A wait covers the tasks whose calls had ended when the wait began, or that its own thread made. It has an effect when it ends; later
//     calls of any thread on the same host follow. See waits for the table.
//   - A wait for an event follows the latest record of it.
//   - A wait for a notify takes the record that no wait has taken, or the next one. A later call on another stream may still overtake it, so
//     the edge is not certain. When the host sees the wait complete, and one stream alone has set the notify and one has awaited it, then
//     the n-th wait has followed the n-th record.
//   - Calls that overlap in time on different threads have no order. What depends on it is not certain.
//   - Lost calls make everything uncertain until a wait for the device.
package order

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
)

// Any is a device that is equal to all.
const Any = -1

// A Lane holds tasks that run one after the other.
type Lane struct {
	Process     uint32
	Host        int // machine with one clock
	Device      int // Any if unknown
	Synchronous bool
	// Default means a default stream, Blocks that the lane and the default streams of the device wait for each other.
	Default, Blocks bool
}

// A Call is a call that an Order takes.
type Call[K comparable] struct {
	Fn         *api.Func
	Index      uint64
	Thread     uint32
	Process    uint32
	Host       int
	Start, End int64
	// Failed and Unfinished calls put no task on a lane, and their waits have no effect. Complete means that a poll returned complete.
	Failed, Unfinished, Complete bool
	Captured                     bool // the task goes into a graph
	Lane                         int  // number of the lane for the task, or that a call waits for; -1 for none
	Task                         int  // number of the task, -1 for none
	Device                       int  // for which a call waits
	// Key is the object that a call records, awaits or resets, the zero value for none. Kind is its kind.
	Key         K
	Kind        api.Object
	Word        Word // memory that the task writes or waits for, the zero value for none
	Made, Ended []K  // events and notifies
}

// A Word is a value in memory.
type Word struct {
	Process     uint32
	Addr, Value uint64
	Until       Condition // of a wait
	other       bool      // any value
}

// Condition says with which values of a word a wait for a value ends.
type Condition uint8

const (
	Unsaid  Condition = iota // with the value, perhaps with others
	AtLeast                  // with this and the following half of all values
	Equal
	AnyBit // with a value that has one of its bits
	NorBit // with a value that, with its bits, lacks a bit
)

// ends reports whether a wait may end with a value.
func (w *Word) ends(value uint64) bool {
	switch w.Until {
	case AtLeast:
		return int64(value-w.Value) >= 0
	case Equal:
		return value == w.Value
	case AnyBit:
		return value&w.Value != 0
	case NorBit:
		return value|w.Value != math.MaxUint64
	}
	return true
}

// Why is the reason for an edge.
type Why uint8

const (
	SameLane Why = iota + 1
	Event
	Notify
	Value         // a word in memory
	DefaultStream // a default stream and another stream wait for each other
	HostWait      // for a stream
	EventWait     // of the host
	DeviceWait
)

var whys = [...]string{"", "same stream", "event", "notify", "value", "default stream", "host wait", "host wait for an event", "device wait"}

func (w Why) String() string { return whys[w] }

// An Item is a task, or a call that waits.
type Item[T any] struct {
	Call  uint64
	Task  int // -1 for a call
	Lane  int // -1 for several
	Value T   // see Order.Keep
}

// An Edge says that Before ends before After does. Both are valid until the next Apply.
type Edge[T any] struct {
	Before, After *Item[T]
	Why           Why
	// Certain means that no recorded call contradicts the edge. A call that overlaps After and begins later is not considered; Precedes
	// considers it.
	Certain bool
}

// A Link is an Edge between two tasks, or from a task to the current call, in numbers.
type Link struct {
	Before, After int // tasks; After is -1 for the current call
	Lane, To      int // lanes of Before and of After, -1 for several
	Why           Why
}

// Links returns the edges as links, without those between tasks of one lane. It returns nil if there are none.
func Links[T any](edges []Edge[T]) (links []Link) {
	for i := range edges {
		if e := &edges[i]; e.Why != SameLane {
			links = append(links, Link{e.Before.Task, e.After.Task, e.Before.Lane, e.After.Lane, e.Why})
		}
	}
	return links
}

// cover is the work that a wait covers.
type cover uint8

const (
	coversLane cover = iota + 1
	coversEvent
	coversDevice
)

// waits is the table of waits. Each covers the tasks before its begin and has an effect at its end. Polls have one if they return complete.
var waits = [...]struct {
	cover cover
	poll  bool
	why   Why
}{
	api.NoSync:     {},
	api.SyncDevice: {coversDevice, false, DeviceWait}, // all lanes with streams of the process on the current device
	api.SyncStream: {coversLane, false, HostWait},
	api.SyncEvent:  {coversEvent, false, EventWait}, // the tasks before the latest record, none if it was not recorded
	api.PollStream: {coversLane, true, HostWait},
	api.PollEvent:  {coversEvent, true, EventWait},
}

// An Order follows the calls of a trace.
type Order[K comparable, T any] struct {
	// Clocks enables Stamp.
	Clocks bool

	lanes  []*track[T] // by number; Lost begins new tracks
	live   []*track[T] // all whose tasks a wait may still cover
	joins  bool        // there is a default stream that others wait for
	events map[K]*record[T]
	flags  map[K]*flag[T]
	words  map[Word]*record[T]
	awaits map[Word]*Item[T]       // waits for words that were not written yet
	open   map[Word][]*awaiting[T] // the same of a known condition, by place
	runs   uint64                  // graph runs
	lost   int64                   // the trace lacks calls until this time
	tracks int32

	now    *track[T]  // of the current task
	kept   []*Item[T] // other copies of it
	caller Item[T]
	edges  []Edge[T]
	ends   clocks
}

// track is a lane between losses.
type track[T any] struct {
	Lane
	number      int
	items       [2]Item[T] // the latest task, and the one before
	latest      uint8
	thread      uint32 // of the latest task
	end, others int64  // of the latest calls of this thread and of others
	gap         bool   // it follows lost calls
	joined      []*track[T]
	chain
}

func (t *track[T]) last() *Item[T] { return &t.items[t.latest&1] }

// certain reports whether all tasks on the lane were certainly made before a call.
func (t *track[T]) certain(thread uint32, start int64) bool {
	return t.others < start && (t.thread == thread || t.end < start)
}

// record is the latest record of an event or a notify, or the latest write of a word.
type record[T any] struct {
	item   Item[T]
	value  uint64 // of a word
	point  point
	thread uint32
	end    int64
	sure   bool
	inside bool // a graph may record the event too, in each run
}

// before reports whether a record is certainly the latest one before a call.
func (r *record[T]) before(thread uint32, start int64, runs uint64) bool {
	return r.sure && (r.thread == thread || r.end < start) && (!r.inside || runs == 0)
}

// flag is the state of a notify.
type flag[T any] struct {
	set   *record[T] // not awaited yet
	opens []*open[T] // waits before their records
	turns
}

// open is a wait for a notify before its record.
type open[T any] struct {
	item Item[T]
	take *take
}

// Bounds of state that a program may never use up. More makes the notify uncertain, or clears the map.
const (
	maxOpen  = 16
	maxWords = 1 << 16
)

// New returns an Order before the first call.
func New[K comparable, T any]() *Order[K, T] {
	return &Order[K, T]{events: map[K]*record[T]{}, flags: map[K]*flag[T]{}, words: map[Word]*record[T]{}, awaits: map[Word]*Item[T]{}, open: map[Word][]*awaiting[T]{}, lost: math.MinInt64}
}

// Lane adds a lane. Lanes are numbered from 0, in the order of these calls.
func (o *Order[K, T]) Lane(l Lane) {
	o.lanes = append(o.lanes, o.begin(l, len(o.lanes)))
	o.joins = o.joins || l.Default && l.Blocks
	for _, t := range o.lanes {
		t.joined = nil
	}
}

// Lanes returns the number of lanes.
func (o *Order[K, T]) Lanes() int { return len(o.lanes) }

func (o *Order[K, T]) begin(l Lane, number int) *track[T] {
	t := &track[T]{Lane: l, number: number, end: math.MinInt64, others: math.MinInt64}
	t.items[0].Task = -1
	t.id = o.tracks
	o.tracks++
	o.live = append(o.live, t)
	return t
}

// Apply takes the next call. It returns the edges that the call makes, valid until the next Apply.
func (o *Order[K, T]) Apply(c *Call[K]) []Edge[T] {
	o.edges, o.kept, o.now = o.edges[:0], o.kept[:0], nil
	if len(o.ends.pending) > 0 {
		o.advance(c.Start)
	}
	f := c.Fn
	if f == nil {
		return nil
	}
	if len(c.Made) > 0 || f.Shares != api.NoShare {
		o.made(c)
	}
	switch {
	case c.Captured:
		if f.Task == api.Record {
			if r := o.events[c.Key]; r != nil {
				r.inside = true
			} else {
				o.events[c.Key] = &record[T]{item: Item[T]{Task: -1}, inside: true}
			}
		}
	case c.Task >= 0:
		o.task(c)
	}
	if f.Sync != api.NoSync && (c.Complete || !waits[f.Sync].poll) {
		o.wait(c)
	}
	for _, k := range c.Ended {
		delete(o.events, k)
		delete(o.flags, k)
	}
	return o.edges
}

// Launch takes a call that only puts a task on a lane, which follows the tasks before it there. It returns false if more may follow: then call Apply.
func (o *Order[K, T]) Launch(lane, task int, call uint64, thread uint32, end int64) bool {
	if o.joins || o.Clocks {
		return false
	}
	o.lanes[lane].put(lane, task, call, thread, end)
	return true
}

// put makes a task the latest one.
func (t *track[T]) put(lane, task int, call uint64, thread uint32, end int64) {
	t.latest ^= 1
	t.items[t.latest&1] = Item[T]{Call: call, Task: task, Lane: lane}
	if thread != t.thread {
		t.others, t.thread, t.end = max(t.others, t.end), thread, end
	} else {
		t.end = max(t.end, end)
	}
}

// Keep stores a value for the task of the current call. Edges have it from then on.
func (o *Order[K, T]) Keep(v T) {
	if o.now == nil {
		return
	}
	o.now.last().Value = v
	for _, it := range o.kept {
		it.Value = v
	}
}

// Last returns the latest task on a lane, nil for none.
func (o *Order[K, T]) Last(lane int) *Item[T] {
	if t := o.lanes[lane]; t.last().Task >= 0 {
		return t.last()
	}
	return nil
}

func (o *Order[K, T]) edge(before, after *Item[T], why Why, certain bool) {
	o.edges = append(o.edges, Edge[T]{before, after, why, certain})
}

// task puts a task on its lane.
func (o *Order[K, T]) task(c *Call[K]) {
	t, f := o.lanes[c.Lane], c.Fn
	sure, last := t.certain(c.Thread, c.Start), t.last()
	end := c.End
	if c.Unfinished {
		end = math.MaxInt64
	}
	t.put(c.Lane, c.Task, c.Index, c.Thread, end)
	it := t.last()
	o.now = t
	if last.Task >= 0 {
		o.edge(last, it, SameLane, sure && !t.gap)
	}
	if o.joins && t.Blocks {
		o.join(c, t)
	}
	if o.Clocks {
		o.clock(c, t)
	}
	var none K
	switch {
	case f.Task == api.GraphRun:
		o.runs++
	case c.Word != Word{}:
		o.word(c, t)
	case c.Key == none:
	case c.Kind == api.Event:
		o.event(c, t)
	default:
		o.notify(c, t, sure)
	}
}

// join makes a task follow the lanes that a default stream joins.
func (o *Order[K, T]) join(c *Call[K], t *track[T]) {
	if t.joined == nil {
		t.joined = []*track[T]{}
		for _, x := range o.lanes {
			if x.Default != t.Default && x.Blocks && x.Process == t.Process && x.Device == t.Device {
				t.joined = append(t.joined, x)
			}
		}
	}
	for _, x := range t.joined {
		if x.last().Task < 0 {
			continue
		}
		o.edge(x.last(), t.last(), DefaultStream, x.certain(c.Thread, c.Start) && !x.gap && !t.gap)
		if o.Clocks {
			t.before = t.before.Join(x.upTo(c.Thread, c.Start).clock())
		}
	}
}

func (o *Order[K, T]) newRecord(c *Call[K], t *track[T], sure bool) *record[T] {
	end := c.End
	if c.Unfinished {
		end = math.MaxInt64
	}
	r := &record[T]{item: *t.last(), thread: c.Thread, end: end, sure: sure && c.Start >= o.lost}
	if o.Clocks {
		r.point = t.here()
	}
	o.kept = append(o.kept, &r.item)
	return r
}

// event follows a task that records, awaits or resets an event.
func (o *Order[K, T]) event(c *Call[K], t *track[T]) {
	r := o.events[c.Key]
	switch c.Fn.Task {
	case api.Record:
		sure := r == nil || r.thread == c.Thread || r.end < c.Start // otherwise either is the latest
		shared := o.flags[c.Key]
		sure = sure && (shared == nil || !shared.shared)
		n := o.newRecord(c, t, sure)
		n.inside = r != nil && r.inside
		o.events[c.Key] = n
	case api.Wait:
		if r == nil || r.item.Task < 0 {
			return
		}
		certain := r.before(c.Thread, c.Start, o.runs)
		o.edge(&r.item, t.last(), Event, certain && !t.gap)
		if o.Clocks && certain {
			o.later(c, effect{on: &t.chain, points: []point{r.point}, still: o.stays(c.Key, r)})
		}
	case api.Reset:
		if r != nil {
			n := *r
			n.sure = false
			o.events[c.Key] = &n
		}
	}
}

// stays returns a function that reports whether a record is still the latest one.
func (o *Order[K, T]) stays(k K, r *record[T]) func() bool {
	return func() bool { return o.events[k] == r }
}

// notify follows a task that sets, awaits or resets a notify.
func (o *Order[K, T]) notify(c *Call[K], t *track[T], sure bool) {
	f := o.flags[c.Key]
	if f == nil {
		f = &flag[T]{}
		o.flags[c.Key] = f
	}
	f.turn(c.Fn.Task == api.Wait, t.number, sure && !t.gap && c.Kind == api.Notify && c.Start >= o.lost)
	switch c.Fn.Task {
	case api.Record:
		r := o.newRecord(c, t, true)
		if len(f.opens) == 0 {
			f.sure = f.sure && f.set == nil // a wait may have ended between the two
			f.set = r
			return
		}
		w := f.opens[0]
		f.opens = f.opens[1:]
		w.take.from, w.take.met = r.point, true
		o.edge(t.last(), &w.item, Notify, false)
	case api.Wait:
		w := &open[T]{*t.last(), &take{n: t.n, of: &f.turns}}
		if o.Clocks {
			t.takes = append(t.takes, w.take)
		}
		if r := f.set; r != nil {
			f.set = nil
			w.take.from, w.take.met = r.point, true
			o.edge(&r.item, t.last(), Notify, false)
			return
		}
		o.kept = append(o.kept, &w.item)
		if f.opens = append(f.opens, w); len(f.opens) > maxOpen {
			f.sure, f.opens = false, f.opens[1:]
		}
	case api.Reset:
		f.sure, f.set = false, nil
	}
}

// awaiting is a wait for a word that has not had a value which ends it.
type awaiting[T any] struct {
	item Item[T]
	word Word
}

// await follows a wait of a known condition for a word, which the latest write or a later one ends.
func (o *Order[K, T]) await(c *Call[K], t *track[T], place Word) {
	if r := o.words[place]; r != nil && c.Word.ends(r.value) {
		o.edge(&r.item, t.last(), Value, false)
		return
	}
	w := &awaiting[T]{*t.last(), c.Word}
	o.kept = append(o.kept, &w.item)
	if o.open[place] = append(o.open[place], w); len(o.open[place]) > maxOpen {
		o.open[place] = o.open[place][1:]
	}
}

// word follows a task that writes or awaits a word. The host and kernels may write it too, so nothing is certain. A wait for at least a value
// may end with another one, which is taken if the value was not written before, unless its condition
// is known.
func (o *Order[K, T]) word(c *Call[K], t *track[T]) {
	if len(o.words) > maxWords || len(o.awaits) > maxWords || len(o.open) > maxWords {
		clear(o.open)
		clear(o.words)
		clear(o.awaits)
	}
	other := Word{Process: c.Word.Process, Addr: c.Word.Addr, other: true}
	if c.Fn.Task == api.Wait && c.Word.Until != Unsaid {
		o.await(c, t, other)
		return
	}
	if c.Fn.Task == api.Wait {
		r, it := o.words[c.Word], o.words[other]
		if r != nil {
			o.edge(&r.item, t.last(), Value, false)
			return
		}
		w := *t.last()
		o.awaits[c.Word] = &w
		o.kept = append(o.kept, &w)
		if it != nil {
			o.edge(&it.item, t.last(), Value, false)
		} else {
			o.awaits[other] = &w
		}
		return
	}
	r := o.newRecord(c, t, false)
	r.value = c.Word.Value
	var met *Item[T]
	for _, k := range []Word{c.Word, other} {
		if w := o.awaits[k]; w != nil && w != met {
			o.edge(t.last(), w, Value, false)
			met = w
		}
		delete(o.awaits, k)
		o.words[k] = r
	}
	if open := o.open[other]; len(open) > 0 {
		o.open[other] = slices.DeleteFunc(open, func(w *awaiting[T]) bool {
			if !w.word.ends(r.value) {
				return false
			}
			o.edge(t.last(), &w.item, Value, false)
			return true
		})
	}
}

// wait takes in a wait of the host.
func (o *Order[K, T]) wait(c *Call[K]) {
	w := waits[c.Fn.Sync]
	o.caller = Item[T]{Call: c.Index, Task: -1, Lane: c.Lane}
	ends := o.Clocks && !c.Failed && !c.Unfinished
	switch w.cover {
	case coversLane:
		if c.Lane < 0 {
			return
		}
		t := o.lanes[c.Lane]
		if t.last().Task >= 0 {
			o.edge(t.last(), &o.caller, w.why, t.certain(c.Thread, c.Start))
		}
		if ends {
			o.later(c, effect{points: []point{t.upTo(c.Thread, c.Start)}})
		}
	case coversEvent:
		r := o.events[c.Key]
		if r == nil || r.item.Task < 0 {
			return
		}
		o.caller.Lane = r.item.Lane
		certain := r.before(c.Thread, c.Start, o.runs)
		o.edge(&r.item, &o.caller, w.why, certain)
		if ends && certain {
			o.later(c, effect{points: []point{r.point}, still: o.stays(c.Key, r)})
		}
	case coversDevice:
		o.device(c, ends)
	}
}

// device takes in a wait for a device.
func (o *Order[K, T]) device(c *Call[K], ends bool) {
	var points []point
	live := o.live[:0]
	for _, t := range o.live {
		current := o.lanes[t.number] == t
		covers := t.Process == c.Process && !t.Synchronous
		known := covers && (t.Device == c.Device || c.Device == Any)
		if covers && current && (known || t.Device == Any) && t.last().Task >= 0 {
			o.edge(t.last(), &o.caller, DeviceWait, known && t.certain(c.Thread, c.Start))
		}
		if known && ends {
			points = append(points, t.upTo(c.Thread, c.Start))
			t.gap = t.gap && c.Start < o.lost
		}
		if current || !known || c.Failed || c.Unfinished {
			live = append(live, t)
		}
	}
	clear(o.live[len(live):])
	o.live = live
	if ends {
		o.later(c, effect{points: points})
	}
}

// made takes in new and shared objects. A notify that is older than the trace may be set already.
func (o *Order[K, T]) made(c *Call[K]) {
	if c.Failed || c.Unfinished {
		return
	}
	var none K
	switch c.Fn.Shares {
	case api.Export:
		if c.Key != none {
			f := o.flags[c.Key]
			if f == nil {
				f = &flag[T]{}
				o.flags[c.Key] = f
			}
			f.shared = true
			if r := o.events[c.Key]; r != nil {
				r.sure = false
			}
		}
	case api.Import:
		if f := o.flags[c.Key]; f != nil {
			f.shared = false
		}
	default:
		for _, k := range c.Made {
			if c.Kind == api.Notify {
				o.flags[k] = &flag[T]{turns: turns{sure: c.Start >= o.lost}}
			}
		}
	}
}

// Lost says that the trace lacks calls of a process between two times. Call it before the first later call.
func (o *Order[K, T]) Lost(process uint32, from, to int64) {
	o.advance(from)
	o.lost = max(o.lost, to)
	for i, t := range o.lanes {
		if t.joined = nil; t.Process != process {
			continue
		}
		if t.gap = true; t.n == 0 {
			continue
		}
		n := o.begin(t.Lane, i)
		n.items, n.latest, n.gap = t.items, t.latest, true
		n.thread, n.end, n.others = t.thread, t.end, t.others
		o.lanes[i] = n
	}
	for _, r := range o.events {
		r.sure = false
	}
	for _, f := range o.flags {
		f.sure = false
	}
	o.ends.lose()
}

// Objects returns the number of objects with a state.
func (o *Order[K, T]) Objects() int { return len(o.events) + len(o.flags) }
