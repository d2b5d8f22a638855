package ring

import (
	"errors"
	"math"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/probe"
)

// A program that overwrote its ring with a time record of 8 bytes crashed the recorder.
func TestShortRecordIsDamage(t *testing.T) {
	s := &Session{model: acl.Model}
	for kind := range 256 {
		r := &ring{owners: owners{list: []owner{{}}}}
		if err := r.record(s, nil, []byte{8, 0, 0, 0, 0, 0, byte(kind), stateDone}, stateDone); !errors.Is(err, errRing) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}

// timed keeps the times of tasks.
type timed struct {
	everything
	got []probe.TaskTime
}

func (x *timed) TaskTime(t *probe.TaskTime) error { x.got = append(x.got, *t); return nil }

// The times of a task name the thread, the call, the device and the stream. The device counts microseconds, and the elapsed time is in milliseconds.
func TestTimeRecord(t *testing.T) {
	r := &ring{pid: 7, mark: mark{seq: 200}, firstSeq: 100, slot: &slot{}}
	r.list = []owner{{first: 100, base: 40}}
	r.list[0].tid = 9
	s := &Session{model: acl.Model, rings: rings{bySlot: []*ring{nil, nil, nil, r}}}
	b := le.AppendUint64(nil, 0)
	b = le.AppendUint32(b, 3) // slot
	b = le.AppendUint32(b, 2) // device 1
	for _, v := range []uint64{130, 0x55, 1000, 2000, 3000, 4_000_007, 4_000_009} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint64(b, uint64(math.Float32bits(0.0015)))
	var x timed
	want := probe.TaskTime{PID: 7, TID: 9, Seq: 70, Device: 1, Stream: 0x55, Issued: 1000, Closed: 2000, Seen: 3000, From: 4_000_007_000, To: 4_000_009_000, Elapsed: 1500}
	if err := r.time(s, &x, b); err != nil || len(x.got) != 1 || x.got[0] != want {
		t.Errorf("%+v, %v, want %+v", x.got, err, want)
	}
	le.PutUint32(b[12:], 0)
	if err := r.time(s, &x, b); err != nil || x.got[1].Device != -1 {
		t.Errorf("an unknown device is %d, %v", x.got[1].Device, err)
	}
	le.PutUint64(b[16:], 99) // recorded before a recorder took over
	if err := r.time(s, &x, b); err != nil || len(x.got) != 2 {
		t.Errorf("%d times, %v", len(x.got), err)
	}
	le.PutUint32(b[8:], maxSlots)
	if err := r.time(s, &x, b); !errors.Is(err, errRing) {
		t.Errorf("a slot that cannot be: %v", err)
	}
	if err := r.time(s, &x, b[:timeBytes-1]); !errors.Is(err, errRing) {
		t.Errorf("a record that is cut: %v", err)
	}
}
