package timeline

import (
	"fmt"
	"math"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// Updates are the updates of a captured task.
type Updates struct {
	Count uint64
	Last  uint64 // call of the latest one
}

// graphCalls are the calls whose tasks a graph has: those that captured or made them, and those of their latest updates.
type graphCalls struct {
	tasks  map[uint64]Updates // by call
	starts map[uint64]int64   // by call
}

// Updates returns the updates of the task that a call captured, if Graph is set.
func (x *Selector) Updates(call uint64) Updates { return x.graph.tasks[call] }

// graphTasks finds the calls whose tasks are in the graph.
func (x *Selector) graphTasks(r *format.Reader, m *api.Model) error {
	g := graphCalls{map[uint64]Updates{}, map[uint64]int64{}}
	s := NewState(m).Read(r)
	captures := map[*Object]map[uint64]int64{} // starts of calls by the stream that began the capture
	var others []string
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		e := s.Apply(r.ProcessOf(c.Thread), c)
		if e.Fn == nil {
			continue
		}
		o := e.Object(api.Graph)
		if o != nil && o.Created == c.Index && o.ID != x.Graph && len(others) <= maxNamed {
			others = append(others, Place(Use{Object: o}))
		}
		if e.Fn.Capture == api.CaptureEnd {
			if o != nil && e.OK() && o.ID == x.Graph {
				for call, at := range captures[e.Stream] {
					g.add(call, at)
				}
			}
			delete(captures, e.Stream)
			continue
		}
		g.see(e, x.Graph, captures)
	}
	if len(g.tasks) > 0 {
		x.graph = g
		x.narrowTo(g)
		return nil
	}
	if len(others) > maxNamed {
		others[maxNamed] = "more"
	}
	if len(others) == 0 {
		return fmt.Errorf("no graph#%d with tasks: the trace has no graphs", x.Graph)
	}
	return fmt.Errorf("no graph#%d with tasks: the trace has %s", x.Graph, strings.Join(others, ", "))
}

// see takes a call whose task a graph or a capture gets.
func (g *graphCalls) see(e *Event, graph int, captures map[*Object]map[uint64]int64) {
	c, in := e.Call, e.Captured
	switch {
	case e.Part.Update:
		u, known := g.tasks[e.Part.Of]
		if !known {
			return
		}
		if u.Count > 0 {
			delete(g.starts, u.Last)
		}
		g.tasks[e.Part.Of] = Updates{u.Count + 1, c.Index}
		g.starts[c.Index] = c.Start
	case in == nil || e.Fn.Task == api.NoTask && in.Kind == api.Stream:
	case in.Kind == api.Stream:
		if captures[in] == nil {
			captures[in] = map[uint64]int64{}
		}
		captures[in][c.Index] = c.Start
	case in.Kind == api.Graph && in.ID == graph:
		g.add(c.Index, c.Start)
	}
}

func (g *graphCalls) add(call uint64, start int64) { g.tasks[call], g.starts[call] = Updates{}, start }

func (g *graphCalls) has(call uint64) bool {
	_, ok := g.starts[call]
	return ok
}

func (x *Selector) narrowTo(g graphCalls) {
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, at := range g.starts {
		from, to = min(from, at), max(to, at+1)
	}
	x.narrow(from, to)
}
