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

// Calls follows the calls of a trace, in the order in which they began.
type Calls struct {
	tracker
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

// Options are the parameters of New. The zero value of each field is its default.
type Options struct {
	Objects bool // calls that a replay makes have allocations, tokens and numbers besides addresses; Apply then takes all calls
	// Scans means that the caller scans all payloads of such a call with Call.Scan and Call.Numbers before it asks for Regions or Depends. A call of which it asks
	// for neither changes nothing.
	Scans   bool
	Guess   bool         // guesses count as facts, see Words
	Results bool         // Call.Data also has results that were recorded after the call
	Ended   map[int]bool // allocations, by Object.ID, whose addresses still count after they have ended
	Largest uint64       // payloads with more bytes are not read; 0 for no limit
	skipped bool         // with Objects: calls that a replay does not make have allocations too
}

// A Call is a call with what it accesses. It is valid until the next Apply. Without Options.Objects, and for other calls than those of a replay, it has no
// allocations.
type Call struct {
	Event *timeline.Event
	OK    bool // the call succeeded; false if its function is not in the model
	Guess bool // its data depends on a guess, see Words

	*Calls
	stage    stage
	omission Omission
	err      error // of payloads that could not be read
	regions  []Region
	host     []Region
	pointers []Word
	made     []*timeline.Object
	others   []*timeline.Object // see Named
	unseen   []*timeline.Object
	declared bool // the launch accesses only the memory that its argument block declares
	fresh    []freshToken
	scan     Scan
}

// A stage says how much of a Call has been found.
type stage uint8

const (
	applied stage = iota // nothing
	begun                // the content of host-visible memory before it
	argued               // the memory that argument words, arrays and structures name
	whole                // all that it accesses
	ended                // the content of host-visible memory after it
)

// Regions returns the memory that the call reads, writes or reaches, apart from host memory.
func (c *Call) Regions() []Region { c.find(whole); return c.regions }

// Host returns the host memory that the call reads, writes or names.
func (c *Call) Host() []Region { c.find(whole); return c.host }

// Made returns the tokens that the call makes.
func (c *Call) Made() []*timeline.Object { c.find(whole); return c.made }

// Named returns the objects that the call's arguments name by tokens and numbers, besides Event.Uses.
func (c *Call) Named() []*timeline.Object { c.find(whole); return c.others }

// Unseen returns host memory without recorded content that the call's kernel may access.
func (c *Call) Unseen() []*timeline.Object { c.find(whole); return c.unseen }

// Depends reports whether the call depends on guesses.
func (c *Call) Depends() bool { c.find(whole); return c.Flow.Depends() }

// Pointers returns the addresses in arguments that are in device memory.
func (c *Call) Pointers() []Word { c.find(argued); return c.pointers }

// Addresses returns the accesses by the addresses among the arguments, valid until the next call of Addresses. all is false if the trace lacks some of the
// arguments.
func (c *Call) Addresses() (accesses []Access, all bool) { return c.of(c.Event, 8) }

// Omits returns why a replay does not make the call, Replayed if it does.
func (c *Call) Omits() Omission {
	if !c.o.Objects {
		c.omission = c.omits(c.Event)
	}
	return c.omission
}

// ErrStop ends Each without an error if the visit function returns it.
var ErrStop = errors.New("stop")

// New returns Calls before the first call. If calls of the trace have arguments in device memory, it reads the trace, several times if needed, to find the
// launches whose arguments a later call may overwrite too early. With Options.Objects it reads the calls that make memory.
func New(r *format.Reader, m *api.Model, o *Options) (*Calls, error) {
	if o == nil {
		o = &Options{}
	}
	s := timeline.NewState(m).Read(r)
	x := &Calls{tracker: newTracker(s, r, nil), m: m, o: o}
	x.call.Calls = x
	if !o.Objects {
		return x, x.follow()
	}
	x.Flow, x.Words = NewFlow(), NewWords(s)
	x.visible, x.layouts, x.plain = map[*timeline.Object]bool{}, map[*timeline.Object]layout{}, map[format.BlobID]bool{}
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
	return x, x.follow()
}

// Each calls visit for every call that a replay of the trace makes, in the order in which the calls began.
func Each(r *format.Reader, m *api.Model, visit func(*Call) error) error {
	x, err := New(r, m, &Options{Objects: true})
	if err != nil {
		return err
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		q := x.Apply(r.ProcessOf(c.Thread), c)
		if q.Omits() != Replayed {
			continue
		}
		if q.find(whole); q.err != nil {
			return q.err
		}
		if err := visit(q); err == ErrStop {
			break
		} else if err != nil {
			return err
		}
		if q.find(ended); q.err != nil {
			return q.err
		}
	}
	if d := r.Damage(); len(d) > 0 {
		return &d[0]
	}
	return nil
}

// Apply advances the State by one call and returns it. It first finds the rest of the call before, which later calls depend on.
func (x *Calls) Apply(process uint32, c *format.Call) *Call {
	q := &x.call
	if q.stage == whole || q.stage >= begun && !x.o.Scans {
		q.find(ended)
	}
	e := x.apply(process, c)
	q.Event, q.OK, q.Guess, q.stage, q.err, q.declared = e, e.Fn != nil && !failed(e), false, applied, nil, false
	q.regions, q.host, q.pointers = q.regions[:0], q.host[:0], q.pointers[:0]
	q.made, q.others, q.unseen, q.fresh = q.made[:0], q.others[:0], q.unseen[:0], q.fresh[:0]
	if !x.o.Objects {
		if x.shadow == nil {
			x.extend(e)
		}
		return q
	}
	if len(x.late) > 0 {
		delete(x.late, c.Index)
	}
	if len(x.o.Ended) > 0 {
		x.Words.end(e, x.o.Ended)
	}
	if q.omission = x.omits(e); q.omission == Replayed || x.o.skipped && q.omission != NotInModel && q.omission != Inside {
		q.begin()
	}
	return q
}

// begin takes in what the call makes, and the content before it.
func (c *Call) begin() {
	c.stage = begun
	if c.Event.Fn.Task != api.Kernel {
		c.Words.Made(c.Event)
		c.Words.Call(c.Event)
		c.showVisible()
	}
	if len(c.visible) > 0 {
		c.takeContent(format.DirIn)
	}
}

// find finds what the call accesses up to a stage. Unless the caller scans them, it reads the payloads.
func (c *Call) find(to stage) {
	if c.stage == applied || c.stage >= to {
		return
	}
	if c.stage < argued {
		if !c.o.Scans {
			c.err = c.contents(format.DirIn)
		}
		c.stage = argued
		c.arguments()
		if !c.o.Scans {
			c.err = cmp.Or(c.err, c.gather())
		}
	}
	if c.stage < whole && to >= whole {
		c.stage = whole
		c.effects()
	}
	if to == ended {
		c.stage = ended
		if c.after(); c.OK && !c.o.Scans {
			c.err = cmp.Or(c.err, c.contents(format.DirOut))
		}
	}
}

// gather finds the accesses by the call's payloads. After an error it goes on with the other ones.
func (c *Call) gather() error {
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

// arguments adds the memory that argument words, arrays and structures name, and makes the tokens of the call.
func (c *Call) arguments() {
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
		c.host = append(c.host, Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
	case o.Kind != api.Reservation:
		c.regions = append(c.regions, Region{Object: o, Lo: lo, Hi: hi, Kind: kind})
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
			c.unseen = append(c.unseen, u.Object)
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
			c.inDevice()
		}
	}
}

// inDevice adds the addresses in arguments that are in device memory, if their content is known.
func (c *Call) inDevice() {
	b, known, _ := c.DevArgs()
	if !known || !c.OK {
		return
	}
	if x := c.State.Operator(c.Event, b); x != nil {
		c.declared = true
		for _, p := range x.Operands() {
			if o, off, ok := c.State.Find(c.Event.Process, p.Addr); ok && !o.Kind.OnHost() {
				w := Word{At: uint64(p.At), Addr: p.Addr, Object: o, Offset: off, Evidence: ByLayout}
				c.pointers = append(c.pointers, w)
				c.operand(&w, &p)
			}
		}
		return
	}
	for at := uint64(0); at+8 <= uint64(len(b)); at += 8 {
		w := word(b[at:])
		if o, off, ok := c.State.Find(c.Event.Process, w); ok && !o.Kind.OnHost() {
			c.name(o, off, Names)
			c.pointers = append(c.pointers, Word{At: at, Addr: w, Object: o, Offset: off, Evidence: ByArgument})
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
	Skipped                        // it changes nothing and its result is valid in its own run only, or the runtime did not get it
	Impossible                     // api.Func.ReplayError says why
)

// givesNew reports whether the call is the first one to give the handle of an object.
func givesNew(e *timeline.Event) bool {
	return slices.ContainsFunc(e.Uses, func(u timeline.Use) bool { return u.Object.Created == e.Call.Index })
}

// omits returns why a replay does not make the call that was applied last, Replayed if it does.
func (x *Calls) omits(e *timeline.Event) Omission {
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
	case c.Flags&format.Kept != 0 || f.SkipOnReplay && !givesNew(e):
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
