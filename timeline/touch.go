package timeline

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// The kinds of touches.
const (
	Reads  TouchKind = iota // the range is read by the call or its task
	Writes                  // the range is overwritten
	Names                   // an argument is an address: what is done behind it only the kernel knows
)

func (k TouchKind) String() string { return [...]string{"reads", "writes", "names"}[k] }

// NewTouches returns what tells the touches of a trace's calls, nothing of which was applied to the State yet.
func NewTouches(s *State, r *format.Reader) *Touches {
	return newTouches(s, r, nil, 8)
}

func newTouches(s *State, r *format.Reader, late map[uint64][]format.Data, step int) *Touches {
	return &Touches{s: s, r: r, late: late, step: step, lists: map[*Object]*argWords{}}
}

// Of returns the touches of the call that was applied last, valid until the next Of, and whether they are all: of some
// launches the arguments are not in the trace. It has to be asked for every call.
func (t *Touches) Of(e *Event) (touches []Touch, all bool) {
	t.buf = t.buf[:0]
	c, f := e.Call, e.Fn
	if f == nil || len(c.Args) != int(f.Words) {
		return nil, f == nil
	}
	if f.Task == api.NoTask {
		for _, u := range e.Uses {
			if u.Object.Kind == api.ArgsList {
				t.list(e, u.Object)
			}
		}
	}
	all = true
	for i := range f.Params {
		p := &f.Params[i]
		switch {
		case p.Role == api.Reads || p.Role == api.Writes || p.Role == api.Fills:
			all = t.payload(e, i) && all
		case p.Role == api.Address && c.Args[p.Word] != 0:
			t.buf = append(t.buf, Touch{Addr: c.Args[p.Word], Kind: Names, Param: i, Self: true})
		case p.Role == api.DevArgs:
			n, _ := p.Size.Bytes(f, c.Args)
			t.buf = append(t.buf, Touch{Addr: c.Args[p.Word], Size: n, Kind: Reads, Param: i, Self: true})
			b, known, _ := t.s.DevArgs(e)
			t.buf = t.words(t.buf, b, i, 0)
			all = all && known
		case p.Role == api.Launch:
			want := 0
			if u, ok := e.Use(i); ok && t.lists[u.Object] != nil {
				l := t.lists[u.Object]
				t.buf, want = append(t.buf, l.words...), l.buffers
				all = all && !l.unknown
			} else {
				all = false
			}
			all = t.items(e, i, want) && all
		case p.CopyDesc != nil:
			all = t.block(e, i) && all
		case f.Task == api.Kernel && (p.Role == api.Packed || p.Role == api.Args || p.Role == api.ArgArray || p.Role == api.Struct), p.Role == api.In && p.Addresses:
			want := 1
			if n, ok := p.Size.Bytes(f, c.Args); c.Args[p.Word] == 0 || p.Role == api.Args && ok && n == 0 {
				want = 0
			}
			all = t.items(e, i, want) && all
		}
	}
	return t.buf, all
}

// block adds what a copy reads and writes that a structure describes, by rows where there are gaps between them.
func (t *Touches) block(e *Event, i int) (all bool) {
	const mostRows = 4096
	b, ok := e.block()
	if !ok {
		return false
	}
	for k, s := range []*blockSide{&b.from, &b.to} {
		kind := [...]TouchKind{Reads, Writes}[k]
		ok = s.memory && b.pieces(s, mostRows, func(addr, size uint64) {
			t.buf = append(t.buf, Touch{Addr: addr, Size: size, Kind: kind, Param: i, At: uint64(s.field)})
		}) && ok
	}
	return ok
}

