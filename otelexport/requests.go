package otelexport

import (
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A request is what a thread does in a range that names a parent, as spans under that parent, beside those that the
// recording has of the same calls. It is an exporter of its own, whose spans go into the batches of the one that it
// belongs to.
type request struct {
	*exporter
	named timeline.Range
	ended int // parts
}

// request begins one where a range names a parent that is sampled. What such a range without an end would take is everything.
func (x *exporter) request(r *timeline.Range) {
	if r.Mark || r.Open {
		return
	}
	from, _, ok := parentIn(r.Name)
	if !ok || !from.sampled {
		return
	}
	var q *request
	if i := slices.IndexFunc(x.requests, (*request).idle); i >= 0 {
		q = x.requests[i]
	} else {
		q = &request{exporter: &exporter{resources: x.resources, r: x.r, m: x.m, w: x.w, o: x.o, top: x.top, threads: slices.Clone(x.threads), lanes: slices.Clone(x.lanes)}}
		q.completed = func() { q.ended++ }
		for i := range q.threads {
			q.threads[i].requests = nil
		}
		for i := range q.lanes {
			q.lanes[i].waiting, q.lanes[i].first = nil, 0
		}
		x.requests = append(x.requests, q)
	}
	q.named, q.ended, q.parts, q.inherited = *r, 0, 0, 0
	q.cut = fmt.Sprint(x.cut, " request ", r.Begin)
	q.origin = origin{parent: from, title: "request"}
	t := &x.threads[x.thread(r.Thread)]
	t.requests = append(slices.Clip(t.requests), q)
}

// idle reports whether a request is over, and all of its tasks have ended.
func (q *request) idle() bool { return q.part == nil && q.ended == q.parts }

// inRequests gives a call to the requests that its thread is in, and returns those that wait for its task.
func (x *exporter) inRequests(c *timeline.HostCall, t *timeline.Task) []*request {
	th := &x.threads[x.thread(c.Thread)]
	if over := func(q *request) bool { return c.Start >= q.named.To }; slices.ContainsFunc(th.requests, over) {
		var left []*request // tasks have the others
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
		of.Step = 0
		q.exporter.named, q.exporter.isNamed = x.named, x.isNamed
		q.call(&of, t)
	}
	return th.requests
}

// over ends a request: nothing more comes into it but the ends of its tasks.
func (q *request) over() {
	q.part = nil
	q.stepEnded(&step.Step{From: q.named.From, To: q.named.To, Typical: true})
}
