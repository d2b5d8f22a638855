package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/minheap"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Group sums up calls in one step, thread, stream, kernel, operator, operator with shapes, or function. Times are nanoseconds on the host.
type Group struct {
	Name     string `json:"name"`              // step, thread, stream, kernel, operator or function
	Shapes   string `json:"shapes,omitempty"`  // kernel type and tensors of launches, for sums by shape; "" if the trace does not have them
	Object   string `json:"object,omitempty"`  // name of a stream in cat: stream#3; a default stream has none
	Process  int    `json:"process"`           // process id, 0 if the group spans several; of a step, if the trace has several
	Rank     *int   `json:"rank,omitempty"`    // rank of that process in a merged trace
	Calls    uint64 `json:"calls"`             // number of calls, or of runs of the operator
	Failed   uint64 `json:"failed"`            // calls that returned an error
	Launches uint64 `json:"launches"`          // number of kernel launches
	InGraphs uint64 `json:"in_graphs"`         // kernels that its runs of graphs launch, or launches of the kernel by such runs
	Copies   uint64 `json:"copies"`            // number of copies
	Bytes    uint64 `json:"bytes"`             // copied or filled
	HostNS   int64  `json:"host_ns"`           // time in the calls
	WaitedNS int64  `json:"waited_ns"`         // part of host_ns in calls that wait for the device
	StartNS  int64  `json:"start_ns"`          // start of the step; for other groups, of the first call
	SpanNS   int64  `json:"span_ns,omitempty"` // duration of the step
	DeviceNS int64  `json:"device_ns"`         // time of measured tasks, on all streams
	Differs  bool   `json:"differs,omitempty"` // the step is unlike most others

	order        int   // step index
	latest, ends int64 // latest start and latest end among a step's calls
}

func (g *Group) add(o *Group) {
	if g.Calls == 0 || o.Calls > 0 && o.StartNS < g.StartNS {
		g.StartNS = o.StartNS
	}
	g.Calls, g.Failed, g.Launches, g.Copies, g.Bytes = g.Calls+o.Calls, g.Failed+o.Failed, g.Launches+o.Launches, g.Copies+o.Copies, g.Bytes+o.Bytes
	g.InGraphs += o.InGraphs
	g.HostNS, g.WaitedNS, g.SpanNS, g.DeviceNS = g.HostNS+o.HostNS, g.WaitedNS+o.WaitedNS, g.SpanNS+o.SpanNS, g.DeviceNS+o.DeviceNS
}

// of sets the process.
func (g *Group) of(w *timeline.Walk, process uint32) {
	g.Process, g.Rank = w.PID(process), rankOf(w, process)
}

// Before orders steps by duration, the shortest first.
func (g *Group) Before(o *Group) bool {
	return cmp.Or(cmp.Compare(g.SpanNS, o.SpanNS), cmp.Compare(o.order, g.order)) < 0
}

// groups sums up calls by Options.By.
type groups struct {
	o       *Options
	w       *timeline.Walk
	threads []format.Thread
	numbers []*Group // by thread or lane
	until   []int64  // by thread: latest end among its calls
	named   named
	names   map[string]*Group // kernels or functions
	live    map[int]*Group    // steps that have not ended: at most one
	latest  int               // step's index
	step    *Group            // most recently used in live
	ended   minheap.Heap[*Group]
	none    Group // calls outside steps
	others  Group // groups beyond Options.Top
	left    int   // group count in others
}

func newGroups(o *Options, w *timeline.Walk) *groups {
	return &groups{o: o, w: w, threads: w.Reader.Threads(), names: map[string]*Group{}, live: map[int]*Group{}, named: named{model: w.Model}}
}

