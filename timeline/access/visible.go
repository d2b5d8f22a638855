package access

import (
	"cmp"
	"iter"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Host-visible memory is memory that program and device both access without a call: managed memory, and program memory registered for the
// device.

// Visible returns the host-visible memory that an object is or maps, nil if it is not host-visible.
func (x *Calls) Visible(o *timeline.Object) *timeline.Object {
	if len(x.visible) == 0 || o == nil {
		return nil
	}
	if _, ok := x.visible[o]; ok {
		return o
	}
	if o.Kind == api.Mapped {
		if _, ok := x.visible[o.Parent]; ok {
			return o.Parent
		}
	}
	return nil
}

// HasVisible reports whether there is host-visible memory.
func (x *Calls) HasVisible() bool { return len(x.visible) > 0 }

// Known reports whether the trace has the current content of host-visible memory.
func (x *Calls) Known(v *timeline.Object) bool { return x.visible[v] }

// showVisible adds the memory that the call makes host-visible.
func (c *Call) showVisible() {
	if !c.m.KeepsVisible() {
		return
	}
	for i := range c.Event.Uses {
		if o := c.Event.Uses[i].Object; o.Created == c.Event.Call.Index && (o.Hosted || o.Kind == api.Registered) && !c.Known(o) {
			c.visible[o] = false
		}
	}
}

// Contents iterates over the content of host-visible memory from before or after the call. The trace may lack the content, see format.Data.Status.
func (c *Call) Contents(dir format.Dir) iter.Seq2[*format.Data, *timeline.Object] {
	if dir == format.DirOut {
		c.find(ended)
	}
	return c.recorded(dir)
}

// recorded is Contents of the memory that is host-visible now.
func (c *Call) recorded(dir format.Dir) iter.Seq2[*format.Data, *timeline.Object] {
	return func(yield func(*format.Data, *timeline.Object) bool) {
		for k := range c.Data {
			if d := &c.Data[k]; d.Param == api.MemoryParam && d.Dir == dir {
				o, _, _ := c.State.Find(c.Event.Process, d.Addr)
				if v := c.Visible(o); v != nil && !yield(d, v) {
					return
				}
			}
		}
	}
}

// takeContent takes in whether the trace has the content before or after the call.
func (c *Call) takeContent(dir format.Dir) {
	for d, v := range c.recorded(dir) {
		c.visible[v] = d.Status == format.Whole
	}
}

// contents scans the content of host-visible memory before or after the call.
func (c *Call) contents(dir format.Dir) (failed error) {
	for d := range c.recorded(dir) {
		if d.Status == format.Whole {
			_, err := c.scanAll(d, Content)
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

// effects adds the memory that the call's task reaches besides, and finds host memory without recorded content.
func (c *Call) effects() {
	e := c.Event
	arrays(e, func(o *timeline.Object, kind Kind) { c.add(o, 1, 1, kind) })
	for _, t := range c.fresh {
		c.tokens.add(t.Token)
		c.made = append(c.made, t.Object)
	}
	c.numbers.made(c)
	if !c.OK {
		return
	}
	runs := Runs(e.Fn)
	c.Guess = c.Guess || runs && slices.ContainsFunc(c.host, func(r Region) bool { return c.Visible(r.Object) != nil && c.Flow.Guessed(r.Object, 0, 0) })
	c.regions = c.Flow.Call(e, c.regions, c.holders(), c.m.Numbers, c.Guess, c.declared)
	if !e.Fn.Task.Works() {
		return
	}
	for _, r := range c.host {
		switch {
		case c.Visible(r.Object) == nil:
		case e.Captured != nil:
			c.Flow.Capture(r.Object)
		case r.Kind == Names && runs:
			c.regions = append(c.regions, r)
			if c.Flow.Depends() {
				c.Flow.Store(r.Object, true)
			}
		}
	}
	if !runs {
		return
	}
	for _, r := range c.regions {
		switch v := c.Visible(r.Object); {
		case v == nil && r.Object.Hosted && r.Kind == Names:
			c.unseen = append(c.unseen, r.Object)
		case v != nil && !c.visible[v] && (r.Kind == Names && r.Object.Hosted || r.Kind != Points && e.Captured == nil):
			c.unseen = append(c.unseen, v)
		}
	}
}

// holders returns the objects, besides those in regions, whose content may lead the call's kernel to other memory.
func (c *Call) holders() []*timeline.Object {
	if len(c.visible) == 0 {
		return c.others
	}
	holders := slices.Clip(c.others)
	for _, regions := range [][]Region{c.regions, c.host} {
		for _, r := range regions {
			if v := c.Visible(r.Object); v != nil && v != r.Object || v != nil && v.Kind.OnHost() {
				holders = append(holders, v)
			}
		}
	}
	return holders
}

// after takes in whether the trace has the content after the call, and forgets the memory that the call ended.
func (c *Call) after() {
	if !c.OK {
		return
	}
	c.takeContent(format.DirOut)
	for _, u := range c.Event.Uses {
		if u.Object.Ended == c.Event.Call.Index {
			delete(c.visible, u.Object)
			c.Flow.Forget(u.Object)
		}
	}
}
