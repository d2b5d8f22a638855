package parquet

import (
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

type stepColumns struct {
	*table
	pid, step, name, source, start, duration, typical, open *column
}

func (t *table) stepColumns() stepColumns {
	return stepColumns{t, t.column("pid"), t.column("step"), t.column("name"), t.column("source"), t.column("start_ns"), t.column("duration_ns"), t.column("typical"), t.column("open")}
}

// step adds a step.
func (x *writer) step(s *step.Step) error {
	t, rule := &x.steps, x.w.StepRule()
	pid := 0
	if int(rule.Process) < len(x.procs) {
		pid = x.procs[rule.Process].PID
	}
	t.pid.index(int64(pid))
	t.step.index(int64(s.Index))
	t.name.name(t.name.has.zeros(1), 0, s.Name)
	t.source.indexes = append(t.source.indexes, t.source.texts.index(string(rule.Source)))
	t.start.numbers = append(t.start.numbers, s.From)
	t.duration.numbers = append(t.duration.numbers, max(s.To-s.From, 0))
	t.typical.flags, t.open.flags = append(t.typical.flags, flag(s.Typical)), append(t.open.flags, flag(s.Open))
	return t.added(1)
}

// index adds a number to a column without nulls.
func (c *column) index(n int64) { c.indexes = append(c.indexes, c.values.index(n)) }

type graphColumns struct {
	*table
	pid, graph, call, ended, runs, tasks, inside, launches *column

	all []*graph         // in the order of their numbers
	by  map[int64]*graph // by number
}

func (t *table) graphColumns() graphColumns {
	return graphColumns{t, t.column("pid"), t.column("graph"), t.column("call"), t.column("ended"), t.column("runs"), t.column("tasks"), t.column("graph_kernels"),
		t.column("graph_launches"), nil, map[int64]*graph{}}
}

// graph is a graph of the program, with the content of its latest run.
type graph struct {
	*timeline.Object
	runs    int64
	tasks   uint64
	content *timeline.GraphContent
}

func (x *writer) object(o *timeline.Object) error {
	if o.Kind == api.Graph {
		g := &graph{Object: o}
		x.graphs.all = append(x.graphs.all, g)
		x.graphs.by[int64(o.ID)] = g
	}
	return nil
}

func (x *writer) graph(o *timeline.Object, content timeline.Graph) error {
	if g := x.graphs.by[int64(o.ID)]; g != nil {
		g.tasks = content.Size()
	}
	return nil
}

// ran counts the run of a graph.
func (x *writer) ran(t *timeline.Task) {
	if g := x.graphs.of(t); g != nil {
		if g.runs++; t.Content != nil {
			g.content = t.Content
		}
	}
}

// of returns the graph that a task runs, nil for other tasks.
func (g *graphColumns) of(t *timeline.Task) *graph {
	if t.Kind != api.GraphRun || t.Object == nil {
		return nil
	}
	return g.by[int64(t.Object.ID)]
}

// graphRows adds the graphs, whose runs are known at the end.
func (x *writer) graphRows() error {
	t := &x.graphs
	for _, g := range t.all {
		pid := 0
		if int(g.Process) < len(x.procs) {
			pid = x.procs[g.Process].PID
		}
		t.pid.index(int64(pid))
		t.graph.numbers = append(t.graph.numbers, int64(g.ID))
		t.runs.numbers = append(t.runs.numbers, g.runs)
		t.call.number(int64(g.Created), g.Created != timeline.NoCall)
		t.ended.number(int64(g.Ended), g.Ended != timeline.NoCall)
		tasks := -1
		if g.runs > 0 && g.tasks < math.MaxInt64 {
			tasks = int(g.tasks)
		}
		t.tasks.put(t.tasks.has.zeros(1), 0, tasks)
		inside, launches := t.inside.has.zeros(1), t.launches.has.zeros(1)
		if g.content != nil {
			t.inside.name(inside, 0, valid(g.content.String()))
			t.launches.put(launches, 0, int(g.content.Launches))
		}
		if err := t.added(1); err != nil {
			return err
		}
	}
	return nil
}

// number adds a number that may be null.
func (c *column) number(n int64, known bool) {
	c.has = append(c.has, flag(known))
	if known {
		c.numbers = append(c.numbers, n)
	}
}
