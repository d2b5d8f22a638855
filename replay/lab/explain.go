package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
	"github.com/acltrace/acltrace/timeline/graph"
)

// Writer is a call that wrote, or may have written, memory.
type Writer struct {
	Call uint64 `json:"call"`           // call number
	Name string `json:"name"`           // kernel, otherwise the called function
	Task uint64 `json:"task,omitempty"` // captured call whose task wrote it, of a call that runs a graph
	Note string `json:"note,omitempty"` // why it may have written other data than recorded, empty if nothing suggests it

	// Early is the copy, or a copy on whose data this call may depend, whose data was taken at the call (format.TakenEarly); NoCall for none.
	Early uint64 `json:"-"`
}

// maxChain limits the calls listed for one difference: the last ones.
const maxChain = 50

// A Byte is a byte in a result, which an output shows.
type Byte struct {
	Call   uint64
	Item   uint32 // batch item, counted from 1; 0 for a single copy
	Offset uint64
}

// History is how a byte got its value.
type History struct {
	Chain      []Writer `json:"chain,omitempty"`       // calls that wrote the byte, or may have, since the last copy from the host; the last 50
	Reason     string   `json:"reason,omitempty"`      // likely cause of the difference, if known
	ChainTotal int      `json:"chain_total,omitempty"` // number of such calls
}

// A watched byte is one whose writes Explain follows.
type watched struct {
	*History
	object int    // Object.ID of its allocation
	offset uint64 // in that, 0 for an array
}

// Explain returns the history of each byte. It reads the trace twice, up to the last call that shows a byte: to find the allocations, and to
// follow the bytes. So its memory does not grow with the trace.
func Explain(ctx context.Context, r *format.Reader, m *api.Model, bytes []Byte) ([]History, error) {
	if len(bytes) == 0 {
		return nil, nil
	}
	histories := make([]History, len(bytes))
	shown, err := origins(ctx, r, m, bytes, histories)
	if err != nil {
		return histories, err
	}
	watch := map[int][]watched{} // by object
	for _, ws := range shown {
		for _, w := range ws {
			watch[w.object] = append(watch[w.object], w)
		}
	}
	spoiled := map[*timeline.Object]cause{} // by dependent memory
	graphs := graph.New[*timeline.Object, *graphTask]()
	return histories, access.Each(r, m, func(q *access.Call) error {
		e := q.Event
		for _, w := range shown[e.Call.Index] {
			watch[w.object] = slices.DeleteFunc(watch[w.object], func(k watched) bool { return k.History == w.History })
		}
		if delete(shown, e.Call.Index); len(shown) == 0 {
			return access.ErrStop
		}
		if !q.OK {
			return ctx.Err() // it wrote nothing
		}
		kernel := access.Runs(e.Fn)
		by := Writer{Call: e.Call.Index, Name: cmp.Or(e.Kernel, e.Fn.Name), Early: timeline.NoCall}
		because := causeOf(q, spoiled)
		if because.early == e.Call.Index {
			by.Note = "its data was " + format.TakenEarly.String()
		} else {
			by.Note = because.note
		}
		if because.note != "" {
			by.Early = because.early
		}
		in := !slices.ContainsFunc(q.Regions(), func(t access.Region) bool { return t.Kind == access.Reads }) // its data comes from the program
		if e.AffectsGraphs() {
			graphs.Apply(q.State.GraphCall(e), func() *graphTask { return &graphTask{by, slices.Clone(q.Regions())} })
		}
		seen := map[*timeline.Object]bool{}
		for _, t := range q.Regions() {
			ends := in && t.Kind == access.Writes
			switch {
			case t.Kind == access.Writes && t.Object.Kind == api.Array:
				t.Lo, t.Hi, ends = 0, math.MaxUint64, false // any part of it
			case kernel && t.Kind == access.Names && !seen[t.Object]:
				seen[t.Object] = true
				t.Lo, t.Hi = 0, math.MaxUint64
			case t.Kind != access.Writes:
				continue
			case in && t.Lo == 0 && t.Hi >= t.Object.Size:
				delete(spoiled, t.Object)
			}
			if because.note != "" {
				spoiled[t.Object] = because
			}
			for _, w := range watch[t.Object.ID] {
				if e.Captured == nil && t.Lo <= w.offset && w.offset < t.Hi {
					w.add(ofTask(by, e, graphs, t.Object, w.offset), ends)
				}
			}
		}
		for _, u := range e.Uses {
			if u.Object.Ended == e.Call.Index {
				delete(spoiled, u.Object)
			}
		}
		return ctx.Err()
	})
}

