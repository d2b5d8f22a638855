package access_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline/access"
)

// firstFunc returns the first function of the model with a property, and zeros as its arguments.
func firstFunc(t *testing.T, has func(*api.Func) bool) (string, []uint64) {
	t.Helper()
	known := schema.Of(acl.Model)
	i := slices.IndexFunc(acl.Model.Funcs, func(f api.Func) bool { return known.FuncByName(f.Name) != nil && has(&f) })
	if i < 0 {
		t.Skip("the model has no such function")
	}
	return acl.Model.Funcs[i].Name, make([]uint64, acl.Model.Funcs[i].Words)
}

// A replay leaves out a call for one reason. Other calls that fail are made.
func TestOmittedCallsHaveOneReason(t *testing.T) {
	busy, refused := acl.Model.Busy, acl.Model.Refused
	s := newSequence(t)
	var want []access.Omission
	call := func(o access.Omission, name string, args []uint64, mods ...testtrace.Mod) {
		s.Then(name, args, mods...)
		want = append(want, o)
	}
	of := func(o access.Omission, has func(*api.Func) bool) {
		name, args := firstFunc(t, has)
		call(o, name, args)
	}
	call(access.Replayed, "aclrtSetDevice", testtrace.A(0))
	call(access.Unfinished, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
	call(access.Replayed, "aclrtSynchronizeDevice", nil, testtrace.Fails(507015))
	call(access.NothingPending, "aclrtProcessReport", testtrace.A(100), testtrace.Fails(507012))
	call(access.Replayed, "aclrtProcessReport", testtrace.A(100))
	if busy != 0 {
		call(access.Busy, "aclrtSynchronizeDevice", nil, testtrace.Fails(busy))
	}
	if refused != 0 {
		call(access.Refused, "aclrtSynchronizeDevice", nil, testtrace.Fails(refused))
	}
	call(access.Exception, acl.Model.Faults.Task, testtrace.A(0x10))
	call(access.Replayed, acl.Model.Faults.Task, testtrace.A(0))
	of(access.Inside, func(f *api.Func) bool { return f.Annotation })
	of(access.Inside, func(f *api.Func) bool { return f.Composite })
	of(access.Skipped, func(f *api.Func) bool {
		return f.SkipOnReplay && !f.Annotation && !f.Composite && !f.HostCallback && f.Task == api.NoTask
	})
	of(access.Impossible, func(f *api.Func) bool {
		return f.ReplayError != "" && !f.SkipOnReplay && !f.Annotation && !f.Composite && !f.HostCallback && !f.PollsCallbacks
	})
	r := s.Load().Reader
	x, err := access.New(r, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		q := x.Apply(r.ProcessOf(c.Thread), c)
		e := q.Event
		if got := q.Omits(); got != want[c.Index] {
			t.Errorf("call %d %s: %d, want %d", c.Index, e.Fn.Name, got, want[c.Index])
		}
		if c.Index == 0 {
			if e.Fn = nil; q.Omits() != access.NotInModel {
				t.Error("a function that is not in the model is replayed")
			}
		}
	}
}

// A range over adjacent mappings is an access of each. Pinned memory is the host's.
func TestRangesOverMappings(t *testing.T) {
	const size = 2 << 20
	s := newSequence(t)
	s.Then("aclrtMallocHost", testtrace.A(0x7ffe0000, 4096), testtrace.Outs("hostPtr", host))
	s.Then("aclrtReserveMemAddress", testtrace.A(0x7ffe0000, 2*size, 0, 0, 1), testtrace.Outs("virPtr", devA))
	for i := range uint64(2) {
		s.Then("aclrtMallocPhysical", testtrace.A(0x7ffe0000, size, 0x7ffe0020, 0), testtrace.Outs("handle", 0x8800+i))
		s.Then("aclrtMapMem", testtrace.A(devA+i*size, size, 0, 0x8800+i, 0))
	}
	s.Then("aclrtMemset", testtrace.A(devA+size-64, 4096, 0, 4096))
	s.Then("aclrtMemcpy", testtrace.A(devA+size-8, 16, host+16, 16, 1))
	var got []string
	err := access.Each(s.Load().Reader, acl.Model, func(q *access.Call) error {
		if q.Event.Call.Index >= 6 {
			for _, r := range slices.Concat(q.Regions(), q.Host()) {
				got = append(got, fmt.Sprintf("%d %#x %s %d:%d", q.Event.Call.Index, r.Object.Handle, r.Kind, r.Lo, r.Hi))
			}
		}
		return nil
	})
	want := []string{"6 0x124000000000 writes 2097088:2097152", "6 0x124000200000 writes 0:4032",
		"7 0x124000000000 writes 2097144:2097152", "7 0x124000200000 writes 0:8", "7 0x7f0000001000 reads 16:32"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}
