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
