package access

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline"
)

// Calls is a Tracker that finds the allocations that the calls of a trace access. Apply takes all calls, in the order in which they began. Begin then
// returns the accesses of a call; its methods are called in this order:
//
//	Arguments    finds the memory that argument words, arrays and structures name
//	Scan         finds the addresses in one payload; the caller reads the payloads
//	Numbers      finds the objects that an argument block names by numbers
//	Effects      adds the memory that the call's task reaches besides
//	After        takes in the content after the call, and the objects that it ended
//
// Each calls them for all calls that a replay makes.
type Calls struct {
	Tracker
	Flow  *Flow
	Words *Words
	Memory

	m       *api.Model
	o       *Options
	visible map[*timeline.Object]bool // host-visible memory; true if the trace has its content
	layouts map[*timeline.Object]layout
	plain   map[format.BlobID]bool // payloads without words that may be addresses
	tokens  tokens
	numbers numbers
	call    Call
}

// Options are the parameters of NewCalls. The zero value of each field is its default.
type Options struct {
	Guess   bool         // guesses count as facts, see Words
	Results bool         // Call.Data also has results that were recorded after the call
	Ended   map[int]bool // allocations, by Object.ID, whose addresses still count after they have ended
	Largest uint64       // Each and Search read no payload with more bytes; 0 for no limit
}

// A Call is a call with the allocations that it accesses. It is valid until the next Begin.
type Call struct {
	Event    *timeline.Event
	OK       bool               // the call succeeded
	Regions  []Region           // memory that the call reads, writes or reaches, apart from host memory
	Host     []Region           // host memory that it reads, writes or names
	Pointers []Word             // addresses in arguments that are in device memory
	Made     []*timeline.Object // tokens that it makes
	Named    []*timeline.Object // objects that its arguments name by tokens and numbers, besides Event.Uses
	Unseen   []*timeline.Object // host memory without recorded content that its kernel may access
	Guess    bool               // its data depends on a guess, see Words

	*Calls
	declared bool // the launch accesses only the memory that its argument block declares
	fresh    []freshToken
	scan     Scan
}

// ErrStop ends Each without an error if the visit function returns it.
var ErrStop = errors.New("stop")

// NewCalls returns Calls before the first call. It reads the calls that make memory.
func NewCalls(r *format.Reader, m *api.Model, o *Options) (*Calls, error) {
	s := timeline.NewState(m).Read(r)
	x := &Calls{Tracker: newTracker(s, r, nil), Flow: NewFlow(), Words: NewWords(s), m: m, o: o,
		visible: map[*timeline.Object]bool{}, layouts: map[*timeline.Object]layout{}, plain: map[format.BlobID]bool{}}
	if err := x.survey(); err != nil {
		return nil, err
	}
	var err error
	x.late, err = r.DataByCall(&format.DataFilter{Late: true}, func(d *format.Data) bool {
		return d.Dir == format.DirIn || d.Param == api.MemoryParam || o.Results
	})
	if err != nil {
		return nil, err
	}
	x.call.Calls = x
	return x, x.follow()
}

// Each calls visit for every call that a replay of the trace makes, in the order in which the calls began.
func Each(r *format.Reader, m *api.Model, visit func(*Call) error) error {
	x, err := NewCalls(r, m, &Options{})
	if err != nil {
		return err
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := x.Apply(r.ProcessOf(c.Thread), c)
		if x.Omits(e) != Replayed {
			continue
		}
		q := x.Begin(e)
		if err := q.find(); err != nil {
			return err
		}
		if err := visit(q); err == ErrStop {
			break
		} else if err != nil {
			return err
		}
		if q.After(); q.OK {
			if err := q.contents(format.DirOut); err != nil {
				return err
			}
		}
	}
	if d := r.Damage(); len(d) > 0 {
		return &d[0]
	}
	return nil
}

// Apply advances the State by one call and returns its meaning, which is valid until the next Apply.
func (x *Calls) Apply(process uint32, c *format.Call) *timeline.Event {
	e := x.Tracker.Apply(process, c)
	if len(x.late) > 0 {
		delete(x.late, c.Index)
	}
	if len(x.o.Ended) > 0 {
		x.Words.end(e, x.o.Ended)
	}
	return e
}

