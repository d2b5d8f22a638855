package access

import (
	"bytes"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// tokens are the tokens so far.
type tokens struct {
	byWord  map[uint64][]*Token // by their first word, the newest last
	seen    [1024]uint64        // a bit for each first word, see tokenBit
	longest uint64              // length, bytes
}

// A Token is a structure that the runtime fills and the program passes on unchanged, such as a tensor map (see api.Param.Token).
type Token struct {
	Bytes  []byte           // recorded
	Object *timeline.Object // stands for it

	process uint32
	leads   []*timeline.Object // memory that it describes
	from    []place
}

// freshToken is a token that the current call makes.
type freshToken struct {
	*Token
	param int
}

// place is memory that a token was made from.
type place struct {
	object *timeline.Object
	offset uint64 // address if there is no object
}

func tokenBit(w uint64) (word int, bit uint64) {
	h := w * golden >> 48
	return int(h >> 6), 1 << (h & 63)
}

// at returns the newest token of a process that data begins with, nil if there is none.
func (x *tokens) at(process uint32, b []byte) *Token {
	w := word(b)
	if word, bit := tokenBit(w); x.seen[word]&bit == 0 {
		return nil
	}
	for _, t := range slices.Backward(x.byWord[w]) {
		if t.process == process && bytes.HasPrefix(b, t.Bytes) {
			return t
		}
	}
	return nil
}

func (x *tokens) add(t *Token) {
	if x.byWord == nil {
		x.byWord = map[uint64][]*Token{}
	}
	w := word(t.Bytes)
	x.byWord[w] = append(slices.DeleteFunc(x.byWord[w], func(o *Token) bool { return o == t }), t)
	x.longest = max(x.longest, uint64(len(t.Bytes)))
	word, bit := tokenBit(w)
	x.seen[word] |= bit
}

// Tokens reports whether a call has made tokens.
func (x *Calls) Tokens() bool { return x.tokens.byWord != nil }

// Token returns the newest token that data begins with, nil if there is none.
func (c *Call) Token(b []byte) *Token { return c.tokens.at(c.Event.Process, b) }

// MadeTokens returns the tokens that the call stores by a parameter. A token that was made before is one of the same memory.
func (c *Call) MadeTokens(param int) (made []*Token) {
	c.find(argued)
	for _, f := range c.fresh {
		if f.param == param {
			made = append(made, f.Token)
		}
	}
	return made
}

// makeTokens finds the tokens that a successful call stores by a parameter. A single token equal to an earlier one, of the same memory, is that
// one unless it overwrites another.
func (c *Call) makeTokens(i int, q *api.Param) {
	d := c.Whole(i, 0, format.DirOut)
	if d == nil {
		return
	}
	b, err := c.bytes(d)
	if err != nil {
		return
	}
	var leads []*timeline.Object
	var from []place
	for k := range c.Event.Fn.Params {
		if q := &c.Event.Fn.Params[k]; q.Role == api.Address {
			w := c.Event.Call.Args[q.Word]
			o, off := c.Locate(k, 0, w)
			if o == nil {
				off = w
			} else {
				leads = append(leads, o)
			}
			from = append(from, place{o, off})
		}
	}
	size := int(q.Token)
	if len(b) == size && len(from) > 0 && !(q.Role == api.InOut && c.Whole(i, 0, format.DirIn) != nil) {
		same := func(t *Token) bool {
			return t.process == c.Event.Process && bytes.Equal(t.Bytes, b) && slices.Equal(t.from, from)
		}
		// Programs often describe the same memory again.
		if k := slices.IndexFunc(c.tokens.byWord[word(b)], same); k >= 0 {
			c.fresh = append(c.fresh, freshToken{c.tokens.byWord[word(b)][k], i})
			return
		}
	}
	for ; len(b) >= size; b = b[size:] {
		o := &timeline.Object{Kind: "token", Process: c.Event.Process, Handle: word(b), Created: c.Event.Call.Index}
		c.fresh = append(c.fresh, freshToken{&Token{slices.Clone(b[:size]), o, c.Event.Process, leads, from}, i})
	}
}

// numbers finds objects that kernels get by a number among their arguments (see api.Model.Numbers). Small numbers are common, so an equal word alone
// proves nothing. A place in the arguments holds such numbers if all launches so far have one there.
type numbers struct {
	used   bool // some call of the trace makes such an object
	former map[number]bool
	places map[argument]*NumberPlace
}

type number struct {
	process uint32
	kind    api.Object
	handle  uint64
}

type argument struct {
	kernel *timeline.Object
	role   api.Role
	item   uint32
	at     int
}

// A NumberPlace is a place in the arguments of a kernel where numbers of objects may be.
type NumberPlace struct{ not []bool } // by kind: some launch had another word there

// Kind returns the index in api.Model.Numbers of the objects whose numbers all launches so far had there, negative if there is none.
func (p *NumberPlace) Kind() int { return slices.Index(p.not, false) }

// A Number is a word of an argument block that may be the number of an object.
type Number struct {
	Place   *NumberPlace
	At      uint64
	Objects []*timeline.Object // live objects with that number, by the kinds of api.Model.Numbers; nil for none
}

// Numbered reports whether kernels may get objects by numbers.
func (x *Calls) Numbered() bool { return x.numbers.used }

// made takes in the objects that a call has made.
func (x *numbers) made(c *Call) {
	if !x.used || !c.OK {
		return
	}
	for _, u := range c.Event.Uses {
		if o := u.Object; o.Created == c.Event.Call.Index && slices.Contains(c.m.Numbers, o.Kind) {
			if x.former == nil {
				x.former = map[number]bool{}
			}
			x.former[number{o.Process, o.Kind, o.Handle}] = true
		}
	}
}

// Numbers returns the words of an argument block that may be numbers of objects, and adds the objects to Named.
func (c *Call) Numbers(d *format.Data, b []byte) (found []Number) {
	c.find(argued)
	x := &c.numbers
	if !x.used {
		return nil
	}
	if x.places == nil {
		x.places = map[argument]*NumberPlace{}
	}
	key := argument{role: c.Param(d).Role, item: d.Item}
	if k := slices.IndexFunc(c.Event.Uses, func(u timeline.Use) bool { return u.Object.Kind == api.Function }); k >= 0 {
		key.kernel = c.Event.Uses[k].Object
	}
	for ; key.at+8 <= len(b); key.at += 8 {
		w := word(b[key.at:])
		if w == 0 {
			continue // no object
		}
		p := x.places[key]
		if p == nil {
			p = &NumberPlace{make([]bool, len(c.m.Numbers))}
			x.places[key] = p
		}
		if p.Kind() < 0 {
			continue
		}
		n := Number{p, uint64(key.at), make([]*timeline.Object, len(p.not))}
		for k, kind := range c.m.Numbers {
			if !x.former[number{c.Event.Process, kind, w}] {
				p.not[k] = true
			} else if o := c.State.Known(c.Event.Process, kind, w); o != nil { // otherwise it is destroyed, and the kernel does not use it
				n.Objects[k] = o
				if !p.not[k] {
					c.others = append(c.others, o)
				}
			}
		}
		if p.Kind() >= 0 {
			found = append(found, n)
		}
	}
	return found
}
