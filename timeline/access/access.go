// Package access finds the memory that each call in a trace reads, writes, or can reach through an address among its arguments.
//
// A Tracker belongs to a timeline.State. Its Apply advances the State by one call; Of then returns the accesses of that call. Follow
// additionally tracks the content of device memory, for launches whose arguments are there: DevArgs returns them.
//
// Calls finds the allocations that each call accesses, in one pass over a trace: the ranges that its arguments name, the allocations whose addresses
// are in its payloads (Words), and those that a kernel reaches through addresses that earlier calls have copied into other memory (Flow). The caller
// reads the payloads, because the replay compiler copies them at the same time. Each reads them itself.
//
// Packages report and blame use a Tracker while they read a trace; blame lists the calls that accessed an allocation with a Search. Package lab
// uses Each to explain differences and to extract launches. The replay compiler uses Calls. This package writes nothing, and it knows recorded data
// only.
package access

import (
	"encoding/binary"
	"iter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Kind is an access kind.
type Kind uint8

// The access kinds.
const (
	Reads  Kind = iota // the call or its task reads the range
	Writes             // the call or its task overwrites the range
	Names              // an argument is an address: only the kernel determines the bytes that are used
	Points             // a copied payload holds an address (Region only)
)

func (k Kind) String() string { return [...]string{"reads", "writes", "names", "points to"}[k] }

// An Access is memory that a call, or the task that it makes, accesses by an address among its arguments.
type Access struct {
	Addr  uint64
	Size  uint64 // bytes, 0 for Names
	Kind  Kind
	Param int    // the parameter that holds the address,
	Item  uint32 // the item in its data, as in format.Data,
	At    uint64 // and the byte in that item
	Self  bool   // the argument itself is the address
}

// A Tracker finds the accesses of calls, in the order in which they began. It does not follow pointers in device memory. Its
// memory grows with the live argument lists.
type Tracker struct {
	s      *timeline.State
	r      *format.Reader
	late   map[uint64][]format.Data // input data that was recorded after its call, by call
	step   int                      // distance between words that may be addresses, in bytes
	lists  map[*timeline.Object]*list
	buf    []Access
	shadow *shadow // nil before Follow, and if no call has arguments in device memory
}

// list is what an argument list holds.
type list struct {
	words   []Access
	buffers int  // that the program fills before the launch
	unknown bool // the trace lacks some words
}

// New returns a Tracker for a trace. No call may have been applied to the State yet.
func New(s *timeline.State, r *format.Reader) *Tracker { return newTracker(s, r, nil, 8) }

func newTracker(s *timeline.State, r *format.Reader, late map[uint64][]format.Data, step int) *Tracker {
	return &Tracker{s: s, r: r, late: late, step: step, lists: map[*timeline.Object]*list{}}
}

// Apply advances the State by one call and returns its meaning, which is valid until the next Apply.
func (t *Tracker) Apply(process uint32, c *format.Call) *timeline.Event {
	e := t.s.Apply(process, c)
	if t.shadow != nil {
		t.shadow.apply(process, e)
	}
	return e
}

// Of returns the accesses of the call that was applied last, valid until the next Of. all is false if the trace lacks some of its arguments. Of
// must be called for every call, since it collects the argument lists for later launches.
func (t *Tracker) Of(e *timeline.Event) (accesses []Access, all bool) {
	t.buf = t.buf[:0]
	c, f := e.Call, e.Fn
	if f == nil || len(c.Args) != int(f.Words) {
		return nil, f == nil
	}
	if f.Task == api.NoTask {
		for _, u := range e.Uses {
			if u.Object.Kind == api.ArgsList {
				t.extend(e, u.Object)
			}
		}
	}
	all = true
	for i := range f.Params {
		all = t.param(e, i) && all
	}
	return t.buf, all
}

// param adds the accesses by one parameter. It returns false if the trace lacks some.
func (t *Tracker) param(e *timeline.Event, i int) (all bool) {
	c, f := e.Call, e.Fn
	p := &f.Params[i]
	w := c.Args[p.Word]
	switch {
	case p.Role == api.Reads || p.Role == api.Writes || p.Role == api.Fills:
		return t.payload(e, i)
	case p.Role == api.Address && w != 0:
		t.add(Access{Addr: w, Kind: Names, Param: i, Self: true})
	case p.Role == api.DevArgs:
		n, _ := p.Size.Bytes(f, c.Args)
		t.add(Access{Addr: w, Size: n, Kind: Reads, Param: i, Self: true})
		b, known, _ := t.DevArgs(e)
		t.buf = t.words(t.buf, b, i, 0)
		return known
	case p.Role == api.Launch:
		want := 0
		u, ok := e.Use(i)
		l := t.lists[u.Object]
		if ok = ok && l != nil; ok {
			t.buf, want = append(t.buf, l.words...), l.buffers
			ok = !l.unknown
		}
		return t.items(e, i, want) && ok
	case p.CopyDesc != nil:
		return t.block(e, i)
	case f.Task == api.Kernel && (p.Role == api.Packed || p.Role == api.Args || p.Role == api.ArgArray || p.Role == api.Struct), p.Role == api.In && p.Addresses:
		want := 1
		if n, ok := p.Size.Bytes(f, c.Args); w == 0 || p.Role == api.Args && ok && n == 0 {
			want = 0
		}
		return t.items(e, i, want)
	}
	return true
}

func (t *Tracker) add(a Access) { t.buf = append(t.buf, a) }

// block adds the two sides of a copy that a structure describes, row by row if there are gaps between the rows.
func (t *Tracker) block(e *timeline.Event, i int) (all bool) {
	const mostRows = 4096
	b, ok := e.CopyBlock()
	if !ok {
		return false
	}
	for k, s := range []*timeline.CopySide{&b.From, &b.To} {
		kind := [...]Kind{Reads, Writes}[k]
		ok = s.Memory && b.Ranges(s, mostRows, func(addr, size uint64) {
			t.add(Access{Addr: addr, Size: size, Kind: kind, Param: i, At: uint64(s.Field)})
		}) && ok
	}
	return ok
}

// payload adds the range of a copy or a fill, or the ranges of a batch.
func (t *Tracker) payload(e *timeline.Event, i int) (all bool) {
	p := &e.Fn.Params[i]
	return ranges(e, i, func(param int) ([]byte, bool) { return t.data(e.Call, param) }, func(item uint32, addr, size uint64) {
		a := Access{Addr: addr, Size: size, Kind: rangeKind(p), Param: i, Self: item == 0}
		if item > 0 {
			a.At = 8 * uint64(item-1)
		}
		t.add(a)
	})
}

// items adds the words in a parameter's data. It returns false if the trace lacks some data: at least want pieces must be there. If the
// role has items besides the data that points to them, want counts the items only.
func (t *Tracker) items(e *timeline.Event, i, want int) (all bool) {
	all = true
	apart := e.Fn.Params[i].Role == api.ArgArray || e.Fn.Params[i].Role == api.Launch
	for d := range t.inputs(e.Call, i) {
		if d.Item != 0 || !apart {
			want--
		}
		b, ok := t.content(d)
		t.buf = t.words(t.buf, b, i, d.Item)
		all = all && ok
	}
	return all && want <= 0
}

// extend adds a call's arguments to an argument list, or drops the list that the call ends.
func (t *Tracker) extend(e *timeline.Event, o *timeline.Object) {
	if o.Ended == e.Call.Index && o.Created != e.Call.Index {
		delete(t.lists, o)
		return
	}
	l := t.lists[o]
	if l == nil {
		l = &list{unknown: o.Created == timeline.NoCall}
		t.lists[o] = l
	}
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if p.Role == api.Buffer {
			l.buffers++
		}
		if p.Role != api.In || e.Call.Args[p.Word] == 0 {
			continue
		}
		b, ok := t.data(e.Call, i)
		at := len(l.words)
		l.words = t.words(l.words, b, i, 0)
		for k := at; k < len(l.words); k++ {
			l.words[k].Item = uint32(len(l.words)) // in call order
		}
		l.unknown = l.unknown || !ok
	}
}

