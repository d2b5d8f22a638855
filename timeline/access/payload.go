package access

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/timeline"
)

// A Source says how a payload belongs to its call.
type Source uint8

// The sources.
const (
	Input   Source = iota // the call reads it
	Content               // memory had it before or after the call
	Result                // the call's task wrote it: each word may be an address or a number
)

// A Scan finds addresses and tokens in a payload, piece by piece. It adds the memory that they name to the accesses of the call.
type Scan struct {
	Words   []Word       // addresses in the latest piece; all words of a Result that may be one, whose Object is nil outside allocations
	Tokens  []FoundToken // in the latest piece
	Suspect bool         // with other allocations or tokens the result could be another one
	Ahead   uint64       // how many bytes Next needs after a piece, unless the payload ends

	c         *Call
	source    Source
	addresses bool // words may be addresses
	kind      Kind // of the accesses
	payload   Payload
	memory    *timeline.Object // that has the Content, nil if it is not host-visible
	at        uint64           // offset of the next piece
}

// A FoundToken is a token in a payload.
type FoundToken struct {
	*Token
	At uint64
}

// MemoryParam describes host-visible memory content, which belongs to no parameter.
var MemoryParam = api.Param{Name: "memory", Role: api.Reads}

// Param returns the parameter that data of the call belongs to.
func (c *Call) Param(d *format.Data) *api.Param {
	if int(d.Param) >= len(c.Event.Fn.Params) {
		return &MemoryParam
	}
	return &c.Event.Fn.Params[d.Param]
}

// Scan returns a Scan of a payload, valid until the next one.
func (c *Call) Scan(d *format.Data, source Source) *Scan {
	if source != Content {
		c.find(argued)
	}
	s := &c.scan
	q := c.Param(d)
	*s = Scan{c: c, source: source, addresses: true, kind: Names, Tokens: s.Tokens[:0]}
	switch {
	case source == Input:
		s.addresses = c.holds(d).addresses
	case d.Param == api.MemoryParam:
		if o, _, ok := c.State.Find(c.Event.Process, d.Addr); ok {
			if s.memory = c.Visible(o); s.memory != nil {
				c.Flow.Store(s.memory, false)
			}
		}
	}
	if q.Role == api.Reads {
		s.kind = Points
	}
	s.Ahead = max(c.tokens.longest, 7)
	if s.addresses {
		var args []kernelbin.Arg
		if q.Role == api.Args {
			args = c.layout()
		}
		s.payload = PayloadOf(c.Event, q, d, args)
		s.operator(q, d)
	}
	return s
}

// maxBlock limits the bytes of an operator's argument block.
const maxBlock = 16 << 20

// operator finds the addresses of an operator's argument block. The block of an unreadable payload is not known, and its reader reports the error.
func (s *Scan) operator(q *api.Param, d *format.Data) {
	if q.Role != api.Args || s.source != Input || d.Len > maxBlock {
		return
	}
	b, err := s.c.bytes(d)
	if err != nil {
		return
	}
	if x := s.c.Calls.operator(s.c.Event, q, d, b); x != nil {
		s.payload.Operator, s.payload.Operands = true, x.Operands()
		s.c.declared = true
	}
}

// Next takes in the words that start in the first n bytes of b. It returns how many bytes it has taken in: more than n if a token extends beyond
// them. Words and Tokens are valid until the next call of Next on any Scan.
func (s *Scan) Next(b []byte, n uint64) (done uint64) {
	c := s.c
	n = min(n, uint64(len(b)))
	s.Words = nil
	if c.Tokens() {
		n = s.findTokens(b, n)
	}
	begin := b[:min(n+7, uint64(len(b)))] // all words that begin in the first n bytes
	switch {
	case !s.addresses:
	case s.source == Result:
		s.Words = c.Words.Near(&s.payload, begin, s.at)
		s.Suspect = s.Suspect || len(s.Words) > 0
	default:
		words, suspect := c.Words.Find(&s.payload, begin, s.at)
		s.Words, s.Suspect = words, s.Suspect || suspect
	}
	if len(s.Tokens) > 0 {
		s.Words = slices.DeleteFunc(s.Words, func(w Word) bool {
			return slices.ContainsFunc(s.Tokens, func(t FoundToken) bool { return t.At <= w.At && w.At < t.At+uint64(len(t.Bytes)) })
		})
	}
	if s.source != Result {
		for i := range s.Words {
			s.address(&s.Words[i])
		}
	}
	s.at += n
	return n
}

