// Package memory finds the sites that allocate a program's device memory: how much each holds at the peak, what it never frees, and whether it grows from
// step to step.
//
// A site is the call stack of the allocation. If the recording has no stacks, it is the function, the thread and the size class. Memory is counted as
// timeline.MemoryPoint counts it: physical memory until its handle and its mappings have ended, without imported memory and without memory older than the trace.
//
// The peak of a site is its part of the peak of its device in its process: devices do not share memory. Steps are of one process, so only the memory of that process
// grows or is freed late.
//
// New reads a whole trace for acltrace stats --memory, and Sites takes part in another walk, as that of export/html. The package writes nothing. Its
// memory grows with the live allocations and the sites, at most maxSites, and not with the trace.
package memory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/sample"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

const (
	// maxSites limits the sites that are told apart. Allocations of further ones are summed up in one site without a function.
	maxSites = 4096
	// maxStacks limits the stacks that are kept, and maxFrames the frames of a site.
	maxStacks, maxFrames = 1 << 16, 12
	// maxGrowing limits the sites whose growth is measured, those with the first allocations.
	maxGrowing = 512
)

// Memory is the use of device memory in a trace.
type Memory struct {
	PeakBytes uint64               `json:"peak_bytes"`        // at most in use on all devices by all processes together
	Peak      *stats.Peak          `json:"peak,omitempty"`    // call that reached the peak
	Devices   []stats.DeviceMemory `json:"devices"`           // the most on each device, by process
	KeptBytes uint64               `json:"kept_bytes"`        // in use when the trace ended, on all devices: never freed
	KeptCount uint64               `json:"kept_count"`        // allocations of kept_bytes
	LateBytes uint64               `json:"late_bytes"`        // allocated before the end of the last step by the process that makes the steps, and freed after it
	LateCount uint64               `json:"late_count"`        // allocations of late_bytes
	Steps     int                  `json:"steps"`             // whole steps in the trace
	Process   int                  `json:"process,omitempty"` // id of the process that makes the steps, if the trace has several processes
	Rank      *int                 `json:"rank,omitempty"`    // rank of that process
	Growth    *stats.Growth        `json:"growth,omitempty"`  // of its memory on all devices from step to step, if it grows
	Sites     []Site               `json:"sites"`             // the largest at the peak first
	format.Scope
	Stacks bool `json:"stacks"` // sites are call stacks
}

// Site is a place in the program that allocates device memory.
type Site struct {
	Process     int           `json:"process"`          // process id
	Rank        *int          `json:"rank,omitempty"`   // rank of the process
	Device      int           `json:"device"`           // device number, -1 if not known
	Thread      string        `json:"thread,omitempty"` // name of the thread; with stacks, of the first allocation
	TID         int           `json:"tid,omitempty"`    // thread id
	Func        string        `json:"func,omitempty"`   // function; none for the rest of the sites
	SizeClass   string        `json:"size_class"`       // of each allocation, as <=64KiB
	Stack       []string      `json:"stack,omitempty"`  // call stack, the innermost frame first
	Allocations uint64        `json:"allocations"`      // calls that allocated
	Bytes       uint64        `json:"bytes"`            // sum of these allocations
	AtPeakBytes uint64        `json:"at_peak_bytes"`    // part of the peak of the device in this process
	AtPeakCount uint64        `json:"at_peak_count"`    // allocations of it
	MostBytes   uint64        `json:"most_bytes"`       // the most that this site held at any time
	KeptBytes   uint64        `json:"kept_bytes"`       // never freed
	KeptCount   uint64        `json:"kept_count"`       // allocations of kept_bytes
	LateBytes   uint64        `json:"late_bytes"`       // allocated before the end of the last step, and freed after it
	LateCount   uint64        `json:"late_count"`       // allocations of late_bytes
	Growth      *stats.Growth `json:"growth,omitempty"` // from step to step, if it grows; only in the process that makes the steps
}

// Options are options of New; nil means the zero value.
type Options struct {
	Progress func(done, total int)
}

// New reads the memory of a trace.
func New(r *format.Reader, m *api.Model, o *Options) (*Memory, error) {
	if o == nil {
		o = &Options{}
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress, Stacks: true})
	if err := w.FindSteps(); err != nil {
		return nil, err
	}
	s := NewSites(w)
	if err := w.Run(&timeline.Visitor{
		Call:   func(h *timeline.HostCall, _ *timeline.Task) error { s.Call(h); return nil },
		Memory: s.Memory,
		Step:   func(p *step.Step) error { s.Step(p); return nil },
	}); err != nil {
		return nil, err
	}
	return s.Sum(), nil
}