// payload adds what a copy or a fill names.
func (t *Touches) payload(e *Event, i int) bool {
	c, f := e.Call, e.Fn
	p := &f.Params[i]
	kind := Writes
	if p.Role == api.Reads {
		kind = Reads
	}
	if p.ItemSizes < 0 {
		n, ok := p.Size.Bytes(f, c.Args)
		if ok && p.Size.Pitch >= 0 {
			if n = c.Args[f.Params[p.Size.Pitch].Word] * c.Args[f.Params[p.Size.Mul[1]].Word]; n == 0 {
				return true
			}
		}
		if c.Args[p.Word] != 0 && (n > 0 || !ok) {
			t.buf = append(t.buf, Touch{Addr: c.Args[p.Word], Size: n, Kind: kind, Param: i, Self: true})
		}
		return ok
	}
	to, ok1 := t.data(c, i, 0)
	sizes, ok2 := t.data(c, int(p.ItemSizes), 0)
	for k := 0; k+8 <= min(len(to), len(sizes)); k += 8 {
		t.buf = append(t.buf, Touch{Addr: word(to[k:]), Size: word(sizes[k:]), Kind: kind, Param: i, At: uint64(k)})
	}
	return ok1 && ok2
}

// items adds the words of what lies behind a parameter, and tells whether all of it is in the trace: so many pieces at least. Where items
// are told apart from what names them, they are what counts.
func (t *Touches) items(e *Event, i, want int) bool {
	all := true
	apart := e.Fn.Params[i].Role == api.ArgArray || e.Fn.Params[i].Role == api.Launch
	for _, data := range [][]format.Data{e.Call.Data, t.late[e.Call.Index]} {
		for k := range data {
			d := &data[k]
			if int(d.Param) != i || d.Dir != format.DirIn {
				continue
			}
			if d.Item != 0 || !apart {
				want--
			}
			b, ok := t.content(d)
			t.buf = t.words(t.buf, b, i, d.Item)
			all = all && ok
		}
	}
	return all && want <= 0
}

// list notes what a call gives an argument list.
func (t *Touches) list(e *Event, o *Object) {
	if o.Ended == e.Call.Index && o.Created != e.Call.Index {
		delete(t.lists, o)
		return
	}
	l := t.lists[o]
	if l == nil {
		l = &argWords{unknown: o.Created == NoCall}
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
		b, ok := t.data(e.Call, i, 0)
		at := len(l.words)
		l.words = t.words(l.words, b, i, 0)
		for k := at; k < len(l.words); k++ {
			l.words[k].Item = uint32(len(l.words)) // in the order in which they were given
		}
		l.unknown = l.unknown || !ok
	}
}

// data returns what a call has read behind a pointer.
func (t *Touches) data(c *format.Call, param int, item uint32) ([]byte, bool) {
	for _, data := range [][]format.Data{c.Data, t.late[c.Index]} {
		i := slices.IndexFunc(data, func(d format.Data) bool { return int(d.Param) == param && d.Item == item && d.Dir == format.DirIn })
		if i >= 0 {
			if b, ok := t.content(&data[i]); ok {
				return b, true
			}
		}
	}
	return nil, false
}

func (t *Touches) content(d *format.Data) ([]byte, bool) {
	if d.Status != format.Whole || d.Len > maxShadow {
		return nil, false
	}
	b, err := d.Bytes, error(nil)
	if d.Blob != 0 {
		b, err = t.r.Blob(d.Blob)
	}
	return b, err == nil && uint64(len(b)) == d.Len
}

// words adds the 8-byte words of memory that are no small numbers.
func (t *Touches) words(to []Touch, b []byte, param int, item uint32) []Touch {
	for at := 0; at+8 <= len(b); at += t.step {
		if w := word(b[at:]); w >= leastAddress {
			to = append(to, Touch{Addr: w, Kind: Names, Param: param, Item: item, At: uint64(at)})
		}
	}
	return to
}

// leastAddress is below all addresses: a word under it is a number.
const leastAddress = 1 << 16

const (
	// maxShadow is the length in bytes of the longest copy whose content is of interest: arguments are shorter.
	maxShadow = 64 << 10
	// maxCost bounds the memory that a shadow takes, in bytes.
	maxCost = 64 << 20
	// maxWide bounds how many long writes of an allocation are told apart, and maxReads the launches that are in flight.
	maxWide  = 256
	maxReads = 1024
)

// DevArgs returns the arguments that a launch finds in device memory, when they are known, and why they are not when they
// are not. Nothing is known of calls without such arguments, and before Follow.
func (s *State) DevArgs(e *Event) (bytes []byte, known bool, why string) {
	if s.shadow == nil || e != &s.event {
		return nil, false, "device memory was not followed"
	}
	return s.shadow.bytes, s.shadow.known, s.shadow.why
}
