package access

import (
	"bytes"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// tokens are the tokens so far (see api.Param.Token), by their first word, the newest last.
type tokens struct{ byWord map[uint64][]*token }

type token struct {
	process uint32
	bytes   []byte
	made    *timeline.Object   // stands for the token
	leads   []*timeline.Object // memory that it describes
	from    []place
}

type place struct {
	object *timeline.Object
	offset uint64 // address if there is no object
}

// at returns the newest token of a process that data begins with, nil if there is none.
func (x *tokens) at(process uint32, b []byte) *token {
	for _, t := range slices.Backward(x.byWord[word(b)]) {
		if t.process == process && bytes.HasPrefix(b, t.bytes) {
			return t
		}
	}
	return nil
}

// make adds the tokens that a call makes.
func (x *tokens) make(c *Call) {
	for i := range c.Event.Fn.Params {
		q := &c.Event.Fn.Params[i]
		d := c.data(i, 0, format.DirOut)
		if q.Token == 0 || d == nil || !c.OK {
			continue
		}
		if b, err := c.bytes(d); err == nil {
			x.add(c, int(q.Token), b, q.Role == api.InOut && c.data(i, 0, format.DirIn) != nil)
		}
	}
}

// add adds the tokens in b. A token equal to an earlier one, of the same memory, is that one unless anew is set.
func (x *tokens) add(c *Call, size int, b []byte, anew bool) {
	var leads []*timeline.Object
	var from []place
	for i := range c.Event.Fn.Params {
		if q := &c.Event.Fn.Params[i]; q.Role == api.Address {
			w := c.Event.Call.Args[q.Word]
			o, off := c.locate(i, 0, w)
			if o == nil {
				off = w
			} else {
				leads = append(leads, o)
			}
			from = append(from, place{o, off})
		}
	}
	for ; len(b) >= size; b = b[size:] {
		t := &token{process: c.process, bytes: slices.Clone(b[:size]), leads: leads, from: from}
		all := x.byWord[word(b)]
		same := func(o *token) bool {
			return o.process == t.process && bytes.Equal(o.bytes, t.bytes) && slices.Equal(o.from, t.from)
		}
		if k := slices.IndexFunc(all, same); k >= 0 && len(from) > 0 && !anew {
			t = all[k]
		} else {
			t.made = &timeline.Object{Kind: "token", Process: t.process, Handle: word(b), Created: c.Event.Call.Index}
		}
		if x.byWord == nil {
			x.byWord = map[uint64][]*token{}
		}
		x.byWord[word(b)] = append(slices.DeleteFunc(all, func(o *token) bool { return o == t }), t)
		c.Made = append(c.Made, t.made)
	}
}

// numbers finds objects that kernels get by a number among their arguments (see api.Model.Numbers). A place in the arguments holds such numbers if
// all launches so far have one there.
type numbers struct {
	used   bool // some call of the trace makes such an object
	former map[number]bool
	not    map[argument][]bool // by kind: some launch had another word there
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

// find adds the objects that an argument block names.
func (x *numbers) find(c *Call, q *api.Param, d *format.Data, b []byte) {
	if !x.used {
		return
	}
	if x.not == nil {
		x.not = map[argument][]bool{}
	}
	key := argument{role: q.Role, item: d.Item}
	if k := slices.IndexFunc(c.Event.Uses, func(u timeline.Use) bool { return u.Object.Kind == api.Function }); k >= 0 {
		key.kernel = c.Event.Uses[k].Object
	}
	for ; key.at+8 <= len(b); key.at += 8 {
		w := word(b[key.at:])
		if w == 0 {
			continue
		}
		not := x.not[key]
		if not == nil {
			not = make([]bool, len(c.m.Numbers))
			x.not[key] = not
		}
		if !slices.Contains(not, false) {
			continue
		}
		for n, kind := range c.m.Numbers {
			if !x.former[number{c.process, kind, w}] {
				not[n] = true
			} else if o := c.s.Known(c.process, kind, w); o != nil && !not[n] {
				c.Named = append(c.Named, o)
			}
		}
	}
}
