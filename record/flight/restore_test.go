package flight

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/rows"
)

// restore continues a ring whose recorder left, as another recorder does.
func restore(t *testing.T, left *flown, taken uint64) (f *flown, had uint64) {
	t.Helper()
	left.ok(left.Leave())
	r := Find(filepath.Dir(left.dir))
	meta := r.Meta()
	if meta == nil || meta.UUID != left.rec.Meta.UUID {
		t.Fatalf("%+v", meta)
	}
	rec := left.rec
	rec.Meta, rec.Rows = meta, rows.New(&rows.Options{Model: acl.Model, Meta: meta}, nil)
	rec.Rows.Hooks.ThreadName = func(pid, tid int) string { return "" }
	fl, had, err := Restore(&r, taken, rec)
	left.ok(err)
	return &flown{T: t, Flight: fl, at: left.at, seq: left.seq}, had
}

// A ring that a killed recorder left is sealed with all its calls, and those that were not written are counted.
func TestRingOfKilledRecorderIsSealed(t *testing.T) {
	for _, unwritten := range []uint64{0, 5} {
		f := fly(t, Options{})
		f.call("aclrtCreateStream", 0, 10, probe.Piece{Dir: probe.Out, Len: 8, Bytes: []byte{0x10, 0x20, 3, 4, 5, 0, 0, 0}})
		f.call("aclrtGetDevice", 0, 10)
		f.ok(f.Seal("asked")) // the stream is in the past now
		f.call("aclrtSetDevice", 0, 10)
		f.ok(f.turn())
		f.call("aclrtGetDevice", 0, 10)
		g, had := restore(t, f, 4+unwritten)
		if had != 2 {
			t.Errorf("it had %d calls", had)
		}
		if g.made <= f.made-1 || g.rec.Rows.Count.Calls != 4+unwritten {
			t.Errorf("%d segments after %d, %d calls", g.made, f.made, g.rec.Rows.Count.Calls)
		}
		g.call("aclrtResetDevice", 0, 10)
		all := g.end()
		if len(all) != 1 || !slices.Equal(all[0].calls, []string{"aclrtCreateStream", "aclrtSetDevice", "aclrtGetDevice", "aclrtResetDevice"}) || all[0].older != 1 || all[0].others != unwritten {
			t.Errorf("%+v", all)
		}
	}
}

// A segment that the recorder did not end, one that can't be read and files that are none are no hindrance.
func TestRestoreDamaged(t *testing.T) {
	f := fly(t, Options{})
	f.call("aclrtSetDevice", 0, 10)
	f.ok(f.turn())
	f.call("aclrtGetDevice", 0, 10)
	f.ok(f.Leave())
	last := f.ring[1].path
	for _, name := range []string{"7.x.0.aclt", "8.2.0.txt", "past.1.0.0.aclt", "past.9.1.aclt", "9.2.0.aclt", "10.2.0.aclt"} {
		f.ok(os.WriteFile(filepath.Join(f.dir, name), []byte("no trace"), 0o600))
	}
	r := Find(filepath.Dir(f.dir))
	if r.past != "" || len(r.files) != 5 || filepath.Base(r.files[4]) != "10.2.0.aclt" || filepath.Base(r.files[3]) != "9.2.0.aclt" || r.files[2] != last || r.Meta() == nil {
		t.Errorf("%+v", r)
	}
	if none := Find(t.TempDir()); len(none.files) > 0 || none.past != "" || none.Meta() != nil {
		t.Errorf("%+v", none)
	}
	f.ok(r.Remove())
	if _, err := os.Stat(f.dir); err == nil {
		t.Error("the folder is left")
	}
}

