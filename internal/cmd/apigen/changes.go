package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
)

// changes are statements that update the shim's knowledge of the runtime's objects. They run for recorded and other calls.
type changes struct {
	leaves []string // before the call's record begins, because they may write records themselves
	before []string
	after  []string // if the call succeeded
	undo   []string // if the call failed
}

func (c *changes) none() bool { return len(c.leaves)+len(c.before)+len(c.after) == 0 }

// changes returns the statements for a call of f.
func (m *model) changes(f *api.Func) *changes {
	var c changes
	for i := range f.Params {
		if p := &f.Params[i]; p.Role == api.End {
			c.ended(m, p)
		} else {
			c.made(m, f, p)
		}
	}
	if f.Selects >= 0 && f.Params[f.Selects].Role == api.Value {
		add(&c.after, "shim_set_device(%s);", f.Params[f.Selects].Name)
	}
	switch end := f.Ends; end {
	case "":
	case "all":
		add(&c.leaves, "shim_leaving(ALL_ENDS, NULL, 0);")
	default:
		add(&c.leaves, "shim_leaving(DEVICE_ENDS, NULL, %s);", end)
	}
	c.graphs(m, f)
	return &c
}

// made adds the statements for a parameter with a new object.
func (c *changes) made(m *model, f *api.Func, p *api.Param) {
	size := m.cSize(f, p)
	switch p.Role {
	case api.New:
		switch p.Object {
		case api.Host:
			add(&c.after, "shim_host_new(*(uint64_t *)%s, %s, false);", p.Name, size)
		case api.Device, api.Reservation:
			fn := "shim_device_new"
			if p.HostVisible {
				fn = "shim_visible_new"
			}
			add(&c.after, "%s(%s, *(uint64_t *)%s, %s);", fn, farMemory[p.Object], p.Name, size)
		case api.ArgsList:
			add(&c.after, "shim_buffers_reset(*%s);", p.Name)
		}
	case api.Buffer:
		add(&c.after, "shim_buffer(%s, %s, *(uint64_t *)%s, %s);", f.Params[0].Name, f.Params[1].Name, p.Name, size)
	case api.Place:
		if p.Object == api.ArgsList {
			add(&c.after, "shim_buffers_reset(%s);", p.Name)
		}
	case api.Scratch:
		// The memory holds the arguments of the new list.
		for _, q := range f.Params {
			if q.Role == api.New {
				add(&c.after, "shim_buffers_reset(*%s);", q.Name)
				add(&c.after, "shim_buffer(*%s, NULL, (uint64_t)%s, %s);", q.Name, p.Name, size)
			}
		}
	case api.Map:
		if p.Object == api.Registered {
			add(&c.after, "shim_host_new((uint64_t)%s, %s, true);", p.Name, size)
		}
	case api.Struct:
		for _, field := range m.structOf(f, p).nested {
			size := strings.ReplaceAll(field.size, "@", p.Name+"->")
			switch {
			case field.stored && field.makes == api.Device:
				add(&c.after, "shim_device_new(ALLOCATED, %s->%s, %s);", p.Name, field.field, size)
			case field.makes == api.Graph && f.Graph >= 0:
				add(&c.after, "shim_graph_parts(%s, %s->%s, %s);", f.Params[f.Graph].Name, p.Name, field.field, size)
			}
		}
	}
}

// ended adds the statements for a parameter whose object the call ends.
func (c *changes) ended(m *model, p *api.Param) {
	if m.queried(p.Object) {
		add(&c.before, "shim_forget(%s);", p.Name)
	}
	switch p.Object {
	case api.Host, api.Registered:
		add(&c.before, "shim_host_end((uint64_t)%s, %t);", p.Name, p.Object == api.Registered)
	case api.Device, api.Reservation:
		add(&c.before, "shim_device_end(%s, (uint64_t)%s);", farMemory[p.Object], p.Name)
	case api.Event:
		add(&c.before, "shim_event_ends(%s);", p.Name)
	case api.Stream:
		add(&c.before, "shim_stream_ended();")
		add(&c.leaves, "shim_leaving(STREAM_ENDS, %s, 0);", p.Name)
	case api.Context:
		add(&c.leaves, "shim_leaving(CONTEXT_ENDS, %s, 0);", p.Name)
	case api.Graph:
		add(&c.before, "shim_graph_ended(%s);", p.Name)
	}
}

