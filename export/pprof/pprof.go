// Package pprof writes a trace as a profile for `go tool pprof`, Speedscope and other profile.proto readers. Command
// export pprof calls Write.
//
// A stack has these frames, from the root:
//
//   - process
//   - thread
//   - the program's ranges around the call, outermost first; numbers are removed, so that a loop is one frame
//   - the program's functions, if the trace has call stacks (`acltrace record --stacks`)
//   - the operator that the call is in, the outermost one ("aclnnAdd")
//   - the runtime function; in imported profiles it may be below an enclosing one
//   - the call's task, if any: the kernel, or the copy with its direction, as a device frame ("npu::MatMul"), which
//     viewers color differently. The host time of a call that waits for its task, such as a copy that is not on a stream, has no device
//     frame: it belongs to the call
//
// There are six sample types:
//
//   - launches: kernel launches
//   - host_time, the default: call time on the host, without nested calls
//   - moved: bytes that copies and fills moved
//   - device_time: measured task time; a comment says how many tasks were measured
//   - alloc_space: bytes of device memory that the calls allocated, with physical memory
//   - inuse_space: bytes of those that were not freed before the end of the trace or of the selected period
//
// Viewers can filter by the labels thread and stream.
//
// Program frames have addresses, and mappings have files and build ids. Symbols come from the files on this machine. If
// a file has another build id, its frames are named by file and offset. If a mapping has frames without names, the
// viewer may look for the file elsewhere.
//
// A call that never returned counts until the end of the trace. The profile's comments name lost and unfinished calls.
//
// Write only reads the trace and may run concurrently with separate readers. Its memory grows with the distinct stacks,
// not with the calls.
package pprof

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// Sample types, in this order.
const (
	launches = iota
	hostTime
	moved
	deviceTime
	allocated
	inUse
	types
)

// key identifies a sample: its calls agree on these fields.
type key struct {
	thread   uint32
	stack    uint64 // 0 if none
	phase    string // range names, each after a phaseMark
	operator string // "" if none, or if phase has it
	fn       string
	lane     int    // -1 for a call without a task
	task     string // task name
}

type builder struct {
	w       *timeline.Walk
	p       *profile.Profile
	procs   []format.Process
	threads []format.Thread
	device  string
	frames  map[frame]*profile.Location
	// functions holds the functions by mapping id.
	functions map[frame]*profile.Function
	samples   map[key]*profile.Sample
	recent    [64]struct {
		key
		sample *profile.Sample
	}

	stacks  *timeline.Stacks // nil if the trace has none
	maps    map[*format.Mapping]*profile.Mapping
	code    map[code]*profile.Location
	unknown int // calls with an unknown stack

	phases []phases // by thread
	paths  map[string]bool

	tasks, measured int

	memory memory
}

// memory follows device memory from the calls that allocate it to those that free it.
type memory struct {
	call    uint64 // that allocates made
	made    []*timeline.Object
	holders map[*timeline.Object]*profile.Sample
}

// change takes a change before its call.
func (m *memory) change(p *timeline.MemoryPoint) error {
	if p.Freed {
		if s := m.holders[p.Object]; s != nil {
			s.Value[inUse] -= int64(p.Object.Size)
			delete(m.holders, p.Object)
		}
		return nil
	}
	if m.call != p.Call.Index {
		m.call, m.made = p.Call.Index, m.made[:0]
	}
	m.made = append(m.made, p.Object)
	return nil
}

// hold gives a call's sample what it allocates.
func (m *memory) hold(c *timeline.HostCall, s *profile.Sample) {
	if m.call != c.Index {
		return
	}
	for _, o := range m.made {
		s.Value[allocated] += int64(o.Size)
		s.Value[inUse] += int64(o.Size)
		m.holders[o] = s
	}
	m.made = m.made[:0]
}

// phases are a thread's current ranges.
type phases struct {
	open  []*timeline.Range
	ends  int64 // earliest end
	path  string
	calls []outer // each within the previous one
}

// An outer is a call with nested calls, as in an imported profile.
type outer struct {
	end      int64
	fn       string
	phase    string // around the call
	operator string // as in key
	inner    string // around its nested calls, "" until there is one
	sample   *profile.Sample
}

const phaseMark = "\x00"

// maxStacks limits the distinct stacks, to at most 64 MiB.
const maxStacks = 1 << 16

// maxPaths limits the distinct phases, maxDepth their nesting.
const maxPaths, maxDepth = 1 << 12, 32

// frame is a name in a process or mapping.
type frame struct {
	in   uint32
	name string
}

// code is a code address in a process.
type code struct {
	process uint32
	pc      uint64
}

// Options configure Write; nil means the zero value.
type Options struct {
	Select   *timeline.Selection   // calls, nil for all
	Progress func(done, total int) // called now and then with the call count
}