func TestSegmentNames(t *testing.T) {
	name := segmentName(3, before{70, 5})
	for _, c := range []struct {
		path string
		n    int
		b    before
	}{
		{name, 3, before{70, 5}}, {"/dir/past." + name, 3, before{70, 5}}, {"past." + name + ".cleared", 3, before{70, 5}},
		{"x" + name, -1, before{}}, {"3.x.5.aclt", -1, before{}}, {"3.70.x.aclt", -1, before{}}, {"3.70.aclt", -1, before{}}, {"3.70.5.1.aclt", -1, before{}}, {"3.70.5.txt", -1, before{}}, {"", -1, before{}},
	} {
		if n, b := parseName(c.path); n != c.n || b != c.b || fileNumber(c.path) != c.n {
			t.Errorf("%s: %d, %+v", c.path, n, b)
		}
	}
}

// A call that has not returned for long seals the ring, is unfinished in that trace and is no reason a second time. If it returns later, it explains nothing.
func TestHangSealsTheRingOnce(t *testing.T) {
	f := fly(t, Options{Slow: time.Hour, SlowOf: map[string]time.Duration{"aclrtSynchronizeStream": time.Nanosecond}, After: time.Nanosecond})
	fn := acl.Model.Lookup("aclrtSynchronizeStream").ID
	start := probe.Now()
	hangs := []probe.Call{{PID: 1, TID: 9, Seq: 1, Func: acl.Model.Lookup("aclrtMemcpy").ID, Start: start, Words: make([]uint64, 5)}, {PID: 1, TID: 3, Seq: 7, Func: fn, Start: start, Words: []uint64{5}}}
	f.stands = func() []probe.Call { return hangs }
	f.call("aclrtGetDevice", 0, 10)
	now := time.Now().Add(time.Hour)
	tick := func() {
		f.Helper()
		now = now.Add(time.Hour)
		f.ok(f.Tick(now))
	}
	if tick(); !strings.HasPrefix(f.reason.text, "aclrtSynchronizeStream of thread 3 has not returned for ") || f.reason.weight != hang {
		t.Fatalf("%+v", f.reason)
	}
	f.looked = now.Add(time.Hour) // no look meanwhile
	if tick(); f.sealed != 1 || f.reason.text != "" {
		t.Fatalf("%d traces", f.sealed)
	}
	for range 3 {
		tick()
	}
	if f.sealed != 1 || f.Best(false) != 0 || f.Best(true) != 0 || f.best.weight != hang {
		t.Errorf("%d traces, the best is %+v", f.sealed, f.best)
	}
	// The next call of the thread is another one.
	hangs[1].Seq++
	if tick(); f.reason.text == "" {
		t.Error("another call that does not return is no reason")
	}
	f.reason.text = ""
	hangs = nil
	f.ok(f.rec.Rows.Call(&probe.Call{PID: 1, TID: 3, Seq: 7, Func: fn, Start: start, End: probe.Now(), Words: []uint64{5}}))
	if f.reason.text != "" || f.best.weight != plain {
		t.Errorf("%+v, best %+v", f.reason, f.best)
	}
	all := f.end()
	if len(all) != 2 || !slices.Equal(all[0].calls, []string{"aclrtGetDevice", "aclrtMemcpy", "aclrtSynchronizeStream"}) || !slices.Equal(all[1].calls, []string{"aclrtSynchronizeStream"}) || all[1].others != 0 {
		t.Errorf("%+v", all)
	}
}

// A ring with a limit of time drops calls that are older.
func TestRingOfTime(t *testing.T) {
	f := fly(t, Options{Time: segments * time.Hour})
	f.call("aclrtGetDevice", 0, 10)
	first, now := f.ring[0], time.Now()
	for hour := 1; hour <= segments+1; hour++ {
		if len(f.ring) != hour || f.ring[0] != first {
			t.Errorf("%d segments in hour %d", len(f.ring), hour)
		}
		f.rec.Meta.StartMono -= time.Hour.Nanoseconds() // moves the trace's clock
		now = now.Add(time.Hour)
		f.ok(f.Tick(now))
	}
	if len(f.ring) != segments+1 || f.ring[0] == first {
		t.Errorf("%d segments, the first one dropped: %v", len(f.ring), f.ring[0] != first)
	}
	f.call("aclrtSetDevice", 0, 10)
	if all := f.end(); len(all) != 1 || !slices.Equal(all[0].calls, []string{"aclrtSetDevice"}) || all[0].older != 1 {
		t.Errorf("%+v", all)
	}
}

