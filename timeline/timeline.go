// Package timeline gives the calls of a trace their meaning: handles become objects, addresses become places in
// allocations, launches have kernels with names, and copies are tasks on a stream.
//
// A State is advanced call by call in the order of their beginnings and answers for that moment. A Walk does so for a
// whole trace and tells of calls, tasks, ranges, steps and counters as they become known, in bounded memory: whoever shows a trace
// stands on it. Load keeps a whole one in memory for the few who need it in another order. Nothing here changes or writes anything; a
// State and a Walk belong to one goroutine.
package timeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernelbin"
)

// NoCall stands for a call that is not in the trace.
const NoCall = ^uint64(0)

// RetParam is the parameter number of the returned value.
const RetParam = api.RetParam

// An Object is a thing of the runtime's that the program names by a handle, or an allocation that it names by its
// addresses.
type Object struct {
	ID      int // from 1, in the order in which the trace shows them
	Kind    api.Object
	Handle  uint64 // handle, or first address; of a thread's own default stream the number of api.Model.StreamOf
	Size    uint64 // bytes of an allocation
	Process uint32
	Created uint64 // call that made it, NoCall for an object older than the trace
	Ended   uint64 // call that ended it, NoCall where none did
	Name    string // of a function: its kernel's
	Parent  *Object
	// Constant says that no call makes it: a thread's own default stream.
	Constant bool
	// NonBlocking says of a stream that its context's default one does not wait for it, see api.Model.NonBlocking.
	NonBlocking bool

	Hosted bool // memory that the program uses without a call, as its own
	Device int  // of what was made on one, NoDevice where that is not known

	exported *Object // of an import: what another process exported by the key
	lane     *lane   // of a stream, in a Walk
	held     int     // references besides the first, see api.Param.Held
}

// Exported returns what the processes share: of an object that was imported by a key the exported one, of any other the object itself.
func (o *Object) Exported() *Object {
	for o.exported != nil {
		o = o.exported
	}
	return o
}

// A Use is an object that a call names.
type Use struct {
	Param  int // number of the parameter, RetParam for the returned value
	Object *Object
	Offset uint64 // of an address in its allocation; of one of several handles that the call has stored, its place among them in bytes
	Field  uint32 // of a handle in a structure, where it stands there
}

// An Event is a call with its meaning.
type Event struct {
	Call   *format.Call
	Fn     *api.Func // nil where the model has no such function, or one with other arguments
	Uses   []Use
	Kernel string  // of a launch, "" where no name is known
	Stream *Object // that the call names; nil for a default stream and where there is none
	// Captured is the stream that began the capture in which the call's task went into a graph, or the graph itself,
	// where it does not run now; nil for a task that runs.
	Captured *Object
}

// Use returns the object that a parameter names.
func (e *Event) Use(param int) (Use, bool) {
	for _, u := range e.Uses {
		if u.Param == param {
			return u, true
		}
	}
	return Use{}, false
}

// A State is what is known of the runtime's objects at one moment of a trace.
type State struct {
	model  *api.Model
	byFunc []*funcHandlers // by api.ID
	live   map[key]*Object
	recent [256]struct { // of live, since most calls name what one before has named
		key
		o *Object
	}
	allocs   map[uint32]*ranges
	reserved map[uint32]*ranges
	young    []young
	coming   []young // of the young, those whose handle or addresses another object has for now
	captures captures
	objects  int
	device   uint64    // bytes of live device allocations
	moved    []*Object // device memory that the latest call has made or ended, in this order
	ended    []*Object // objects that the current call ends if it succeeds
	event    Event
	seats    map[uint32][]seat // by thread, the one that holds last
	devices  map[uint32][]int  // that the threads of a process have chosen
	shadow   *shadow           // nil: device memory is not followed
	reader   *format.Reader    // nil: binaries are not looked into
	binaries map[*Object]*kernelbin.File
	shared   map[string]uint64     // bytes of memory, by the keys that other processes open it with
	taken    map[string][]*Object  // what they have opened, of any process
	exported map[string]*Object    // other objects than memory, by their keys
	found    map[*Object][]*Object // of a binary, a function or levels what was found by it, and ends with it
}

type key struct {
	process uint32
	kind    api.Object
	handle  uint64
}