// use is an amount of memory.
type use struct{ bytes, count uint64 }

func (u *use) add(bytes uint64)  { u.bytes, u.count = u.bytes+bytes, u.count+1 }
func (u *use) take(bytes uint64) { u.bytes, u.count = u.bytes-bytes, u.count-1 }

// place is the memory of a process on a device.
type place struct {
	process uint32
	device  int
}

// pool has the peak of a place.
type pool struct {
	peak  uint64
	dirty []*site // changed since the peak
}

// key identifies a site.
type key struct {
	place
	thread uint32 // 0 with a stack
	fn     string
	class  int
	stack  uint64 // 0 without one
}

type site struct {
	key
	thread   uint32 // of the first allocation
	all      use
	live     use
	peak     use // as live was at the peak
	late     use // made before the latest step's end and freed since
	most     uint64
	dirty    bool // live changed since the peak
	lateness bool // late is not zero
	samples  sample.Even[point]
}

// point is the memory of a site at the end of a typical step.
type point struct {
	step  int
	bytes uint64
}

// holder is a live allocation's site.
type holder struct {
	site *site
	size uint64
	made int // steps that had ended when it was made
}

// Sites sums up memory by site, in the order of a walk.
type Sites struct {
	w       *timeline.Walk
	stacks  *timeline.Stacks
	byKey   map[key]*site
	list    []*site
	rest    map[place]*site // sites beyond maxSites
	pools   map[place]*pool
	holders map[*timeline.Object]holder
	late    []*site
	devices []stats.DeviceMemory
	peak    uint64
	at      *stats.Peak
	process uint32             // that makes the steps
	own     uint64             // its memory
	samples sample.Even[point] // of own
	steps   int
	stacked bool
}

// NewSites returns Sites without memory. The walk needs WalkOptions.Stacks if sites are to be stacks.
func NewSites(w *timeline.Walk) *Sites {
	return &Sites{w: w, process: w.StepRule().Process, stacks: timeline.NewStacks(w.Reader), byKey: map[key]*site{}, rest: map[place]*site{}, pools: map[place]*pool{},
		holders: map[*timeline.Object]holder{}}
}

// Call takes a call. A stack is recorded with one of its calls, which may allocate nothing.
func (s *Sites) Call(h *timeline.HostCall) {
	if h.Raw != nil {
		s.stacks.Learn(s.w.Process(h.Thread), h.Raw, maxStacks)
	}
}

// Memory takes a change in memory, after its call. It returns nil.
func (s *Sites) Memory(p *timeline.MemoryPoint) error {
	s.devices = stats.AddDeviceMemory(s.devices, s.w, p, 0)
	at := place{p.Process, p.Device}
	of := s.pools[at]
	if of == nil {
		of = &pool{}
		s.pools[at] = of
	}
	if p.Freed {
		s.freed(of, p)
		return nil
	}
	if p.Process == s.process {
		s.own += p.Object.Size
	}
	x := s.of(p)
	s.holders[p.Object] = holder{x, p.Object.Size, s.steps}
	x.all.add(p.Object.Size)
	x.live.add(p.Object.Size)
	x.most = max(x.most, x.live.bytes)
	of.touch(x)
	if p.Total > s.peak {
		s.peak, s.at = p.Total, &stats.Peak{Call: p.Call.Index, Func: p.Call.Name, Time: p.Call.Start, Bytes: p.Object.Size}
	}
	if p.Bytes > of.peak {
		of.peak = p.Bytes
		for _, d := range of.dirty {
			d.peak, d.dirty = d.live, false
		}
		of.dirty = of.dirty[:0]
	}
	return nil
}

// freed takes the end of an allocation.
func (s *Sites) freed(of *pool, p *timeline.MemoryPoint) {
	if p.Process == s.process {
		s.own -= p.Object.Size
	}
	h := s.holders[p.Object]
	if h.site == nil {
		return
	}
	delete(s.holders, p.Object)
	h.site.live.take(h.size)
	of.touch(h.site)
	if h.made < s.steps && p.Process == s.process {
		h.site.late.add(h.size)
		if !h.site.lateness {
			h.site.lateness = true
			s.late = append(s.late, h.site)
		}
	}
}

// touch notes that a site has changed since the peak. A peak costs as much as the changes since the one before.
func (p *pool) touch(x *site) {
	if !x.dirty {
		x.dirty = true
		p.dirty = append(p.dirty, x)
	}
}

