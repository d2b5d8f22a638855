// Package access finds the memory that each call in a trace reads, writes, or can reach through an address among its arguments.
//
// Calls follows a trace: Apply takes one call after the other and returns it as a Call, whose methods find what they return when they are first called.
// Addresses are the addresses and ranges among its arguments. If launches have arguments in device memory, Calls also follows the content of that memory, and
// DevArgs returns the arguments.
//
// With Options.Objects a Call also has the allocations that it accesses. Arguments name some by ranges, payloads by addresses (Words), and a kernel reaches others
// through addresses that earlier calls have copied into memory (Flow).
//
// Two pairs stay apart. Addresses has all words of an argument block that may be addresses: blame looks for those outside allocations.
// Words keeps only the words with evidence, because a replay rewrites them. DevArgs needs exact bytes, so it
// follows the order of all writes; Flow only collects which allocation may hold which address, and needs no order.
//
// Packages report and blame use Calls while they read a trace, and blame a Search for the calls on an allocation. Package lab uses Each to explain differences
// and to extract launches. The replay compiler scans the payloads itself, because it copies them at the same time. This package writes nothing, and it knows
// recorded data only.
package access

import (
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/sim/opapi/block"
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

// A tracker finds the addresses among the arguments of calls, in the order in which they began. It does not follow pointers in device memory. Its memory grows
// with the live argument lists.
type tracker struct {
	State    *timeline.State
	callData // of the call that was applied last
	lists    map[*timeline.Object]*list
	buf      []Access
	shadow   *shadow // nil if no call has arguments in device memory
}

// list is what an argument list holds.
type list struct {
	words   []listed
	buffers int  // that the program fills before the launch
	unknown bool // the trace lacks some words
}

// listed are the words that a call has added to an argument list.
type listed struct {
	param int
	bytes []byte
}

func newTracker(s *timeline.State, r *format.Reader, late map[uint64][]format.Data) tracker {
	return tracker{State: s, callData: callData{r: r, late: late}, lists: map[*timeline.Object]*list{}}
}

// apply advances the State by one call and returns its meaning.
func (t *tracker) apply(process uint32, c *format.Call) *timeline.Event {
	e := t.State.Apply(process, c)
	t.begin(c)
	if t.shadow != nil {
		t.shadow.apply(e)
	}
	return e
}

// of returns the accesses of the latest call, valid until it returns again. Words at multiples of step may be addresses. all is false if the trace lacks some
// arguments.
func (t *tracker) of(e *timeline.Event, step int) (accesses []Access, all bool) {
	t.buf, all = t.buf[:0], true
	if e.Fn == nil {
		return nil, true
	}
	for i := range e.Fn.Params {
		all = t.param(e, i, step) && all
	}
	return t.buf, all
}

// param adds the accesses by one parameter. It returns false if the trace lacks some.
func (t *tracker) param(e *timeline.Event, i, step int) (all bool) {
	f := e.Fn
	p := &f.Params[i]
	t.buf, all = t.named(t.buf, e, i)
	switch {
	case p.Role == api.DevArgs:
		b, known, _ := t.DevArgs()
		if x := t.State.Operator(e, b); x != nil {
			t.operands(x, i)
		} else {
			t.words(b, i, 0, step)
		}
		return known
	case p.Role == api.Launch:
		u, _ := e.Use(i)
		l := t.lists[u.Object]
		if l == nil {
			l = &list{unknown: true}
		}
		from := len(t.buf)
		for _, w := range l.words {
			at := len(t.buf)
			t.words(w.bytes, w.param, 0, step)
			for k := at; k < len(t.buf); k++ {
				t.buf[k].Item = uint32(len(t.buf) - from) // in call order
			}
		}
		return t.items(e, i, l.buffers, step) && !l.unknown
	case p.CopyDesc != nil:
		return t.block(e, i)
	case f.Task == api.Kernel && (p.Role == api.Packed || p.Role == api.Args || p.Role == api.ArgArray || p.Role == api.Struct), p.Role == api.In && p.Addresses:
		return t.items(e, i, 1, step)
	}
	return all
}

// block adds the two sides of a copy that a structure describes, row by row if there are gaps between the rows.
func (t *tracker) block(e *timeline.Event, i int) (all bool) {
	const mostRows = 4096
	b, ok := e.CopyBlock()
	if !ok {
		return false
	}
	for k, s := range []*timeline.CopySide{&b.From, &b.To} {
		kind := [...]Kind{Reads, Writes}[k]
		ok = s.Memory && b.Ranges(s, mostRows, func(addr, size uint64) {
			t.buf = append(t.buf, Access{Addr: addr, Size: size, Kind: kind, Param: i, At: uint64(s.Field)})
		}) && ok
	}
	return ok
}

// items adds the words in a parameter's data. It returns false if the trace lacks some, see complete.
func (t *tracker) items(e *timeline.Event, i, want, step int) (all bool) {
	all = t.complete(e, i, want)
	for k := range t.Data {
		d := &t.Data[k]
		if int(d.Param) != i || d.Dir != format.DirIn || d.Status != format.Whole {
			continue
		}
		if d.Len > maxShadow {
			all = false
			continue
		}
		b, err := t.bytes(d)
		if x := t.operator(e, &e.Fn.Params[i], d, b); x != nil {
			t.operands(x, i)
		} else {
			t.words(b, i, d.Item, step)
		}
		all = all && err == nil && uint64(len(b)) == d.Len
	}
	return all
}

// extend adds a call's arguments to argument lists, and drops the lists that the call ends.
func (t *tracker) extend(e *timeline.Event) {
	if e.Fn == nil || e.Fn.Task != api.NoTask {
		return
	}
	for _, u := range e.Uses {
		switch o := u.Object; {
		case o.Kind != api.ArgsList:
		case o.Ended == e.Call.Index && o.Created != e.Call.Index:
			delete(t.lists, o)
		default:
			if t.lists[o] == nil {
				t.lists[o] = &list{unknown: o.Created == timeline.NoCall}
			}
			t.lists[o].extend(t, e)
		}
	}
}

// extend adds a call's arguments to the list.
func (l *list) extend(t *tracker, e *timeline.Event) {
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if p.Role == api.Buffer {
			l.buffers++
		}
		if p.Role == api.In && e.Call.Args[p.Word] != 0 {
			b, ok := t.array(i)
			l.words = append(l.words, listed{i, slices.Clone(b)})
			l.unknown = l.unknown || !ok
		}
	}
}