// inputs iterates over a parameter's input data, also the data that was recorded after the call.
func (t *Tracker) inputs(c *format.Call, param int) iter.Seq[*format.Data] {
	return func(yield func(*format.Data) bool) {
		for _, data := range [][]format.Data{c.Data, t.late[c.Index]} {
			for i := range data {
				if d := &data[i]; int(d.Param) == param && d.Dir == format.DirIn && !yield(d) {
					return
				}
			}
		}
	}
}

// data returns an input array, false if the trace lacks it.
func (t *Tracker) data(c *format.Call, param int) ([]byte, bool) {
	for d := range t.inputs(c, param) {
		if d.Item != 0 {
			continue
		}
		if b, ok := t.content(d); ok {
			return b, true
		}
	}
	return nil, false
}

func (t *Tracker) content(d *format.Data) ([]byte, bool) {
	if d.Status != format.Whole || d.Len > maxShadow {
		return nil, false
	}
	b, err := d.Bytes, error(nil)
	if d.Blob != 0 {
		b, err = t.r.Blob(d.Blob)
	}
	return b, err == nil && uint64(len(b)) == d.Len
}

// leastAddress is less than every address: a smaller word is a number.
const leastAddress = 1 << 16

// words appends the 8-byte words that may be addresses.
func (t *Tracker) words(to []Access, b []byte, param int, item uint32) []Access {
	for at := 0; at+8 <= len(b); at += t.step {
		if w := word(b[at:]); w >= leastAddress {
			to = append(to, Access{Addr: w, Kind: Names, Param: param, Item: item, At: uint64(at)})
		}
	}
	return to
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
