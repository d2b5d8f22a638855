// Package live sums up a recording while it is written.
//
// A Live reads only what the recorder has added since its last Refresh. `acltrace top` prints its sums with report.TopText.
// The package writes no text, and reads no process but the file that it was given.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package live

import (
	"cmp"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/standing"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
)

// Live sums up a recording in progress. Refresh reads only new chunks, so time and memory do not grow with the
// recording. A Live must be used by one goroutine.
type Live struct {
	path    string
	which   timeline.Selection
	open    func(path string) (*format.Reader, *api.Model, error)
	uuid    string
	chunks  int            // chunks read so far
	damaged uint64         // calls in damaged chunks among them
	places  map[int64]bool // offsets of damage
	state   *timeline.State
	streams timeline.LaneNames
	last    int64 // latest End
	top     Top
	sums    map[sumKey]*Sum
	within  map[uint32]uint64 // by thread: first call of the selected operator that is open
	memory  map[place]*DeviceMemory
}

// place is the memory of a process on a device.
type place struct {
	process uint32
	device  int
}

type sumKey struct {
	kind, name string
	process    uint32
}

// Top sums up a recording, as `acltrace top --json` prints it. Times are nanoseconds since it began.
type Top struct {
	format.Scope // the end is missing while the recording goes on
	stats.Selected
	Recording   bool   `json:"recording"`         // in progress
	Refreshes   int    `json:"refreshes"`         // number of this refresh, from 1
	FromNS      int64  `json:"from_ns"`           // start of the interval: the previous end, at first the first call
	ToNS        int64  `json:"to_ns"`             // end of the interval: when its last call ended
	Calls       uint64 `json:"calls"`             // calls so far
	NewCalls    uint64 `json:"new_calls"`         // calls in the interval
	Failed      uint64 `json:"failed"`            // calls so far that returned an error
	Lost        uint64 `json:"calls_lost"`        // calls known to be lost so far
	Damaged     int    `json:"damaged"`           // damaged places among the chunks read
	DeviceBytes uint64 `json:"device_bytes"`      // device memory in use now on all devices, with physical memory; of what was allocated since attach, if window is attached
	PeakBytes   uint64 `json:"peak_device_bytes"` // largest device_bytes so far
	// Devices are the same of each device by each process.
	Devices   []DeviceMemory `json:"devices"`
	Functions []Sum          `json:"functions"` // ordered by time in the interval, then in total
	Kernels   []Sum          `json:"kernels"`   // launches by kernel, in the same order
	Operators []Sum          `json:"operators"` // runs of operators (aclnn…), in the same order
	Streams   []Sum          `json:"streams"`   // tasks by stream, in the same order
	Copies    []Sum          `json:"copies"`    // copies by direction, in the same order
	// Standing are the calls in progress.
	Standing []standing.Call `json:"standing,omitempty"`
	// UUID identifies the recording.
	UUID    string               `json:"-"`
	Lacks   *format.Completeness `json:"-"`
	path    string
	seconds float64
}

// DeviceMemory is the memory of a process on a device.
type DeviceMemory struct {
	Process   int    `json:"process"`        // process id
	Rank      *int   `json:"rank,omitempty"` // rank of the process
	Device    int    `json:"device"`         // device number, -1 if not known
	Bytes     uint64 `json:"bytes"`          // in use now
	PeakBytes uint64 `json:"peak_bytes"`     // most in use so far
}

// Sum sums up one function, kernel, operator, stream or copy direction, in total and in the interval.
type Sum struct {
	Name     string `json:"name"`      // function, kernel, operator, stream or direction
	Process  int    `json:"process"`   // process id of a stream, otherwise 0
	Count    uint64 `json:"count"`     // calls, launches, runs, tasks or copies so far
	HostNS   int64  `json:"host_ns"`   // time in these calls, or in both phases of the operator
	Bytes    uint64 `json:"bytes"`     // copied bytes
	New      uint64 `json:"new"`       // count in the interval
	NewNS    int64  `json:"new_ns"`    // host_ns in the interval
	NewBytes uint64 `json:"new_bytes"` // bytes in the interval
}

