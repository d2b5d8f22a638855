// Package pprof writes a trace as a profile for `go tool pprof`, Speedscope and whatever else reads profile.proto.
//
// A stack is process, thread, the ranges that the program has named around the call, outermost first and without the
// numbers in their names, so that a loop is one frame, the program's own functions where the trace has the stacks of
// calls (`acltrace record --stacks`), function of the runtime, within another one where the trace is a profile's, and, for a call that made one, its task: the kernel, or
// the copy with its direction, as a frame of the device ("npu::MatMul"), so that viewers colour it apart from the host.
// There are four sample types: launches counts kernel launches; host_time, shown unless another is asked for, is the
// time that the calls took on the host, without what is in them; moved is what copies and fills moved, in bytes; device_time is the time of
// those tasks that the device's clock has measured, and a comment says of how many that is. The labels thread and
// stream can be filtered by.
//
// Frames of the program have their addresses, and the mappings their files and build ids. Their functions are named by
// the symbols of these files where they are here. Where a file has become another build they are named by the file and
// the place in it. A mapping in which not all have a name is left to the viewer, which may look for the file elsewhere.
//
// A call that never returned is in the profile with the time up to the last moment known of it. Calls that are missing from the
// trace, and such unfinished ones, are named in the profile's comments.
//
// Write only reads the trace, and may be called from several goroutines. Its memory grows with the number of different
// stacks, not with that of the calls.
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
	types
)

// key is what the calls of one sample have in common.
type key struct {
	thread uint32
	stack  uint64 // 0 for none
	phase  string // names of ranges, each behind a phaseMark
	fn     string
	lane   int    // -1 for a call without a task
	task   string // its name
}

type builder struct {
	w       *timeline.Walk
	p       *profile.Profile
	procs   []format.Process
	threads []format.Thread
	device  string
	frames  map[frame]*profile.Location
	// functions are those of each mapping, by its number.
	functions map[frame]*profile.Function
	samples   map[key]*profile.Sample

	stacks  *timeline.Stacks // nil where the trace has none
	maps    map[*format.Mapping]*profile.Mapping
	code    map[code]*profile.Location
	unknown int // calls whose stack is not

	phases []phases // by thread
	paths  map[string]bool

	tasks, measured int
}

// phases are the ranges that a thread is in.
type phases struct {
	open  []*timeline.Range
	ends  int64 // of the first to end
	path  string
	calls []outer // each in the one before
}

// An outer is a call in which there may be others, as in a profile.
type outer struct {
	end    int64
	fn     string
	phase  string // around it
	inner  string // around what is in it, "" where nothing was yet
	sample *profile.Sample
}

const phaseMark = "\x00"

// maxStacks bounds the different stacks that are told apart: 64 MiB at the most.
const maxStacks = 1 << 16

// maxPaths bounds the different phases that are told apart, maxDepth how many lie in each other.
const maxPaths, maxDepth = 1 << 12, 32

// frame is a name in a process, or in a mapping.
type frame struct {
	in   uint32
	name string
}

// code is a place in the code of a process.
type code struct {
	process uint32
	pc      uint64
}

// Options change what is written; nil stands for the zero value.
type Options struct {
	Progress func(done, total int) // called now and then with the number of calls
}

// Write writes the profile, compressed by gzip as all readers expect it.
func Write(w io.Writer, r *format.Reader, m *api.Model, o *Options) error {
	p, err := build(r, m, o)
	if err != nil {
		return err
	}
	if err := p.Write(w); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

func build(r *format.Reader, model *api.Model, o *Options) (*profile.Profile, error) {
	m := r.Meta()
	walk := &timeline.WalkOptions{}
	if o != nil {
		walk.Progress = o.Progress
	}
	walk.Stacks = slices.ContainsFunc(r.Processes(), func(p format.Process) bool { return len(p.Maps) > 0 })
	w := timeline.NewWalk(r, model, walk)
	b := &builder{
		w: w, procs: r.Processes(), threads: r.Threads(), device: model.Accelerator.Kind,
		frames: map[frame]*profile.Location{}, functions: map[frame]*profile.Function{}, samples: map[key]*profile.Sample{}, paths: map[string]bool{},
		p: &profile.Profile{
			SampleType: []*profile.ValueType{
				launches:   {Type: "launches", Unit: "count"},
				hostTime:   {Type: "host_time", Unit: "nanoseconds"},
				moved:      {Type: "moved", Unit: "bytes"},
				deviceTime: {Type: "device_time", Unit: "nanoseconds"},
			},
			DefaultSampleType: "host_time",
			TimeNanos:         m.StartWall,
			DurationNanos:     max(m.EndNS, w.End),
		},
	}
	if b.device == "" {
		b.device = "device"
	}
	if len(b.procs) == 0 {
		b.procs = []format.Process{{Argv: m.Argv}}
	}
	b.mappings()
	if walk.Stacks {
		b.stacks, b.maps, b.code = timeline.NewStacks(r), map[*format.Mapping]*profile.Mapping{}, map[code]*profile.Location{}
	}
	unfinished := 0
	err := w.Run(&timeline.Visitor{Range: b.enter, Call: func(c *timeline.HostCall, k *timeline.Task) error {
		if c.Flags&format.Unfinished != 0 {
			unfinished++
		}
		b.call(c, k)
		return nil
	}})
	if err != nil {
		return nil, err
	}
	b.comments(m, unfinished)
	if err := b.p.CheckValid(); err != nil {
		return nil, fmt.Errorf("profile of %s: %w", m.UUID, err)
	}
	return b.p, nil
}

// mappings names the programs, for the frames that are no code. They say that all functions have names, or readers would look for symbols.
func (b *builder) mappings() {
	for i := range b.procs {
		m := &profile.Mapping{ID: uint64(i + 1), File: valid(b.path(uint32(i))), HasFunctions: true}
		for _, c := range b.procs[i].Maps {
			if c.Path == m.File {
				m.BuildID = valid(c.BuildID)
			}
		}
		b.p.Mapping = append(b.p.Mapping, m)
	}
}

func (b *builder) path(process uint32) string {
	p := &b.procs[process]
	switch {
	case p.Exe != "":
		return p.Exe
	case len(p.Argv) > 0:
		return p.Argv[0]
	}
	return "program"
}

// enter takes in a range that the next call of its thread lies in.
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

// leave forgets the ranges that have ended by a moment, and reports whether there were some.
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
	for int(n) >= len(b.phases) {
		b.phases = append(b.phases, phases{})
	}
	return &b.phases[n]
}

