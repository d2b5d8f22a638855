package lab

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
	"github.com/acltrace/acltrace/timeline/order"
)

// A survey turns the calls up to a launch, and those that show its results, into steps. It numbers objects and lanes, and finds the
// aliases of memory.
type survey struct {
	m        *api.Model
	j        *journal
	tokens   map[*timeline.Object]int // tokens and keys have no Object.ID
	lanes    map[timeline.LaneKey]int
	lane     []laneInfo // by number
	root     map[int]int
	exports  map[string]export
	exporter map[uint32]int // 1 for a process that exports memory
	shared   map[uint64]int // shared memory, by the number that all processes use
	old      map[int]string // objects older than the trace
	queries  map[*api.Func]bool
	mapped   map[*timeline.Object][]*timeline.Object // live mappings in a reservation
	flags    map[flag]uint64                         // largest value that a call has set; flag.value is 0
	notifies map[int]int                             // records without a wait so far
	captures captures
	buf      step
}

type laneInfo struct {
	order       order.Lane
	device      int
	nonBlocking bool // see timeline.Object
}

// An export is an object that a process shares by a key.
type export struct {
	token int
	root  int
}

// captures finds the graphs that calls end the capture of, or update.
type captures struct {
	member  map[*timeline.Object]*timeline.Object // by stream with an open task group: the stream that began the capture
	groups  map[*timeline.Object][]int            // task groups of captures, by that stream
	updates map[*timeline.Object]int              // task groups that are updated, by stream
	graph   map[int]int                           // of task groups
	pending map[*timeline.Object]int              // graphs with an update that the host has not waited for, by stream
	loose   []uint64                              // runs of such graphs: other work orders them
	open    map[*timeline.Object]*captured        // by the stream that began the capture
	records map[*timeline.Object]*captured        // captures with the latest records of events
	ended   []*captured
}

// A captured graph may wait for events that are recorded outside it, or record events for which work outside waits.
type captured struct {
	graph int
	meets bool
	call  uint64 // that waits in one of them, if meets
}

// meets takes in an event's record or wait.
func (x *captures) meets(e *timeline.Event, s *step) {
	f := e.Fn
	if f.Event < 0 || !e.OK() || e.Captured != nil && e.Captured.Kind != api.Stream {
		return
	}
	u, ok := e.Use(int(f.Event))
	if !ok {
		return
	}
	var in *captured
	if e.Captured != nil {
		if in = x.open[e.Captured]; in == nil {
			in = &captured{}
			x.open[e.Captured] = in
		}
	}
	switch by := x.records[u.Object]; {
	case f.Task == api.Record && in == nil:
		delete(x.records, u.Object)
	case f.Task == api.Record:
		x.records[u.Object] = in
	case (f.Task == api.Wait || f.Sync.Wait() == api.SyncEvent) && by != in:
		for _, c := range []*captured{by, in} {
			if c != nil && !c.meets {
				c.meets, c.call = true, s.index
			}
		}
	}
}

// see sets the graph of a step that ends a capture, and the task group of one that begins or ends an update.
func (x *captures) see(v *survey, e *timeline.Event, s *step) {
	if e.Part.Member {
		x.member[e.Stream] = e.Captured
	}
	object := func(k api.Object) int {
		if o := e.Object(k); o != nil && e.OK() {
			return v.id(o)
		}
		return 0
	}
	switch s.fn.Capture {
	case api.GroupEnd:
		if g, of := object(api.TaskGroup), x.member[e.Stream]; g != 0 && of != nil {
			x.groups[of] = append(x.groups[of], g)
		}
		delete(x.member, e.Stream)
	case api.CaptureEnd:
		s.graph = object(api.Graph)
		for _, g := range x.groups[e.Stream] {
			x.graph[g] = s.graph
		}
		delete(x.groups, e.Stream)
		if c := x.open[e.Stream]; c != nil && s.graph != 0 {
			c.graph, x.ended = s.graph, append(x.ended, c)
		}
		delete(x.open, e.Stream)
	case api.UpdateBegin:
		s.graph = object(api.TaskGroup)
		x.updates[e.Stream] = s.graph
	case api.UpdateEnd:
		s.graph = x.updates[e.Stream]
		delete(x.updates, e.Stream)
		if g := x.graph[s.graph]; g != 0 {
			x.pending[e.Stream] = g
		}
	}
	switch s.fn.Sync.Wait() {
	case api.SyncStream:
		s.updated = x.pending[e.Stream]
		delete(x.pending, e.Stream)
	case api.SyncDevice:
		for _, g := range x.pending {
			s.updated = g
		}
		clear(x.pending)
	}
	if g := object(api.Graph); s.fn.Task == api.GraphRun && g != 0 && slices.Contains(slices.Collect(maps.Values(x.pending)), g) {
		x.loose = append(x.loose, s.index)
	}
}

