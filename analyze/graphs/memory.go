package graphs

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// addressed is the memory that the tasks of a graph use, without those in task groups.
type addressed struct {
	from     int64
	launches []uint64        // captured calls
	funcs    map[uint16]bool // theirs
	objects  map[*timeline.Object]use
	at       []uint64        // sorted addresses
	partly   map[uint64]bool // addresses behind which copies have written
	freed    *freed          // the first one since the capture
}

// use is the first task that uses memory.
type use struct {
	call uint64
	fn   string
}

type freed struct {
	object *timeline.Object
	use
}

// writes are the latest copies to device memory.
type writes struct {
	users  map[*timeline.Object][]*graph
	copies [64]copied
	made   int
}

type copied struct {
	run
	process uint32
	from    uint64
	to      uint64
	stream  *timeline.Object
}

// maxAddresses bounds the addresses of a graph.
const maxAddresses = 1 << 16

// addresses takes the memory that a captured task names. That of launches is read when the capture ends.
func (x *Checker) addresses(e *timeline.Event, a *addressed) {
	if e.Part.Member {
		return
	}
	c := e.Call
	if a.funcs == nil {
		a.from, a.funcs, a.objects = c.Start, map[uint16]bool{}, map[*timeline.Object]use{}
	}
	if e.Fn.Task == api.Kernel {
		if len(a.launches) < maxAddresses {
			a.launches, a.funcs[c.Func] = append(a.launches, c.Index), true
		}
		return
	}
	for _, u := range e.Uses {
		if u.Object.Size > 0 {
			a.add(u.Object, u.Object.Handle+u.Offset, use{c.Index, e.Fn.Name})
		}
	}
}

func (a *addressed) add(o *timeline.Object, at uint64, by use) {
	if len(a.at) >= maxAddresses {
		return
	}
	if _, known := a.objects[o]; !known {
		a.objects[o] = by
	}
	a.at = append(a.at, at)
}

// read reads the arguments of the captured launches until a moment.
func (x *Checker) read(a *addressed, process uint32, until int64) error {
	if len(a.launches) == 0 {
		return nil
	}
	wanted := map[uint64]bool{}
	for _, i := range a.launches {
		wanted[i] = true
	}
	for c, err := range x.w.Reader.CallsByStart(&format.Filter{Funcs: slices.Collect(maps.Keys(a.funcs)), From: a.from, To: until}) {
		if err != nil {
			return err
		}
		if !wanted[c.Index] {
			continue
		}
		by := use{c.Index, x.w.Reader.Schema().FuncName(c.Func)}
		for i := range c.Data {
			d := &c.Data[i]
			if d.Dir != format.DirIn || d.Status != format.Whole || d.Blob != 0 {
				continue
			}
			for b := d.Bytes; len(b) >= 8; b = b[8:] {
				w := binary.LittleEndian.Uint64(b)
				if o, _, ok := x.w.Find(process, w); ok {
					a.add(o, w, by)
				}
			}
		}
	}
	return nil
}

// uses takes in the memory of a captured graph.
func (x *Checker) uses(g *graph) {
	slices.Sort(g.at)
	g.at = slices.Compact(g.at)
	if x.users == nil {
		x.users = map[*timeline.Object][]*graph{}
	}
	for o := range g.objects {
		x.users[o] = append(x.users[o], g)
	}
}

// unused forgets a graph.
func (x *Checker) unused(g *graph) {
	for o := range g.objects {
		if left := slices.DeleteFunc(x.users[o], func(k *graph) bool { return k == g }); len(left) > 0 {
			x.users[o] = left
		} else {
			delete(x.users, o)
		}
	}
}

// freed follows the end of memory.
func (x *Checker) freed(h *timeline.HostCall, o *timeline.Object) {
	for _, g := range x.users[o] {
		if g.freed == nil {
			g.freed = &freed{o, use{h.Index, h.Name}}
		}
	}
	delete(x.users, o)
}

// stale follows a run of a graph whose memory may have ended.
func (x *Checker) stale(h *timeline.HostCall, g *graph) {
	f := g.freed
	if f == nil {
		return
	}
	again, _, found := x.w.Find(g.process, f.object.Handle)
	if p := f.object.Parent; found && p != nil && p.Kind == api.Reservation { // programs that sleep map other memory there
		return
	}
	x.find(FreedMemory, h.Index, h.Name, func(r *Finding) {
		by := g.objects[f.object]
		r.Graph, r.Object, r.Other, r.By, r.Task, r.TaskFunc = g.name, name(f.object), &f.call, f.fn, &by.call, by.fn
		if found {
			r.Now = name(again)
		}
	})
}

// wrote follows a copy to device memory.
func (x *Checker) wrote(h *timeline.HostCall, k *timeline.Task, e *timeline.Event) {
	if !x.whole || len(x.graphs) == 0 || k.Kind != api.Copy && k.Kind != api.Fill || e.Fn.Stream < 0 {
		return
	}
	for i := range e.Fn.Params {
		p := &e.Fn.Params[i]
		if p.Role != api.Writes && p.Role != api.Fills || p.ItemSizes >= 0 {
			continue
		}
		n, ok := p.Size.Bytes(e.Fn, e.Call.Args)
		u, found := e.Use(i)
		if !ok || n == 0 || !found || len(x.users[u.Object]) == 0 {
			continue
		}
		at := e.Call.Args[p.Word]
		for _, g := range x.users[u.Object][:min(len(x.users[u.Object]), maxUsers)] {
			g.wrote(at)
		}
		x.copies[x.made%len(x.copies)] = copied{run: x.place(h, k.Lane), process: e.Process, from: at, to: at + n, stream: e.Stream}
		x.made++
		return
	}
}

// maxUsers bounds the graphs whose addresses a copy is compared with.
const maxUsers = 8

// wrote notes a copy to memory behind an address, as to a block of a cache: it is no input of the next run.
func (g *graph) wrote(at uint64) {
	i, known := slices.BinarySearch(g.at, at)
	if known || i == 0 {
		return
	}
	if g.partly == nil {
		g.partly = map[uint64]bool{}
	}
	g.partly[g.at[i-1]] = true
}

// inputs compares a run of a graph with the copies before it.
func (x *Checker) inputs(h *timeline.HostCall, k *timeline.Task, e *timeline.Event, g *graph, before reach) {
	for i := range x.copies {
		c := &x.copies[i]
		if c.at == 0 || c.lane == k.Lane || c.process != e.Process || x.before(&c.run, before) || !g.touches(c.from, c.to) || g.awaits(c.lane) {
			continue
		}
		x.find(UnorderedInput, c.call, c.fn, func(f *Finding) {
			call := h.Index
			f.Graph, f.Stream, f.Other, f.By, f.On = g.name, streamName(c.stream), &call, h.Name, streamName(e.Stream)
		})
		c.at = 0
	}
}

// touches reports whether a task of the graph uses an address in a range, which copies write as a whole.
func (g *graph) touches(from, to uint64) bool {
	i, _ := slices.BinarySearch(g.at, from)
	return i < len(g.at) && g.at[i] < to && !g.partly[g.at[i]]
}

// awaits reports whether a task of the graph may wait for a lane.
func (g *graph) awaits(lane int) bool {
	return slices.ContainsFunc(g.waits, func(w *wait) bool { return w.on.records == 0 || w.on.lane == lane })
}