// of returns a call's group, nil for none. name is a kernel or a function.
func (g *groups) of(thread uint32, lane, step int, name string) *Group {
	n := -1
	switch g.o.By {
	case "thread":
		n = min(int(thread), len(g.threads))
	case "stream":
		n = lane
	case "step":
		if step < 0 {
			return &g.none
		}
		if g.step == nil || g.latest != step {
			if g.live[step] == nil {
				g.live[step] = &Group{order: step}
			}
			g.step, g.latest = g.live[step], step
		}
		return g.step
	case "kernel", "function", "operator", "shape":
		if name == "" {
			return nil
		}
		if g.names[name] == nil {
			g.names[name] = &Group{Name: name}
		}
		return g.names[name]
	}
	if n < 0 {
		return nil
	}
	x := grow.At(&g.numbers, n)
	if *x == nil {
		*x = &Group{}
	}
	return *x
}

// operator adds a part of an operator, if the program itself has called it: the time in both phases, and each phase two as a call.
func (g *groups) operator(p *operator.Part) {
	if p.Depth > 0 || p.Phase == operator.Inner {
		return
	}
	into := g.of(0, -1, -1, p.Name)
	if into == nil {
		return
	}
	if into.Calls == 0 && into.HostNS == 0 || p.From < into.StartNS {
		into.StartNS = p.From
	}
	into.HostNS += p.To - p.From
	if p.Phase == operator.Two {
		into.Calls++
	}
}

// noOperator is the group of the work that belongs to no operator.
const noOperator = "no operator"

// operated adds the work of a call to the operators to which it belongs.
func (g *groups) operated(h *timeline.HostCall, k *timeline.Task) {
	if k == nil || h.Wrong() {
		return
	}
	for _, in := range k.Content.Operators() {
		g.of(0, -1, -1, cmp.Or(in.Name, noOperator)).InGraphs += in.Count
	}
	if k.Operator != 0 || k.Kind == api.Kernel {
		g.work(g.of(0, -1, -1, cmp.Or(g.w.OperatorOf(k), noOperator)), k)
	}
}

// shaped adds a launch to its operator with its shapes. The time on the host is that of the launch alone.
func (g *groups) shaped(h *timeline.HostCall, k *timeline.Task) {
	if k == nil || h.Wrong() {
		return
	}
	of := func(operator, shapes string) *Group {
		operator = cmp.Or(operator, noOperator)
		into := g.of(0, -1, -1, operator+" "+shapes)
		into.Name, into.Shapes = operator, shapes
		return into
	}
	for _, in := range k.Content.Operators() {
		of(in.Name, in.Shapes).InGraphs += in.Count
	}
	if k.Kind != api.Kernel {
		return
	}
	into := of(g.w.OperatorOf(k), g.w.ShapesOf(k))
	if into.Calls++; into.Calls == 1 {
		into.StartNS = h.Start
	}
	if h.Flags&format.Unfinished == 0 {
		into.HostNS += h.End - h.Start
	}
	g.work(into, k)
}

func (g *groups) call(h *timeline.HostCall, k *timeline.Task) {
	switch g.o.By {
	case "operator":
		g.operated(h, k)
		return
	case "shape":
		g.shaped(h, k)
		return
	}
	lane, name := -1, ""
	if k != nil {
		lane = k.Lane
	}
	switch {
	case g.o.By == "function":
		name = h.Name
	case h.Fn != nil && h.Fn.Task == api.Kernel:
		name = cmp.Or(h.Kernel, "unknown kernel")
	}
	if k != nil && g.o.By == "kernel" {
		for _, in := range k.Content.Inside() {
			g.of(0, -1, -1, in.Name).InGraphs += in.Count
		}
	}
	into := g.of(h.Thread, lane, h.Step, name)
	if into == nil {
		return
	}
	if into.Calls++; into.Calls == 1 {
		into.StartNS = h.Start
	}
	into.latest, into.ends = max(into.latest, h.Start), max(into.ends, g.w.CallEnd(h))
	if h.Wrong() {
		into.Failed++
	}
	if h.Flags&format.Unfinished == 0 { // an unfinished call has no duration
		took := h.End - g.begin(h)
		into.HostNS += took
		if waits(g.named.function(h)) {
			into.WaitedNS += took
		}
	}
	if k != nil {
		g.work(into, k)
	}
}