func newSurvey(m *api.Model, j *journal) *survey {
	return &survey{
		m: m, j: j, tokens: map[*timeline.Object]int{}, lanes: map[timeline.LaneKey]int{}, lane: make([]laneInfo, 1), root: map[int]int{},
		exports: map[string]export{}, exporter: map[uint32]int{}, shared: map[uint64]int{}, old: map[int]string{}, queries: map[*api.Func]bool{}, mapped: map[*timeline.Object][]*timeline.Object{}, flags: map[flag]uint64{}, notifies: map[int]int{},
		captures: captures{map[*timeline.Object]*timeline.Object{}, map[*timeline.Object][]int{}, map[*timeline.Object]int{}, map[int]int{}, map[*timeline.Object]int{}, nil,
			map[*timeline.Object]*captured{}, map[*timeline.Object]*captured{}, nil},
	}
}

// id returns the number of an object.
func (v *survey) id(o *timeline.Object) int {
	if o.ID > 0 {
		if o.Kind == api.SharedMemory {
			if id, ok := v.shared[o.Handle]; ok {
				return id
			}
			v.shared[o.Handle] = 2 * o.ID
		}
		return 2 * o.ID
	}
	id, ok := v.tokens[o]
	if !ok {
		id = 2*len(v.tokens) + 1
		v.tokens[o] = id
	}
	return id
}

// rootOf returns the number of the object that holds the content.
func (v *survey) rootOf(o *timeline.Object) int {
	for o.Parent != nil && o.Kind != api.Reservation && o.Parent.Kind.Memory() && o.Parent.Kind != api.Reservation {
		o = o.Parent
	}
	id := v.id(o)
	if r, ok := v.root[id]; ok {
		return r
	}
	return id
}

func (v *survey) laneOf(q *access.Call) int {
	k := q.Lane()
	n, ok := v.lanes[k]
	if !ok {
		n = len(v.lane)
		v.lanes[k] = n
		v.lane = append(v.lane, laneInfo{q.State.OrderLane(&k), k.Device, k.Stream != nil && k.Stream.NonBlocking})
	}
	return n
}

