package blame

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// maxFormer limits the freed allocations that are kept, to the latest ones.
const maxFormer = 1 << 18

// memory has the allocations up to a call, live and freed, and other objects that a failure may depend on.
type memory struct {
	all      []*timeline.Object              // in allocation order
	ended    map[handle]*timeline.Object     // latest ended object by handle, without memory
	recorded map[*timeline.Object]lastRecord // latest record by event
}

// handle identifies an object in a process.
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

// gone returns the parameters of a call whose objects had ended before it.
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

// see adds the objects that a call made, ended or recorded.
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

// streamName names the stream of a call's task.
func streamName(e *timeline.Event) string {
	if e.Stream == nil {
		return "the default stream"
	}
	return timeline.Place(timeline.Use{Object: e.Stream})
}

// former returns the freed allocation that held an address last, nil for none.
func (m *memory) former(process uint32, addr uint64) *timeline.Object {
	for _, o := range slices.Backward(m.all) {
		if o.Ended != timeline.NoCall && o.Process == process && addr >= o.Handle && addr-o.Handle < max(o.Size, 1) {
			return o
		}
	}
	return nil
}

// An Access is a call that reads or writes an allocation, or may do so.
type Access struct {
	Call
	How    string `json:"how"`            // reads, writes, MayChange or AddressCopied
	Offset uint64 `json:"offset"`         // first byte, or address
	Size   uint64 `json:"size,omitempty"` // bytes, 0 if only the kernel determines it
	Via    string `json:"via,omitempty"`  // memory that holds the address, if it was not an argument
}

const (
	MayChange     = "may change"
	AddressCopied = "address copied to"
)

// maxTable is the largest payload that is searched for addresses, in bytes.
const maxTable = 1 << 20

// follow lists, for each target, the last calls up to a moment that access it, in time order.
func follow(r *format.Reader, m *api.Model, targets []*timeline.Object, until int64, most int) ([]Lifetime, error) {
	if most <= 0 {
		most = 8
	}
	f := &follower{r: r, m: m, most: most, out: make([]Lifetime, len(targets)), ids: map[int]int{}, holds: map[*timeline.Object]map[int]bool{}, blobs: map[format.BlobID][]int{},
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
	f.s, f.tracker = s, access.New(s, r)
	if err := f.tracker.Follow(); err != nil {
		return nil, err
	}
	for c, err := range r.CallsByStart(&format.Filter{To: after(until)}) {
		if err != nil {
			return nil, err
		}
		f.call(process(r, c), f.tracker.Apply(process(r, c), c))
	}
	return f.out, nil
}

// A follower finds the calls that access its targets, also through addresses that were copied into other allocations.
type follower struct {
	r       *format.Reader
	m       *api.Model
	s       *timeline.State
	tracker *access.Tracker
	targets []*timeline.Object
	ids     map[int]int                       // index in targets by Object.ID
	holds   map[*timeline.Object]map[int]bool // targets whose addresses were copied into an allocation
	blobs   map[format.BlobID][]int           // targets whose addresses are in a payload
	late    map[uint64][]format.Data          // payloads with target addresses, stored apart from their calls
	most    int
	out     []Lifetime
}

func (f *follower) call(process uint32, e *timeline.Event) {
	accesses, _ := f.tracker.Of(e)
	failed := e.Fn != nil && e.Fn.RetError && uint32(e.Call.Ret) != 0
	if len(accesses) == 0 || e.Fn.Task == api.NoTask || failed && e.Call.Flags&format.Unfinished == 0 {
		return
	}
	kernel := e.Fn.Task == api.Kernel || e.Fn.Task == api.GraphRun || e.Fn.Composite
	seen := map[int]bool{}
	for _, t := range accesses {
		o, off, ok := f.s.Find(process, t.Addr)
		if !ok {
			continue
		}
		how := t.Kind.String()
		if t.Kind == access.Names {
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
		if t.Kind == access.Writes {
			f.copied(e, o)
		}
	}
}

// copied records that a payload with target addresses was copied into an allocation.
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

// addresses returns the targets whose addresses are in a payload.
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