// graphs adds the statements for captured, copied or changed graphs.
func (c *changes) graphs(m *model, f *api.Func) {
	switch f.Capture {
	case api.CaptureBegin, api.UpdateBegin:
		add(&c.before, "shim_capture(true);")
		add(&c.undo, "shim_capture(false);")
	case api.CaptureEnd, api.UpdateEnd:
		at := "NULL"
		if graph := graphOf(f); graph >= 0 {
			at = f.Params[graph].Name
			if f.Params[graph].Role.Makes() {
				at = "*" + at
			}
		}
		add(&c.after, "shim_capture(false);")
		add(&c.after, "shim_captured(%s);", at)
	case api.NoCapture:
		to := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Object == api.Graph && p.Role == api.New })
		from := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Object == api.Graph && p.Role == api.Use })
		if f.Task == api.NoTask && to >= 0 && from >= 0 {
			add(&c.after, "shim_graph_copied(*%s, %s);", f.Params[to].Name, f.Params[from].Name)
		}
	}
	// A graph gets another graph's content, in addition to its own or instead.
	if into, from := f.Graphs(); into >= 0 && from >= 0 {
		if f.Graph < 0 {
			add(&c.after, "shim_graph_ended(%s);", f.Params[into].Name)
		}
		add(&c.after, "shim_graph_copied(%s, %s);", f.Params[into].Name, m.uses(f, from, api.Graph))
	}
	if f.Task == api.Record && f.Graph >= 0 {
		graph, node := inGraph(f)
		add(&c.after, "shim_graph_records(%s, %s, %s);", graph, node, m.uses(f, int(f.Event), api.Event))
	}
}

// overwrites returns the statements for a call without room for a record: pending results that it overwrites are lost.
func (m *model) overwrites(f *api.Func) (done []string) {
	const all = "shim_overwritten(0, ~0ULL);"
	if f.Task == api.GraphRun {
		return []string{all}
	}
	for _, p := range f.Params {
		switch {
		case p.CopyDesc != nil && f.Graph < 0:
			return []string{all}
		case p.Role != api.Writes || p.Object == api.Device:
		case p.ItemSizes >= 0 || p.Size.Pitch >= 0:
			return []string{all}
		default:
			done = append(done, fmt.Sprintf("shim_overwritten((uint64_t)%s, %s);", p.Name, m.cSize(f, &p)))
		}
	}
	return done
}

// comesOver returns the statements that mark pending results before the call overwrites their memory. A thread that waits for
// them has captured them by then, or never will.
func (m *model) comesOver(f *api.Func) (before []string) {
	if graph := graphOf(f); f.Task == api.GraphRun && graph >= 0 {
		return []string{fmt.Sprintf("shim_graph_begins(&c, %d, %s);", graph, f.Params[graph].Name)}
	}
	for _, p := range f.Params {
		switch {
		case p.CopyDesc != nil && f.Graph < 0:
			before = append(before, fmt.Sprintf("shim_block_overwrites(%s, &block);", p.Name))
		case p.Role != api.Writes || p.Object == api.Device:
		case p.ItemSizes >= 0:
			sizes, at := f.Params[p.ItemSizes].Name, fmt.Sprintf("(uint64_t)%s[i]", p.Name)
			before = append(before, fmt.Sprintf("for (uint64_t i = 0; %s != NULL && %s != NULL && i < %s; i++)\n\t\tshim_overwritten(%s, %s[i]);",
				p.Name, sizes, f.Params[p.ItemCount].Name, at, sizes))
		case p.Size.Pitch >= 0:
			before = append(before, fmt.Sprintf("shim_overwritten((uint64_t)%s, (uint64_t)%s * %s);", p.Name, f.Params[p.Size.Pitch].Name, f.Params[p.Size.Mul[1]].Name))
		default:
			before = append(before, fmt.Sprintf("shim_overwritten((uint64_t)%s, %s);", p.Name, m.cSize(f, &p)))
		}
	}
	return before
}
