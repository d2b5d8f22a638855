package blame

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// maxFormer bounds how many allocations that have ended are remembered, the latest.
const maxFormer = 1 << 18

// memory are the allocations of a trace so far, also those that have ended, and what else failures may go back to.
type memory struct {
	all      []*timeline.Object              // in the order in which they were made
	ended    map[handle]*timeline.Object     // the latest object of a handle that has ended, without memory
	recorded map[*timeline.Object]lastRecord // events, by their latest record
}

// handle is how a process names an object.
type handle struct {
	process uint32
	kind    api.Object
	value   uint64
}

// lastRecord is the call that recorded an event last.
type lastRecord struct {
	call   uint64
	stream string
}

// gone lists the objects that a call names and that had ended before.
func (m *memory) gone(process uint32, e *timeline.Event) (all []gone) {
	if e.Fn == nil || len(e.Call.Args) != int(e.Fn.Words) {
		return nil
	}
	for i := range e.Fn.Params {
		q := &e.Fn.Params[i]
		if q.Object == "" || q.Role.Makes() || e.Call.Args[q.Word] == 0 {
			continue
		}
		w := e.Call.Args[q.Word]
		if u, ok := e.Use(i); ok && u.Object.Ended == timeline.NoCall && u.Object.Created != timeline.NoCall {
			continue
		}
		o := m.ended[handle{process, q.Object, w}]
		if o == nil && q.Object.Memory() {
			o = m.former(process, w)
		}
		if o != nil && o.Ended != e.Call.Index {
			all = append(all, gone{q.Name, o})
		}
	}
	return all
}

// see takes note of the allocations that a call has made.
func (m *memory) see(e *timeline.Event) {
	if m.ended == nil {
		m.ended, m.recorded = map[handle]*timeline.Object{}, map[*timeline.Object]lastRecord{}
	}
	for _, u := range e.Uses {
		o := u.Object
		switch {
		case o.Ended == e.Call.Index && !o.Kind.Memory():
			m.ended[handle{o.Process, o.Kind, o.Handle}] = o
			delete(m.recorded, o)
		case e.Fn != nil && e.Fn.Task == api.Record && o.Kind != api.Stream:
			m.recorded[o] = lastRecord{e.Call.Index, streamName(e)}
		}
		if o.Created == e.Call.Index && o.Kind.Memory() && o.Kind != api.Reservation {
			m.all = append(m.all, o)
		}
	}
	if len(m.all) > 2*maxFormer {
		ended := len(m.all) - maxFormer
		m.all = slices.DeleteFunc(m.all, func(o *timeline.Object) bool {
			ended--
			return ended >= 0 && o.Ended != timeline.NoCall
		})
	}
}

// streamName is the stream that a call puts its task on.
func streamName(e *timeline.Event) string {
	if e.Stream == nil {
		return "the default stream"
	}
	return timeline.Place(timeline.Use{Object: e.Stream})
}

// former returns the allocation that was the last one to hold an address, of those that have ended; nil for none.
func (m *memory) former(process uint32, addr uint64) *timeline.Object {
	for _, o := range slices.Backward(m.all) {
		if o.Ended != timeline.NoCall && o.Process == process && addr >= o.Handle && addr-o.Handle < max(o.Size, 1) {
			return o
		}
	}
	return nil
}

// An Access is a call that comes to an allocation.
type Access struct {
	Call
	How    string `json:"how"`            // reads, writes, or may change: a kernel that has its address
	Offset uint64 `json:"offset"`         // of the first byte, or of the address
	Size   uint64 `json:"size,omitempty"` // bytes, 0 where only the kernel knows
	Via    string `json:"via,omitempty"`  // the memory in which the address lay, where it was no argument
}

const (
	MayChange     = "may change"
	AddressCopied = "address copied to"
)

// maxTable is the length of the longest payload that is searched for addresses, in bytes.
const maxTable = 1 << 20

