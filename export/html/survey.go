package html

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/acltrace/acltrace/analyze/memory"
	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

const (
	maxBars     = 1024 // of a strip
	maxPoints   = 512  // of a curve
	maxCurves   = 16
	maxPictures = 8
)

// A series has at most so many items. If there are more, neighbors become one.
type series[T any] struct {
	items []T
	most  int
	join  func(a, b T) T
	wide  int // added items in each item
	last  int // added items in the last item
}

func (s *series[T]) add(x T) {
	n := len(s.items)
	switch {
	case s.last < s.wide:
		s.items[n-1] = s.join(s.items[n-1], x)
		s.last++
		return
	case n == s.most:
		for i := 0; i < n; i += 2 {
			s.items[i/2] = s.join(s.items[i], s.items[i+1])
		}
		s.items, s.wide = s.items[:n/2], 2*s.wide
	case n == 0:
		s.wide = 1
	}
	s.items, s.last = append(s.items, x), 1
}

func (s *series[T]) MarshalJSON() ([]byte, error) { return json.Marshal(append([]T{}, s.items...)) }

// A survey is a pass through a trace that has been summed up. It has what depends on all steps and calls.
type survey struct {
	w        *timeline.Walk
	bars     series[[]int64]
	chosen   []*choice
	notDrawn int // steps
	curves   curves
	sites    *memory.Sites
	troubles troubles
}

// A choice is a period to draw, normally a step.
type choice struct {
	why  string
	step step.Step
	path *path.Path // nil for none
	off  int64      // difference from the wanted duration, -1 for no step yet
	want func(*step.Step) (off int64, wanted bool)
}

// read makes a survey.
func read(r *format.Reader, m *api.Model, s *stats.Stats, o *Options) (*survey, error) {
	x := &survey{w: timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress}), bars: series[[]int64]{most: maxBars, join: longer}}
	x.curves, x.sites = curves{w: x.w, lines: map[place]*curve{}}, memory.NewSites(x.w)
	if err := x.w.FindSteps(); err != nil {
		return nil, err
	}
	failed := timeline.NoCall
	if i := slices.IndexFunc(s.Findings, func(f stats.Finding) bool { return failure(f) && f.Call != nil }); i >= 0 {
		failed = *s.Findings[i].Call
	}
	if err := x.choose(s, o); err != nil {
		return nil, err
	}
	finder, split, since := path.NewFinder(x.w), stats.NewSplitter(x.w), x.w.Start
	err := x.w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			finder.Call(h, k, x.w.Links(), 0)
			split.Call(h, k, true)
			x.troubles.call(x.w, h)
			if h.Index == failed {
				x.chosen = append(x.chosen, &choice{why: fmt.Sprintf("before the end of call %d, %s", h.Index, cut(h.Name)), step: step.Step{Index: -1, From: since, To: x.w.CallEnd(h)}})
			}
			return nil
		},
		Step: func(p *step.Step) error {
			x.sites.Step(p)
			if p.Open {
				return nil
			}
			since = p.To
			parts, known := split.Step(p, true)
			x.bars.add(bar(p, &parts, known))
			way := finder.Step(p)
			for _, c := range x.chosen {
				c.see(p, way)
			}
			return nil
		},
		Memory: func(p *timeline.MemoryPoint) error {
			x.curves.add(p)
			return x.sites.Memory(p)
		},
	})
	if rest := finder.Rest(); err == nil && rest != nil {
		x.chosen = []*choice{{why: "the whole trace", step: step.Step{Index: -1, From: x.w.Start, To: x.w.End}, path: rest}}
	}
	return x, err
}

