package html

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/internal/scene"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/timeline"
)

const (
	maxSlices  = 12_000 // in all pictures
	maxLanes   = 64     // of a picture
	maxEntries = 5      // of a critical path
	maxInside  = 1000   // tasks of a graph that are drawn
)

// A picture shows a period on rows: threads, streams, and what several threads share.
type picture struct {
	Title    string   `json:"title"`
	Step     int      `json:"step"` // -1 for none
	From     int64    `json:"from"`
	To       int64    `json:"to"`
	Rows     []*row   `json:"rows"`
	Names    []string `json:"names"`    // of slices and their arguments
	Critical []string `json:"critical"` // the longest parts of the critical path
	Joined   bool     `json:"joined"`   // short slices are drawn as one
	LeftOut  int      `json:"left_out"` // rows

	scene  *scene.Scene
	ids    map[string]int
	rows   map[int]*row
	graphs map[*timeline.Object][]int // names of their tasks
	on     map[onPath]bool
	n      int   // slices
	most   int   // slices before the next join
	grain  int64 // slices shorter than this are joined, 0 for none
}

// onPath is a call or a task on the critical path.
type onPath struct {
	call uint64
	task bool
}

type row struct {
	Name    string  `json:"name"`
	Of      string  `json:"of"` // process, with its device
	Slices  []slice `json:"slices"`
	process int
	device  bool
	id      int
	open    []int64 // ends of the slices that contain the next one
}

// A slice is an array in JSON, of these fields in their order.
type slice struct {
	from, to int64
	depth    int
	name     int
	flags    int
	call     int64 // -1 for none
	count    int   // slices that it stands for
	args     []any // name, value, name, value …; a number is an index into names
}

// Flags of a slice.
const (
	critical = 1 << iota
	atMost   // its times are brackets
	failed
	open   // it has not ended
	inside // a task of a graph: its order is known, its time is not
)

func (s slice) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]any{s.from, s.to - s.from, s.depth, s.name, s.flags, s.call, s.count}, s.args...))
}

// draw draws the chosen steps.
func (x *survey) draw(r *format.Reader, m *api.Model) ([]*picture, error) {
	all := []*picture{}
	for _, c := range x.chosen {
		if c.off < 0 || c.step.Index >= 0 && slices.ContainsFunc(all, func(p *picture) bool { return p.Step == c.step.Index }) {
			continue
		}
		p := &picture{Title: c.why, Step: c.step.Index, From: c.step.From, To: c.step.To, Names: []string{}, Critical: []string{},
			ids: map[string]int{}, rows: map[int]*row{}, graphs: map[*timeline.Object][]int{}, on: map[onPath]bool{}, most: maxSlices}
		p.way(c.path)
		var err error
		if p.scene, err = scene.New(r, m, &scene.Options{Select: &timeline.Selection{From: c.step.From, To: c.step.To}}); err != nil {
			return nil, err
		}
		if err := p.scene.Walk(p); err != nil {
			return nil, err
		}
		p.order()
		all = append(all, p)
	}
	return all, nil
}

// way takes in the critical path.
func (p *picture) way(of *path.Path) {
	if of == nil || of.TooLong {
		return
	}
	for _, part := range of.Parts() {
		if part.Call != timeline.NoCall {
			p.on[onPath{part.Call, part.Kind == path.Task}] = true
		}
	}
	for _, e := range of.Entries(maxEntries) {
		text := e.Subject.String()
		if !strings.Contains(text, e.Where) {
			text += " on " + e.Where
		}
		p.Critical = append(p.Critical, human.Share(float64(e.NS)/float64(max(of.Step.To-of.Step.From, 1)))+" "+cut(text))
	}
}

// Graph implements scene.GraphViewer.
func (p *picture) Graph(o *timeline.Object, g timeline.Graph) {
	delete(p.graphs, o)
	if g.Size() > maxInside {
		return
	}
	for _, t := range g.Tasks() {
		if t.Kind != api.NoTask {
			p.graphs[o] = append(p.graphs[o], p.id(t.Name))
		}
	}
}

