package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// StepKind sums up the whole steps that run one graph, or none. A server captures a graph for each padded size, so its kinds are these sizes, and the steps
// outside of them, such as prompts. If no step runs a graph, a kind is the steps that launch mostly the same kernels: see docs/reference/analysis.md.
type StepKind struct {
	Graph    string  `json:"graph,omitempty"`       // name of the graph with the most launches among those that a step runs, "" for none
	Role     string  `json:"role,omitempty"`        // its role, see Graphs
	Capture  *uint64 `json:"capture,omitempty"`     // call that began its capture, if one before the first step made it
	Launches uint64  `json:"launches,omitempty"`    // of its run, or the mean of steps if no step runs a graph
	Blocks   uint64  `json:"blocks,omitempty"`      // of these launches, if Capture is known; they grow with the size
	Inputs   *uint64 `json:"input_bytes,omitempty"` // mean bytes that a step copies to the device, if no step runs a graph
	Kernel   string  `json:"kernel,omitempty"`      // without graphs: kernel that these steps launch more often than most, "" for the first kind
	Lacks    string  `json:"lacks,omitempty"`       // without graphs: kernel that these steps launch less often than most
	Every    int     `json:"every,omitempty"`       // without graphs: these steps begin every so many steps, in most cases
	Others   bool    `json:"others,omitempty"`      // these steps are of several kinds, each with less than three steps
	Count    int     `json:"count"`                 // number of steps
	P50NS    int64   `json:"p50_ns"`                // median duration
	P99NS    int64   `json:"p99_ns"`                // 99th percentile of durations
	MaxNS    int64   `json:"max_ns"`                // longest duration
}

const (
	// A step is of the first kind if it launches workKept of the first kind's kernels, and copies less than otherInputs times as much to the device, or more than this part of it, if it launches
	// no other kernels. Steps of another kind have workAlike of their kernels in common.
	workKept    = 0.95
	otherInputs = 8
	workAlike   = 0.7
	// leastOfKind is the least number of steps of a kind. maxEagerKinds is the largest number of kinds.
	leastOfKind   = 3
	maxEagerKinds = 8
	maxWorks      = 256     // of different steps
	maxOfWork     = 1 << 20 // launches in a step
	maxIndices    = 1 << 10 // of steps with the same work
	// regular is the part of the distances between steps of a kind that are equal, if the kind is regular.
	regular = 0.8
)

// eagerKinds divides the steps of a program without graphs by their work: the kernels that they launch, and the bytes that they copy to the device. So the prompts
// of a server and its decoding are two kinds. A step that does the work of most steps and more, as one with an evaluation, is of their kind.
type eagerKinds struct {
	open  map[int]*eagerWork // by step
	spare []*eagerWork
	known map[workKey]*worked
	over  bool // there are too many
}

// eagerWork is the work of a step.
type eagerWork struct {
	kernels []launched
	inputs  uint64 // bytes
}

// launched is a kernel that was launched.
type launched struct {
	name string
	work uint64 // see workOf
}

// workKey is a sum of kernels, see workOf, and the logarithm of the bytes of inputs.
type workKey struct {
	sum    uint64
	inputs int
}

// worked sums up steps with the same work.
type worked struct {
	sum      uint64
	kernels  map[string]uint64
	launches uint64
	inputs   uint64 // bytes, in all steps
	times    Histogram
	steps    []int // indices of the first ones
}

func (x *eagerKinds) work(i int) *eagerWork {
	w := x.open[i]
	if w == nil {
		if x.open == nil {
			x.open = map[int]*eagerWork{}
		}
		w = &eagerWork{}
		if n := len(x.spare); n > 0 {
			w, x.spare = x.spare[n-1], x.spare[:n-1]
		}
		x.open[i] = w
	}
	return w
}

// launched adds a launch in a step.
func (x *eagerKinds) launched(step int, name string, work uint64) {
	if step < 0 || x.over {
		return
	}
	if w := x.work(step); len(w.kernels) < maxOfWork {
		w.kernels = append(w.kernels, launched{name, work})
	} else {
		x.over = true
	}
}

// copied adds a copy in a step.
func (x *eagerKinds) copied(k *timeline.Task) {
	if k.Step >= 0 && !x.over && k.Direction() == "HtoD" {
		x.work(k.Step).inputs += k.Bytes
	}
}

// stepped follows the end of a step.
func (x *eagerKinds) stepped(p *step.Step, whole bool) {
	w := x.open[p.Index]
	if w == nil {
		return
	}
	delete(x.open, p.Index)
	if whole && len(w.kernels) > 0 {
		x.add(w, p.Index, p.To-p.From)
	}
	w.kernels, w.inputs = w.kernels[:0], 0
	x.spare = append(x.spare, w)
}

