package ranks

import (
	"reflect"
	"testing"

	"github.com/acltrace/acltrace/format"
)

// A merged trace had the recorder's time, the recorded copies, and the counted functions of rank 0 alone.
func TestMergedTracesHaveTheCountsOfAllRanks(t *testing.T) {
	rank := func(n uint64) *format.Meta {
		m := &format.Meta{DeviceTime: &format.DeviceTime{Every: 1, Measured: n, NeverSynchronized: n, PoolExhausted: n, Captured: n, Lost: n, Refused: n, Unsound: n, Jumps: n, TypicalErrorNS: int64(n), ErrorNS: int64(2 * n)}}
		m.Tracer = format.Tracer{CostNS: float64(n), ClockJumps: int(n), GapNS: 50, PayloadNS: int64(n), Copies: &format.RecordedCopies{Count: n, Bytes: n, RecordingNS: int64(n), CallsNS: int64(n)}}
		m.Coverage = format.Coverage{Hooked: 7, PassedBy: map[string]uint64{"f": n}, Unhooked: []format.Unhooked{{PID: int(n)}}, Refused: int(n), Unsized: n, CutArguments: n, NoEnd: n, Cut: n, Endless: []string{"g"}, Asleep: []format.Asleep{{PID: int(n)}}}
		m.TakenEarly, m.HostVisibleMissing = n, n
		return m
	}
	meta, other := rank(1), rank(2)
	kept := rank(1)
	got := *meta
	counts(&got, other)
	want := rank(3)
	want.Tracer.CostNS, want.DeviceTime.TypicalErrorNS, want.DeviceTime.ErrorNS = 2, 2, 4
	want.Coverage.Unhooked, want.Coverage.Asleep = []format.Unhooked{{PID: 1}, {PID: 2}}, []format.Asleep{{PID: 1}, {PID: 2}}
	if !reflect.DeepEqual(&got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(meta, kept) || !reflect.DeepEqual(other, rank(2)) {
		t.Errorf("the traces of the ranks have changed: %+v, %+v", meta, other)
	}

	// One rank of a launcher's recording has the functions and the device times of all, but its own copies.
	divided := rank(2)
	divided.Divided, divided.Tracer.GapNS, divided.Tracer.Copies = true, 0, nil
	got = *rank(1)
	counts(&got, divided)
	if got.Coverage.PassedBy["f"] != 1 || got.DeviceTime.Measured != 1 || got.Tracer.Copies.Count != 1 || got.Tracer.GapNS != 0 {
		t.Errorf("%+v", got)
	}
	none := format.Meta{}
	counts(&none, rank(2))
	if none.DeviceTime.Measured != 2 || none.Tracer.Copies.Count != 2 || none.Tracer.GapNS != 0 {
		t.Errorf("%+v", none)
	}
}