// New returns a Live that sums up the calls that a Selection chooses, nil for all, in the recording at path. The Selection must not depend on
// numbers of steps. Refresh calls open.
func New(path string, which *timeline.Selection, open func(string) (*format.Reader, *api.Model, error)) *Live {
	l := &Live{path: path, open: open}
	if which != nil {
		l.which = *which
	}
	return l
}

func (l *Live) begin(uuid string, m *api.Model) {
	*l = Live{path: l.path, which: l.which, open: l.open, uuid: uuid, places: map[int64]bool{}, state: timeline.NewState(m), sums: map[sumKey]*Sum{}, within: map[uint32]uint64{}, memory: map[place]*DeviceMemory{}}
	l.state.OperatorEnded(l.operator)
	l.top.UUID, l.top.path, l.top.Selection = uuid, l.path, l.which.String()
}

// Refresh reads new chunks and returns the sums, which the caller owns. If another recording has replaced the file, it
// starts again.
func (l *Live) Refresh() (*Top, error) {
	writing := atomicfile.Writing(l.path) // before the file is read: a recorder may end meanwhile
	r, m, err := l.open(l.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	chunks := slices.Collect(r.Chunks())
	if l.state == nil || r.Meta().UUID != l.uuid || len(chunks) < l.chunks {
		l.begin(r.Meta().UUID, m)
	}
	which := l.which
	which.Lane = "" // selected compares its name, which would take another pass through the trace
	sel, err := timeline.NewSelector(r, m, &which)
	if err != nil {
		return nil, err
	}
	t := &l.top
	t.Recording, t.FromNS, t.NewCalls = writing && !r.Complete(), l.last, 0
	t.Refreshes++
	for _, s := range l.sums {
		s.New, s.NewNS, s.NewBytes = 0, 0, 0
	}
	isNew := make(map[*format.ChunkInfo]bool, len(chunks)-l.chunks)
	for _, c := range chunks[l.chunks:] {
		isNew[c] = true
	}
	from := int64(-1)
	for c, err := range r.CallsByStart(&format.Filter{Chunk: func(c *format.ChunkInfo) bool { return isNew[c] }}) {
		if err != nil {
			return nil, err
		}
		if from < 0 {
			from = c.Start
		}
		l.call(m, sel, r.Schema().FuncName(c.Func), r.ProcessOf(c.Thread), c)
	}
	l.chunks = len(chunks)
	if !t.Recording {
		l.state.OpenOperators(0) // ends those that no mark ends
	}
	if t.Refreshes == 1 && from >= 0 {
		t.FromNS = from
	}
	t.ToNS = max(l.last, t.FromNS)
	damaged, _ := r.LostCalls()
	l.damaged += damaged
	t.Lost = l.damaged
	for _, d := range r.Damage() {
		l.places[d.Offset] = true // some damage is found at every opening
	}
	t.Damaged = len(l.places)
	t.Lacks = r.Completeness()
	t.Scope = t.Lacks.Scope()
	for _, g := range r.Gaps() {
		if !g.Intended() {
			t.Lost += g.Calls
		}
	}
	out := *t
	out.Functions, out.Kernels, out.Operators, out.Streams, out.Copies = l.list("function"), l.list("kernel"), l.list("operator"), l.list("stream"), l.list("copy")
	out.Devices = l.devices(r)
	for i, procs := 0, r.Processes(); i < len(out.Streams); i++ {
		if s := &out.Streams[i]; s.Process < len(procs) {
			s.Process = procs[s.Process].PID
		}
	}
	out.seconds = float64(out.ToNS-out.FromNS) / 1e9
	return &out, nil
}

func (l *Live) call(m *api.Model, sel *timeline.Selector, name string, process uint32, c *format.Call) {
	t := &l.top
	e := l.state.Apply(process, c)
	l.last = max(l.last, c.End)
	t.DeviceBytes = l.state.DeviceMemory()
	t.PeakBytes = max(t.PeakBytes, t.DeviceBytes)
	l.state.MemoryChanges(l.memoryChanged)
	if e.Fn != nil && e.Fn.EntryMark() { // no call of the program
		if p := e.Begun; p != nil && p.Depth == 0 && l.selected(sel, "", e) {
			l.within[p.Thread] = p.Call
		}
		return
	}
	stream := l.streams.Call(l.state, e)
	if t.Selection != "" {
		t.CallsOf++
	}
	if !l.selected(sel, stream, e) {
		return
	}
	ns := c.End - c.Start
	if c.Flags&format.Unfinished != 0 {
		ns = 0
	}
	t.Calls++
	t.NewCalls++
	if e.Fn != nil && e.Fn.Wrong(c.Ret) {
		t.Failed++
	}
	l.add("function", name, 0, ns, 0)
	if stream == "" {
		return
	}
	var bytes uint64
	switch e.Fn.Task {
	case api.Kernel:
		l.add("kernel", cmp.Or(e.Kernel, "unknown kernel"), 0, ns, 0)
	case api.Copy:
		bytes = timeline.Copied(m, e)
		l.add("copy", timeline.Direction(m, e), 0, ns, bytes)
	}
	l.add("stream", stream, process, ns, bytes)
}

// memoryChanged takes a change in device memory.
func (l *Live) memoryChanged(o *timeline.Object, freed bool) {
	at := place{o.Process, o.Device}
	m := l.memory[at]
	if m == nil {
		m = &DeviceMemory{}
		l.memory[at] = m
	}
	if freed {
		m.Bytes -= o.Size
	} else {
		m.Bytes += o.Size
	}
	m.PeakBytes = max(m.PeakBytes, m.Bytes)
}

// devices lists the memory by process and device.
func (l *Live) devices(r *format.Reader) []DeviceMemory {
	out, processes := []DeviceMemory{}, r.Processes()
	for _, at := range slices.SortedFunc(maps.Keys(l.memory), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.device, b.device))
	}) {
		m := *l.memory[at]
		m.Device = at.device
		if int(at.process) < len(processes) {
			p := &processes[at.process]
			if m.Process = p.PID; p.Ranked(r.Meta()) {
				m.Rank = &p.Rank
			}
		}
		if m.PeakBytes > 0 {
			out = append(out, m)
		}
	}
	return out
}