// A young object is one whose maker has not returned: no other thread can know it yet. Where such a thread names its handle, or its
// addresses, it means an object that has them before: one that was ended while the maker waited, or one that was made and ended
// meanwhile.
type young struct {
	o     *Object
	until int64 // end of the maker
	maker uint32
}

// NewState returns the state before the first call.
func NewState(m *api.Model) *State {
	return &State{model: m, byFunc: make([]*funcHandlers, m.Funcs[len(m.Funcs)-1].ID+1), live: map[key]*Object{}, found: map[*Object][]*Object{}, allocs: map[uint32]*ranges{}, reserved: map[uint32]*ranges{},
		seats: map[uint32][]seat{}, devices: map[uint32][]int{}, shared: map[string]uint64{}, taken: map[string][]*Object{}, exported: map[string]*Object{}}
}

// Apply advances the state by one call of a process and returns its meaning, which is valid until the next Apply.
func (s *State) Apply(process uint32, c *format.Call) *Event {
	e := s.apply(process, c)
	if s.shadow != nil {
		s.shadow.apply(s, process, e)
	}
	return e
}

// A handler is what apply does about a parameter.
type handler func(s *State, process uint32, e *Event, i int)

// using has the handlers by the role of the parameter. They find the objects that a call names, before the call ends or makes any.
var using = map[api.Role]handler{
	api.Use:     (*State).uses,
	api.Launch:  (*State).uses,
	api.End:     (*State).ends,
	api.Struct:  (*State).fields,
	api.Address: (*State).addresses,
	api.DevArgs: (*State).addresses,
	api.Reads:   (*State).addresses,
	api.Writes:  (*State).addresses,
	api.Fills:   (*State).addresses,
}

// making has the handlers that make objects, for calls that succeeded.
var making = map[api.Role]handler{
	api.New:        (*State).givesOut,
	api.Find:       (*State).givesOut,
	api.Place:      (*State).givesAt,
	api.Map:        (*State).givesAt,
	api.Struct:     (*State).inside,
	api.OutHandles: (*State).givesHandles,
}

// handlers returns the handlers of a function's parameters, by their index.
func (s *State) handlers(f *api.Func) *funcHandlers {
	h := s.byFunc[f.ID]
	if h != nil {
		return h
	}
	h = &funcHandlers{}
	for i := range f.Params {
		if do := using[f.Params[i].Role]; do != nil {
			h.using = append(h.using, paramHandler{i, do})
		}
		if do := making[f.Params[i].Role]; do != nil {
			h.making = append(h.making, paramHandler{i, do})
		}
	}
	s.byFunc[f.ID] = h
	return h
}

// funcHandlers are the handlers of the parameters of a function.
type funcHandlers struct{ using, making []paramHandler }

type paramHandler struct {
	param int
	do    handler
}

func (s *State) apply(process uint32, c *format.Call) *Event {
	f := s.model.Func(api.ID(c.Func))
	e := &s.event
	*e = Event{Call: c, Fn: f, Uses: e.Uses[:0]}
	s.moved, s.ended = s.moved[:0], s.ended[:0]
	s.grow(c.Start)
	if f == nil || !fits(f, c) {
		e.Fn = nil
		return e
	}
	h := s.handlers(f)
	for _, p := range h.using {
		p.do(s, process, e, p.param)
	}
	if f.Stream >= 0 {
		for _, u := range e.Uses {
			if u.Param == int(f.Stream) && u.Object.Kind == api.Stream {
				e.Stream = u.Object
			}
		}
	}
	if f.Task == api.Kernel {
		e.Kernel = s.kernelOf(e)
	}
	if c.Flags&format.Unfinished != 0 || f.RetError && uint32(c.Ret) != 0 {
		return e
	}
	for _, o := range s.ended {
		if o.held > 0 {
			o.held--
			continue
		}
		s.end(o, c.Index)
	}
	for _, p := range h.making {
		p.do(s, process, e, p.param)
	}
	if (f.Ret == api.New || f.Ret == api.Find) && c.Ret != 0 {
		o := s.made(process, &api.Param{Role: f.Ret, Object: f.RetObject}, c.Ret, c)
		e.Uses = append(e.Uses, Use{Param: RetParam, Object: o})
	}
	s.nameObjects(e)
	if f.Shares != api.NoShare {
		s.share(process, e)
	}
	s.sit(process, e)
	s.captures.apply(e)
	return e
}

