package html

import (
	"cmp"
	"encoding/json"
	"maps"
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
	maxRows    = 64     // of a picture
	maxEntries = 5      // of a critical path
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

	scene *scene.Scene
	ids   map[string]int
	rows  map[int]*row
	on    map[onPath]bool
	n     int   // slices
	grain int64 // slices shorter than this may be joined
}

// onPath is a call or a task on the critical path.
type onPath struct {
	call uint64
	task bool
}

type row struct {
	Name   string  `json:"name"`
	Of     string  `json:"of"` // process or device
	Device bool    `json:"device"`
	Slices []slice `json:"slices"`
	open   []int64 // ends of the slices that contain the next one
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
	open // it has not ended
)

func (s slice) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]any{s.from, s.to - s.from, s.depth, s.name, s.flags, s.call, s.count}, s.args...))
}

// draw draws the chosen steps.
func (x *survey) draw(r *format.Reader, m *api.Model) ([]*picture, error) {
	all := []*picture{}
	for _, c := range x.chosen {
		if c.off < 0 || slices.ContainsFunc(all, func(p *picture) bool { return p.Step == c.step.Index }) {
			continue
		}
		p := &picture{Title: c.why, Step: c.step.Index, From: c.step.From, To: c.step.To, Rows: []*row{}, Names: []string{}, ids: map[string]int{}, rows: map[int]*row{}, on: map[onPath]bool{}, Critical: []string{}}
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
	whole := max(of.Step.To-of.Step.From, 1)
	for _, e := range of.Entries(maxEntries) {
		text := e.Subject.String()
		if !strings.Contains(text, e.Where) {
			text += " on " + e.Where
		}
		p.Critical = append(p.Critical, human.Share(float64(e.NS)/float64(whole))+" "+cut(text))
	}
}

// Slice implements scene.Viewer.
func (p *picture) Slice(l *scene.Slice) error {
	if l.Row.Kind == scene.Steps || l.From > p.To || l.To < p.From {
		return nil
	}
	r := p.rows[l.Row.ID]
	if r == nil {
		r = p.row(l.Row)
	}
	s := slice{from: l.From, to: l.To, name: p.id(string(p.scene.AppendName(nil, l))), call: -1, count: 1}
	for len(r.open) > 0 && r.open[len(r.open)-1] <= l.From {
		r.open = r.open[:len(r.open)-1]
	}
	s.depth = len(r.open)
	if l.Row.Lane < 0 {
		r.open = append(r.open, l.To)
	}
	switch {
	case l.Call != nil:
		s.call = int64(l.Call.Index)
		if p.on[onPath{l.Call.Index, false}] {
			s.flags |= critical
		}
		if l.Call.Failed() {
			s.flags |= failed
		}
		if l.Call.Flags&format.Unfinished != 0 {
			s.flags |= open
		}
	case l.Task != nil:
		s.call = int64(l.Task.Call)
		if p.on[onPath{l.Task.Call, true}] {
			s.flags |= critical
		}
		if !l.Task.Measured {
			s.flags |= atMost
		}
	}
	if p.grain == 0 {
		p.arguments(&s, l)
	}
	r.Slices = append(r.Slices, s)
	if p.n++; p.n > maxSlices {
		p.join(maxSlices / 2)
	}
	return nil
}

// Point implements scene.Viewer.
func (p *picture) Point(*scene.Counter, int64, float64) error { return nil }

// row adds a row. Rows beyond a number are counted only.
func (p *picture) row(of *scene.Row) *row {
	r := &row{Name: cut(of.Name), Device: of.Lane >= 0, Slices: []slice{}}
	switch {
	case of.Lane >= 0:
		r.Of = p.scene.DeviceName(of.Device)
	case of.Kind != scene.Lost:
		r.Of = p.scene.ProcessName(of.Process)
	}
	r.Of = cut(r.Of)
	p.rows[of.ID] = r
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
	whole := max(p.To-p.From, 1)
	for p.n > most && p.grain < whole {
		p.Joined, p.grain = true, min(max(2*p.grain, whole/4096, 1), whole)
		p.n = 0
		for _, r := range p.rows {
			r.join(p.grain)
			p.n += len(r.Slices)
		}
	}
}

// join joins the slices that are shorter than a grain and begin in the same one. The longest names the result.
func (r *row) join(grain int64) {
	n := 0
	for _, s := range r.Slices {
		s.args = nil
		if s.to-s.from >= grain || n == 0 {
			r.Slices[n] = s
			n++
			continue
		}
		last := &r.Slices[n-1]
		if last.to-last.from >= 2*grain || last.from/grain != s.from/grain {
			r.Slices[n] = s
			n++
			continue
		}
		if s.to-s.from > last.to-last.from {
			last.name, last.call = s.name, s.call
		}
		last.to, last.depth = max(last.to, s.to), min(last.depth, s.depth)
		last.flags |= s.flags
		last.count += s.count
	}
	r.Slices = r.Slices[:n]
}

// order lists the rows: threads before streams, and those with most slices if there are too many.
func (p *picture) order() {
	all := slices.SortedFunc(maps.Values(p.rows), func(a, b *row) int { return cmp.Compare(b.weight(), a.weight()) })
	if p.LeftOut = max(len(all)-maxRows, 0); p.LeftOut > 0 {
		all = all[:maxRows]
	}
	for id, r := range p.rows {
		if !slices.Contains(all, r) {
			p.n -= len(r.Slices)
			delete(p.rows, id)
		}
	}
	p.Rows = p.Rows[:0]
	for _, id := range slices.Sorted(maps.Keys(p.rows)) {
		p.Rows = append(p.Rows, p.rows[id])
	}
	slices.SortStableFunc(p.Rows, func(a, b *row) int {
		switch {
		case a.Device == b.Device:
			return 0
		case b.Device:
			return -1
		}
		return 1
	})
}

func (r *row) weight() (n int) {
	for _, s := range r.Slices {
		n += s.count
	}
	return n
}