// Write writes the profile, compressed with gzip as readers expect.
func Write(w io.Writer, r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	p, calls, err := build(r, m, o)
	if err != nil {
		return nil, err
	}
	if err := p.Write(w); err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	return &Result{calls}, nil
}

// Result counts the calls in the profile.
type Result struct{ Calls int }

func build(r *format.Reader, model *api.Model, o *Options) (p *profile.Profile, calls int, err error) {
	m := r.Meta()
	if o == nil {
		o = &Options{}
	}
	sel, err := timeline.NewSelector(r, model, o.Select)
	if err != nil {
		return nil, 0, err
	}
	walk := &timeline.WalkOptions{Select: sel, Progress: o.Progress}
	walk.Stacks = slices.ContainsFunc(r.Processes(), func(p format.Process) bool { return len(p.Maps) > 0 })
	w := timeline.NewWalk(r, model, walk)
	b := &builder{
		w: w, procs: r.Processes(), threads: r.Threads(), device: timeline.DeviceName(model, timeline.NoDevice),
		frames: map[frame]*profile.Location{}, functions: map[frame]*profile.Function{}, samples: map[key]*profile.Sample{}, paths: map[string]bool{},
		memory: memory{holders: map[*timeline.Object]*profile.Sample{}},
		p: &profile.Profile{
			SampleType: []*profile.ValueType{
				launches:   {Type: "launches", Unit: "count"},
				hostTime:   {Type: "host_time", Unit: "nanoseconds"},
				moved:      {Type: "moved", Unit: "bytes"},
				deviceTime: {Type: "device_time", Unit: "nanoseconds"},
				allocated:  {Type: "alloc_space", Unit: "bytes"},
				inUse:      {Type: "inuse_space", Unit: "bytes"},
			},
			DefaultSampleType: "host_time",
			TimeNanos:         m.StartWall,
			DurationNanos:     max(m.EndNS, w.End),
		},
	}
	if len(b.procs) == 0 {
		b.procs = []format.Process{{Argv: m.Argv}}
	}
	b.mappings()
	if walk.Stacks {
		b.stacks, b.maps, b.code = timeline.NewStacks(r), map[*format.Mapping]*profile.Mapping{}, map[code]*profile.Location{}
	}
	unfinished := 0
	err = w.Run(&timeline.Visitor{Range: b.enter, Memory: b.memory.change, All: b.stacks != nil, Call: func(c *timeline.HostCall, k *timeline.Task) error {
		stack := b.stack(c)
		if !w.Selected() {
			return nil
		}
		calls++
		if c.Flags&(format.Unfinished|format.Cut) == format.Unfinished {
			unfinished++
		}
		b.call(c, k, stack)
		return nil
	}})
	if err != nil {
		return nil, 0, err
	}
	b.comments(m, calls, unfinished)
	if err := b.p.CheckValid(); err != nil {
		return nil, 0, fmt.Errorf("profile of %s: %w", m.UUID, err)
	}
	return b.p, calls, nil
}

// stack returns the number of a call's stack, 0 for none. Later calls refer to it, so it is learned from every call.
func (b *builder) stack(c *timeline.HostCall) uint64 {
	if b.stacks == nil {
		return 0
	}
	stack, ok := b.stacks.Learn(b.process(c.Thread), c.Raw, maxStacks)
	switch {
	case ok:
		return b.stacks.Shown(b.process(c.Thread), stack)
	case b.w.Selected():
		b.unknown++
	}
	return 0
}

// mappings adds a mapping for each program, for frames without code. They claim to have function names, or readers
// would look for symbols.
func (b *builder) mappings() {
	for i := range b.procs {
		m := &profile.Mapping{ID: uint64(i + 1), File: valid(b.procs[i].Program()), HasFunctions: true}
		for _, c := range b.procs[i].Maps {
			if c.Path == m.File {
				m.BuildID = valid(c.BuildID)
			}
		}
		b.p.Mapping = append(b.p.Mapping, m)
	}
}

// enter adds a range that contains the thread's next call.
func (b *builder) enter(r *timeline.Range) error {
	if r.Mark || r.Thread != r.EndThread {
		return nil
	}
	t := b.thread(r.Thread)
	t.leave(r.From)
	if len(t.open) < maxDepth {
		kept := *r
		t.open = append(t.open, &kept)
		b.name(t)
	}
	return nil
}

// leave removes ranges that ended by a moment. It reports whether there were any.
func (t *phases) leave(now int64) bool {
	n := len(t.open)
	t.open = slices.DeleteFunc(t.open, func(r *timeline.Range) bool { return r.To <= now })
	return len(t.open) < n
}