// uses handles a handle that a call uses.
func (s *State) uses(process uint32, e *Event, i int) {
	p := &e.Fn.Params[i]
	if o := s.used(process, e, p.Object, e.Call.Args[p.Word]); o != nil {
		e.Uses = append(e.Uses, Use{Param: i, Object: o})
	}
}

// ends handles a handle whose object a call ends, if it succeeds.
func (s *State) ends(process uint32, e *Event, i int) {
	p := &e.Fn.Params[i]
	if o := s.named(process, p.Object, e.Call.Args[p.Word]); o != nil {
		e.Uses = append(e.Uses, Use{Param: i, Object: o})
		s.ended = append(s.ended, o)
	}
}

// addresses handles an address in memory.
func (s *State) addresses(process uint32, e *Event, i int) {
	p := &e.Fn.Params[i]
	if p.ItemSizes >= 0 {
		return
	}
	if o, off, found := s.Find(process, e.Call.Args[p.Word]); found {
		e.Uses = append(e.Uses, Use{Param: i, Object: o, Offset: off})
	}
}

// givesOut handles a handle that a call has stored.
func (s *State) givesOut(process uint32, e *Event, i int) {
	if v, found := out(e.Call, i); found && v != 0 {
		s.give(process, e, i, v)
	}
}

// givesAt handles an address that the program has chosen.
func (s *State) givesAt(process uint32, e *Event, i int) {
	s.give(process, e, i, e.Call.Args[e.Fn.Params[i].Word])
}

// givesHandles handles an array of handles that a call has stored.
func (s *State) givesHandles(process uint32, e *Event, i int) {
	p := &e.Fn.Params[i]
	for n, b := uint64(0), e.stored(i, 0); len(b) >= 8; n, b = n+8, b[8:] {
		if v := word(b); v != 0 {
			e.Uses = append(e.Uses, Use{Param: i, Object: s.made(process, &api.Param{Role: api.Find, Object: p.Object}, v, e.Call), Offset: n})
		}
	}
}

// kernelOf returns the name of the kernel that a call launches, "" if it is not known.
func (s *State) kernelOf(e *Event) string {
	if n := e.name(); n != "" {
		return n
	}
	for _, u := range e.Uses {
		if u.Object.Kind == api.Function && u.Object.Name != "" {
			return u.Object.Name
		}
	}
	return s.kernel(e)
}

// nameObjects gives the objects of a call the name that the call has.
func (s *State) nameObjects(e *Event) {
	f := e.Fn
	if n := e.name(); n != "" && f.Task != api.Kernel && f.Range != api.Mark && len(e.Uses) > 0 {
		named := e.Uses[0].Object
		for _, u := range e.Uses {
			if u.Param == RetParam || u.Param < len(f.Params) && f.Params[u.Param].Role.Makes() {
				named = u.Object
			}
		}
		named.Name = n
	}
	// A function that is found by another, as the function of a kernel in a context, has the same name.
	if last := len(e.Uses) - 1; last > 0 && e.Uses[last].Object.Kind == api.Function && e.Uses[last].Object.Name == "" && e.Uses[0].Object.Kind == api.Function {
		e.Uses[last].Object.Name = e.Uses[0].Object.Name
	}
	if f.Entry >= 0 {
		for _, u := range e.Uses {
			if u.Object.Kind == api.Function && u.Object.Name == "" {
				u.Object.Name = s.kernel(e)
			}
		}
	}
}

// fits reports whether a call is one of the function as the model has it: a trace has a schema of its own.
func fits(f *api.Func, c *format.Call) bool {
	if len(c.Args) != int(f.Words) {
		return false
	}
	for i := range c.Outs {
		if p := int(c.Outs[i].Param); p >= len(f.Params) && p < api.MemoryParam {
			return false
		}
	}
	for i := range c.Data {
		if p := int(c.Data[i].Param); p >= len(f.Params) && p < api.MemoryParam {
			return false
		}
	}
	return true
}

// out returns the word that a call has stored behind a parameter.
func out(c *format.Call, param int) (uint64, bool) {
	for _, o := range c.Outs {
		if int(o.Param) == param {
			return o.Value, true
		}
	}
	return 0, false
}

