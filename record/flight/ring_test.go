package flight

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/rows"
)

// A flown is a flight without programs: a test makes its calls, 100 ns after each other.
type flown struct {
	*testing.T
	*Flight
	at  int64
	seq uint64
}

func fly(t *testing.T, o Options) *flown {
	t.Helper()
	meta := &format.Meta{UUID: format.NewUUID(), API: acl.Model.Name, StartMono: 1}
	dir := t.TempDir()
	f := &flown{T: t, at: 1}
	f.Flight = New(o, Recording{Model: acl.Model, Meta: meta, Rows: rows.New(&rows.Options{Model: acl.Model, Meta: meta}, nil), Output: func() string { return filepath.Join(dir, "x.aclt") },
		Describe: func(*format.Meta) {}, Prune: func(string) {}})
	f.dir = Folder(t.TempDir())
	f.ok(os.Mkdir(f.dir, 0o700))
	f.rec.Rows.Hooks.ThreadName = func(pid, tid int) string { return "" }
	f.rec.Rows.Hooks.Call = f.called
	f.sealer.begin(f.Flight)
	f.ok(f.turn())
	return f
}

func (f *flown) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// call makes a call that lasts took nanoseconds. Its first argument is its number if it has any.
func (f *flown) call(name string, ret, took int64, pieces ...probe.Piece) {
	f.Helper()
	fn := acl.Model.Lookup(name)
	words := make([]uint64, fn.Words)
	if len(words) > 0 {
		words[0] = f.seq
	}
	f.seq++
	f.at += 100
	f.ok(f.rec.Rows.Call(&probe.Call{PID: 1, TID: 1, Seq: f.seq, Func: fn.ID, Start: f.at, End: f.at + took, Ret: uint64(ret), Words: words, Pieces: pieces}))
	f.at += took
}

// A sealed is a trace of a flight.
type sealed struct {
	reason        string
	calls         []string
	numbers       []uint64 // first arguments
	older, others uint64   // calls in gaps
}

// end ends the flight and reads its traces.
func (f *flown) end() (all []sealed) {
	f.Helper()
	paths, err := f.End("the end")
	f.ok(err)
	if want := f.Sealed(); !slices.Equal(paths, want) {
		f.Errorf("traces %q, want %q", paths, want)
	}
	if _, err := os.Stat(f.dir); err == nil {
		f.Errorf("%s is left", f.dir)
	}
	ids := []string{f.rec.Meta.UUID}
	for _, path := range paths {
		r, err := format.Open(path, nil)
		f.ok(err)
		defer r.Close()
		if slices.Contains(ids, r.Meta().UUID) || r.Meta().Replayable {
			f.Errorf("%s has the id of another trace, or claims to be replayable", path)
		}
		ids = append(ids, r.Meta().UUID)
		s := sealed{reason: r.Meta().Sealed}
		for c, err := range r.Calls(nil) {
			f.ok(err)
			s.calls = append(s.calls, acl.Model.Func(api.ID(c.Func)).Name)
			if len(c.Args) > 0 {
				s.numbers = append(s.numbers, c.Args[0])
			}
		}
		for _, g := range r.Gaps() {
			if g.Reason == format.Outdated {
				s.older += g.Calls
			} else {
				s.others += g.Calls
			}
		}
		all = append(all, s)
	}
	return all
}

