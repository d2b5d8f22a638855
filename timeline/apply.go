package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// using has the handlers that find the objects that a call uses, by parameter role. They run before the call ends or makes objects.
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

// making has the handlers that make objects. They run for calls that succeeded.
var making = map[api.Role]handler{
	api.New:        (*State).givesOut,
	api.Find:       (*State).givesOut,
	api.Place:      (*State).givesAt,
	api.Map:        (*State).givesAt,
	api.Struct:     (*State).inside,
	api.OutHandles: (*State).givesHandles,
	api.Answer:     (*State).givesHandles,
}

// handlers returns the handlers for the parameters of a function.
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
		if do := making[f.Params[i].Role]; do != nil && (f.Params[i].Role != api.Answer || f.Params[i].ListsHandles()) {
			h.making = append(h.making, paramHandler{i, do})
		}
	}
	s.byFunc[f.ID] = h
	return h
}

// Apply advances the state by one call of a process and returns its meaning, which is valid until the next Apply.
func (s *State) Apply(process uint32, c *format.Call) *Event {
	f := s.model.Func(api.ID(c.Func))
	e := &s.event
	*e = Event{Call: c, Process: process, Fn: f, Uses: e.Uses[:0], names: s.operators.named.names}
	s.memory.changes, s.ended = s.memory.changes[:0], s.ended[:0]
	s.publish(c.Start)
	if f == nil || !fits(f, c) {
		e.Fn = nil
		return e
	}
	if f.Operator == api.NoOperatorMark {
		e.Operator, e.Phase, e.operands = s.operators.call(f, c, process)
	} else {
		e.Begun, e.Operator, e.Phase = s.operators.mark(f, c, process, e.nameBytes())
	}
	h := s.handlers(f)
	for _, p := range h.using {
		p.do(s, e, p.param)
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
	if !e.OK() {
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
		p.do(s, e, p.param)
	}
	made := c.Ret
	if made == 0 && f.Range == api.RangeBegin {
		made = s.unnumbered.begin(c.Thread)
	}
	if (f.Ret == api.New || f.Ret == api.Find) && made != 0 {
		o := s.made(process, &api.Param{Role: f.Ret, Object: f.RetObject}, made, c)
		e.Uses = append(e.Uses, Use{Param: RetParam, Object: o})
	}
	s.nameObjects(e)
	if f.Shares != api.NoShare {
		s.share(e)
	}
	s.selectDevice(e)
	s.capture(e)
	return e
}

// uses handles a handle.
func (s *State) uses(e *Event, i int) {
	p := &e.Fn.Params[i]
	if o := s.used(e, p.Object, e.Call.Args[p.Word]); o != nil {
		e.Uses = append(e.Uses, Use{Param: i, Object: o})
	}
}

// ends handles the handle of an object that the call ends if it succeeds.
func (s *State) ends(e *Event, i int) {
	p := &e.Fn.Params[i]
	h := e.Call.Args[p.Word]
	if h == 0 && p.Object == api.Span {
		h = s.unnumbered.end(e.Call.Thread)
	}
	if o := s.named(e.Process, p.Object, h); o != nil {
		e.Uses = append(e.Uses, Use{Param: i, Object: o})
		s.ended = append(s.ended, o)
	}
}

// addresses handles an address in memory.
func (s *State) addresses(e *Event, i int) {
	p := &e.Fn.Params[i]
	if p.ItemSizes >= 0 {
		return
	}
	if o, off, found := s.Find(e.Process, e.Call.Args[p.Word]); found {
		e.Uses = append(e.Uses, Use{Param: i, Object: o, Offset: off})
	}
}

// givesOut handles a handle, or an address, that the call has stored.
func (s *State) givesOut(e *Event, i int) {
	if v, found := out(e.Call, i); found && v != 0 {
		s.give(e, i, v)
	}
}

// givesAt handles an address that the program has chosen.
func (s *State) givesAt(e *Event, i int) {
	s.give(e, i, e.Call.Args[e.Fn.Params[i].Word])
}

// givesHandles handles an array of handles that a call has stored.
func (s *State) givesHandles(e *Event, i int) {
	p := &e.Fn.Params[i]
	graph := e.Object(api.Graph)
	if stream := e.Object(api.Stream); graph == nil && stream != nil {
		graph = s.graphOf[stream]
	}
	for n, b := uint64(0), s.storedBytes(e, i); len(b) >= 8; n, b = n+8, b[8:] {
		v := word(b)
		if v == 0 {
			continue
		}
		o := s.made(e.Process, &api.Param{Role: api.Find, Object: p.Object}, v, e.Call)
		switch {
		case graph == nil:
			s.adopt(e, o)
		case o.Kind == api.Stream:
			s.graphOf[o] = graph
		case o.Created == e.Call.Index && o.Kind != api.Graph:
			s.captures.Put(o, graph)
		}
		e.Uses = append(e.Uses, Use{Param: i, Object: o, Offset: n})
	}
}

// kernelOf returns the name of the kernel that a call launches, "" if unknown.
func (s *State) kernelOf(e *Event) string {
	if n := e.name(); n != "" {
		return n
	}
	for _, u := range e.Uses {
		if u.Object.Kind == api.Function {
			return s.launchName(e, u.Object)
		}
	}
	return s.kernel(e)
}

// nameObjects gives the name in a call to its object.
func (s *State) nameObjects(e *Event) {
	f := e.Fn
	if f.Operator != api.NoOperatorMark {
		return
	}
	if n := e.name(); n != "" && f.Task != api.Kernel && f.Range != api.Mark && len(e.Uses) > 0 {
		named := e.Uses[0].Object
		for _, u := range e.Uses {
			if u.Param == RetParam || u.Param < len(f.Params) && f.Params[u.Param].Role.Makes() {
				named = u.Object
			}
		}
		named.Name = n
		if named.Kind == api.Function {
			s.operators.named.kernel(n)
		}
	}
	// A function that was found through another, as a kernel is found in a context, has the same name.
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

// fields handles the handles in a structure.
func (s *State) fields(e *Event, i int) {
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
			if o := s.used(e, f.Object, word(b[at:at+8])); o != nil {
				e.Uses = append(e.Uses, Use{Param: i, Object: o, Field: f.Offset})
			}
		}
	}
}