// fields adds what the handles in a structure stand for.
func (s *State) fields(process uint32, e *Event, i int) {
	p := &e.Fn.Params[i]
	var b []byte
	for _, f := range p.Fields {
		if f.Object == "" || f.New {
			continue
		}
		if b == nil {
			if b, _ = e.text(i); b == nil {
				return
			}
		}
		if at := int(f.Offset); at+8 <= len(b) && f.Counts(b) {
			if o := s.used(process, e, f.Object, word(b[at:at+8])); o != nil {
				e.Uses = append(e.Uses, Use{Param: i, Object: o, Field: f.Offset})
			}
		}
	}
}

// used returns the object of a handle that a call names, nil for none and for the default stream of a context.
func (s *State) used(process uint32, e *Event, kind api.Object, h uint64) *Object {
	if kind == api.Stream && h <= s.model.Constants {
		h = s.model.StreamOf(e.Fn, h, e.Call.Thread)
	}
	o := s.handle(process, kind, h)
	if o != nil && o.Handle != s.model.StreamHandle(o.Handle) {
		o.Constant = true
	}
	return o
}

// handle returns the object of a handle, and takes one that nobody has seen being made as older than the trace.
func (s *State) handle(process uint32, kind api.Object, h uint64) *Object {
	if h == 0 {
		return nil
	}
	k := key{process, kind, h}
	r := &s.recent[k.slot()]
	if r.key == k {
		return r.o
	}
	o := s.known(k)
	if o == nil {
		o = s.create(k, NoCall)
	}
	if len(s.coming) == 0 {
		r.key, r.o = k, o
	}
	return o
}

// Known returns the object of a kind that a handle stands for, nil where the trace shows none.
func (s *State) Known(process uint32, kind api.Object, h uint64) *Object {
	return s.known(key{process, kind, h})
}

// known is the object that has a handle, or that will have it when its maker returns.
func (s *State) known(k key) *Object {
	o := s.live[k]
	for i := 0; o == nil && i < len(s.coming); i++ {
		if g := s.coming[i].o; g.key() == k {
			o = g
		}
	}
	return o
}

func (o *Object) key() key { return key{o.Process, o.Kind, o.Handle} }

// grow gives the objects whose makers have returned by a time the handles and addresses that others had.
func (s *State) grow(now int64) {
	if len(s.young) == 0 {
		return
	}
	s.young = slices.DeleteFunc(s.young, func(y young) bool { return y.until <= now })
	for i := 0; i < len(s.coming); {
		y := s.coming[i]
		if y.until > now {
			i++
			continue
		}
		s.coming = slices.Delete(s.coming, i, i+1)
		k := y.o.key()
		if old := s.live[k]; old != nil && old != y.o {
			s.end(old, y.o.Created)
		}
		s.live[k] = y.o
		s.forget(k)
		if y.o.Kind.Memory() {
			s.ranges(y.o.Process, y.o.Kind).add(y.o)
		}
	}
}

// wait puts off that a young object has its handle and its addresses.
func (s *State) wait(y young) {
	i, _ := slices.BinarySearchFunc(s.coming, y.until, func(c young, t int64) int { return cmp.Compare(c.until, t) })
	s.coming = slices.Insert(s.coming, i, y)
}

// returnsLater reports whether another thread is making the object, in a call that returns later than this one.
func (s *State) returnsLater(o *Object, c *format.Call) (young, bool) {
	for _, y := range s.young {
		if y.o == o && y.maker != c.Thread && y.until > c.End {
			return y, true
		}
	}
	return young{}, false
}

// forget drops what State.recent has of a key.
func (s *State) forget(k key) { s.recent[k.slot()].o, s.recent[k.slot()].key = nil, key{} }

// slot returns the place of a key in State.recent.
func (k *key) slot() uint64 {
	return (k.handle + uint64(len(k.kind))) * 0x9e3779b97f4a7c15 >> 56
}

// named is handle, for objects that End parameters name: an allocation must be known.
func (s *State) named(process uint32, kind api.Object, h uint64) *Object {
	if !kind.Memory() {
		return s.handle(process, kind, h)
	}
	o := s.Known(process, kind, h)
	if o == nil && kind == api.Device {
		o = s.Known(process, api.Owned, h) // another process's, by a key
	}
	return o
}