// in returns the call that another one of the thread lies in, nil for none.
func (t *phases) in(c *timeline.HostCall) *outer {
	n := len(t.calls)
	for n > 0 && t.calls[n-1].end <= c.Start {
		n--
	}
	t.calls = t.calls[:n]
	if n == 0 || n == maxDepth || c.End > t.calls[n-1].end {
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

func (b *builder) call(c *timeline.HostCall, task *timeline.Task) {
	t := b.thread(c.Thread)
	k := key{thread: c.Thread, phase: b.phase(t, c), fn: c.Name, lane: -1}
	in := t.in(c)
	if in != nil {
		if in.inner == "" {
			in.inner = in.phase + phaseMark + in.fn
		}
		k.phase = in.inner
	}
	if b.stacks != nil {
		var ok bool
		if k.stack, ok = b.stacks.Learn(b.process(c.Thread), c.Raw, maxStacks); !ok {
			k.stack = 0
			b.unknown++
		}
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
	s := b.samples[k]
	if s == nil {
		s = b.sample(&k)
		b.samples[k] = s
		b.p.Sample = append(b.p.Sample, s)
	}
	s.Value[launches] += launched
	s.Value[hostTime] += max(c.End-c.Start, 0)
	if in != nil { // its time is that of what is in it, and the rest
		in.sample.Value[hostTime] -= max(c.End-c.Start, 0)
	}
	if c.End > c.Start && len(t.calls) < maxDepth {
		t.calls = append(t.calls, outer{end: c.End, fn: c.Name, phase: k.phase, sample: s})
	}
	s.Value[moved] += int64(bytes)
	s.Value[deviceTime] += took
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
			s.Label["device"] = []string{b.device + ":" + strconv.Itoa(lane.Device)}
		}
	}
	s.Location = append(s.Location, b.location(th.Process, k.fn))
	if k.stack != 0 {
		for _, f := range b.stacks.Frames(th.Process, k.stack) {
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

// program names a process: with its number where there are several, and with its rank where that is the same, as of ranks in containers.
func (b *builder) program(process uint32) string {
	p := &b.procs[process]
	name := filepath.Base(b.path(process))
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

// location returns the location of a frame, of which there is one for each name in a process.
func (b *builder) location(process uint32, name string) *profile.Location {
	f := frame{process, valid(name)}
	l := b.frames[f]
	if l == nil {
		l = b.add(&profile.Location{Mapping: b.p.Mapping[process]}, f.name)
		b.frames[f] = l
	}
	return l
}

// address returns the location of a frame of the program.
func (b *builder) address(process uint32, f *timeline.Frame) *profile.Location {
	at := code{process, f.PC}
	l := b.code[at]
	if l != nil {
		return l
	}
	if f.Mapping == nil {
		l = b.location(process, f.String())
	} else {
		m := b.maps[f.Mapping]
		if m == nil {
			m = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), Start: f.Mapping.Start, Limit: f.Mapping.End, Offset: f.Mapping.Offset, File: valid(f.Mapping.Path),
				BuildID: valid(f.Mapping.BuildID), HasFunctions: true}
			b.maps[f.Mapping] = m
			b.p.Mapping = append(b.p.Mapping, m)
		}
		// A return address is behind the call, perhaps on the next line.
		name := f.Name
		if f.Rebuilt { // go tool pprof looks at no build id, and would take the names of what is there
			name = f.String()
		}
		l = b.add(&profile.Location{Mapping: m, Address: f.PC - 1}, valid(name))
		m.HasFunctions = m.HasFunctions && name != ""
	}
	b.code[at] = l
	return l
}

// add numbers a location, with the function of a name unless that is "".
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

func (b *builder) comments(m *format.Meta, unfinished int) {
	add := func(f string, args ...any) { b.p.Comments = append(b.p.Comments, valid(fmt.Sprintf(f, args...))) }
	add("recording %s of %s", m.UUID, strings.Join(m.Argv, " "))
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
	if gaps := b.w.Reader.Gaps(); len(gaps) > 0 {
		var lost uint64
		for _, g := range gaps {
			lost += g.Calls
		}
		add("places where calls were lost: %d, at least %d calls", len(gaps), lost)
	}
	if !b.w.Reader.Complete() {
		add("the trace has no end: the recorder was killed or the file was cut")
	}
}

// valid makes a string from a trace one that protobuf takes and that stays on its line.
func valid(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r // RuneError for bytes that are no text
	}, s)
}
