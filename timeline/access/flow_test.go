package access_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// An address of one allocation is copied into a second one and that into a third. A kernel that gets the third reaches all.
func TestAddressesFlowThroughCopies(t *testing.T) {
	f := access.NewFlow()
	event := func(name string) *timeline.Event {
		return &timeline.Event{Call: &format.Call{Index: 9}, Fn: acl.Model.Lookup(name)}
	}
	device := func(id int) *timeline.Object {
		return &timeline.Object{ID: id, Kind: api.Device, Size: 64, Ended: timeline.NoCall}
	}
	a, b, c, d, root := device(1), device(2), device(3), device(4), device(5)
	reached := func(regions []access.Region) (objects []*timeline.Object) {
		for _, r := range regions {
			if r.Kind == access.Names {
				objects = append(objects, r.Object)
			}
		}
		return objects
	}
	write := func(o *timeline.Object) access.Region {
		return access.Region{Object: o, Lo: 8, Hi: 16, Kind: access.Writes}
	}
	launch := func(args ...*timeline.Object) []*timeline.Object {
		var regions []access.Region
		for _, o := range args {
			regions = append(regions, access.Region{Object: o, Kind: access.Names})
		}
		return reached(f.Call(event("aclrtLaunchKernel"), regions, nil, nil, false, false))
	}
	if got := launch(c); !slices.Equal(got, []*timeline.Object{c}) {
		t.Errorf("a kernel reaches %v before any copy", got)
	}
	f.Call(event("aclrtMemcpy"), []access.Region{{Object: a, Kind: access.Points}, write(b)}, nil, nil, false, false)
	f.Call(event("aclrtMemcpy"), []access.Region{{Object: b, Hi: 64, Kind: access.Reads}, write(d)}, nil, nil, false, false)
	if spans, all := f.Written(b); all || !slices.Equal(spans, []access.Span{{Lo: 8, Hi: 16}}) {
		t.Errorf("written %v, all %t", spans, all)
	}
	if got := launch(d); !slices.Equal(got, []*timeline.Object{d, a}) {
		t.Errorf("a kernel reaches %v through a copied address", got)
	}
	if _, all := f.Written(a); !all {
		t.Error("a kernel may have written memory that it reaches")
	}
	// The search goes on through each memory that it finds.
	f.Call(event("aclrtMemcpy"), []access.Region{{Object: d, Kind: access.Points}, write(root)}, nil, nil, false, false)
	f.Call(event("aclrtMemcpy"), []access.Region{{Object: c, Kind: access.Points}, write(a)}, nil, nil, false, false)
	if got := launch(root); !slices.Equal(got, []*timeline.Object{root, d, a, c}) {
		t.Errorf("a kernel reaches %v through three addresses", got)
	}
	// A graph accesses the memory of its tasks when it runs.
	captured := event("aclrtLaunchKernel")
	captured.Captured = &timeline.Object{Kind: api.Graph}
	f.Call(captured, []access.Region{{Object: c, Kind: access.Names}}, nil, nil, false, false)
	if got := reached(f.Call(event("aclmdlRIExecuteAsync"), nil, nil, nil, false, false)); !slices.Equal(got, []*timeline.Object{c}) {
		t.Errorf("a run of a graph reaches %v", got)
	}
}