// step returns the step for a call, valid until the next one; nil if nothing can depend on it.
func (v *survey) step(q *access.Call) *step {
	e := q.Event
	f, c := e.Fn, e.Call
	s := &v.buf
	*s = step{index: c.Index, start: c.Start, end: max(c.End, c.Start), fn: f, process: e.Process, thread: c.Thread,
		uses: s.uses[:0], made: s.made[:0], ended: s.ended[:0], shows: s.shows[:0], areas: s.areas[:0]}
	if q.OK {
		s.is |= stepOK
	}
	if f.Sync != api.NoSync && (!f.Sync.Polls() || timeline.Polled(v.m, f, c)) {
		s.is |= stepWaits
	}
	if v.isQuery(f) {
		s.is |= stepQueries
	}
	if f.Task != api.NoTask || f.Sync != api.NoSync {
		s.lane = v.laneOf(q)
	}
	if !q.OK && s.is&stepWaits == 0 && !(f.Task.Works() && v.lane[s.lane].order.Synchronous) {
		return nil
	}
	if f.Sync != api.NoSync && s.is&stepWaits == 0 {
		return nil // a poll that returned pending
	}
	v.objects(q, s)
	for _, r := range q.Regions() {
		v.area(s, r)
		if of := r.Object.Parent; of != nil && of.Kind == api.Reservation && r.Kind == access.Names {
			for _, o := range v.mapped[of] { // a kernel may go on to adjacent mappings
				v.area(s, access.Region{Object: o, Kind: access.Names})
			}
		}
	}
	if e.Captured != nil {
		s.graph = v.id(e.Captured)
		v.use(s, e.Captured)
		if e.Captured.Kind == api.Stream {
			s.is |= stepByStream
		}
	}
	v.captures.see(v, e, s)
	v.captures.meets(e, s)
	if q.OK {
		v.shares(q, s)
		v.signals(q, s)
	}
	for _, o := range q.Shown() {
		s.shows = append(s.shows, v.rootOf(o))
	}
	if q.OK && q.Lacks() {
		s.is |= stepLacks
	}
	return s
}

// objects adds the objects that a call uses, makes and ends, and records the aliases that it makes.
func (v *survey) objects(q *access.Call, s *step) {
	e := q.Event
	var physical *timeline.Object
	for _, u := range e.Uses {
		o := u.Object
		if o.Kind == api.Physical && o.Created != s.index {
			physical = o
		}
		in := o.Parent
		if in != nil && in.Kind != api.Reservation {
			in = nil
		}
		switch {
		case o.Created == s.index:
			s.made = append(s.made, v.id(o))
			if o.Kind == api.SharedMemory {
				v.exporter[s.process] = 1
			}
			if in != nil {
				v.mapped[in] = append(v.mapped[in], o)
			}
		case o.Ended == s.index:
			s.ended = append(s.ended, v.id(o))
			if in != nil {
				v.mapped[in] = slices.DeleteFunc(v.mapped[in], func(p *timeline.Object) bool { return p == o })
			}
			fallthrough
		default:
			v.use(s, o)
		}
		for p := o.Parent; p != nil; p = p.Parent {
			v.use(s, p)
		}
		if e.Fn.Event >= 0 && u.Param == int(e.Fn.Event) {
			s.event = v.id(o.Exported())
			if o.Kind == api.Notify || o.Kind == api.Counter {
				s.is |= stepSignals
			}
		}
	}
	for _, o := range q.Named() {
		v.use(s, o)
	}
	for _, o := range q.Made() {
		s.made = append(s.made, v.id(o))
	}
	if physical == nil || !q.OK {
		return
	}
	for _, u := range e.Uses {
		if o := u.Object; o.Created == s.index && o != physical {
			v.root[v.id(o)] = v.rootOf(physical) // a mapping, or a number by which processes share it
		}
	}
}

// use adds an object that the call uses.
func (v *survey) use(s *step, o *timeline.Object) {
	if o.Constant || o.Kind == api.Thread || o.Kind == api.Process {
		return
	}
	id := v.id(o)
	if slices.Contains(s.uses, id) || slices.Contains(s.made, id) {
		return
	}
	s.uses = append(s.uses, id)
	if o.Created == timeline.NoCall && v.old[id] == "" {
		v.old[id] = fmt.Sprintf("%s %#x is older than the trace", o.Kind, o.Handle)
	}
}

// area adds a memory access. A copy whose range in the object is unknown, as in an array, may access all of it.
func (v *survey) area(s *step, r access.Region) {
	a := area{object: v.id(r.Object), root: v.rootOf(r.Object), kind: r.Kind, hi: math.MaxUint64}
	if (r.Kind == access.Reads || r.Kind == access.Writes) && a.object == a.root && r.Lo < r.Hi {
		a.exact, a.lo, a.hi = true, r.Lo, r.Hi
		a.all = r.Kind == access.Writes && r.Lo == 0 && r.Hi >= r.Object.Size
	}
	if !slices.Contains(s.areas, a) {
		s.areas = append(s.areas, a)
	}
	if a.object != a.root || r.Object.Created != s.index {
		v.use(s, r.Object)
	}
}

