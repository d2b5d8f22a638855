package access

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// A Region is a range in an allocation that a call accesses. For Names and Points the range is empty, at
// the address: they concern the whole object.
type Region struct {
	Object *timeline.Object
	Lo, Hi uint64 // offsets
	Kind   Kind
	Via    *timeline.Object // memory that holds the object's address, nil if an argument is the address
}

// rangeKind returns how a copy or a fill accesses the range that a parameter names.
func rangeKind(p *api.Param) Kind {
	if p.Role == api.Reads {
		return Reads
	}
	return Writes
}

// ranges calls add for the range that a parameter of a copy or a fill names, or for the ranges of a batch, whose items count from 1. A range of rows
// extends from the first byte to the last. The size is 0 if it is unknown. array returns an array argument. ranges returns false if the trace lacks
// some.
func ranges(e *timeline.Event, i int, array func(param int) ([]byte, bool), add func(item uint32, addr, size uint64)) (all bool) {
	f, args := e.Fn, e.Call.Args
	p := &f.Params[i]
	if p.ItemSizes < 0 {
		n, ok := p.Size.Bytes(f, args)
		if p.Size.Pitch >= 0 && n > 0 {
			width := args[f.Params[p.Size.Mul[0]].Word]
			n = (n/width-1)*args[f.Params[p.Size.Pitch].Word] + width
		}
		if args[p.Word] != 0 && (n > 0 || !ok) {
			add(0, args[p.Word], n)
		}
		return ok
	}
	addrs, ok1 := array(i)
	sizes, ok2 := array(int(p.ItemSizes))
	for k := range min(uint64(len(addrs)/8), uint64(len(sizes)/8), args[f.Params[p.ItemCount].Word]) {
		add(uint32(1+k), word(addrs[8*k:]), word(sizes[8*k:]))
	}
	return ok1 && ok2
}

// arrays calls add for the arrays that a copy names, and for the mipmapped arrays that they belong to.
func arrays(e *timeline.Event, add func(o *timeline.Object, kind Kind)) {
	f := e.Fn
	if f.Task != api.Copy {
		return
	}
	for _, u := range e.Uses {
		if u.Object.Kind != api.Array || u.Param >= len(f.Params) {
			continue
		}
		kind := Writes
		switch q := &f.Params[u.Param]; {
		case q.CopyDesc != nil && u.Field == q.CopyDesc.From.Array,
			q.CopyDesc == nil && slices.ContainsFunc(f.Params, func(q api.Param) bool { return q.Role == api.Writes }),
			q.CopyDesc == nil && slices.ContainsFunc(e.Uses, func(v timeline.Use) bool { return v.Object.Kind == api.Array && v.Param < u.Param }): // the target is the first
			kind = Reads
		}
		add(u.Object, kind)
		if of := u.Object.Parent; of != nil && of.Kind == api.MipmappedArray {
			add(of, kind)
		}
	}
}
