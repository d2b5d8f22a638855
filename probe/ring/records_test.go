package ring

import (
	"errors"
	"math"
	"os"
	"slices"
	"testing"
	"unsafe"

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

// Owners of records that were not read yet are found once, up to the head of the ring: older records are behind it.
func TestLookAheadFindsEachOwnerOnce(t *testing.T) {
	const size = 512
	data := make([]byte, 2*size)
	h := &header{}
	r := &ring{mem: unsafe.Pointer(&data[0]), data: data, size: size, head: h}
	put := func(at int, kind byte, n int, generation uint32) {
		b := data[at:]
		le.PutUint32(b, uint32(n))
		b[6], b[7] = kind, stateDone
		le.PutUint32(b[12:], generation)
	}
	want := func(looked uint64, generations ...uint32) {
		t.Helper()
		r.lookAhead()
		var got []uint32
		for _, o := range r.list {
			got = append(got, o.generation)
		}
		if r.looked != looked || !slices.Equal(got, generations) {
			t.Errorf("looked up to %d, owners %d; want %d and %d", r.looked, got, looked, generations)
		}
	}
	put(0, recOwner, ownerBytes, 1)
	put(ownerBytes, recCall, callHeader, 7)
	put(ownerBytes+callHeader, recOwner, ownerBytes, 2) // of an earlier round
	want(0)
	h.head.Store(ownerBytes + callHeader)
	want(ownerBytes+callHeader, 1)
	r.list = nil
	want(ownerBytes + callHeader) // it looks at each record once
	put(ownerBytes+callHeader, recCall, callHeader, 7)
	put(ownerBytes+2*callHeader, recOwner, ownerBytes, 3)
	h.head.Store(2*ownerBytes + 2*callHeader)
	r.pos = ownerBytes + 2*callHeader
	put(ownerBytes+callHeader, recOwner, ownerBytes, 9) // before the read position: not looked at
	want(2*ownerBytes+2*callHeader, 3)
}

// A process of this machine has a handle, which waits for its end. One that the crash guard excludes is reported once.
func TestLocalProcessesHaveHandles(t *testing.T) {
	s := session(t, Options{})
	defer s.Close()
	var excluded []int
	for _, c := range []struct {
		pid       uint32
		namespace uint64
		untraced  uint32
		handle    bool
	}{{uint32(os.Getpid()), 0, 0, true}, {1, 0, 0, true}, {uint32(os.Getpid()), 0, 1, true}, {5, 1, 0, false}} {
		m := &member{}
		s.join(m, &processFile{pid: c.pid, namespace: c.namespace, untraced: c.untraced})
		if (m.handle != nil) != c.handle {
			t.Errorf("%+v: a handle: %v", c, m.handle != nil)
		}
		if m.handle != nil {
			m.handle.Close()
		}
		for _, e := range s.NewlyExcluded() {
			excluded = append(excluded, e.PID)
		}
	}
	if !slices.Equal(excluded, []int{os.Getpid()}) {
		t.Errorf("excluded %d", excluded)
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