// Begin returns the call that was applied last, whose function is in the model.
func (x *Calls) Begin(e *timeline.Event) *Call {
	c := &x.call
	c.Event, c.OK, c.Guess, c.declared = e, !failed(e), false, false
	c.Regions = c.Regions[:0]
	c.Host = c.Host[:0]
	c.Pointers = c.Pointers[:0]
	c.Made = c.Made[:0]
	c.Named = c.Named[:0]
	c.Unseen = c.Unseen[:0]
	c.fresh = c.fresh[:0]
	if e.Fn.Task != api.Kernel {
		x.Words.Made(e)
		x.Words.Call(e)
		c.showVisible()
	}
	if len(x.visible) > 0 {
		c.takeContent(format.DirIn)
	}
	return c
}

// find finds all accesses of the call.
func (c *Call) find() error {
	if err := c.contents(format.DirIn); err != nil {
		return err
	}
	if err := c.gather(); err != nil {
		return err
	}
	c.Effects()
	return nil
}

// gather finds the accesses by the call's arguments. After an error it goes on with the other payloads.
func (c *Call) gather() error {
	c.Arguments()
	var failed error
	for k := range c.Data {
		d := &c.Data[k]
		if d.Dir != format.DirIn || d.Status != format.Whole || d.Param == api.MemoryParam {
			continue
		}
		h := c.holds(d)
		if !h.read || !h.addresses && !c.Tokens() {
			continue
		}
		b, err := c.scanAll(d, Input)
		failed = cmp.Or(failed, err)
		if h.arguments {
			c.Numbers(d, b)
		}
	}
	return failed
}

// scanAll scans a payload and returns its content, nil if it is known to have no addresses.
func (c *Call) scanAll(d *format.Data, source Source) ([]byte, error) {
	if c.plain[d.Blob] && !c.Tokens() && !c.numbers.used || c.o.Largest > 0 && d.Len > c.o.Largest {
		return nil, nil
	}
	b, err := c.bytes(d)
	if err != nil {
		return nil, err
	}
	s := c.Scan(d, source)
	s.Next(b, uint64(len(b)))
	if d.Blob != 0 && !s.Suspect {
		c.plain[d.Blob] = true
	}
	return b, nil
}

func failed(e *timeline.Event) bool {
	return e.Fn.RetError && uint32(e.Call.Ret) != 0 && e.Call.Flags&format.Unfinished == 0
}

// Arguments adds the memory that argument words, arrays and structures name, and makes the tokens of the call.
func (c *Call) Arguments() {
	for i := range c.Event.Fn.Params {
		if q := &c.Event.Fn.Params[i]; !q.OmitOnReplay {
			c.param(i, q)
		}
	}
}

// add adds an access of an object, nil for none.
func (c *Call) add(o *timeline.Object, lo, hi uint64, kind Kind) {
	switch {
	case o == nil:
	case o.Kind.OnHost():
		c.Host = append(c.Host, Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	case o.Kind != api.Reservation:
		c.Regions = append(c.Regions, Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	}
}

// name adds an address at an offset of an object, nil for none.
func (c *Call) name(o *timeline.Object, off uint64, kind Kind) { c.add(o, off, off, kind) }

// span adds an access of a range of addresses, which may extend over several adjacent mappings. It begins at an offset of an object, nil for none.
func (c *Call) span(o *timeline.Object, addr, off, n uint64, kind Kind) {
	for o != nil && n > 0 {
		here := n
		if o.Kind == api.Device && off < o.Size {
			here = min(n, o.Size-off)
		}
		c.add(o, off, off+here, kind)
		if n -= here; n == 0 {
			return
		}
		addr += here
		o, off, _ = c.State.Find(c.Event.Process, addr)
	}
}

// Locate returns the allocation that an argument, or an address in an item, is an address of; nil if there is none.
func (c *Call) Locate(i int, item uint32, addr uint64) (*timeline.Object, uint64) {
	if u, ok := c.Event.Use(i); ok && item == 0 {
		return u.Object, u.Offset
	}
	if o, off, ok := c.State.Find(c.Event.Process, addr); ok {
		return o, off
	}
	if o, off, ok := c.State.Reserved(c.Event.Process, addr); ok {
		return o, off
	}
	return c.Words.ended(c.Event.Process, addr)
}

// param adds the accesses by the words of a parameter.
func (c *Call) param(i int, q *api.Param) {
	w := c.Event.Call.Args[q.Word]
	switch {
	case q.Role == api.Struct:
		c.structure(i)
	case w == 0:
	case q.Role == api.Map && q.Object == api.Registered && c.OK && !c.m.KeepsVisible():
		if u, ok := c.Event.Use(i); ok && u.Object.Parent == nil {
			c.Unseen = append(c.Unseen, u.Object)
		}
	case q.Token != 0 && c.OK:
		c.makeTokens(i, q)
	default:
		c.buf, _ = c.named(c.buf[:0], c.Event, i)
		for k := range c.buf {
			a := &c.buf[k]
			o, off := c.Locate(i, a.item(), a.Addr)
			if a.Kind == Names || q.Role == api.DevArgs { // a kernel may write where its arguments are
				c.name(o, off, Names)
			} else {
				c.span(o, a.Addr, off, a.Size, a.Kind)
			}
		}
		if q.Role == api.DevArgs {
			c.pointers()
		}
	}
}

// pointers adds the addresses in arguments that are in device memory, if their content is known.
func (c *Call) pointers() {
	b, known, _ := c.DevArgs()
	if !known || !c.OK {
		return
	}
	if x := c.State.Operator(c.Event, b); x != nil {
		c.declared = true
		for _, p := range x.Operands() {
			if o, off, ok := c.State.Find(c.Event.Process, p.Addr); ok && !o.Kind.OnHost() {
				w := Word{At: uint64(p.At), Addr: p.Addr, Object: o, Offset: off, Evidence: ByLayout}
				c.Pointers = append(c.Pointers, w)
				c.operand(&w, &p)
			}
		}
		return
	}
	for at := uint64(0); at+8 <= uint64(len(b)); at += 8 {
		w := word(b[at:])
		if o, off, ok := c.State.Find(c.Event.Process, w); ok && !o.Kind.OnHost() {
			c.name(o, off, Names)
			c.Pointers = append(c.Pointers, Word{At: at, Addr: w, Object: o, Offset: off, Evidence: ByArgument})
		}
	}
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
				c.name(c.State.Known(c.Event.Process, f.Object, v), 0, Names) // its address may be in memory made from it
			}
		case c.Whole(i, f.Item, format.DirIn) == nil:
			o, off := c.Locate(i, f.Item, v)
			c.name(o, off, Names)
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
	d := c.Whole(i, 0, format.DirIn)
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
			o, off := c.Locate(-2, 1, s.First)
			c.span(o, s.First, off, (b.Depth-1)*s.Plane+(b.Height-1)*s.Pitch+b.Width, [...]Kind{Reads, Writes}[k])
		}
	}
}

