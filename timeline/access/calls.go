package access

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/timeline"
)

// A Call is a call that a replay makes, with the allocations that it accesses. It is valid until the next call.
type Call struct {
	Event   *timeline.Event
	OK      bool               // the call succeeded
	Regions []Region           // memory that the call reads, writes or reaches
	Data    []format.Data      // also data that was recorded after the call
	Made    []*timeline.Object // tokens that it makes
	Named   []*timeline.Object // objects that its arguments name by tokens and numbers, besides Event.Uses
	Unseen  *timeline.Object   // host memory without recorded content that its kernel may read, nil for none

	*calls
	process uint32
	host    []Region // in host-visible memory
	guess   bool     // its data has a guess, see Words
}

// calls finds the regions of calls.
type calls struct {
	s       *timeline.State
	m       *api.Model
	r       *format.Reader
	tracker *Tracker
	flow    *Flow
	late    map[uint64][]format.Data
	visible map[*timeline.Object]bool // host-visible memory; true if the trace has its content
	words   *Words
	tokens  tokens
	numbers numbers
}

// ErrStop ends Each without an error if the visit function returns it.
var ErrStop = errors.New("stop")

// Each calls visit for every call that a replay of the trace makes, in the order in which the calls began.
func Each(r *format.Reader, m *api.Model, visit func(*Call) error) error {
	s := timeline.NewState(m).Read(r)
	x := &calls{s: s, m: m, r: r, tracker: New(s, r), flow: NewFlow(), words: NewWords(s), late: map[uint64][]format.Data{}, visible: map[*timeline.Object]bool{}}
	if err := x.begin(); err != nil {
		return err
	}
	threads := r.Threads()
	call := &Call{calls: x}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		process := threads[c.Thread].Process
		e := x.tracker.Apply(process, c)
		x.words.Made(e)
		if !replayed(m, e) {
			continue
		}
		*call = Call{Event: e, OK: !failed(e), Data: c.Data, calls: x, process: process,
			Regions: call.Regions[:0], Made: call.Made[:0], Named: call.Named[:0], host: call.host[:0]}
		if late, ok := x.late[c.Index]; ok {
			call.Data = slices.Concat(c.Data, late)
		}
		if err := call.find(); err != nil {
			return err
		}
		if err := visit(call); err == ErrStop {
			break
		} else if err != nil {
			return err
		}
		call.after()
	}
	if d := r.Damage(); len(d) > 0 {
		return &d[0]
	}
	return nil
}

// begin reads what later calls depend on.
func (x *calls) begin() error {
	for d, err := range x.r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			return err
		}
		if d.Dir == format.DirOut && d.Param != api.MemoryParam {
			continue // results change nothing
		}
		k := *d
		k.Bytes = slices.Clone(d.Bytes)
		x.late[d.Call] = append(x.late[d.Call], k)
	}
	counts, err := x.r.Counts()
	if err != nil {
		return err
	}
	for _, fc := range counts.Functions {
		if f := x.m.Func(api.ID(fc.Func)); f != nil {
			x.numbers.used = x.numbers.used || slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role.Makes() && slices.Contains(x.m.Numbers, p.Object) })
		}
	}
	return x.tracker.Follow()
}

func failed(e *timeline.Event) bool { return e.Fn.RetError && uint32(e.Call.Ret) != 0 }

// replayed reports whether a replay makes a call.
func replayed(m *api.Model, e *timeline.Event) bool {
	f, c := e.Fn, e.Call
	switch {
	case f == nil || f.HostCallback || f.Annotation || f.Composite || f.SkipOnReplay || f.ReplayError != "":
		return false
	case c.Flags&format.Unfinished != 0:
		return false
	case failed(e) && (f.PollsCallbacks || m.Refused != 0 && int32(c.Ret) == m.Refused):
		return false
	}
	return !slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Use && q.Object == api.Exception && c.Args[q.Word] != 0 })
}

// find finds the regions of the call.
func (c *Call) find() error {
	c.showVisible()
	c.words.Call(c.Event)
	f := c.Event.Fn
	for i := range f.Params {
		if !f.Params[i].OmitOnReplay {
			c.param(i)
		}
	}
	for k := range c.Data {
		if err := c.payload(&c.Data[k]); err != nil {
			return err
		}
	}
	c.tokens.make(c)
	c.numbers.made(c)
	Arrays(c.Event, func(o *timeline.Object, kind Kind) { c.add(o, 1, 1, kind) })
	if c.OK {
		c.effects()
	}
	return nil
}

