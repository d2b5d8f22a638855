package rows

import (
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
)

// A call that never returned ended with the last call of the trace: a hang of 21 s was drawn with 6.9 ms.
func TestUnfinishedCallsLastUntilNow(t *testing.T) {
	meta := &format.Meta{UUID: format.NewUUID(), API: acl.Model.Name, StartMono: 1000}
	path := filepath.Join(t.TempDir(), "t.aclt")
	w, err := format.Create(path, meta, schema.Of(acl.Model), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := New(&Options{Model: acl.Model, Meta: meta, Now: func() int64 { return 21_000_001_000 }}, w)
	wait, poll := acl.Model.Lookup("aclrtSynchronizeDevice"), acl.Model.Lookup("aclrtGetDevice")
	for _, c := range []probe.Call{
		{PID: 1, TID: 1, Seq: 1, Func: poll.ID, Start: 2000, End: 3000, Words: []uint64{0}},
		{PID: 1, TID: 1, Seq: 2, Func: wait.ID, Start: 4000},
		{PID: 1, TID: 2, Seq: 1, Func: wait.ID, Start: 4000, NoEnd: true},
	} {
		if err := b.Call(&c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var ends []int64
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, c.End)
	}
	if len(ends) != 3 || ends[0] != 2000 || ends[1] != 21_000_000_000 || ends[2] != 3000 {
		t.Errorf("ends %d, want 2000, the present, and the start of the call whose end was not seen", ends)
	}
}
