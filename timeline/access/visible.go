package access

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// visibleOf returns the host-visible memory that an object is or maps, nil if it is not host-visible.
func (x *calls) visibleOf(o *timeline.Object) *timeline.Object {
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

// hidden reports whether an object is host-visible memory whose content the trace lacks.
func (x *calls) hidden(o *timeline.Object) bool {
	v := x.visibleOf(o)
	return v != nil && !x.visible[v]
}

// showVisible adds the memory that the call makes host-visible, and takes in the content before the call.
func (c *Call) showVisible() {
	if !c.m.KeepsVisible() {
		return
	}
	for _, u := range c.Event.Uses {
		o := u.Object
		if _, ok := c.visible[o]; !ok && o.Created == c.Event.Call.Index && (o.Hosted || o.Kind == api.Registered) {
			c.visible[o] = false
		}
	}
	c.content(format.DirIn)
}

// content takes in whether the trace has the content before or after the call.
func (c *Call) content(dir format.Dir) {
	for k := range c.Data {
		if d := &c.Data[k]; d.Param == api.MemoryParam && d.Dir == dir {
			if o, _, ok := c.s.Find(c.process, d.Addr); ok {
				if v := c.visibleOf(o); v != nil {
					c.visible[v] = d.Status == format.Whole
				}
			}
		}
	}
}

// effects adds the memory that the call reaches besides, and finds host memory without recorded content.
func (c *Call) effects() {
	e := c.Event
	runs := Runs(e.Fn)
	c.Regions = c.flow.Call(e, c.Regions, c.Named, c.m.Numbers, c.guess)
	for _, r := range c.Regions {
		v := c.visibleOf(r.Object)
		if r.Object.Hosted && (v == nil || !c.visible[v]) && (r.Kind == Reads || r.Kind == Names && runs) {
			c.Unseen = r.Object
		}
	}
	if !e.Fn.Task.Works() {
		return
	}
	for _, r := range c.host {
		switch {
		case e.Captured != nil:
			c.flow.Capture(r.Object)
		case r.Kind == Names && runs:
			c.Regions = append(c.Regions, r)
		}
	}
	if e.Captured != nil || !runs {
		return
	}
	for _, r := range c.Regions {
		if r.Kind != Points && c.hidden(r.Object) {
			c.Unseen = c.visibleOf(r.Object)
		}
	}
}

// after takes in the content after the call, and forgets the memory that the call ends.
func (c *Call) after() {
	if !c.OK {
		return
	}
	c.content(format.DirOut)
	for _, u := range c.Event.Uses {
		if u.Object.Ended == c.Event.Call.Index {
			delete(c.visible, u.Object)
			c.flow.Forget(u.Object)
		}
	}
}
