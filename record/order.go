package record

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/probe"
)

// order is a Sink that passes calls on in the order of their ends. A probe drains thread by thread, but the steps of a process are counted over all
// its threads.
type order struct {
	to     probe.Sink
	held   []heldEvent
	latest map[threadOf]int64 // end of the latest call
}

type threadOf struct{ pid, tid int }

// heldEvent is a call, or what belongs to a call of its thread.
type heldEvent struct {
	at   int64 // end of the call, CLOCK_MONOTONIC
	pid  int
	pass func() error
}

// settled is the time in nanoseconds after which a call that has ended was drained.
const settled = 20e6

func newOrder(to probe.Sink) *order { return &order{to: to, latest: map[threadOf]int64{}} }

// Process passes a process on at once, since its calls come later.
func (o *order) Process(p *probe.Process) error { return o.to.Process(p) }

// Call holds a call back.
func (o *order) Call(c *probe.Call) error {
	k := *c
	k.Words, k.Pieces = slices.Clone(c.Words), slices.Clone(c.Pieces)
	for i := range k.Pieces {
		k.Pieces[i].Bytes = slices.Clone(k.Pieces[i].Bytes)
	}
	of := threadOf{c.PID, c.TID}
	o.latest[of] = max(o.latest[of], c.End, c.Start)
	o.hold(of, func() error { return o.to.Call(&k) })
	return nil
}

// Payload holds a payload back.
func (o *order) Payload(p *probe.Payload) error {
	k := *p
	k.Bytes = slices.Clone(p.Bytes)
	o.hold(threadOf{p.PID, p.TID}, func() error { return o.to.Payload(&k) })
	return nil
}

// Gap holds a gap back.
func (o *order) Gap(g *probe.Gap) error {
	k := *g
	o.hold(threadOf{g.PID, g.TID}, func() error { return o.to.Gap(&k) })
	return nil
}

// TaskTime holds a time back.
func (o *order) TaskTime(t *probe.TaskTime) error {
	k := *t
	o.hold(threadOf{t.PID, t.TID}, func() error { return o.to.TaskTime(&k) })
	return nil
}

func (o *order) hold(of threadOf, pass func() error) {
	o.held = append(o.held, heldEvent{o.latest[of], of.pid, pass})
}

// drained passes on what ended before a time at which the rings were drained.
func (o *order) drained(began int64) error {
	return o.pass(func(e *heldEvent) bool { return e.at < began-settled })
}

// ended passes on what a process has left, which has ended.
func (o *order) ended(pid int) error {
	return o.pass(func(e *heldEvent) bool { return e.pid == pid })
}

// finish passes on everything.
func (o *order) finish() error { return o.pass(func(*heldEvent) bool { return true }) }

func (o *order) pass(which func(*heldEvent) bool) error {
	if o == nil {
		return nil
	}
	slices.SortStableFunc(o.held, func(a, b heldEvent) int { return cmp.Compare(a.at, b.at) })
	kept := o.held[:0]
	for _, e := range o.held {
		if !which(&e) {
			kept = append(kept, e)
		} else if err := e.pass(); err != nil {
			return err
		}
	}
	clear(o.held[len(kept):])
	o.held = kept
	return nil
}