// A device error, the first failed wait of a kind, a named code and a slow call each seal the ring. The trace that explains most is the best one.
func TestReasonsThatSealTheRing(t *testing.T) {
	const invalid, timeout, fault = 107000, 107020, 507015
	type made struct {
		name      string
		ret, took int64
	}
	fine := made{"aclrtGetDevice", 0, 10}
	for name, c := range map[string]struct {
		o             Options
		calls         []made
		want          string // reasons
		best, crashed int
	}{
		"nothing":           {Options{}, []made{fine, {"aclrtMemcpy", invalid, 10}, {"aclrtQueryEventStatus", timeout, 10}}, "the end", 0, 0},
		"a device error":    {Options{}, []made{{"aclrtSynchronizeStream", fault, 10}, fine, fine}, "aclrtSynchronizeStream returned ACL_ERROR_RT_AICORE_EXCEPTION (507015)|the end", 0, 0},
		"of another call":   {Options{}, []made{{"aclrtMemcpy", fault, 10}, fine}, "aclrtMemcpy returned ACL_ERROR_RT_AICORE_EXCEPTION (507015)|the end", 0, 0},
		"failed waits":      {Options{}, []made{{"aclrtSynchronizeStream", invalid, 10}, fine, {"aclrtSynchronizeStream", invalid, 10}, fine}, "aclrtSynchronizeStream returned ACL_ERROR_RT_PARAM_INVALID (107000)|the end", 0, 1},
		"waits, then fault": {Options{}, []made{{"aclrtSynchronizeStream", invalid, 10}, fine, {"aclrtMemcpy", fault, 10}, fine}, "wait|fault|the end", 1, 1},
		"fault, then wait":  {Options{}, []made{{"aclrtMemcpy", fault, 10}, fine, {"aclrtSynchronizeStream", invalid, 10}, fine}, "fault|wait|the end", 0, 0},
		"a named code":      {Options{Codes: []int32{invalid}}, []made{fine, {"aclrtMemcpy", invalid, 10}, fine, {"aclrtMemcpy", invalid, 10}, fine}, "code|code|the end", 2, 2},
		"a slow call":       {Options{Slow: time.Microsecond}, []made{{"aclrtMemcpy", 0, 1000}, fine, {"aclrtMemcpy", 0, 1001}, fine, {"aclrtProcessReport", 0, 5000}, fine}, "aclrtMemcpy took 1.00 us|the end", 1, 1},
		"at most two":       {Options{Most: 2, Codes: []int32{invalid}}, []made{{"aclrtMemcpy", invalid, 1}, fine, {"aclrtMemcpy", invalid, 1}, fine, {"aclrtMemcpy", invalid, 1}, fine}, "code|code|the end", 2, 2},
		"not due yet":       {Options{After: time.Hour}, []made{{"aclrtSynchronizeStream", fault, 10}, fine, fine}, "fault", 0, 0},
	} {
		if c.o.After == 0 {
			c.o.After = time.Nanosecond
		}
		f := fly(t, c.o)
		for _, m := range c.calls {
			f.call(m.name, m.ret, m.took)
		}
		all := f.end()
		want := strings.Split(c.want, "|")
		if len(all) != len(want) {
			t.Errorf("%s: %d traces, want %q", name, len(all), want)
			continue
		}
		n := 0
		for i, s := range all {
			n += len(s.calls)
			if strings.Contains(want[i], " ") && s.reason != want[i] {
				t.Errorf("%s: trace %d: %q, want %q", name, i, s.reason, want[i])
			}
			if got := uint64(len(s.calls)) + s.older; got != uint64(n) || s.others != 0 {
				t.Errorf("%s: trace %d has %d calls, and %d are older: want %d", name, i, len(s.calls), s.older, n)
			}
		}
		if n != len(c.calls) || f.Best(false) != c.best || f.Best(true) != c.crashed {
			t.Errorf("%s: %d calls of %d; the best is %d, or %d after a crash", name, n, len(c.calls), f.Best(false), f.Best(true))
		}
	}
}

// The ring keeps the newest calls in about the memory that it may use, and the calls that make objects that still exist. It counts all others.
func TestRingKeepsTheNewestCalls(t *testing.T) {
	const bytes = 128 << 10
	f := fly(t, Options{Bytes: bytes})
	r := rand.New(rand.NewPCG(1, 2))
	f.call("aclrtCreateStream", 0, 10, probe.Piece{Dir: probe.Out, Len: 8, Bytes: []byte{0x10, 0x20, 3, 4, 5, 0, 0, 0}})
	first := f.ring[0]
	testenv.Wait(t, "the ring drops its first calls", func() bool { // files grow some time after the calls
		for range 2 * rotateCalls {
			f.call("aclrtSetDevice", 0, int64(r.IntN(90)))
		}
		return f.ring[0] != first
	})
	for range 5 { // a program that makes no calls
		f.ok(f.Tick(time.Now().Add(time.Hour)))
	}
	if f.Size() > bytes && len(f.ring) > 2 {
		t.Errorf("the ring has %d bytes in %d files", f.Size(), len(f.ring))
	}
	calls := f.seq - 1
	all := f.end()
	if len(all) != 1 || all[0].reason != "the end" {
		t.Fatalf("%d traces", len(all))
	}
	s := &all[0]
	if got := uint64(len(s.calls)) + s.older; got != calls+1 {
		t.Errorf("%d calls, and %d are older: %d in all", len(s.calls), s.older, got)
	}
	if s.calls[0] != "aclrtCreateStream" || s.older == 0 || s.others != 0 {
		t.Errorf("the first of %d calls is %s", len(s.calls), s.calls[0])
	}
	tail := s.numbers[1:]
	for i, n := range tail {
		if n != calls-uint64(len(tail)-1-i) {
			t.Fatalf("call %d is followed by %d", tail[max(i-1, 0)], n)
		}
	}
}

func TestLaterTracesAreNumbered(t *testing.T) {
	for n, want := range map[int]string{1: "a/x.aclt", 2: "a/x-2.aclt", 10: "a/x-10.aclt"} {
		if got := Numbered("a/x.aclt", n); got != want {
			t.Errorf("trace %d is %s", n, got)
		}
	}
}

// A Flight that Options say nothing about has its defaults.
func TestDefaultsOfEmptyOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want int64
	}{{Options{}, 64 << 20}, {Options{Time: time.Second}, 1 << 30}, {Options{Bytes: 5, Time: time.Second}, 5}} {
		f := New(c.o, Recording{})
		if f.o.Bytes != c.want || f.o.Most != 8 || f.o.After != 500*time.Millisecond {
			t.Errorf("%+v: %+v", c.o, f.o)
		}
	}
}
