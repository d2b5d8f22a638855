package access

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Process returns the process that makes the call.
func (c *Call) Process() uint32 { return c.process }

// Lane returns the lane that gets the task of the call. For a synchronization or a poll it is the lane that the call waits for.
func (c *Call) Lane() timeline.LaneKey {
	if c.Event.Fn.Sync != api.NoSync {
		return c.State.WaitedLane(c.process, c.Event)
	}
	return c.State.LaneKey(c.process, c.Event)
}

// Shown returns the host-visible memory whose content the trace has with the call.
func (c *Call) Shown() (shown []*timeline.Object) {
	for k := range c.Data {
		if d := &c.Data[k]; d.Param == api.MemoryParam && d.Status == format.Whole {
			if o, _, ok := c.State.Find(c.process, d.Addr); ok {
				if v := c.Visible(o); v != nil && !slices.Contains(shown, v) {
					shown = append(shown, v)
				}
			}
		}
	}
	return shown
}

// Lacks returns why the arguments of a launch are unknown, "" if they are known.
func (c *Call) Lacks() string {
	e := c.Event
	if e.Fn.Task != api.Kernel {
		return ""
	}
	for i := range e.Fn.Params {
		q := &e.Fn.Params[i]
		if e.Call.Args[q.Word] == 0 {
			continue
		}
		switch q.Role {
		case api.DevArgs:
			if _, known, why := c.tracker.DevArgs(e); !known {
				return "its arguments are in device memory: " + why
			}
		case api.Args, api.Packed, api.ArgArray:
			n, sized := q.Size.Bytes(e.Fn, e.Call.Args)
			lacks := q.Role == api.Packed || q.Role == api.Args && !(sized && n == 0) // a kernel without parameters has no array
			for k := range c.Data {
				if d := &c.Data[k]; int(d.Param) == i && d.Dir == format.DirIn {
					lacks = false
					if d.Status != format.Whole {
						return "the trace lacks its arguments"
					}
				}
			}
			if lacks {
				return "the trace lacks its arguments"
			}
		}
	}
	return ""
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
		addr := uint64(0)
		switch b, described := c.Event.CopyBlock(); {
		case q.CopyDesc != nil && described:
			addr = b.From.First
		case q.Role != api.Reads:
			continue
		case q.ItemSizes < 0:
			addr = c.Event.Call.Args[q.Word]
		default:
			b, ok := c.array(i)
			if !ok || item == 0 || uint64(len(b)) < 8*uint64(item) {
				return nil, 0
			}
			addr = word(b[8*(item-1):])
		}
		o, off, _ := c.State.Find(c.process, addr)
		return o, off
	}
	return nil, 0
}
