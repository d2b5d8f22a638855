package access

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/graph"
)

// A Search finds the calls that access some allocations, its targets, also through addresses that calls have copied into other memory. It takes in
// calls that a replay does not make, too. Targets may be freed, and addresses of freed targets count.
type Search struct {
	calls   *Calls
	ids     map[int]int        // index of a target by Object.ID
	targets []*timeline.Object // of this Search's State, nil before their first use
	graphs  *graph.Graphs[*timeline.Object, *graphTask]
}

// A graphTask is a task of a graph.
type graphTask struct {
	hits   []Hit
	opaque bool // it may reach other memory too
	member bool // of a task group: an update after the run's call may give it other arguments
}

// A Hit is a call's access of a target. Kind is Points if the call copies an address of the target into Via.
type Hit struct {
	Target int // index
	Kind   Kind
	Offset uint64
	Size   uint64           // bytes, 0 if only the kernel determines it, or if the tasks of a graph's run access different ranges
	Via    *timeline.Object // memory that holds the address, nil if an argument is the address
}

// maxTable is the size of the largest payload that is searched for addresses, in bytes.
const maxTable = 1 << 20

// NewSearch returns a Search before the first call.
func NewSearch(r *format.Reader, m *api.Model, targets []*timeline.Object) (*Search, error) {
	x := &Search{targets: make([]*timeline.Object, len(targets)), ids: map[int]int{}, graphs: graph.New[*timeline.Object, *graphTask]()}
	ended := map[int]bool{}
	for i, o := range targets {
		x.ids[o.ID], ended[o.ID] = i, true
	}
	var err error
	x.calls, err = New(r, m, &Options{Objects: true, Ended: ended, Largest: maxTable, skipped: true})
	return x, err
}

// Apply advances the Search by one call. It returns the call's meaning, which is valid until the next Apply, and its hits.
func (x *Search) Apply(process uint32, c *format.Call) (*timeline.Event, []Hit) {
	q := x.calls.Apply(process, c)
	e := q.Event
	if q.stage == applied {
		return e, nil
	}
	for _, u := range e.Uses {
		if i, ok := x.ids[u.Object.ID]; ok {
			x.targets[i] = u.Object
		}
	}
	q.find(argued) // a payload that can't be read holds no address
	before := x.held(q)
	q.find(whole)
	var hits []Hit
	if q.OK && e.Fn.Task != api.NoTask {
		hits = x.direct(q)
		if e.Fn.Task == api.GraphRun {
			hits = x.ofTasks(e.Object(api.Graph), hits)
		}
		for _, h := range x.held(q) {
			if !slices.Contains(before, h) {
				hits = append(hits, Hit{Target: h.target, Kind: Points, Via: h.memory})
			}
		}
	}
	if q.OK && e.AffectsGraphs() {
		x.graphs.Apply(x.calls.State.GraphCall(e), func() *graphTask {
			return &graphTask{slices.Clone(hits), Runs(e.Fn) && !q.declared, e.Part.Member || e.Part.Update}
		})
	}
	return e, hits
}

// direct returns the accesses by the call and its task.
func (x *Search) direct(q *Call) (hits []Hit) {
	runs := Runs(q.Event.Fn)
	seen := map[int]bool{}
	for _, regions := range [][]Region{q.regions, q.host} {
		for _, r := range regions {
			i, ok := x.ids[r.Object.ID]
			if !ok || r.Kind == Points || r.Kind == Names && (!runs || seen[i]) {
				continue
			}
			seen[i] = true
			hits = append(hits, Hit{i, r.Kind, r.Lo, r.Hi - r.Lo, r.Via})
		}
	}
	return hits
}

// ofTasks returns the hits of a graph's run: those of its tasks, one of a kind for each target. Tasks in task groups have hits of their own. Memory that an
// undeclared kernel reaches through an address in other memory is in hits. If the content of the graph is unknown, hits are returned unchanged.
func (x *Search) ofTasks(run *timeline.Object, hits []Hit) (all []Hit) {
	g := x.graphs.Known(run)
	if g == nil || !g.Whole() {
		return hits
	}
	opaque := false
	g.Running(func(t *graphTask) {
		opaque = opaque || t.opaque
		for _, h := range t.hits {
			if !t.member && h.Kind != Points {
				all = join(all, h)
			}
		}
	})
	for _, h := range hits {
		if opaque && h.Via != nil {
			all = join(all, h)
		}
	}
	named := map[int]bool{} // targets that some task may write
	for _, h := range all {
		named[h.Target] = named[h.Target] || h.Kind == Names
	}
	return slices.DeleteFunc(all, func(h Hit) bool { return h.Kind != Names && named[h.Target] })
}

// join adds a hit to those of a graph's run. Hits of one target and kind become one, without a size if their ranges differ.
func join(all []Hit, h Hit) []Hit {
	for i := range all {
		if o := &all[i]; o.Target == h.Target && o.Kind == h.Kind {
			if o.Offset != h.Offset || o.Size != h.Size {
				o.Offset, o.Size = min(o.Offset, h.Offset), 0
			}
			return all
		}
	}
	return append(all, h)
}

// holder is memory that holds the address of a target.
type holder struct {
	memory *timeline.Object
	target int
}

// held returns the targets whose addresses are in memory that the call accesses.
func (x *Search) held(q *Call) (held []holder) {
	for _, r := range q.regions {
		if r.Via != nil {
			continue
		}
		for i, o := range x.targets {
			if h := (holder{r.Object, i}); q.Flow.holds(r.Object, o) && !slices.Contains(held, h) {
				held = append(held, h)
			}
		}
	}
	return held
}