func (b *builder) name(t *phases) {
	t.path, t.ends = "", math.MaxInt64
	for _, r := range t.open {
		t.path += phaseMark + cmp.Or(strings.TrimRight(step.Stem(r.Name), " #:_-"), "range")
		t.ends = min(t.ends, r.To)
	}
	if !b.paths[t.path] && len(b.paths) == maxPaths {
		t.path = phaseMark + "other ranges"
		return
	}
	b.paths[t.path] = true
}

func (b *builder) thread(n uint32) *phases {
	for int(n) >= len(b.phases) { // faster than grow.At
		b.phases = append(b.phases, phases{})
	}
	return &b.phases[n]
}

// in returns the call of the thread that encloses one, nil if none.
func (t *phases) in(c *timeline.HostCall, end int64) *outer {
	n := len(t.calls)
	for n > 0 && t.calls[n-1].end <= c.Start {
		n--
	}
	t.calls = t.calls[:n]
	if n == 0 || n == maxDepth || end > t.calls[n-1].end {
		return nil
	}
	return &t.calls[n-1]
}

// phase returns the names of the ranges around a call.
func (b *builder) phase(t *phases, c *timeline.HostCall) string {
	if len(t.open) > 0 && t.ends <= c.Start && t.leave(c.Start) {
		b.name(t)
	}
	return t.path
}

func (b *builder) call(c *timeline.HostCall, task *timeline.Task, stack uint64) {
	t := b.thread(c.Thread)
	k := key{thread: c.Thread, stack: stack, phase: b.phase(t, c), operator: b.w.Event().Operator, fn: c.Name, lane: -1}
	end := b.w.CallEnd(c)
	in := t.in(c, end)
	if in != nil {
		if in.inner == "" {
			in.inner = in.phase + phaseMark + in.fn
			if in.operator != "" {
				in.inner = in.phase + phaseMark + in.operator + phaseMark + in.fn
			}
		}
		k.phase, k.operator = in.inner, ""
	}
	var bytes uint64
	var launched, took int64
	if task != nil {
		k.lane, k.task, bytes = task.Lane, task.Name, task.Bytes
		b.tasks++
		if task.Measured {
			b.measured++
			took = task.To - task.From
		}
		if task.Kind == api.Kernel {
			launched = 1
		}
	}
	if task != nil {
		s := b.sampleOf(k)
		s.Value[launches] += launched
		s.Value[moved] += int64(bytes)
		s.Value[deviceTime] += took
	}
	if task != nil && b.w.Lanes[task.Lane].Synchronous { // the thread waits in the call, and runs no part of the task
		k.lane, k.task = -1, ""
	}
	s := b.sampleOf(k)
	s.Value[hostTime] += end - c.Start
	b.memory.hold(c, s)
	if in != nil { // each call counts without its nested calls
		in.sample.Value[hostTime] -= end - c.Start
	}
	if end > c.Start && len(t.calls) < maxDepth {
		t.calls = append(t.calls, outer{end: end, fn: c.Name, phase: k.phase, operator: k.operator, sample: s})
	}
}

// sampleOf returns the sample with a key. It looks at recent ones first, which is faster than to hash four texts.
func (b *builder) sampleOf(k key) *profile.Sample {
	r := &b.recent[(len(k.fn)+7*len(k.task)+13*len(k.operator)+31*int(k.thread)+11*k.lane)&(len(b.recent)-1)]
	if r.key == k && r.sample != nil {
		return r.sample
	}
	s := b.samples[k]
	if s == nil {
		s = b.sample(&k)
		b.samples[k] = s
		b.p.Sample = append(b.p.Sample, s)
	}
	r.key, r.sample = k, s
	return s
}

func (b *builder) process(thread uint32) uint32 {
	if int(thread) < len(b.threads) && int(b.threads[thread].Process) < len(b.procs) {
		return b.threads[thread].Process
	}
	return 0
}

func (b *builder) sample(k *key) *profile.Sample {
	var th format.Thread
	if int(k.thread) < len(b.threads) {
		th = b.threads[k.thread]
	}
	th.Process = b.process(k.thread)
	name := "thread " + strconv.Itoa(th.TID)
	if th.Name != "" {
		name += " (" + th.Name + ")"
	}
	program := b.program(th.Process)
	s := &profile.Sample{Value: make([]int64, types), Label: map[string][]string{"thread": {valid(name)}}}
	if k.lane >= 0 {
		s.Location = append(s.Location, b.location(th.Process, b.device+"::"+k.task))
		lane := &b.w.Lanes[k.lane]
		s.Label["stream"] = []string{valid(lane.Name)}
		if lane.Device != timeline.NoDevice {
			s.Label["device"] = []string{timeline.DeviceName(b.w.Model, lane.Device)}
		}
	}
	s.Location = append(s.Location, b.location(th.Process, k.fn))
	if k.operator != "" {
		s.Location = append(s.Location, b.location(th.Process, k.operator))
	}
	if k.stack != 0 {
		for _, f := range b.stacks.Frames(th.Process, k.stack) {
			if f.Cut != "" {
				s.Location = append(s.Location, b.location(th.Process, f.String()))
				continue
			}
			s.Location = append(s.Location, b.address(th.Process, &f))
		}
	}
	if k.phase != "" {
		in := strings.Split(k.phase, phaseMark)
		for i := len(in) - 1; i > 0; i-- {
			s.Location = append(s.Location, b.location(th.Process, in[i]))
		}
	}
	s.Location = append(s.Location, b.location(th.Process, name), b.location(th.Process, program))
	return s
}