func (s *State) create(k key, call uint64) *Object {
	o := s.object(k, call)
	s.forget(k)
	s.live[k] = o
	return o
}

func (s *State) object(k key, call uint64) *Object {
	s.objects++
	return &Object{ID: s.objects, Kind: k.kind, Handle: k.handle, Process: k.process, Created: call, Ended: NoCall, Device: NoDevice}
}

// made returns the object that a call has given out: for New a new one, whatever its handle stood for before.
func (s *State) made(process uint32, p *api.Param, v uint64, c *format.Call) *Object {
	k := key{process, p.Object, v}
	old := s.known(k)
	if old != nil && p.Role == api.Find && old.Ended == NoCall {
		return old
	}
	o := s.object(k, c.Index)
	o.Device = s.seat(process, c.Thread).device
	if p.Object == api.Stream && s.model.NonBlocking != 0 {
		f := s.model.Func(api.ID(c.Func))
		flags := slices.IndexFunc(f.Params, func(q api.Param) bool { return strings.EqualFold(q.Name, "flags") })
		o.NonBlocking = flags >= 0 && c.Args[f.Params[flags].Word]&s.model.NonBlocking != 0
	}
	y := young{o, c.End, c.Thread}
	s.young = append(s.young, y)
	switch other, later := s.returnsLater(old, c); {
	case later:
		// Of two makers the one that returns first has had it first.
		s.drop(old)
		s.wait(other)
		fallthrough
	case old == nil:
		s.live[k] = o
		s.forget(k)
	default:
		s.retire(old, c.Index)
		s.wait(y)
	}
	return o
}

// end ends an object: nothing finds it any more.
func (s *State) end(o *Object, call uint64) {
	s.retire(o, call)
	s.drop(o)
}

// retire takes note of the call that has ended an object.
func (s *State) retire(o *Object, call uint64) {
	was := o.Ended
	if o.Ended = call; was != NoCall {
		return // by what took its place, so far as was known
	}
	if o.Kind == api.Graph {
		for n, of := range s.captures.nodes {
			if of == o {
				delete(s.captures.nodes, n)
				if n.Ended == NoCall {
					s.end(n, call)
				}
			}
		}
	}
	// A program may name what was of a binary that is gone; what is found by that handle from then on is another.
	for _, f := range s.found[o] {
		s.retire(f, call)
	}
	delete(s.found, o)
	if o.Kind == api.Device && o.Created != NoCall {
		s.device -= o.Size
		s.moved = append(s.moved, o)
	}
	if o.Kind.OnHost() {
		for _, m := range slices.Clone(s.ranges(o.Process, o.Kind).sorted) {
			if m.Parent == o && m.Ended == NoCall {
				s.end(m, call)
			}
		}
	}
}

// drop takes away an object's handle and addresses, those that it waits for too.
func (s *State) drop(o *Object) {
	k := o.key()
	if s.live[k] == o {
		delete(s.live, k)
		s.forget(k)
	}
	s.coming = slices.DeleteFunc(s.coming, func(y young) bool { return y.o == o })
	if o.Kind.Memory() {
		s.ranges(o.Process, o.Kind).remove(o)
	}
}

// give takes note of the object that a call has made, or answered with, for a parameter.
func (s *State) give(process uint32, e *Event, i int, v uint64) {
	p := &e.Fn.Params[i]
	if p.Role == api.Find && p.Object.Memory() {
		if o, off, ok := s.Find(process, v); ok && off == 0 {
			e.Uses = append(e.Uses, Use{Param: i, Object: o})
			return
		}
	}
	o := s.made(process, p, v, e.Call)
	if p.RefCounted && o.Created != e.Call.Index {
		o.held++
	}
	if o.Created == e.Call.Index && o.Kind.Memory() {
		o.Size, o.Hosted = size(e, p), p.HostVisible
		switch {
		case e.Fn.Shares == api.Import:
			o.Size = max(o.Size, s.shared[ImportKey(e.Fn, e.Call)])
		case o.Kind == api.Mapped:
			for _, u := range e.Uses {
				if u.Object.Kind.OnHost() {
					o.Parent, o.Size = u.Object, u.Object.Size-u.Offset
				}
			}
		case o.Kind == api.Registered:
			if of, _, ok := s.Find(process, v); ok && of.Kind == api.Host {
				o.Parent = of
			}
		case p.Role == api.Map:
			if r := s.reserved[process]; r != nil {
				o.Parent, _, _ = r.find(v)
			}
		}
		s.allocated(o)
	} else if o.Parent == nil && len(e.Uses) > 0 && e.Uses[0].Object != o && !e.Uses[0].Object.Kind.Memory() {
		o.Parent = e.Uses[0].Object
		if o.Created == e.Call.Index && (o.Parent.Kind == api.Binary || o.Parent.Kind == api.Function || o.Parent.Kind == api.MipmappedArray) {
			s.found[o.Parent] = append(s.found[o.Parent], o)
		}
	}
	if p.Object == api.Node {
		for _, u := range e.Uses {
			if u.Object.Kind == api.Graph && e.Fn.Graph < 0 {
				s.captures.put(o, u.Object) // found, or for the order alone
			}
		}
	}
	e.Uses = append(e.Uses, Use{Param: i, Object: o})
}

