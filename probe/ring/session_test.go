package ring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/probe"
)

// session makes a session in a folder of the test.
func session(t *testing.T, o Options) *Session {
	t.Helper()
	o.Dir = t.TempDir()
	s, err := Create(acl.Model, &o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A session's folder has its files while it lives, and is gone after Close, unless the session is kept.
func TestSessionFolder(t *testing.T) {
	s := session(t, Options{})
	dir := s.Dir()
	i, err := os.Stat(filepath.Join(dir, "control"))
	if err != nil || i.Mode().Perm() != 0o600 || i.Size() != controlBytes {
		t.Fatalf("%v %v", i, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
	s = session(t, Options{Mode: 0o660})
	if i, err := os.Stat(filepath.Join(s.Dir(), "control")); err != nil || i.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", i, err)
	}
	s.Keep()
	if off := s.files.ctl.off.Load(); off != offEnded || s.files.ctl.policy.Load() != drop {
		t.Errorf("a kept session is not off: %d", off)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir()); err != nil {
		t.Error(err)
	}
	if _, err := Create(acl.Model, &Options{Dir: filepath.Join(dir, "none")}); err == nil || !strings.HasPrefix(err.Error(), "memory for the session: ") {
		t.Error(err)
	}
}

// A prepared session is opened by one recorder at a time, of the same build, and knows when the earlier one was last alive.
func TestSessionIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	before := probe.Now()
	o := &Options{Buffers: Buffers{RingBytes: 100_000, MemoryLimit: 32 << 20}, PayloadLimit: 1 << 30}
	if err := Prepare(acl.Model, dir, o); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(acl.Model, dir, o); !errors.Is(err, os.ErrExist) {
		t.Errorf("prepared twice: %v", err)
	}
	if _, err := Open(cuda.Model, dir, nil); !errors.Is(err, ErrVersion) {
		t.Errorf("opened for another runtime: %v", err)
	}
	s, err := Open(acl.Model, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.quiet < before || s.quiet > probe.Now() || s.Handed != 0 || s.Begun() < s.quiet {
		t.Errorf("quiet since %d, begun %d, %d handed over", s.quiet, s.Begun(), s.Handed)
	}
	if s.rings.bytes != 1<<17 || s.files.ctl.memoryLimit != 32<<20 || s.files.ctl.arenaChunks != 32<<20/4/arenaChunk || s.files.ctl.policy.Load() != drop {
		t.Errorf("rings of %d, memory of %d, %d chunks", s.rings.bytes, s.files.ctl.memoryLimit, s.files.ctl.arenaChunks)
	}
	if _, err := Open(acl.Model, dir, nil); !errors.Is(err, ErrTaken) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(acl.Model, dir, &Options{Buffers: Buffers{Block: true}}); err != nil || s.files.ctl.policy.Load() != block || s.files.ctl.off.Load() != 0 {
		t.Fatalf("%v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "arena")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(acl.Model, dir, nil); err == nil || !strings.Contains(err.Error(), "arena: ") {
		t.Errorf("opened without its arena: %v", err)
	}
	if err := os.Truncate(filepath.Join(dir, "control"), controlBytes-1); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(acl.Model, dir, nil); !errors.Is(err, ErrVersion) {
		t.Errorf("opened a short control file: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "control")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(acl.Model, dir, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened without a control file: %v", err)
	}
}

// Recording waits until it is resumed, in all processes but one. Programs see this in their slots and in the control file.
func TestPauseAndResume(t *testing.T) {
	s := session(t, Options{Calls: Calls{Armed: true}})
	defer s.Close()
	c := s.files.ctl
	c.nextSlot.Store(2)
	c.slots[0].pid, c.slots[1].pid, c.slots[2].pid = 10, 20, 30
	check := func(what string, quiet, resumed uint32, off ...uint32) {
		t.Helper()
		if c.quiet.Load() != quiet || c.resumed.Load() != resumed || c.slots[0].off.Load() != off[0] || c.slots[1].off.Load() != off[1] || c.slots[2].off.Load() != 0 {
			t.Errorf("%s: quiet %d, resumed %d, slots %d %d %d", what, c.quiet.Load(), c.resumed.Load(), c.slots[0].off.Load(), c.slots[1].off.Load(), c.slots[2].off.Load())
		}
	}
	if but, waiting := s.Paused(); but != 0 || !waiting {
		t.Errorf("armed: %d, %v", but, waiting)
	}
	check("armed", quietAll, 0, 0, 0)
	s.Pause(20)
	check("one records", quietSome, 1, 1, 0)
	if but, waiting := s.Paused(); but != 20 || !waiting {
		t.Errorf("%d, %v", but, waiting)
	}
	s.Pause(0)
	check("none records", quietAll, 2, 1, 1)
	s.Resume()
	check("resumed", quietNo, 3, 0, 0)
	s.Resume()
	check("resumed twice", quietNo, 3, 0, 0)
	if but, waiting := s.Paused(); but != 0 || waiting {
		t.Errorf("resumed: %d, %v", but, waiting)
	}
	s.Off()
	s.Pause(0)
	s.Resume()
	if _, waiting := s.Paused(); waiting || c.off.Load() != offEnded {
		t.Errorf("an ended session was resumed: %d", c.off.Load())
	}
}

// A shim of another build, or of another runtime, is refused.
func TestCheckShim(t *testing.T) {
	if err := CheckShim([]byte("x"), acl.Model); err == nil || !strings.Contains(err.Error(), "acltrace shim: ring ") {
		t.Error(err)
	}
	_, build, _ := strings.Cut(CheckShim(nil, acl.Model).Error(), `"`)
	build, _, _ = strings.Cut(build, `"`)
	if err := CheckShim([]byte("..."+build+"..."), acl.Model); err != nil {
		t.Error(err)
	}
	if err := CheckShim([]byte(build), cuda.Model); err == nil {
		t.Error("a shim of another runtime")
	}
}

// Counters in the control file are limited to the events that the machine can have produced.
func TestCountersOfTheControlFile(t *testing.T) {
	s := session(t, Options{})
	defer s.Close()
	c := s.files.ctl
	c.refused[RefusedLimit].Store(3)
	c.shutOut.Store(2)
	c.stranger.Store(77)
	c.cost.Store(40)
	s.losses.since = probe.Now() - 1_000_000
	if n := s.Refused(); len(n) != 1 || n[RefusedLimit] != 3 {
		t.Errorf("%v", n)
	}
	if o := s.ShutOut(); o != (ShutOut{Count: 2}) || s.Stranger() != 77 {
		t.Errorf("%+v, %d", o, s.Stranger())
	}
	if !s.possible(200_000) || s.possible(1<<60) || s.clamp(1<<60) < 200_000 || s.clamp(1<<60) == 1<<60 || s.clamp(7) != 7 {
		t.Error("possible calls")
	}
	s.clock.counter, s.clock.rate = true, 0.5
	if cost := s.Cost(); cost != 20 {
		t.Errorf("%v", cost)
	}
	s.clock.counter = false
	if cost := s.Cost(); cost != 40 || s.ClockJumps() != 0 {
		t.Errorf("%v", cost)
	}
}

// Calls of processes without a file are a gap since the last look.
func TestCallsWithoutARing(t *testing.T) {
	s := session(t, Options{})
	defer s.Close()
	var got everything
	from := s.losses.outside
	if err := s.withoutRings(&got); err != nil || len(got.gaps) != 0 {
		t.Fatalf("%v %v", got.gaps, err)
	}
	last := s.losses.outside
	s.files.ctl.unrecorded.Store(5)
	if err := s.withoutRings(&got); err != nil || len(got.gaps) != 1 {
		t.Fatalf("%v %v", got.gaps, err)
	}
	g := got.gaps[0]
	if g.Calls != 5 || g.Reason != probe.NoRing || g.PID != 0 || g.From != last || g.From < from || g.To < g.From || s.files.ctl.handed != 5 || s.files.ctl.unrecorded.Load() != 0 {
		t.Errorf("%+v", g)
	}
}

// A session whose folder somebody has removed is damaged: no process finds it any more.
func TestRemovedFolder(t *testing.T) {
	s := session(t, Options{})
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if d := s.Damage(); len(d) != 1 || d[0].PID != 0 || d[0].Exe != filepath.Join(s.Dir(), "control") || !strings.Contains(d[0].What, "removed") {
		t.Errorf("%+v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A control file that a program has truncated is damage, and does not end the recorder.
func TestTruncatedControlFile(t *testing.T) {
	s := session(t, Options{})
	if len(s.Damage()) != 0 {
		t.Errorf("%+v", s.Damage())
	}
	if err := os.Truncate(filepath.Join(s.Dir(), "control"), 0); err != nil {
		t.Fatal(err)
	}
	s.Pause(0)
	if s.Stranger() != 0 || s.Cost() != 0 || len(s.Refused()) != 0 {
		t.Errorf("%d, %v, %v", s.Stranger(), s.Cost(), s.Refused())
	}
	if d := s.Damage(); len(d) != 1 || d[0] != (Damage{What: "the control file of the recording truncated"}) {
		t.Errorf("%+v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
