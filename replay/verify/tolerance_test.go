package verify

import (
	"reflect"
	"testing"
)

func TestParseTolerance(t *testing.T) {
	for s, want := range map[string]Tolerance{
		"f32:1e-3": {"f32", 1e-3, 0}, "f16:0": {"f16", 0, 0}, "bf16:0.5,2": {"bf16", 0.5, 2}, "f64:0,0": {"f64", 0, 0}, "f32:999999999,1e299": {"f32", 999999999, 1e299},
	} {
		if got, err := ParseTolerance(s); err != nil || got != want {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "f32", ":1", "int:1", "F32:1", "f32:", "f32:x", "f32:1,", "f32:1,x", "f32:1,2,3", "f32:-1", "f32:1,-1", "f32:NaN", "f32:1,NaN", "f32:Inf", "f32:1,Inf", "f32:1e9", "f32:1,1e300", "f32:x,1",
	} {
		if got, err := ParseTolerance(s); err == nil {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for i, name := range []string{"", "f16", "bf16", "f32", "f64"} { // as DATA_F16 and so on in player/plan.h
		if got := (Tolerance{Type: name}).Code(); got != uint32(i) {
			t.Errorf("%s has code %d", name, got)
		}
	}
}

// Each state is counted once, and where it belongs.
func TestEachStateIsCountedOnce(t *testing.T) {
	var tally Tally
	for i, s := range []State{IsProved, IsTolerated, IsUnproved, IsDifferent} {
		for range 1 << i {
			tally.Add(s, Race)
		}
	}
	tally.AddUnproved(Data, 16, 5)
	tally.AddUnproved(Race, 1, 1)
	want := Tally{Results: 32, Proved: 3, Tolerated: 2, Different: 8, Unproved: 21, OtherBytes: 6, by: map[Reason]uint64{Race: 5, Data: 16}}
	if !reflect.DeepEqual(tally, want) {
		t.Errorf("%+v, want %+v", tally, want)
	}
	// One result is enough, and one other output that differs is a difference beside one that differs too.
	if got := (&Tally{Results: 1, Proved: 1}).Verdict(); got != Identical {
		t.Error(got)
	}
	if got := (&Tally{Results: 1, Different: 1, Other: 1}).Verdict(); got != Different {
		t.Error(got)
	}
	// Reasons that are as frequent are in the order of their codes.
	tally = Tally{}
	tally.AddUnproved(Race, 1, 0)
	tally.AddUnproved(Kernel, 1, 0)
	tally.AddUnproved(Data, 2, 0)
	if got := tally.String(); got != "nothing differs; 4 of 4 results are unproved: they depend on data that the trace lacks (2); computed by kernels that no library here implements (1); it depends on memory that two streams use in no order (1)" {
		t.Error(got)
	}
}