// add adds an access of an object, nil for none.
func (c *Call) add(o *timeline.Object, lo, hi uint64, kind Kind) {
	switch {
	case o == nil:
	case !o.Kind.OnHost() && o.Kind != api.Reservation:
		c.Regions = append(c.Regions, Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	case o.Kind.OnHost() && c.visibleOf(o) != nil:
		c.host = append(c.host, Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	}
}

// span adds an access of a range of addresses that begins at an offset of an object, nil for none.
func (c *Call) span(o *timeline.Object, addr, off, n uint64, kind Kind) {
	Spans(c.s, c.process, o, addr, off, n, func(o *timeline.Object, lo, hi uint64) { c.add(o, lo, hi, kind) })
}

// locate returns the allocation that an argument, or an address in an item, is an address of; nil if there is none.
func (c *Call) locate(i int, item uint32, addr uint64) (*timeline.Object, uint64) {
	if u, ok := c.Event.Use(i); ok && item == 0 {
		return u.Object, u.Offset
	}
	if o, off, ok := c.s.Find(c.process, addr); ok {
		return o, off
	}
	o, off, _ := c.s.Reserved(c.process, addr)
	return o, off
}

// param adds the accesses by the words of a parameter.
func (c *Call) param(i int) {
	f, args := c.Event.Fn, c.Event.Call.Args
	q := &f.Params[i]
	w := args[q.Word]
	switch {
	case q.Role == api.Struct:
		c.structure(i)
	case w == 0:
	case q.Role == api.Address, q.Role == api.DevArgs:
		o, _ := c.locate(i, 0, w)
		c.add(o, 0, 0, Names)
		if b, known, _ := c.tracker.DevArgs(c.Event); q.Role == api.DevArgs && known && c.OK {
			for ; len(b) >= 8; b = b[8:] {
				if o, _, ok := c.s.Find(c.process, word(b)); ok && !o.Kind.OnHost() {
					c.add(o, 0, 0, Names)
				}
			}
		}
	case q.Role == api.Reads || q.Role == api.Writes || q.Role == api.Fills:
		c.copied(i, w)
	case q.Role == api.Map && q.Object == api.Registered && c.OK && !c.m.KeepsVisible():
		if u, ok := c.Event.Use(i); ok && u.Object.Parent == nil {
			c.Unseen = u.Object
		}
	}
}

// copied adds the range that a parameter of a copy or a fill names, or the ranges of a batch.
func (c *Call) copied(i int, w uint64) {
	f, args := c.Event.Fn, c.Event.Call.Args
	q := &f.Params[i]
	kind := Writes
	if q.Role == api.Reads {
		kind = Reads
	}
	if q.ItemSizes < 0 {
		n, _ := q.Size.Bytes(f, args)
		if q.Size.Pitch >= 0 {
			if width := args[f.Params[q.Size.Mul[0]].Word]; n > 0 && width > 0 {
				n = (n/width-1)*args[f.Params[q.Size.Pitch].Word] + width
			}
		}
		o, off := c.locate(i, 0, w)
		c.span(o, w, off, n, kind)
		return
	}
	n := args[f.Params[q.ItemCount].Word]
	addrs, sizes := c.array(i, n), c.array(int(q.ItemSizes), n)
	for k := 0; k+8 <= min(len(addrs), len(sizes)); k += 8 {
		if addr := word(addrs[k:]); addr != 0 {
			o, off := c.locate(i, uint32(1+k/8), addr)
			c.span(o, addr, off, word(sizes[k:]), kind)
		}
	}
}

// array returns the n words of an array, nil if the trace lacks them.
func (c *Call) array(i int, n uint64) []byte {
	if d := c.data(i, 0, format.DirIn); d != nil && d.Len == 8*n {
		b, _ := c.bytes(d)
		return b
	}
	return nil
}

// data returns whole data of the call, nil if there is none.
func (c *Call) data(param int, item uint32, dir format.Dir) *format.Data {
	k := slices.IndexFunc(c.Data, func(d format.Data) bool { return int(d.Param) == param && d.Item == item && d.Dir == dir })
	if k < 0 || c.Data[k].Status != format.Whole {
		return nil
	}
	return &c.Data[k]
}

func (c *Call) bytes(d *format.Data) ([]byte, error) {
	if d.Blob == 0 {
		return d.Bytes, nil
	}
	return c.r.Blob(d.Blob)
}

// structure adds the accesses by the addresses in a structure: a copy that it describes, and memory that it points to.
func (c *Call) structure(i int) {
	q := &c.Event.Fn.Params[i]
	b := c.structBytes(i)
	if b == nil {
		return
	}
	if q.CopyDesc != nil {
		c.described()
	}
	for _, f := range q.Fields {
		if len(b) < int(f.Offset)+8 || !f.Counts(b) {
			continue
		}
		switch v := word(b[f.Offset:]); {
		case v == 0 || f.Stored || f.New || f.Args || f.Packed || f.Callback || f.OmitOnReplay:
		case f.Item == 0:
			if f.Tag.Size != 0 && !(f.Object == api.Stream && v <= c.m.Constants) {
				c.add(c.s.Known(c.process, f.Object, v), 0, 0, Names)
			}
		case c.data(i, f.Item, format.DirIn) == nil:
			o, _ := c.locate(i, f.Item, v)
			c.add(o, 0, 0, Names)
		}
	}
}

// structBytes returns the content of a structure, by pointer or by value; nil if the trace lacks it.
func (c *Call) structBytes(i int) []byte {
	q := &c.Event.Fn.Params[i]
	if !byPointer(q) {
		var b []byte
		for _, w := range c.Event.Call.Args[q.Word:][:q.Words] {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	d := c.data(i, 0, format.DirIn)
	if d == nil || d.Len < uint64(q.Elem) {
		return nil
	}
	b, _ := c.bytes(d)
	return b
}

func byPointer(q *api.Param) bool { return q.Words == 1 && q.Type[len(q.Type)-1] == '*' }

// described adds the two sides of a copy that a structure describes.
func (c *Call) described() {
	b, ok := c.Event.CopyBlock()
	if !ok || b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return
	}
	for k, s := range []*timeline.CopySide{&b.From, &b.To} {
		if s.Memory {
			o, off := c.locate(-2, 1, s.First)
			c.span(o, s.First, off, (b.Depth-1)*s.Plane+(b.Height-1)*s.Pitch+b.Width, [...]Kind{Reads, Writes}[k])
		}
	}
}

// payload adds the accesses by addresses and tokens in input data.
func (c *Call) payload(d *format.Data) error {
	f := c.Event.Fn
	if d.Dir != format.DirIn || d.Status != format.Whole || int(d.Param) >= len(f.Params) {
		return nil
	}
	q := &f.Params[d.Param]
	read, addresses, arguments := c.holds(q, d)
	if !read || !addresses && len(c.tokens.byWord) == 0 {
		return nil
	}
	b, err := c.bytes(d)
	if err != nil {
		return err
	}
	kind := Names
	if q.Role == api.Reads {
		kind = Points
	}
	var args []kernelbin.Arg
	if q.Role == api.Args {
		args = c.s.Arguments(c.Event)
	}
	tokens := c.tokensIn(b, kind)
	if addresses {
		p := PayloadOf(c.process, c.Event, q, d, args)
		words, _ := c.words.Find(&p, b, 0)
		for _, w := range words {
			if !overlaps(tokens, w.At, w.At+8) && w.Object.Created != c.Event.Call.Index {
				c.address(w, kind)
			}
		}
	}
	if arguments {
		c.numbers.find(c, q, d, b)
	}
	return nil
}

// holds reports whether a replay reads data, whether its words may be addresses, and whether it is an argument block of a kernel.
func (c *Call) holds(q *api.Param, d *format.Data) (read, addresses, arguments bool) {
	switch q.Role {
	case api.Reads:
		n, _ := q.Size.Bytes(c.Event.Fn, c.Event.Call.Args)
		return q.ItemSizes >= 0 && d.Item > 0 || d.Item == 0 && q.ItemSizes < 0 && d.Len == n, q.Addresses, false
	case api.In:
		return d.Item == 0, q.Addresses && !(q.Token != 0 && c.OK), false
	case api.InOut:
		return true, q.Addresses, false
	case api.Args:
		return d.Item == 0, true, true
	case api.ArgArray:
		return d.Item > 0, true, true
	case api.Packed:
		return d.Item == 1, true, true
	case api.Launch:
		return d.Item > 0, true, false
	case api.List:
		return d.Item == 0, false, false
	case api.Struct:
		if d.Item == 0 {
			return d.Len >= uint64(q.Elem), true, false
		}
		for _, f := range q.Fields {
			switch {
			case f.Args && d.Item > api.ArgItems, f.Packed && f.Item == d.Item:
				return true, true, true
			case f.Item == d.Item:
				return !f.String && !f.Stored && !f.New && !f.Callback && !f.OmitOnReplay, true, false
			}
		}
	}
	return false, false, false
}

// tokensIn adds the accesses by tokens in data, and returns where the tokens are.
func (c *Call) tokensIn(b []byte, kind Kind) (spans []Span) {
	if len(c.tokens.byWord) == 0 {
		return nil
	}
	for at := 0; at+8 <= len(b); at += 8 {
		t := c.tokens.at(c.process, b[at:])
		if t == nil {
			continue
		}
		for _, o := range t.leads {
			c.add(o, 0, 0, kind)
		}
		c.Named = append(c.Named, t.made)
		spans = append(spans, Span{uint64(at), uint64(at + len(t.bytes))})
		at += len(t.bytes) - 8
	}
	return spans
}

// address adds the access by a word of data.
func (c *Call) address(w Word, kind Kind) {
	if w.Object.Kind.OnHost() && c.visibleOf(w.Object) == nil {
		c.Unseen = w.Object
	}
	c.guess = c.guess || w.Evidence == Guess
	c.add(w.Object, 0, 0, kind)
}

// Origin returns the memory that the copy, or an item of a batch, reads, see Origin.
func (c *Call) Origin(item uint32) (*timeline.Object, uint64) {
	return Origin(c.s, c.process, c.Event, func(param int) (uint64, bool) {
		d := c.data(param, 0, format.DirIn)
		if item == 0 || d == nil || d.Len < 8*uint64(item) {
			return 0, false
		}
		b, err := c.bytes(d)
		if err != nil {
			return 0, false
		}
		return word(b[8*(item-1):]), true
	})
}