// selected reports whether a call is selected. stream is the lane of its task.
func (l *Live) selected(sel *timeline.Selector, stream string, e *timeline.Event) bool {
	if l.which.Lane != "" && stream != l.which.Lane {
		waits := e.Fn != nil && (e.Fn.Sync == api.SyncStream || e.Fn.Sync == api.PollStream)
		if !waits || l.streams.Known(l.state.WaitedLane(e)) != l.which.Lane {
			return false
		}
	}
	return sel.MayBe(e.Call) && sel.Is(e)
}

// operator adds a part of an operator that has ended. Parts inside another operator count for the outer one.
func (l *Live) operator(p *operator.Part) {
	if call, ok := l.within[p.Thread]; !ok || call != p.Call || p.Phase == operator.Inner || p.Name == "" {
		return
	}
	delete(l.within, p.Thread)
	n := uint64(0)
	if p.Phase == operator.Two {
		n = 1
	}
	l.addTimes("operator", p.Name, 0, n, p.To-p.From, 0)
}

func (l *Live) add(kind, name string, process uint32, ns int64, bytes uint64) {
	l.addTimes(kind, name, process, 1, ns, bytes)
}

func (l *Live) addTimes(kind, name string, process uint32, n uint64, ns int64, bytes uint64) {
	k := sumKey{kind, name, process}
	s := l.sums[k]
	if s == nil {
		s = &Sum{Name: name, Process: int(process)}
		l.sums[k] = s
	}
	s.Count += n
	s.New += n
	s.HostNS += ns
	s.NewNS += ns
	s.Bytes += bytes
	s.NewBytes += bytes
}

func (l *Live) list(kind string) []Sum {
	out := []Sum{}
	for k, s := range l.sums {
		if k.kind == kind {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(b.NewNS, a.NewNS), cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Process, b.Process))
	})
	return out
}

// Seconds returns how long the latest interval lasted, 0 for none.
func (t *Top) Seconds() float64 { return t.seconds }

// Path returns the file of the recording.
func (t *Top) Path() string { return t.path }