// findTokens finds the tokens that start in the first n bytes of b.
func (s *Scan) findTokens(b []byte, n uint64) (done uint64) {
	s.Tokens = s.Tokens[:0]
	for k := uint64(0); k < n && k+8 <= uint64(len(b)); k += 8 {
		t := s.c.tokens.at(s.c.Event.Process, b[k:])
		if t == nil {
			continue
		}
		s.Suspect = true
		s.Tokens = append(s.Tokens, FoundToken{t, s.at + k})
		if s.source == Input {
			for _, o := range t.leads {
				s.c.name(o, 0, s.kind)
			}
			s.c.others = append(s.c.others, t.Object)
		}
		k += uint64(len(t.Bytes)) - 8
		n = max(n, min(k+8, uint64(len(b))))
	}
	return n
}

// address adds the access by a word.
func (s *Scan) address(w *Word) {
	c, o := s.c, w.Object
	if o.Created == c.Event.Call.Index {
		return
	}
	if o.Kind.OnHost() && c.Visible(o) == nil {
		c.unseen = append(c.unseen, o)
	}
	guess := w.Evidence == Guess && !c.o.Guess
	switch {
	case s.source == Input:
		c.Guess = c.Guess || guess
		if x := s.payload.operand(w.At); x != nil {
			c.operand(w, x)
			return
		}
		c.name(o, w.Offset, s.kind)
	case s.memory != nil && !o.Kind.OnHost():
		c.Flow.points(c.Flow.of(s.memory), o)
		if guess {
			c.Flow.Store(s.memory, true)
		}
	}
}

// held says how a call holds input data.
type held struct {
	read      bool // a replay reads it
	addresses bool // its words may be addresses
	arguments bool // it is an argument block of a kernel
}

func (c *Call) holds(d *format.Data) held {
	if int(d.Param) >= len(c.Event.Fn.Params) {
		return held{}
	}
	q := &c.Event.Fn.Params[d.Param]
	switch q.Role {
	case api.Reads:
		n, _ := q.Size.Bytes(c.Event.Fn, c.Event.Call.Args)
		return held{read: q.ItemSizes >= 0 && d.Item > 0 || d.Item == 0 && q.ItemSizes < 0 && d.Len == n, addresses: q.Addresses}
	case api.In:
		return held{read: d.Item == 0, addresses: q.Addresses && !(q.Token != 0 && c.OK)}
	case api.InOut:
		return held{read: true, addresses: q.Addresses}
	case api.Args:
		return held{d.Item == 0, true, true}
	case api.ArgArray:
		return held{d.Item > 0, true, true}
	case api.Packed:
		return held{d.Item == 1, true, true}
	case api.Launch:
		return held{read: d.Item > 0, addresses: true}
	case api.List:
		return held{read: d.Item == 0}
	case api.Struct:
		return c.holdsInStruct(q, d)
	}
	return held{}
}

// holdsInStruct is holds for a structure and the data that it points to.
func (c *Call) holdsInStruct(q *api.Param, d *format.Data) held {
	if d.Item == 0 {
		return held{read: d.Len >= uint64(q.Elem), addresses: true}
	}
	for _, f := range q.Fields {
		switch {
		case f.Args && d.Item > api.ArgItems, f.Packed && f.Item == d.Item:
			return held{true, true, true}
		case f.Item == d.Item:
			return held{read: !f.String && !f.Stored && !f.New && !f.Callback && !f.OmitOnReplay, addresses: true}
		}
	}
	return held{read: q.CopyDesc != nil && d.Item == 1, addresses: q.Addresses} // the rows of a copy
}

// layout is a kernel's arguments as its binary declares them.
type layout struct {
	kernel string
	args   []kernelbin.Arg
}

// layout returns the arguments that the kernel's binary declares.
func (c *Call) layout() []kernelbin.Arg {
	for _, u := range c.Event.Uses {
		if o := u.Object; o.Kind == api.Function && o.Parent != nil {
			known, ok := c.layouts[o]
			if !ok || known.kernel != c.Event.Kernel {
				known = layout{c.Event.Kernel, c.State.Arguments(c.Event)}
				c.layouts[o] = known
			}
			return known.args
		}
	}
	return c.State.Arguments(c.Event)
}