// shares connects calls from processes that share an object by a key.
func (v *survey) shares(q *access.Call, s *step) {
	e := q.Event
	f, c := e.Fn, e.Call
	if f.Task != api.NoTask || f.Sync != api.NoSync {
		return
	}
	if f.Shares == api.Export {
		x := export{token: v.id(&timeline.Object{Kind: "key"})}
		for _, u := range e.Uses {
			if u.Object.Created != s.index {
				x.root = v.rootOf(u.Object.Exported())
			}
		}
		v.exports[timeline.ExportKey(c)], v.exporter[s.process] = x, 1
		s.made = append(s.made, x.token)
		return
	}
	key := ""
	for k := range c.Data {
		if d := &c.Data[k]; d.Dir == format.DirIn && d.Status == format.Whole && int(d.Param) < len(f.Params) && f.Params[d.Param].Role == api.String {
			key = string(d.Bytes)
		}
	}
	if f.Shares != api.NoShare {
		key = timeline.ImportKey(f, c)
	}
	x, ok := v.exports[key]
	if ok && key != "" {
		s.uses = append(s.uses, x.token)
	}
	if f.Shares != api.Import {
		return
	}
	for _, u := range e.Uses {
		if o := u.Object; o.Kind == api.SharedMemory && v.root[v.id(o)] != 0 {
			x.root = v.root[v.id(o)]
		}
	}
	for _, u := range e.Uses {
		if o := u.Object; x.root != 0 && o.Created == s.index {
			v.root[v.id(o)] = x.root
		}
	}
}

// signals finds whether an earlier call sets what a stream waits for.
func (v *survey) signals(q *access.Call, s *step) {
	e := q.Event
	f, c := e.Fn, e.Call
	if s.graph != 0 {
		return
	}
	if s.is&stepSignals != 0 {
		switch f.Task {
		case api.Record:
			v.notifies[s.event]++
		case api.Wait:
			if v.notifies[s.event] > 0 {
				v.notifies[s.event]--
				s.is |= stepAwaited
			}
		}
		return
	}
	value := f.Param("value")
	if value < 0 || f.Task != api.Wait && f.Task != api.Fill {
		return
	}
	for i := range f.Params {
		p := &f.Params[i]
		u, ok := e.Use(i)
		if !ok || p.Role != api.DevArgs && !(p.Role == api.Fills && p.Size.Unit == 8) {
			continue
		}
		at := flag{root: v.rootOf(u.Object), offset: u.Offset}
		set, known := v.flags[at]
		n := c.Args[f.Params[value].Word]
		if f.Task == api.Fill {
			v.flags[at] = max(set, n)
			continue
		}
		s.is |= stepSignals
		s.flag = flag{at.root, at.offset, n}
		if known && set >= n {
			s.is |= stepAwaited
		}
	}
}

// isQuery reports whether calls of a function return facts and change nothing, apart from objects that they find.
func (v *survey) isQuery(f *api.Func) bool {
	is, ok := v.queries[f]
	if !ok {
		is = f.Task == api.NoTask && f.Sync == api.NoSync && (f.Shares == api.NoShare || f.Shares == api.Export) && f.Capture == api.NoCapture && f.Edit == api.NoEdit &&
			f.Selects < 0 && f.Stack == api.Replace && !f.Initializes && f.Ends == "" && f.Names < 0
		gives := f.Ret == api.New || f.Ret == api.Find
		for i := range f.Params {
			switch p := &f.Params[i]; {
			case p.Object == api.ArgsList, p.Object == api.Graph, p.Object == api.Node, p.Role == api.InOut, p.Role == api.End:
				is = false
			case p.Role == api.Out, p.Role == api.Text, p.Role == api.Answer, p.ListsHandles(), p.Role.Makes():
				gives = true
			}
		}
		is = is && gives
		v.queries[f] = is
	}
	return is
}