// allocated takes note of memory of a known size.
func (s *State) allocated(o *Object) {
	if o.Kind == api.Device {
		s.device += o.Size
		s.moved = append(s.moved, o)
	}
	if slices.ContainsFunc(s.coming, func(y young) bool { return y.o == o }) {
		return
	}
	r := s.ranges(o.Process, o.Kind)
	c, waits := s.event.Call, false
	for _, old := range slices.Clone(r.within(o.Handle, o.Size)) {
		if old.Kind != o.Kind {
			continue
		}
		if y, later := s.returnsLater(old, c); later {
			s.drop(old)
			s.wait(y)
		} else {
			waits = true
		}
	}
	if waits {
		s.wait(young{o, c.End, c.Thread})
	} else {
		r.add(o)
	}
}

// inside takes note of the objects whose handles a call has stored behind a pointer in a structure, or whose addresses in it.
func (s *State) inside(process uint32, e *Event, i int) {
	for k := range e.Fn.Params[i].Fields {
		f := &e.Fn.Params[i].Fields[k]
		if !f.New {
			continue
		}
		made := api.Param{Role: api.New, Object: f.Object}
		if f.Item == 0 {
			b, _ := e.text(i)
			if uint32(len(b)) < max(f.Offset+8, f.Count.Offset+f.Count.Size) || word(b[f.Offset:f.Offset+8]) == 0 {
				continue
			}
			o := s.made(process, &made, word(b[f.Offset:f.Offset+8]), e.Call)
			if o.Size = f.Unit; f.Count.Size != 0 {
				o.Size *= word(b[f.Count.Offset : f.Count.Offset+f.Count.Size])
			}
			s.allocated(o)
			e.Uses = append(e.Uses, Use{Param: i, Object: o})
			continue
		}
		for n, b := uint64(0), e.stored(i, f.Item); len(b) >= 8; n, b = n+8, b[8:] {
			if v := word(b); v != 0 {
				e.Uses = append(e.Uses, Use{Param: i, Object: s.made(process, &made, v, e.Call), Offset: n})
			}
		}
	}
}

// stored returns the bytes of what the call has stored as an item of a parameter, nil where the trace does not hold them.
func (e *Event) stored(param int, item uint32) []byte {
	for k := range e.Call.Data {
		if d := &e.Call.Data[k]; int(d.Param) == param && d.Item == item && d.Dir == format.DirOut && d.Status == format.Whole {
			return d.Bytes
		}
	}
	return nil
}

// size is the number of bytes of the allocation that a call has made, 0 where nothing tells it.
func size(e *Event, p *api.Param) uint64 {
	if !p.Size.Stored {
		n, _ := p.Size.Bytes(e.Fn, e.Call.Args)
		return n
	}
	n := p.Size.Unit
	for _, m := range p.Size.Mul {
		v, ok := out(e.Call, int(m))
		if !ok {
			v = e.Call.Args[e.Fn.Params[m].Word]
		}
		n *= v
	}
	return n
}