// choose chooses the steps to draw.
func (x *survey) choose(s *stats.Stats, o *Options) error {
	longest := "the longest step"
	if s.Steps.Longest != nil && s.Steps.Typical < s.Steps.Count {
		longest = "the longest of the typical steps"
	}
	x.chosen = []*choice{{why: longest, off: -1, want: func(p *step.Step) (int64, bool) {
		if l := s.Steps.Longest; l != nil { // among the typical steps
			return 0, p.Index == l.Index
		}
		return math.MaxInt64 - (p.To - p.From), true
	}}}
	if s.Steps.Count > 1 {
		x.chosen = append(x.chosen, &choice{why: "a median step", off: -1, want: func(p *step.Step) (int64, bool) {
			return max(p.To-p.From-s.Steps.P50NS, s.Steps.P50NS-p.To+p.From), p.Typical
		}})
	}
	for _, of := range o.Steps {
		if of.First >= uint64(s.Steps.All()) {
			return fmt.Errorf("draw step %d: the trace has %s", of.First, human.Plural(s.Steps.All(), "step"))
		}
		for n := of.First; n <= min(of.Last, uint64(s.Steps.All())-1); n++ {
			if len(x.chosen) == maxPictures {
				x.notDrawn++
				continue
			}
			x.chosen = append(x.chosen, &choice{why: "a chosen step", off: -1, want: func(p *step.Step) (int64, bool) { return 0, uint64(p.Index) == n }})
		}
	}
	return nil
}

func (c *choice) see(p *step.Step, way *path.Path) {
	if c.want == nil {
		return
	}
	if off, wanted := c.want(p); wanted && (c.off < 0 || off < c.off) {
		c.off, c.step, c.path = off, *p, way.Clone()
	}
}

// bar returns a step as its number three times, its start, its duration, and its parts if they are known. The bar of several steps has the first
// number, the last one, and the values of the longest step.
func bar(p *step.Step, parts *stats.Parts, known bool) []int64 {
	n := int64(p.Index)
	b := []int64{n, n, n, p.From, p.To - p.From}
	for _, part := range stats.AllParts {
		if known {
			b = append(b, part.Of(parts))
		}
	}
	return b
}

func longer(a, b []int64) []int64 {
	c := slices.MaxFunc([][]int64{a, b}, func(a, b []int64) int { return cmp.Compare(a[4], b[4]) })
	return append([]int64{a[0], b[1]}, c[2:]...)
}

// A curve is the memory of a device over time: each point is a time and the bytes from then on.
type curve struct {
	Name   string           `json:"name"`
	Points series[[2]int64] `json:"points"`
}

func newCurve(name string) *curve {
	return &curve{name, series[[2]int64]{most: maxPoints, join: func(a, b [2]int64) [2]int64 { return [2]int64{a[0], max(a[1], b[1])} }}}
}

// curves is device memory over time.
type curves struct {
	w     *timeline.Walk
	list  []*curve
	lines map[place]*curve
}

type place struct {
	process uint32
	device  int
}

func (c *curves) add(p *timeline.MemoryPoint) {
	at := place{p.Process, p.Device}
	l := c.lines[at]
	if l == nil {
		l = newCurve(fmt.Sprintf("%s of process %d", timeline.DeviceName(c.w.Model, p.Device), c.w.PID(p.Process)))
		if c.lines[at] = l; len(c.list) < maxCurves {
			c.list = append(c.list, l)
		}
	}
	l.Points.add([2]int64{p.Time, int64(p.Bytes)})
}

// troubles are failed calls, calls without an end, and gaps.
type troubles struct {
	Rows []trouble `json:"rows"`
	More int       `json:"rows_left_out"`
}

type trouble struct {
	Call   *uint64 `json:"call"`
	At     int64   `json:"at_ns"`
	Took   int64   `json:"took_ns"`
	Func   string  `json:"func"`
	What   string  `json:"what"`
	Thread string  `json:"thread"`
	Step   *int    `json:"step"`
}

func (x *troubles) add(t trouble) {
	if len(x.Rows) == maxRows {
		x.More++
		return
	}
	x.Rows = append(x.Rows, t)
}

func (x *troubles) call(w *timeline.Walk, h *timeline.HostCall) {
	what := ""
	switch {
	case h.Hung():
		what = timeline.NeverReturned
	case h.Flags&format.Unfinished != 0:
		what = "did not return"
	case h.Failed():
		what = "failed: " + w.Model.ErrorName(int64(int32(h.Ret)))
	default:
		return
	}
	index, in := h.Index, h.Step
	x.add(trouble{&index, h.Start, w.CallEnd(h) - h.Start, h.Name, what, w.ThreadName(h.Thread), &in})
}

func (x *troubles) with(r *format.Reader) *troubles {
	for _, g := range r.Gaps() {
		what := human.Plural(g.Calls, "call") + " lost: "
		if g.Intended() {
			what = "not recorded: "
		}
		x.add(trouble{At: g.From, Took: max(g.To-g.From, 0), What: what + g.Reason.String()})
	}
	return x
}