// Omission is why a replay does not make a call.
type Omission uint8

// The omissions.
const (
	Replayed       Omission = iota // a replay makes it
	NotInModel                     // the function is not in the model, or the model does not fit the call
	Inside                         // an annotation, a host function, or a call of which the trace has the parts
	Unfinished                     // it had not returned when the recording ended
	NothingPending                 // a poll for callbacks that found none
	Refused                        // its error came from a callback, which a replay does not run
	Busy                           // it changed nothing, because launched work still used its object
	Exception                      // it reads an exception, which only the program's function is given
	Skipped                        // it changes nothing, and its result is valid in its own run only
	Impossible                     // api.Func.ReplayError says why
)

// givesNew reports whether the call is the first one to give the handle of an object.
func givesNew(e *timeline.Event) bool {
	return slices.ContainsFunc(e.Uses, func(u timeline.Use) bool { return u.Object.Created == e.Call.Index })
}

// Omits returns why a replay does not make the call that was applied last, Replayed if it does.
func (x *Calls) Omits(e *timeline.Event) Omission {
	f, c := e.Fn, e.Call
	switch {
	case f == nil:
		return NotInModel
	case f.HostCallback || f.Annotation || f.Composite:
		return Inside
	case c.Flags&format.Unfinished != 0:
		return Unfinished
	case f.PollsCallbacks && failed(e):
		return NothingPending
	case x.m.Refused != 0 && int32(c.Ret) == x.m.Refused && failed(e):
		return Refused
	case x.m.Busy != 0 && int32(c.Ret) == x.m.Busy && failed(e):
		return Busy
	case f.Task == api.NoTask && slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Use && q.Object == api.Exception && c.Args[q.Word] != 0 }):
		return Exception
	case f.SkipOnReplay && !givesNew(e):
		return Skipped
	case f.ReplayError != "":
		return Impossible
	}
	return Replayed
}

// operand adds the accesses by an address word of an operator's argument block.
func (c *Call) operand(w *Word, x *block.Operand) {
	o, off := w.Object, w.Offset
	if o.Kind.OnHost() {
		c.name(o, off, Names)
		return
	}
	addr := x.Addr + x.Lo
	if at, offset, ok := c.State.Find(c.Event.Process, addr); ok {
		o, off = at, offset
	} else {
		off += x.Lo
	}
	for _, kind := range kinds(x) {
		c.span(o, addr, off, x.Size, kind)
	}
}
