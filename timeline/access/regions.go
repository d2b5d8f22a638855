package access

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// A Region is a range in an allocation that a call accesses. For Names and Points the range is empty: they concern the whole object.
type Region struct {
	Object *timeline.Object
	Lo, Hi uint64 // offsets
	Kind   Kind
	Via    *timeline.Object // memory that holds the object's address, nil if an argument is the address
}

// Spans calls add for the parts of an address range, which may extend over several adjacent mappings. The range begins at an offset of an object,
// nil for none.
func Spans(s *timeline.State, process uint32, o *timeline.Object, addr, off, n uint64, add func(o *timeline.Object, lo, hi uint64)) {
	for o != nil && n > 0 {
		here := n
		if o.Kind == api.Device && off < o.Size {
			here = min(n, o.Size-off)
		}
		add(o, off, off+here)
		if n -= here; n == 0 {
			return
		}
		addr += here
		o, off, _ = s.Find(process, addr)
	}
}

// Arrays calls add for the arrays that a copy names, and for the mipmapped arrays that they belong to.
func Arrays(e *timeline.Event, add func(o *timeline.Object, kind Kind)) {
	f := e.Fn
	if f.Task != api.Copy {
		return
	}
	for _, u := range e.Uses {
		if u.Object.Kind != api.Array || u.Param >= len(f.Params) {
			continue
		}
		kind := Writes
		if q := &f.Params[u.Param]; q.CopyDesc != nil && u.Field == q.CopyDesc.From.Array || q.CopyDesc == nil && slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Writes }) {
			kind = Reads
		}
		add(u.Object, kind)
		if of := u.Object.Parent; of != nil && of.Kind == api.MipmappedArray {
			add(of, kind)
		}
	}
}

// Origin returns the allocation that a copy reads, and the offset in it; nil if it is unknown. item returns the address of the item of a batch,
// from the array that a parameter points to.
func Origin(s *timeline.State, process uint32, e *timeline.Event, item func(param int) (addr uint64, ok bool)) (*timeline.Object, uint64) {
	for i := range e.Fn.Params {
		q := &e.Fn.Params[i]
		addr, ok := uint64(0), true
		switch b, described := e.CopyBlock(); {
		case q.CopyDesc != nil && described:
			addr = b.From.First
		case q.Role != api.Reads:
			continue
		case q.ItemSizes >= 0:
			addr, ok = item(i)
		default:
			addr = e.Call.Args[q.Word]
		}
		if !ok {
			return nil, 0
		}
		o, off, _ := s.Find(process, addr)
		return o, off
	}
	return nil, 0
}