// A graphTask is a captured call with the memory of its task.
type graphTask struct {
	by      Writer
	regions []access.Region
}

// ofTask returns the writer of a byte in a graph's run: the last task that may write it. Other calls are returned unchanged.
func ofTask(by Writer, e *timeline.Event, graphs *graph.Graphs[*timeline.Object, *graphTask], o *timeline.Object, offset uint64) Writer {
	if e.Fn.Task != api.GraphRun {
		return by
	}
	g := graphs.Known(e.Object(api.Graph))
	if g == nil {
		return by
	}
	var last *graphTask
	g.Running(func(t *graphTask) {
		for _, r := range t.regions {
			if r.Object == o && (r.Kind == access.Names || r.Kind == access.Writes && r.Lo <= offset && offset < r.Hi) {
				last = t
			}
		}
	})
	if last != nil {
		by.Task, by.Name = last.by.Call, last.by.Name
	}
	return by
}

// cause is why memory may have other data than recorded.
type cause struct {
	note  string // "" for no cause
	early uint64 // see Writer.Early
}

// causeOf returns why a call may write other data than recorded. spoiled has the causes for memory.
func causeOf(q *access.Call, spoiled map[*timeline.Object]cause) cause {
	if call := q.Event.Call.Index; slices.ContainsFunc(q.Data, func(d format.Data) bool { return d.Reason == format.TakenEarly }) {
		return cause{fmt.Sprintf("it may depend on the data of call %d, which was %s", call, format.TakenEarly), call}
	}
	if o := unseen(q); o != nil {
		return cause{fmt.Sprintf("it may depend on data that the program wrote to the memory of call %d without a call", o.Created), timeline.NoCall}
	}
	for _, t := range q.Regions() {
		if c := spoiled[t.Object]; c.note != "" && t.Kind != access.Writes {
			return c
		}
	}
	return cause{}
}

// origins returns the bytes by the call that shows them, with their allocations.
func origins(ctx context.Context, r *format.Reader, m *api.Model, bytes []Byte, histories []History) (map[uint64][]watched, error) {
	byCall := map[uint64][]int{}
	for i, b := range bytes {
		byCall[b.Call] = append(byCall[b.Call], i)
	}
	shown := map[uint64][]watched{}
	x, err := access.New(r, m, nil)
	if err != nil {
		return nil, err
	}
	for c, err := range r.CallsByStart(nil) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		q := x.Apply(r.ProcessOf(c.Thread), c)
		if byCall[c.Index] == nil || q.Omits() != access.Replayed {
			continue
		}
		for _, i := range byCall[c.Index] {
			if o := q.OriginArray(); o != nil {
				shown[c.Index] = append(shown[c.Index], watched{&histories[i], o.ID, 0})
			} else if o, off := q.Origin(bytes[i].Item); o != nil {
				shown[c.Index] = append(shown[c.Index], watched{&histories[i], o.ID, off + bytes[i].Offset})
				if o.Hosted {
					histories[i].Reason = fmt.Sprintf("the program may write to the memory of call %d without a call", o.Created)
				}
			}
		}
		if delete(byCall, c.Index); len(byCall) == 0 {
			break
		}
	}
	return shown, nil
}

// add adds a write. A copy from the host ends the chain before it.
func (h *History) add(by Writer, fromHost bool) {
	if fromHost {
		h.Chain, h.ChainTotal = nil, 0
	}
	if h.ChainTotal++; len(h.Chain) == maxChain {
		h.Chain = slices.Delete(h.Chain, 0, 1)
	}
	h.Chain = append(h.Chain, by)
}

// unseen returns memory that the program writes without a call and that the call or its task may read, nil if there is none.
func unseen(q *access.Call) *timeline.Object {
	if n := len(q.Unseen()); n > 0 {
		return q.Unseen()[n-1]
	}
	for _, r := range q.Regions() {
		if r.Kind == access.Reads && r.Object.Hosted && !q.Known(q.Visible(r.Object)) {
			return r.Object
		}
	}
	return nil
}