// program returns a process's frame name: with its pid if there are several processes, and with its rank if pids
// collide, as in containers.
func (b *builder) program(process uint32) string {
	p := &b.procs[process]
	name := filepath.Base(p.Program())
	if len(b.procs) == 1 {
		return name
	}
	for i := range b.procs {
		if o := &b.procs[i]; uint32(i) != process && o.PID == p.PID && o.Rank != p.Rank {
			return fmt.Sprintf("%s:%d", name, p.Rank)
		}
	}
	return name + " " + strconv.Itoa(p.PID)
}

func (b *builder) location(process uint32, name string) *profile.Location {
	f := frame{process, valid(name)}
	l := b.frames[f]
	if l == nil {
		l = b.add(&profile.Location{Mapping: b.p.Mapping[process]}, f.name)
		b.frames[f] = l
	}
	return l
}

// address returns the location for a program frame.
func (b *builder) address(process uint32, f *timeline.Frame) *profile.Location {
	at := code{process, f.PC}
	l := b.code[at]
	if l != nil {
		return l
	}
	if f.Module == "" {
		l = b.location(process, f.String())
	} else {
		m := b.maps[f.Mapping]
		if m == nil {
			m = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), Start: f.Mapping.Start, Limit: f.Mapping.End, Offset: f.Mapping.Offset, File: valid(f.Mapping.Path),
				BuildID: valid(f.Mapping.BuildID), HasFunctions: true}
			b.maps[f.Mapping] = m
			b.p.Mapping = append(b.p.Mapping, m)
		}
		// The return address may be on the line after the call.
		name := f.Name
		if f.Rebuilt { // go tool pprof ignores build ids and would use wrong symbols
			name = f.String()
		}
		l = b.add(&profile.Location{Mapping: m, Address: f.PC - 1}, valid(name))
		m.HasFunctions = m.HasFunctions && name != ""
	}
	b.code[at] = l
	return l
}

// add numbers a location and adds its function, unless the name is "".
func (b *builder) add(l *profile.Location, function string) *profile.Location {
	l.ID = uint64(len(b.p.Location) + 1)
	b.p.Location = append(b.p.Location, l)
	if function != "" {
		k := frame{uint32(l.Mapping.ID), function}
		fn := b.functions[k]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: function, SystemName: function}
			b.functions[k] = fn
			b.p.Function = append(b.p.Function, fn)
		}
		l.Line = []profile.Line{{Function: fn}}
	}
	return l
}

func countCalls(gaps []format.Gap) (n uint64) {
	for i := range gaps {
		n += gaps[i].Calls
	}
	return n
}

func (b *builder) comments(m *format.Meta, calls, unfinished int) {
	add := func(f string, args ...any) { b.p.Comments = append(b.p.Comments, valid(fmt.Sprintf(f, args...))) }
	add("recording %s of %s", m.UUID, strings.Join(m.Argv, " "))
	if s := b.w.Selector().String(); s != "" {
		add("only %d of %d calls are in the profile: %s", calls, b.w.Calls, s)
	}
	if m.Simulated {
		add("the device was simulated")
	}
	if b.measured < b.tasks {
		add("device_time is that of %d of %d tasks: the others were not measured", b.measured, b.tasks)
	}
	if b.unknown > 0 {
		add("the stacks of %d calls are not known: their thread's first calls are missing, or there are more than %d different ones", b.unknown, maxStacks)
	}
	if unfinished > 0 {
		add("calls that never returned: %d", unfinished)
	}
	c := b.w.Reader.Completeness()
	if len(c.Lost) > 0 {
		add("places where calls were lost: %d, at least %d calls", len(c.Lost), countCalls(c.Lost))
	}
	if len(c.Outside) > 0 {
		add("calls that were not to be recorded: at least %d", countCalls(c.Outside))
	}
	if !b.w.Reader.Complete() {
		add("the trace has no end: the recorder was killed or the file was cut")
	}
}

// valid makes a name valid UTF-8 without line breaks.
func valid(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r // RuneError for invalid bytes
	}, s)
}