// Slice implements scene.Viewer.
func (p *picture) Slice(l *scene.Slice) error {
	if l.Row.Kind == scene.Steps || l.From > p.To || l.To < p.From {
		return nil
	}
	r := p.row(l.Row)
	s := slice{from: l.From, to: l.To, name: p.id(string(p.scene.AppendName(nil, l))), call: -1, count: 1}
	for len(r.open) > 0 && r.open[len(r.open)-1] <= l.From {
		r.open = r.open[:len(r.open)-1]
	}
	if s.depth = len(r.open); !r.device {
		r.open = append(r.open, l.To)
	}
	flag := func(f int, is bool) {
		if is {
			s.flags |= f
		}
	}
	switch {
	case l.Call != nil:
		s.call = int64(l.Call.Index)
		flag(critical, p.on[onPath{l.Call.Index, false}])
		flag(failed, l.Call.Failed())
		flag(open, l.Call.Flags&format.Unfinished != 0)
	case l.Task != nil:
		s.call = int64(l.Task.Call)
		flag(critical, p.on[onPath{l.Task.Call, true}])
		flag(atMost, !l.Task.Measured)
		flag(open, l.Task.Open)
	}
	if p.grain == 0 {
		p.arguments(&s, l)
	}
	r.Slices = append(r.Slices, s)
	p.n++
	if l.Task != nil && l.Task.Kind == api.GraphRun {
		in := p.graphs[l.Task.Object]
		for i, name := range in {
			at := func(i int) int64 { return s.from + (s.to-s.from)*int64(i)/int64(len(in)) }
			r.Slices = append(r.Slices, slice{from: at(i), to: at(i + 1), depth: 1, name: name, flags: inside, call: s.call, count: 1})
		}
		p.n += len(in)
	}
	if p.n > p.most {
		p.join(p.most / 2)
	}
	return nil
}

// Point implements scene.Viewer.
func (p *picture) Point(*scene.Counter, int64, float64) error { return nil }

func (p *picture) row(of *scene.Row) *row {
	r := p.rows[of.ID]
	if r == nil {
		r = &row{Name: cut(of.Name), Slices: []slice{}, process: of.Process, device: of.Lane >= 0, id: of.ID}
		if of.Kind != scene.Lost {
			r.Of = cut(p.scene.ProcessName(of.Process))
		}
		p.rows[of.ID] = r
	}
	return r
}

func (p *picture) id(name string) int {
	name = cut(name)
	i, ok := p.ids[name]
	if !ok {
		i = len(p.Names)
		p.ids[name] = i
		p.Names = append(p.Names, name)
	}
	return i
}

// arguments adds the arguments of a slice.
func (p *picture) arguments(s *slice, l *scene.Slice) {
	for i := range l.Args {
		a := &l.Args[i]
		var v any
		switch a.Kind {
		case scene.Text:
			v = p.id(p.scene.Text(scene.Sym(a.Value)))
		case scene.True:
			v = "yes"
		case scene.Handle:
			v = string(p.scene.AppendHandle(nil, a.Value))
		case scene.Pointer:
			v = "0x" + strconv.FormatUint(a.Value, 16)
		case scene.Int:
			v = strconv.FormatInt(int64(a.Value), 10)
		default:
			v = strconv.FormatUint(a.Value, 10)
		}
		s.args = append(s.args, p.id(p.scene.Text(a.Key)), v)
	}
}

// join joins short neighboring slices of each row until the picture has at most so many, or until every row is one slice.
func (p *picture) join(most int) {
	first := max((p.To-p.From)/4096, 1)
	for p.n > max(most, len(p.rows)) && p.grain <= math.MaxInt64/4 {
		p.Joined, p.grain = true, max(p.grain, first)
		p.n = 0
		for _, r := range p.rows {
			r.join(p.grain)
			p.n += len(r.Slices)
		}
		if p.n > most {
			p.grain *= 2
		}
	}
	p.most = max(maxSlices, 2*p.n)
}

// join joins the slices that are shorter than a grain and begin in the same one. The longest names the result.
func (r *row) join(grain int64) {
	n := 0
	for _, s := range r.Slices {
		s.args = nil
		if n == 0 || s.to-s.from >= grain || r.Slices[n-1].to-r.Slices[n-1].from >= 2*grain || r.Slices[n-1].from/grain != s.from/grain {
			r.Slices[n] = s
			n++
			continue
		}
		last := &r.Slices[n-1]
		if s.to-s.from > last.to-last.from {
			last.name, last.call = s.name, s.call
		}
		last.to, last.depth, last.flags, last.count = max(last.to, s.to), min(last.depth, s.depth), last.flags|s.flags, last.count+s.count
	}
	r.Slices = r.Slices[:n]
}

// order lists the rows: of each process the threads before the streams, and those with most slices if there are too many.
func (p *picture) order() {
	weight := func(r *row) (n int) {
		for _, s := range r.Slices {
			n += s.count
		}
		return n
	}
	p.Rows = slices.SortedFunc(maps.Values(p.rows), func(a, b *row) int { return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.id, b.id)) })
	for _, r := range p.Rows[min(len(p.Rows), maxLanes):] {
		p.n, p.LeftOut = p.n-len(r.Slices), p.LeftOut+1
		delete(p.rows, r.id)
	}
	side := map[bool]int{true: 1}
	p.Rows = slices.SortedFunc(maps.Values(p.rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(side[a.device], side[b.device]), cmp.Compare(a.id, b.id))
	})
	if p.Rows == nil {
		p.Rows = []*row{}
	}
}
