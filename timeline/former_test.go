package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A destroyed event had another number at its next use, "event#3(older)" in cat, than in blame.
func TestAnEndedObjectKeepsItsName(t *testing.T) {
	s := timeline.NewState(acl.Model)
	n := uint64(0)
	apply := func(name string, ret int64, args ...uint64) string {
		f := acl.Model.Lookup(name)
		c := &format.Call{Index: n, Func: uint16(f.ID), Args: args, Ret: uint64(ret)}
		if name == "aclrtCreateEvent" {
			c.Outs = []format.Out{{Param: 0, Value: 0x77}}
		}
		n++
		e := s.Apply(0, c)
		if len(e.Uses) == 0 {
			t.Fatalf("%s uses nothing", name)
		}
		return timeline.Place(e.Uses[0])
	}
	for i, c := range []struct {
		name string
		ret  int64
		args []uint64
		want string
	}{
		{"aclrtDestroyEvent", 0, []uint64{0x66}, "event#1(older)"},
		{"aclrtCreateEvent", 0, []uint64{0x10}, "event#2"},
		{"aclrtDestroyEvent", 0, []uint64{0x77}, "event#2"},
		{"aclrtRecordEvent", 107017, []uint64{0x77, 0x9000}, "event#2(ended)"},
		{"aclrtDestroyEvent", 107017, []uint64{0x77}, "event#2(ended)"},
		{"aclrtDestroyEvent", 107017, []uint64{0x66}, "event#1(ended)"},
		{"aclrtCreateEvent", 0, []uint64{0x10}, "event#6"}, // the handle again
		{"aclrtSynchronizeEvent", 0, []uint64{0x77}, "event#6"},
	} {
		if got := apply(c.name, c.ret, c.args...); got != c.want {
			t.Errorf("call %d %s: %s, want %s", i, c.name, got, c.want)
		}
	}
}