// work adds a task.
func (g *groups) work(into *Group, k *timeline.Task) {
	into.Bytes += k.Bytes
	switch k.Kind {
	case api.Kernel:
		into.Launches++
	case api.Copy:
		into.Copies++
	case api.GraphRun:
		if k.Content != nil {
			into.InGraphs += k.Content.Launches
		}
	}
	if k.Measured { // other tasks have no end yet
		into.DeviceNS += k.To - k.From
	}
}

// begin returns the time from which a call adds to its group's time. In profiles calls are nested, and threads and
// steps count the outer call only. Streams and kernels count every call with a task.
func (g *groups) begin(h *timeline.HostCall) int64 {
	if g.o.By != "thread" && g.o.By != "step" {
		return h.Start
	}
	until := grow.At(&g.until, int(h.Thread))
	from := min(max(h.Start, *until), h.End)
	*until = max(*until, h.End)
	return from
}

// stepped closes an ended step's group.
func (g *groups) stepped(p *step.Step) error {
	into := g.live[p.Index]
	if g.o.By != "step" || into == nil {
		return nil
	}
	delete(g.live, p.Index)
	g.step = nil
	if p.Open {
		g.none.add(into)
		return nil
	}
	into.StartNS, into.SpanNS, into.Differs = p.From, p.To-p.From, !p.Typical
	if len(g.w.Reader.Processes()) > 1 {
		into.of(g.w, g.w.StepRule().Process)
	}
	if into.Name = fmt.Sprintf("step %d", p.Index); p.Name != "" {
		into.Name += " " + p.Name
	}
	if into.latest >= p.To { // the last step's end is known late: later calls were added to it
		into.Name, into.Differs = into.Name+" and what follows", true
		into.SpanNS = into.ends - p.From
	}
	if g.o.Step != nil {
		return g.o.Step(into)
	}
	if g.ended.Push(into); g.o.Top > 0 && g.ended.Len() > g.o.Top {
		g.others.add(g.ended.Pop())
		g.left++
	}
	return nil
}

// list returns the groups in order.
func (g *groups) list() []Group {
	out := []Group{}
	for i, x := range g.numbers {
		if x == nil {
			continue
		}
		switch g.o.By {
		case "thread":
			if i < len(g.threads) {
				x.of(g.w, g.threads[i].Process)
			}
			x.Name = g.w.ThreadName(uint32(i))
		case "stream":
			l := &g.w.Lanes[i]
			x.Name, x.Object = l.Name, objectName(l)
			x.of(g.w, l.Process)
		}
		out = append(out, *x)
	}
	for g.ended.Len() > 0 {
		out = append(out, *g.ended.Pop())
	}
	for _, x := range g.names {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Group) int {
		device := 0
		if g.o.By == "kernel" || g.o.By == "operator" || g.o.By == "shape" {
			device = cmp.Compare(b.DeviceNS, a.DeviceNS)
		}
		return cmp.Or(cmp.Compare(a.order, b.order), device, cmp.Compare(b.HostNS, a.HostNS), cmp.Compare(b.InGraphs, a.InGraphs), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Shapes, b.Shapes))
	})
	if g.o.Top > 0 && len(out) > g.o.Top {
		for i := range out[g.o.Top:] {
			g.others.add(&out[g.o.Top+i])
			g.left++
		}
		out = out[:g.o.Top]
	}
	if g.left > 0 {
		g.others.Name = human.Count(g.left) + " others"
		out = append(out, g.others)
	}
	for _, x := range g.live {
		g.none.add(x)
	}
	if g.none.Calls > 0 {
		g.none.Name = "no step"
		out = append(out, g.none)
	}
	return out
}