// follow lists the last calls up to a moment that come to allocations, for each in the order of time.
func follow(r *format.Reader, m *api.Model, targets []*timeline.Object, until int64, most int) ([]Touched, error) {
	if most <= 0 {
		most = 8
	}
	f := &follower{r: r, m: m, most: most, out: make([]Touched, len(targets)), ids: map[int]int{}, holds: map[*timeline.Object]map[int]bool{}, blobs: map[format.BlobID][]int{},
		late: map[uint64][]format.Data{}}
	for i, o := range targets {
		f.ids[o.ID] = i
	}
	f.targets = targets
	for d, err := range r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			return nil, err
		}
		if d.Dir == format.DirIn && d.Status == format.Whole && d.Len <= maxTable {
			if found := f.addresses(d); len(found) > 0 {
				k := *d
				k.Bytes = bytes.Clone(d.Bytes)
				f.late[d.Call] = append(f.late[d.Call], k)
			}
		}
	}
	s := timeline.NewState(m).Read(r)
	if err := s.Follow(r); err != nil {
		return nil, err
	}
	f.s, f.ts = s, timeline.NewTouches(s, r)
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		f.call(process(r, c), s.Apply(process(r, c), c))
	}
	return f.out, nil
}

// A follower sees which calls come to some allocations, also through addresses that were copied into others.
type follower struct {
	r       *format.Reader
	m       *api.Model
	s       *timeline.State
	ts      *timeline.Touches
	targets []*timeline.Object
	ids     map[int]int                       // by Object.ID, the number of a target
	holds   map[*timeline.Object]map[int]bool // targets whose addresses were copied into an allocation
	blobs   map[format.BlobID][]int           // targets whose addresses are in a payload
	late    map[uint64][]format.Data          // payloads with such addresses that lie apart from their calls
	most    int
	out     []Touched
}

func (f *follower) call(process uint32, e *timeline.Event) {
	touches, _ := f.ts.Of(e)
	failed := e.Fn != nil && e.Fn.RetError && uint32(e.Call.Ret) != 0
	if len(touches) == 0 || e.Fn.Task == api.NoTask || failed && e.Call.Flags&format.Unfinished == 0 {
		return
	}
	kernel := e.Fn.Task == api.Kernel || e.Fn.Task == api.GraphRun || e.Fn.Composite
	seen := map[int]bool{}
	for _, t := range touches {
		o, off, ok := f.s.Find(process, t.Addr)
		if !ok {
			continue
		}
		how := t.Kind.String()
		if t.Kind == timeline.Names {
			if !kernel {
				continue
			}
			how = MayChange
		}
		if i, ok := f.ids[o.ID]; ok && !(how == MayChange && seen[i]) {
			seen[i] = true
			f.add(i, e, Access{How: how, Offset: off, Size: t.Size})
		}
		if kernel {
			for i := range f.holds[o] {
				if !seen[i] {
					seen[i] = true
					f.add(i, e, Access{How: MayChange, Via: timeline.Place(timeline.Use{Object: o})})
				}
			}
		}
		if t.Kind == timeline.Writes {
			f.copied(e, o)
		}
	}
}

// copied notes that a payload with addresses of targets went into an allocation.
func (f *follower) copied(e *timeline.Event, to *timeline.Object) {
	for _, data := range [][]format.Data{e.Call.Data, f.late[e.Call.Index]} {
		for k := range data {
			d := &data[k]
			if d.Dir != format.DirIn || d.Status != format.Whole || d.Len > maxTable || int(d.Param) >= len(e.Fn.Params) || e.Fn.Params[d.Param].Role != api.Reads {
				continue
			}
			for _, i := range f.addresses(d) {
				if f.holds[to] == nil {
					f.holds[to] = map[int]bool{}
				}
				if !f.holds[to][i] {
					f.holds[to][i] = true
					f.add(i, e, Access{How: AddressCopied, Via: timeline.Place(timeline.Use{Object: to})})
				}
			}
		}
	}
}

// addresses returns the targets that a payload has addresses of.
func (f *follower) addresses(d *format.Data) []int {
	if d.Blob != 0 {
		if found, ok := f.blobs[d.Blob]; ok {
			return found
		}
	}
	b := d.Bytes
	if d.Blob != 0 {
		var err error
		if b, err = f.r.Blob(d.Blob); err != nil {
			return nil
		}
	}
	var found []int
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		for i, o := range f.targets {
			if w >= o.Handle && w-o.Handle < o.Size && !slices.Contains(found, i) {
				found = append(found, i)
			}
		}
	}
	if d.Blob != 0 {
		f.blobs[d.Blob] = found
	}
	return found
}

func (f *follower) add(i int, e *timeline.Event, a Access) {
	a.Call = *describe(f.r, f.m, e)
	t := &f.out[i]
	if len(t.Accesses) == f.most {
		t.Accesses = slices.Delete(t.Accesses, 0, 1)
		t.Before++
	}
	t.Accesses = append(t.Accesses, a)
}
