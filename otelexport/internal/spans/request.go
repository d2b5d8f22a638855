package spans

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A request encodes a thread's calls within a range that names a parent, as spans under that parent. The recording's
// encoder emits the same calls, into the same output.
type request struct {
	*Encoder
	span timeline.Range
}

// request starts a request if the range names a sampled parent. Ranges without an end are ignored: they would include
// every later call.
func (x *Encoder) request(r *timeline.Range) {
	if r.Mark || r.Open {
		return
	}
	from, _, ok := otlp.ParentIn(r.Name)
	if !ok || !from.Sampled {
		return
	}
	var q *request
	if i := slices.IndexFunc(x.requests, (*request).idle); i >= 0 {
		q = x.requests[i]
	} else {
		q = &request{Encoder: &Encoder{src: x.src, out: x.out, o: x.o, rows: rows{threads: slices.Clone(x.rows.threads), lanes: slices.Clone(x.rows.lanes)}}}
		for i := range q.rows.threads {
			q.rows.threads[i].requests = nil
		}
		for i := range q.rows.lanes {
			q.rows.lanes[i].waiting, q.rows.lanes[i].first = nil, 0
		}
		x.requests = append(x.requests, q)
	}
	q.span = *r
	q.parts = parts{origin: origin{parent: from, title: "request"}}
	q.cut = fmt.Sprint(x.cut, " request ", r.Begin)
	t := &x.rows.threads[x.rows.thread(r.Thread)]
	t.requests = append(slices.Clip(t.requests), q)
}

// idle reports whether a request is over and all its tasks have ended.
func (q *request) idle() bool { return q.parts.current == nil && q.parts.completed == q.parts.made }

// inRequests passes a call to its thread's current requests and returns them: they need the task too.
func (x *Encoder) inRequests(c *timeline.HostCall, t *timeline.Task, f Facts) []*request {
	th := &x.rows.threads[x.rows.thread(c.Thread)]
	if over := func(q *request) bool { return c.Start >= q.span.To }; slices.ContainsFunc(th.requests, over) {
		var left []*request // a new list: tasks hold the old one
		for _, q := range th.requests {
			if over(q) {
				q.over()
			} else {
				left = append(left, q)
			}
		}
		th.requests = left
	}
	for _, q := range th.requests {
		of := *c
		of.During = 0
		q.named = x.named
		q.call(&of, t, f)
	}
	return th.requests
}

// over ends a request. Afterwards only task ends are added.
func (q *request) over() {
	last := q.parts.current
	q.parts.current = nil
	q.stepEnded(&step.Step{From: q.span.From, To: q.span.To, Typical: true})
	if last != nil {
		q.close(last)
	}
}