// name is the name that a call gives or tells, "" for none. Of a structure with several it is the last.
func (e *Event) name() string {
	if e.Fn.Names < 0 {
		return ""
	}
	item := uint32(0)
	if e.Fn.Params[e.Fn.Names].Role == api.Struct {
		item = 1
	}
	name := ""
	for _, d := range e.Call.Data {
		if int(d.Param) == int(e.Fn.Names) && d.Item >= item && d.Status == format.Whole && d.Len <= format.InlineLimit && len(d.Bytes) > 0 {
			name = string(d.Bytes)
		}
	}
	return name
}

// Find returns the live allocation, of the device or the host, that holds an address, and the address's place in it.
func (s *State) Find(process uint32, addr uint64) (*Object, uint64, bool) {
	r := s.allocs[process]
	if r == nil {
		return nil, 0, false
	}
	if o, off, ok := r.find(addr); ok {
		return o, off, ok
	}
	return s.comingAt(process, addr, false)
}

// comingAt returns the allocation that will have an address when its maker returns.
func (s *State) comingAt(process uint32, addr uint64, reserved bool) (*Object, uint64, bool) {
	for _, y := range s.coming {
		if off := addr - y.o.Handle; y.o.Process == process && y.o.Kind.Memory() && (y.o.Kind == api.Reservation) == reserved && off < y.o.Size {
			return y.o, off, true
		}
	}
	return nil, 0, false
}

// Reserved returns the reserved range that holds an address, with memory there or without, and the address's place in it.
func (s *State) Reserved(process uint32, addr uint64) (*Object, uint64, bool) {
	r := s.reserved[process]
	if r == nil {
		return nil, 0, false
	}
	if o, off, ok := r.find(addr); ok {
		return o, off, ok
	}
	return s.comingAt(process, addr, true)
}

// FindEnd is Find for addresses that may also be one past the end of an allocation.
func (s *State) FindEnd(process uint32, addr uint64) (*Object, uint64, bool) {
	if o, off, ok := s.Find(process, addr); ok || addr == 0 {
		return o, off, ok
	}
	if o, off, ok := s.Find(process, addr-1); ok && off+1 == o.Size {
		return o, o.Size, true
	}
	return nil, 0, false
}

// Live returns the allocations that are live, by address.
func (s *State) Live(process uint32) []*Object {
	if r := s.allocs[process]; r != nil {
		return r.sorted
	}
	return nil
}

// ranges returns the live allocations of a process that are of one sort with a kind: reserved addresses lie around memory.
func (s *State) ranges(process uint32, kind api.Object) *ranges {
	all := s.allocs
	if kind == api.Reservation {
		all = s.reserved
	}
	r := all[process]
	if r == nil {
		r = &ranges{}
		all[process] = r
	}
	return r
}

// ranges are the live allocations of a process, by address.
type ranges struct{ sorted []*Object }

// after returns the position of the first allocation that begins beyond an address.
func (r *ranges) after(addr uint64) int {
	i, _ := slices.BinarySearchFunc(r.sorted, addr, func(o *Object, a uint64) int {
		if o.Handle <= a {
			return -1
		}
		return 1
	})
	return i
}

// within returns the allocations that overlap a range of addresses.
func (r *ranges) within(addr, size uint64) []*Object {
	from, to := r.after(addr), r.after(addr+size-1)
	if from > 0 && addr-r.sorted[from-1].Handle < r.sorted[from-1].Size {
		from--
	}
	return r.sorted[from:max(from, to)]
}

func (r *ranges) add(o *Object) { r.sorted = slices.Insert(r.sorted, r.after(o.Handle), o) }

func (r *ranges) remove(o *Object) {
	// Mapped memory may have the address of what it maps.
	i := r.after(o.Handle) - 1
	for i > 0 && r.sorted[i] != o && r.sorted[i].Handle == o.Handle {
		i--
	}
	if i >= 0 && r.sorted[i] == o {
		r.sorted = slices.Delete(r.sorted, i, i+1)
	}
}

// find returns the allocation that holds an address: of a registration and the allocation that it is a part of, the registration.
func (r *ranges) find(addr uint64) (*Object, uint64, bool) {
	i := r.after(addr) - 1
	if i < 0 {
		return nil, 0, false
	}
	for o := r.sorted[i]; o != nil; o = o.Parent {
		if off := addr - o.Handle; off < o.Size || off == 0 {
			return o, off, true
		}
		if o.Kind != api.Registered {
			break
		}
	}
	return nil, 0, false
}