// A trace moves an older file aside, unless that is to be replaced. A ring without calls replaces no file.
func TestOlderFiles(t *testing.T) {
	for _, c := range []struct {
		calls     bool
		overwrite bool
		made      bool
		moved     int
	}{{true, false, true, 1}, {true, true, true, 0}, {false, false, false, 0}, {false, true, true, 0}} {
		f := fly(t, Options{})
		pruned := 0
		f.rec.Overwrite, f.rec.Prune = c.overwrite, func(string) { pruned++ }
		path := f.rec.Output()
		f.ok(os.WriteFile(path, []byte("older"), 0o600))
		if c.calls {
			f.call("aclrtGetDevice", 0, 10)
		}
		made, err := f.End("the end")
		f.ok(err)
		b, err := os.ReadFile(path)
		f.ok(err)
		if len(made) == 1 != c.made || (string(b) != "older") != c.made || len(f.Moved()) != c.moved || pruned != c.moved {
			t.Errorf("%+v: made %q, moved %q, pruned %d", c, made, f.Moved(), pruned)
		}
		for _, aside := range f.Moved() {
			if b, err := os.ReadFile(aside); err != nil || string(b) != "older" {
				t.Errorf("%s: %q, %v", aside, b, err)
			}
		}
	}
}

// A ring that can't be sealed stays in its folder, and the error names the trace.
func TestSealingFails(t *testing.T) {
	f := fly(t, Options{})
	f.call("aclrtGetDevice", 0, 10)
	f.ok(os.RemoveAll(filepath.Dir(f.rec.Output())))
	made, err := f.End("the end")
	if err == nil || !strings.HasPrefix(err.Error(), "sealing the ring: ") || len(made) > 0 {
		t.Errorf("%q, %v", made, err)
	}
	r := Find(filepath.Dir(f.dir))
	if len(r.files) == 0 {
		t.Fatal("nothing is left")
	}
	s, err := format.Open(r.files[0], nil)
	f.ok(err)
	defer s.Close()
	if n, err := s.Accounted(); n != 1 || err != nil {
		t.Errorf("%d calls are left: %v", n, err)
	}
}

// Ended objects are removed from the past when it has grown, and those that live stay.
func TestPastIsCleared(t *testing.T) {
	was := LeastPast
	LeastPast = 1
	t.Cleanup(func() { LeastPast = was })
	f := fly(t, Options{})
	handle := func(n byte) probe.Piece {
		return probe.Piece{Dir: probe.Out, Len: 8, Bytes: []byte{n, 0x20, 3, 4, 5, 0, 0, 0}}
	}
	f.call("aclrtCreateStream", 0, 10, handle(1))
	f.call("aclrtCreateStream", 0, 10, handle(2))
	fn := acl.Model.Lookup("aclrtDestroyStream")
	f.seq++
	f.at += 100
	f.ok(f.rec.Rows.Call(&probe.Call{PID: 1, TID: 1, Seq: f.seq, Func: fn.ID, Start: f.at, End: f.at + 10, Words: []uint64{0x0504032001}}))
	f.ok(f.Seal("first"))
	f.call("aclrtGetDevice", 0, 10)
	all := f.end()
	if len(all) != 2 || !slices.Equal(all[1].calls, []string{"aclrtCreateStream", "aclrtGetDevice"}) || all[1].older != 2 {
		t.Errorf("%+v", all)
	}
	if f.sealer.size == 0 {
		t.Error("nothing was removed from the past")
	}
}