// give adds the object that a call has made or found for a parameter.
func (s *State) give(e *Event, i int, v uint64) {
	p := &e.Fn.Params[i]
	if p.Role == api.Find && p.Object.Memory() {
		if o, off, ok := s.Find(e.Process, v); ok && off == 0 {
			e.Uses = append(e.Uses, Use{Param: i, Object: o})
			return
		}
	}
	o := s.made(e.Process, p, v, e.Call)
	if p.RefCounted && o.Created != e.Call.Index {
		o.held++
	}
	switch fresh := o.Created == e.Call.Index; {
	case fresh && o.Kind.Memory():
		s.allocate(e, p, o)
	case fresh && o.Kind == api.Physical:
		s.physical(e, p, o)
		fallthrough
	default:
		s.adopt(e, o)
	}
	if p.Object == api.Node {
		for _, u := range e.Uses {
			if u.Object.Kind == api.Graph && e.Fn.Graph < 0 {
				s.captures.Put(o, u.Object) // a node that was found, or that has no task
			}
		}
	}
	e.Uses = append(e.Uses, Use{Param: i, Object: o})
}

// adopt makes the first object that the call uses the parent of an object that it has made or found.
func (s *State) adopt(e *Event, o *Object) {
	if o.Parent != nil || len(e.Uses) == 0 || e.Uses[0].Object == o || e.Uses[0].Object.Kind.Memory() {
		return
	}
	o.Parent = e.Uses[0].Object
	if o.Created == e.Call.Index && (o.Parent.Kind == api.Binary || o.Parent.Kind == api.Function || o.Parent.Kind == api.MipmappedArray) {
		s.found[o.Parent] = append(s.found[o.Parent], o)
	}
}

// allocate sets the size and the parent of memory that a call has made.
func (s *State) allocate(e *Event, p *api.Param, o *Object) {
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
		if of, _, ok := s.Find(e.Process, o.Handle); ok && of.Kind == api.Host {
			o.Parent = of
		}
	case p.Role == api.Map:
		if r := s.reserved[e.Process]; r != nil {
			o.Parent, _, _ = r.find(o.Handle)
		}
		s.refer(e, o)
	}
	if o.Kind == api.Device && p.Role != api.Map {
		s.memory.occupy(o)
	}
	s.allocated(o)
}

// inside handles the objects that a call has stored in a structure, or in an array that the structure points to.
func (s *State) inside(e *Event, i int) {
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
			o := s.made(e.Process, &made, word(b[f.Offset:f.Offset+8]), e.Call)
			if o.Size = f.Unit; f.Count.Size != 0 {
				o.Size *= word(b[f.Count.Offset : f.Count.Offset+f.Count.Size])
			}
			if o.Kind == api.Device {
				s.memory.occupy(o)
			}
			s.allocated(o)
			e.Uses = append(e.Uses, Use{Param: i, Object: o})
			continue
		}
		for n, b := uint64(0), e.stored(i, f.Item); len(b) >= 8; n, b = n+8, b[8:] {
			if v := word(b); v != 0 {
				e.Uses = append(e.Uses, Use{Param: i, Object: s.made(e.Process, &made, v, e.Call), Offset: n})
			}
		}
	}
}

// size returns the number of bytes in the allocation that a call has made, 0 if unknown.
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

// refer makes an object a reference to the physical memory that a call names by its handle or by the address of a mapping.
func (s *State) refer(e *Event, o *Object) {
	for _, u := range e.Uses {
		if m := u.Object; m.Kind == api.Physical {
			o.physical = m
		} else if m.physical != nil {
			o.physical = m.physical
		}
	}
	if o.physical != nil {
		o.physical.references++
	}
}

// physical sets the size and the device of physical memory that a call has made or found.
func (s *State) physical(e *Event, p *api.Param, o *Object) {
	if p.Role == api.Find {
		s.refer(e, o) // a new handle, since the program has released the first one
		return
	}
	o.Size = size(e, p)
	onDevice := true
	if l := e.Fn.Location; l != nil {
		if b, ok := e.text(int(l.Param)); ok && len(b) >= int(max(l.Type.Offset+l.Type.Size, l.ID.Offset+l.ID.Size)) {
			number := func(m api.Member) uint64 { return word(b[m.Offset : m.Offset+m.Size]) }
			if onDevice = number(l.Type) == uint64(l.OnDevice); onDevice {
				o.Device = int(int32(number(l.ID)))
			}
		}
	}
	if onDevice && e.Fn.Shares == api.NoShare {
		s.memory.occupy(o)
	}
}