// of returns the site of an allocation.
func (s *Sites) of(p *timeline.MemoryPoint) *site {
	at := place{p.Process, p.Device}
	k := key{place: at, fn: p.Call.Name, class: timeline.SizeClass(p.Object.Size), thread: p.Call.Thread}
	if p.Call.Raw != nil {
		if hash, ok := s.stacks.Learn(p.Process, p.Call.Raw, maxStacks); ok {
			k.stack, k.thread, s.stacked = s.stacks.Shown(p.Process, hash), 0, true
		}
	}
	x := s.byKey[k]
	switch {
	case x != nil:
		return x
	case len(s.list) < maxSites:
		x = &site{key: k, thread: p.Call.Thread}
		s.byKey[k] = x
	case s.rest[at] != nil:
		return s.rest[at]
	default:
		x = &site{key: key{place: at, class: -1}}
		s.rest[at] = x
	}
	if len(s.list) < maxGrowing {
		x.samples = s.samples.Zeros()
	}
	s.list = append(s.list, x)
	return x
}

// Step takes a step that has ended.
func (s *Sites) Step(p *step.Step) {
	if p.Open {
		return
	}
	s.steps++
	for _, x := range s.late {
		x.late, x.lateness = use{}, false
	}
	s.late = s.late[:0]
	if !p.Typical {
		return
	}
	s.samples.Add(point{p.Index, s.own})
	for _, x := range s.list[:min(len(s.list), maxGrowing)] {
		if x.process == s.process {
			x.samples.Add(point{p.Index, x.live.bytes})
		}
	}
}

// Sum returns the sums at the end of the walk.
func (s *Sites) Sum() *Memory {
	m := &Memory{PeakBytes: s.peak, Peak: s.at, Devices: s.devices, Steps: s.steps, Growth: growth(&s.samples), Sites: []Site{}, Stacks: s.stacked, Scope: s.w.Reader.Completeness().Scope()}
	if len(s.w.Reader.Processes()) > 1 && s.steps > 0 {
		m.Process, m.Rank = stats.ProcessOf(s.w, s.process)
	}
	for i, x := range s.list {
		pid, rank := stats.ProcessOf(s.w, x.process)
		out := Site{Process: pid, Rank: rank, Device: x.device, Func: x.fn, Allocations: x.all.count, Bytes: x.all.bytes, AtPeakBytes: x.peak.bytes, AtPeakCount: x.peak.count, MostBytes: x.most,
			KeptBytes: x.live.bytes, KeptCount: x.live.count, LateBytes: x.late.bytes, LateCount: x.late.count}
		if x.class >= 0 {
			t := s.w.Reader.Threads()[x.thread]
			out.Thread, out.TID, out.SizeClass = s.w.ThreadName(x.thread), t.TID, timeline.SizeClasses[x.class].Name
		}
		if x.stack != 0 {
			for _, f := range s.stacks.Frames(x.process, x.stack) {
				if len(out.Stack) == maxFrames {
					break
				}
				out.Stack = append(out.Stack, f.String())
			}
		}
		if i < maxGrowing {
			out.Growth = growth(&x.samples)
		}
		m.KeptBytes, m.KeptCount = m.KeptBytes+out.KeptBytes, m.KeptCount+out.KeptCount
		m.LateBytes, m.LateCount = m.LateBytes+out.LateBytes, m.LateCount+out.LateCount
		m.Sites = append(m.Sites, out)
	}
	slices.SortStableFunc(m.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.AtPeakBytes, a.AtPeakBytes), cmp.Compare(b.MostBytes, a.MostBytes), cmp.Compare(b.Bytes, a.Bytes))
	})
	return m
}

func growth(s *sample.Even[point]) *stats.Growth {
	return stats.GrowthOf(len(s.Values), func(i int) (int, uint64) { return s.Values[i].step, s.Values[i].bytes })
}

// AtPeak returns the sites that held memory at the peak.
func (m *Memory) AtPeak() []Site {
	n := slices.IndexFunc(m.Sites, func(s Site) bool { return s.AtPeakBytes == 0 })
	if n < 0 {
		n = len(m.Sites)
	}
	return m.Sites[:n]
}

// Grows returns the site that grows most, nil if none does.
func (m *Memory) Grows() *Site {
	var most *Site
	for i := range m.Sites {
		if g := m.Sites[i].Growth; g != nil && (most == nil || g.PerStep > most.Growth.PerStep) {
			most = &m.Sites[i]
		}
	}
	return most
}

// String describes the site in one line.
func (s *Site) String() string {
	switch {
	case s.Func == "":
		return "further sites"
	case len(s.Stack) > 0:
		return fmt.Sprintf("%s, %s each, in %s", s.Func, s.SizeClass, s.Stack[0])
	}
	return fmt.Sprintf("%s, %s each, in %s", s.Func, s.SizeClass, s.Thread)
}
