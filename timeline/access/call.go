package access

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Lane returns the lane that gets the task of the call. For a synchronization or a poll it is the lane that the call waits for.
func (c *Call) Lane() timeline.LaneKey {
	if c.Event.Fn.Sync != api.NoSync {
		return c.State.WaitedLane(c.Event)
	}
	return c.State.LaneKey(c.Event)
}

// Shown returns the host-visible memory whose content the trace has with the call.
func (c *Call) Shown() (shown []*timeline.Object) {
	for _, dir := range []format.Dir{format.DirIn, format.DirOut} {
		for d, v := range c.recorded(dir) {
			if d.Status == format.Whole && !slices.Contains(shown, v) {
				shown = append(shown, v)
			}
		}
	}
	return shown
}

// Lacks reports whether the arguments of a launch are unknown.
func (c *Call) Lacks() bool {
	e := c.Event
	if e.Fn.Task != api.Kernel {
		return false
	}
	for i := range e.Fn.Params {
		known := true
		switch q := &e.Fn.Params[i]; q.Role {
		case api.DevArgs:
			_, known, _ = c.DevArgs()
			known = known || e.Call.Args[q.Word] == 0
		case api.Args, api.Packed:
			known = c.complete(e, i, 1)
		case api.ArgArray:
			known = c.complete(e, i, 0) // a kernel without parameters may have an empty array
		}
		if !known {
			return true
		}
	}
	return false
}

// OriginArray returns the array that the copy reads, nil if there is none.
func (c *Call) OriginArray() (from *timeline.Object) {
	arrays(c.Event, func(o *timeline.Object, kind Kind) {
		if kind == Reads && from == nil {
			from = o
		}
	})
	return from
}

// Origin returns the allocation that the copy, or an item of a batch, reads, and the offset in it; nil if it is unknown.
func (c *Call) Origin(item uint32) (*timeline.Object, uint64) {
	for i := range c.Event.Fn.Params {
		q := &c.Event.Fn.Params[i]
		addr, ok := uint64(0), false
		switch b, described := c.Event.CopyBlock(); {
		case q.CopyDesc != nil && described:
			addr, ok = b.From.First, true
		case q.Role == api.Reads:
			addr, ok = c.address(c.Event, i, item)
		}
		if ok {
			o, off, _ := c.State.Find(c.Event.Process, addr)
			return o, off
		}
	}
	return nil, 0
}