func (x *eagerKinds) add(w *eagerWork, index int, ns int64) {
	key := workKey{inputs: logarithm(w.inputs)}
	for _, k := range w.kernels {
		key.sum += k.work
	}
	of := x.known[key]
	if of == nil {
		if x.over = x.over || len(x.known) == maxWorks; x.over {
			return
		}
		if x.known == nil {
			x.known = map[workKey]*worked{}
		}
		of = &worked{sum: key.sum, kernels: map[string]uint64{}, launches: uint64(len(w.kernels))}
		for _, k := range w.kernels {
			of.kernels[k.name]++
		}
		x.known[key] = of
	}
	of.inputs += w.inputs
	of.times.Add(ns)
	if len(of.steps) < maxIndices {
		of.steps = append(of.steps, index)
	}
}

func logarithm(v uint64) (n int) {
	for ; v > 0; v >>= 1 {
		n++
	}
	return n
}

// mean returns the bytes of inputs in a step.
func (w *worked) mean() uint64 { return w.inputs / max(w.times.n, 1) }

// common returns the number of launches that two steps have in common.
func (w *worked) common(o *worked) (n uint64) {
	for k, times := range w.kernels {
		n += min(times, o.kernels[k])
	}
	return n
}

// resized reports whether a step launches the same kernels for inputs of another size.
func (w *worked) resized(o *worked) bool {
	a, b := w.mean(), o.mean()
	return w.sum == o.sum && max(a, b) >= otherInputs*max(min(a, b), 1)
}

// keeps reports whether a step does the work of another one, and maybe more.
func (w *worked) keeps(most *worked) bool {
	return float64(w.common(most)) >= workKept*float64(most.launches) && !w.resized(most)
}

// like reports whether two steps of another kind than most are of one kind.
func (w *worked) like(o *worked) bool {
	return float64(2*w.common(o)) >= workAlike*float64(w.launches+o.launches) && !w.resized(o)
}

// list returns the kinds, most steps first, nil if there is one. Steps of no kind come last.
func (x *eagerKinds) list() []StepKind {
	if x.over || len(x.known) < 2 {
		return nil
	}
	works := make([]*worked, 0, len(x.known))
	for _, w := range x.known {
		works = append(works, w)
	}
	slices.SortFunc(works, func(a, b *worked) int {
		return cmp.Or(cmp.Compare(b.times.n, a.times.n), cmp.Compare(b.launches, a.launches), cmp.Compare(a.sum, b.sum), cmp.Compare(a.inputs, b.inputs))
	})
	groups := [][]*worked{{works[0]}}
	for _, w := range works[1:] {
		at := slices.IndexFunc(groups[1:], func(g []*worked) bool { return w.like(g[0]) }) + 1
		if at == 0 && !w.keeps(works[0]) {
			at, groups = len(groups), append(groups, nil)
		}
		groups[at] = append(groups[at], w)
	}
	out, others := []StepKind{kindOfWork(groups[0])}, []*worked(nil)
	for _, g := range groups[1:] {
		k := kindOfWork(g)
		if k.Count < leastOfKind {
			others = append(others, g...)
			continue
		}
		k.Kernel, k.Lacks, k.Every = most(g[0], works[0]), most(works[0], g[0]), every(g)
		out = append(out, k)
	}
	if len(out) == 1 || len(out) > maxEagerKinds {
		return nil
	}
	slices.SortStableFunc(out[1:], func(a, b StepKind) int { return cmp.Compare(b.Count, a.Count) })
	if len(others) > 0 {
		k := kindOfWork(others)
		k.Others = true
		out = append(out, k)
	}
	return out
}

// kindOfWork sums up steps of one kind.
func kindOfWork(works []*worked) StepKind {
	var times Histogram
	launches, inputs := uint64(0), uint64(0)
	for _, w := range works {
		times.merge(&w.times)
		launches += w.launches * w.times.n
		inputs += w.inputs
	}
	return StepKind{Count: int(times.n), P50NS: times.Percentile(50), P99NS: times.Percentile(99), MaxNS: times.max, Launches: launches / times.n, Inputs: new(inputs / times.n)}
}

// every returns the distance between the first steps of a kind in a row, 0 if it differs.
func every(works []*worked) int {
	var all []int
	for _, w := range works {
		if all = append(all, w.steps...); len(w.steps) == maxIndices {
			all = slices.DeleteFunc(all, func(i int) bool { return i > w.steps[maxIndices-1] })
		}
	}
	slices.Sort(all)
	first, before, n, count := -1, -1, 0, map[int]int{}
	for _, i := range all {
		if i != before+1 || before < 0 {
			if first >= 0 {
				count[i-first]++
				n++
			}
			first = i
		}
		before = i
	}
	for distance, times := range count {
		if times >= leastOfKind-1 && float64(times) >= regular*float64(n) {
			return distance
		}
	}
	return 0
}

// most returns the kernel that a step launches most often more than another one does, "" for none.
func most(of, than *worked) (name string) {
	best := uint64(0)
	for k, n := range of.kernels {
		if n -= min(n, than.kernels[k]); n > best || n == best && n > 0 && k < name {
			best, name = n, k
		}
	}
	return name
}
