package access

import (
	"bytes"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A Search finds the calls that access some allocations, its targets, also through addresses that calls have copied into other memory.
// Targets may be freed, and addresses of freed targets count.
type Search struct {
	r       *format.Reader
	s       *timeline.State
	tracker *Tracker
	flow    *Flow
	targets []*timeline.Object
	ids     map[int]int              // index in targets by Object.ID
	late    map[uint64][]format.Data // copied data with target addresses that was recorded after its call, by call
	blobs   map[format.BlobID][]int  // targets whose addresses are in a payload
}

// A Hit is a call's access of a target. Kind is Points if the call copies an address of the target into Via.
type Hit struct {
	Target int // index
	Kind   Kind
	Offset uint64
	Size   uint64           // bytes, 0 if only the kernel determines it
	Via    *timeline.Object // memory that holds the address, nil if an argument is the address
}

// maxTable is the largest payload that is searched for addresses, in bytes.
const maxTable = 1 << 20

// NewSearch returns a Search before the first call.
func NewSearch(r *format.Reader, m *api.Model, targets []*timeline.Object) (*Search, error) {
	x := &Search{r: r, s: timeline.NewState(m).Read(r), flow: NewFlow(), targets: targets, ids: map[int]int{}, late: map[uint64][]format.Data{},
		blobs: map[format.BlobID][]int{}}
	for i, o := range targets {
		x.ids[o.ID] = i
	}
	for d, err := range r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			return nil, err
		}
		if len(x.addresses(d)) > 0 {
			k := *d
			k.Bytes = bytes.Clone(d.Bytes)
			x.late[d.Call] = append(x.late[d.Call], k)
		}
	}
	x.tracker = New(x.s, r)
	return x, x.tracker.Follow()
}

// Apply advances the Search by one call. It returns the call's meaning, which is valid until the next Apply, and its hits.
func (x *Search) Apply(process uint32, c *format.Call) (*timeline.Event, []Hit) {
	e := x.tracker.Apply(process, c)
	accesses, _ := x.tracker.Of(e)
	if len(accesses) == 0 || e.Fn.Task == api.NoTask || failed(e) && c.Flags&format.Unfinished == 0 {
		return e, nil
	}
	runs := Runs(e.Fn)
	var hits []Hit
	var regions []Region
	seen := map[int]bool{}
	for _, a := range accesses {
		o, off, ok := x.s.Find(process, a.Addr)
		if !ok || a.Kind == Names && !runs {
			continue
		}
		regions = append(regions, Region{Object: o, Lo: off, Hi: off + a.Size, Kind: a.Kind})
		if i, ok := x.ids[o.ID]; ok && !(a.Kind == Names && seen[i]) {
			seen[i] = true
			hits = append(hits, Hit{Target: i, Kind: a.Kind, Offset: off, Size: a.Size})
		}
	}
	if runs {
		for _, r := range x.flow.Call(e, regions, nil, nil, false)[len(regions):] {
			if i, ok := x.ids[r.Object.ID]; ok && !seen[i] {
				hits = append(hits, Hit{Target: i, Kind: Names, Via: r.Via})
			}
		}
		return e, hits
	}
	for _, data := range [][]format.Data{c.Data, x.late[c.Index]} {
		for k := range data {
			if d := &data[k]; int(d.Param) < len(e.Fn.Params) && e.Fn.Params[d.Param].Role == api.Reads {
				for _, i := range x.addresses(d) {
					regions = append(regions, Region{Object: x.targets[i], Kind: Points})
				}
			}
		}
	}
	return e, append(hits, x.copied(e, regions)...)
}

// copied applies a copy to the Flow. It returns the targets whose addresses are new in the memory that the copy writes.
func (x *Search) copied(e *timeline.Event, regions []Region) (hits []Hit) {
	type holder struct{ to, target *timeline.Object }
	held := map[holder]bool{}
	for _, r := range regions {
		for _, o := range x.targets {
			held[holder{r.Object, o}] = x.flow.holds(r.Object, o)
		}
	}
	x.flow.Call(e, regions, nil, nil, false)
	for _, r := range regions {
		for i, o := range x.targets {
			if h := (holder{r.Object, o}); !held[h] && x.flow.holds(r.Object, o) {
				held[h] = true
				hits = append(hits, Hit{Target: i, Kind: Points, Via: r.Object})
			}
		}
	}
	return hits
}

// addresses returns the targets whose addresses are in input data, nil if the trace lacks the data.
func (x *Search) addresses(d *format.Data) (found []int) {
	if d.Dir != format.DirIn || d.Status != format.Whole || d.Len > maxTable {
		return nil
	}
	b := d.Bytes
	if d.Blob != 0 {
		if known, ok := x.blobs[d.Blob]; ok {
			return known
		}
		var err error
		if b, err = x.r.Blob(d.Blob); err != nil {
			return nil
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		w := word(b)
		for i, o := range x.targets {
			if w >= o.Handle && w-o.Handle < o.Size && !slices.Contains(found, i) {
				found = append(found, i)
			}
		}
	}
	if d.Blob != 0 {
		x.blobs[d.Blob] = found
	}
	return found
}