// leastAddress is less than every address: a smaller word is a number.
const leastAddress = 1 << 16

// words adds the 8-byte words at multiples of step that may be addresses.
func (t *tracker) words(b []byte, param int, item uint32, step int) {
	for at := 0; at+8 <= len(b); at += step {
		if w := word(b[at:]); w >= leastAddress {
			t.buf = append(t.buf, Access{Addr: w, Kind: Names, Param: param, Item: item, At: uint64(at)})
		}
	}
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// The argument block of an operator declares the memory that its launch accesses, and its address words. So its other words are numbers, and the
// launch reaches no other memory.

// operator returns the argument block of an operator's launch, nil for other data.
func (t *tracker) operator(e *timeline.Event, q *api.Param, d *format.Data, b []byte) *block.Block {
	if q.Role != api.Args || d.Item != 0 || d.Dir != format.DirIn {
		return nil
	}
	return t.State.Operator(e, b)
}

// operands adds the accesses of an operator.
func (t *tracker) operands(x *block.Block, param int) {
	for _, o := range x.Operands() {
		for _, kind := range kinds(&o) {
			t.buf = append(t.buf, Access{Addr: o.Addr + o.Lo, Size: o.Size, Kind: kind, Param: param, At: uint64(o.At)})
		}
	}
}

// kinds returns how an operator accesses an operand. If its output has gaps, it keeps what is there. A workspace has no content before and after.
func kinds(o *block.Operand) []Kind {
	switch {
	case o.Size == 0:
		return nil
	case o.Role == block.In:
		return []Kind{Reads}
	case o.Role == block.Scratch, o.Role == block.Out && o.Dense:
		return []Kind{Writes}
	}
	return []Kind{Reads, Writes}
}
