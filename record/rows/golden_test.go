package rows

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/probe"
)

// A script is a recording that a test makes by hand. Calls are numbered by thread, from 1, and last 10 ns, 100 ns after each other.
type script struct {
	*testing.T
	*Builder
	meta *format.Meta
	path string
	seqs map[int]uint64
	at   int64
}

const (
	device = uint64(0x124000000000)
	pinned = uint64(0x7f0000000000)
)

func newScript(t *testing.T, o Options) *script {
	t.Helper()
	s := &script{T: t, meta: &format.Meta{UUID: format.NewUUID(), API: acl.Model.Name, StartMono: 1000}, seqs: map[int]uint64{}, at: 1000}
	o.Model, o.Meta = acl.Model, s.meta
	s.Builder = New(&o, s.file())
	s.Hooks.ThreadName = func(pid, tid int) string { return fmt.Sprintf("thread %d", tid) }
	return s
}

// file begins a file, which is the latest from now on.
func (s *script) file() *format.Writer {
	s.Helper()
	s.path = filepath.Join(s.TempDir(), "x.aclt")
	w, err := format.Create(s.path, s.meta, schema.Of(acl.Model), nil)
	if err != nil {
		s.Fatal(err)
	}
	return w
}

func (s *script) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// call makes a call of process 1, and returns its number.
func (s *script) call(tid int, name string, ret uint64, words []uint64, pieces ...probe.Piece) uint64 {
	s.Helper()
	s.at += 100
	s.seqs[tid]++
	s.ok(s.Call(&probe.Call{PID: 1, TID: tid, Seq: s.seqs[tid], Func: acl.Model.Lookup(name).ID, Start: s.at, End: s.at + 10, Ret: ret, Words: words, Pieces: pieces}))
	return s.seqs[tid]
}

// payload passes a payload or a part of one, 5 ns after the latest call.
func (s *script) payload(tid int, seq uint64, offset uint64, p probe.Piece) {
	s.Helper()
	s.ok(s.Payload(&probe.Payload{PID: 1, TID: tid, Seq: seq, Piece: p, Offset: offset, Time: s.at + 15, Recording: 3}))
}

// allocate allocates pinned memory, and copies of it are recorded.
func (s *script) allocate() {
	s.Helper()
	s.call(7, "aclrtMallocHost", 0, []uint64{1, 1 << 20}, probe.Piece{Dir: probe.Out, Len: 8, Bytes: []byte{0, 0, 0, 0, 0, 0x7f, 0, 0}})
}

const (
	toDevice = 1
	toHost   = 2
)

// copy is an asynchronous copy of n bytes.
func (s *script) copy(tid, kind int, n uint64) uint64 {
	s.Helper()
	dst, src := device, pinned
	if kind == toHost {
		dst, src = src, dst
	}
	return s.call(tid, "aclrtMemcpyAsync", 0, []uint64{dst, n, src, n, uint64(kind), 0x5})
}

func source(missing probe.Missing, early bool, whole uint64, text string) probe.Piece {
	return probe.Piece{Param: 2, Dir: probe.In, Missing: missing, Early: early, Addr: pinned, Len: whole, Bytes: []byte(text)}
}

func target(missing probe.Missing, early bool, whole uint64, text string) probe.Piece {
	return probe.Piece{Param: 0, Dir: probe.Out, Missing: missing, Early: early, Addr: pinned, Len: whole, Bytes: []byte(text)}
}

// want closes a file and compares its calls, their payloads and its gaps.
func (s *script) want(w *format.Writer, path, want string) {
	s.Helper()
	s.ok(w.Close())
	r, err := format.Open(path, nil)
	s.ok(err)
	defer r.Close()
	var out strings.Builder
	for c, err := range r.Calls(nil) {
		s.ok(err)
		fmt.Fprintf(&out, "%s@%d %d+%d", acl.Model.Func(api.ID(c.Func)).Name, r.Threads()[c.Thread].TID, c.Start, c.End-c.Start)
		if c.Ret != 0 {
			fmt.Fprintf(&out, " =%d", c.Ret)
		}
		if c.Flags&format.Unfinished != 0 {
			out.WriteString(" unfinished")
		}
		if c.Flags&format.NoEnd != 0 {
			out.WriteString(" noend")
		}
		for _, o := range c.Outs {
			fmt.Fprintf(&out, " out%d=%#x", o.Param, o.Value)
		}
		out.WriteByte('\n')
		slices.SortFunc(c.Data, func(a, b format.Data) int { return int(a.Param) - int(b.Param) })
		for _, d := range c.Data {
			text := d.Bytes
			if d.Blob != 0 && d.Status == format.Whole {
				if text, err = r.Blob(d.Blob); err != nil {
					s.Error(err)
				}
			}
			if len(text) > 12 {
				text = fmt.Appendf(nil, "%s… %d", text[:2], len(text))
			}
			fmt.Fprintf(&out, "  %d.%d dir %d @%d %#x+%d: %v %v %q\n", d.Param, d.Item, d.Dir, d.Time, d.Addr, d.Len, d.Status, d.Reason, text)
		}
	}
	for _, g := range r.Gaps() {
		fmt.Fprintf(&out, "gap %d: %d..%d %d calls %v\n", int32(g.Thread), g.From, g.To, g.Calls, g.Reason)
	}
	for _, p := range r.Processes() {
		for _, d := range p.Devices {
			fmt.Fprintf(&out, "device %d: %d bytes\n", d.Number, d.MemoryBytes)
		}
	}
	if got := out.String(); got != strings.TrimPrefix(want, "\n") {
		s.Errorf("got\n%s\nwant%s", got, want)
	}
}

// Payloads are at their calls, whenever and in however many parts they arrive, and one that is lost has its reason.
func TestPayloadsAreAtTheirCalls(t *testing.T) {
	s := newScript(t, Options{})
	s.allocate()
	// In parts, with a doubt, and before its call.
	a := s.copy(7, toDevice, 6)
	s.payload(7, a, 0, source(0, true, 6, "abc"))
	b := s.copy(8, toDevice, 3)
	s.payload(7, a, 3, source(0, true, 6, "def"))
	s.payload(8, b+1, 0, source(0, false, 4, "next"))
	s.payload(8, b, 0, source(0, false, 3, "old"))
	s.copy(8, toDevice, 4)
	// A large one, one whose second part is lost, one whose first part is lost, and one for a call that failed.
	large := strings.Repeat("L", 50_000)
	c := s.copy(7, toDevice, uint64(2*len(large)))
	s.payload(7, c, 0, source(0, false, uint64(2*len(large)), large))
	s.payload(7, c, uint64(len(large)), source(0, false, uint64(2*len(large)), large))
	d := s.copy(7, toDevice, 9)
	s.payload(7, d, 0, source(0, false, 9, "123"))
	s.payload(7, d, 6, source(0, false, 9, "789"))
	e := s.copy(7, toDevice, 9)
	s.payload(7, e, 6, source(0, false, 9, "789"))
	failed := s.call(7, "aclrtMemcpyAsync", 107000, []uint64{device, 4, pinned, 4, toDevice, 5})
	s.payload(7, failed, 0, source(0, false, 4, "lost"))
	// Results: whole, replaced meanwhile, and never awaited.
	r := s.copy(7, toHost, 4)
	s.payload(7, r, 0, target(0, false, 4, "back"))
	u := s.copy(7, toHost, 4)
	s.payload(7, u, 0, target(0, true, 4, "else"))
	o := s.copy(7, toHost, 4)
	s.payload(7, o, 0, target(probe.Overwritten, false, 4, ""))
	s.copy(7, toHost, 4)
	h := s.copy(7, toDevice, 99)
	s.payload(7, h, 0, source(probe.Hashed, true, 99, "0123456789abcdef"))
	open := s.copy(7, toDevice, 9)
	s.payload(7, open, 0, source(0, false, 9, "begun"))
	s.ok(s.Finish())
	s.want(s.Writer(), s.path, `
aclrtMallocHost@7 100+10 out0=0x7f0000000000
aclrtMemcpyAsync@7 200+10
  2.0 dir 0 @215 0x7f0000000000+6: whole taken at the call, from memory that may have changed before it was copied "abcdef"
aclrtMemcpyAsync@8 300+10
  2.0 dir 0 @315 0x7f0000000000+3: whole none "old"
aclrtMemcpyAsync@8 400+10
  2.0 dir 0 @315 0x7f0000000000+4: whole none "next"
aclrtMemcpyAsync@7 500+10
  2.0 dir 0 @515 0x7f0000000000+100000: whole none "LL… 100000"
aclrtMemcpyAsync@7 600+10
  2.0 dir 0 @615 0x7f0000000000+9: missing dropped ""
aclrtMemcpyAsync@7 700+10
aclrtMemcpyAsync@7 800+10 =107000
aclrtMemcpyAsync@7 900+10
  0.0 dir 1 @915 0x7f0000000000+4: whole none "back"
aclrtMemcpyAsync@7 1000+10
  0.0 dir 1 @1015 0x7f0000000000+4: whole not checked for later copies to the same memory "else"
aclrtMemcpyAsync@7 1100+10
  0.0 dir 1 @1115 0x7f0000000000+4: missing overwritten ""
aclrtMemcpyAsync@7 1200+10
  0.0 dir 1 @1415 0x7f0000000000+4: missing never synchronized ""
aclrtMemcpyAsync@7 1300+10
  2.0 dir 0 @1315 0x7f0000000000+99: hash-only taken at the call, from memory that may have changed before it was copied ""
aclrtMemcpyAsync@7 1400+10
  2.0 dir 0 @1415 0x7f0000000000+9: missing dropped ""
`)
	if p := &s.Payloads; p.Early != 2 || p.Copies != (format.RecordedCopies{Count: 7, Bytes: 100_120, RecordingNS: 27, CallsNS: 70}) || p.NS != 45 || len(p.ahead) > 0 || len(p.parts) > 0 {
		t.Errorf("%+v", p)
	}
	if s.Count != (Counts{Calls: 14, Failed: 1}) || s.Count.Made() != 14 {
		t.Errorf("%+v", s.Count)
	}
}

// Calls have their outputs, the device's name and facts, and gaps have their threads and reasons.
func TestCallsHaveOutputsGapsHaveReasons(t *testing.T) {
	s := newScript(t, Options{})
	s.call(7, "aclrtMalloc", 0, []uint64{1, 64, 0}, probe.Piece{Param: 0, Dir: probe.Out, Len: 8, Bytes: []byte{1, 2, 3, 4, 5, 6, 7, 8}})
	s.call(7, "aclrtGetSocName", 1, nil, probe.Piece{Param: 255, Dir: probe.Out, Len: 11, Bytes: []byte("Ascend910B1")})
	s.ok(s.Gap(&probe.Gap{PID: 1, TID: 7, From: 1300, To: 1400, Calls: 3, Reason: probe.RingFull}))
	s.ok(s.Gap(&probe.Gap{PID: 1, TID: 9, From: 1300, To: 1500, Calls: 4, Reason: probe.Nested}))
	s.ok(s.Gap(&probe.Gap{From: 1300, To: 1600, Calls: 5, Reason: probe.NoRing}))
	s.ok(s.Call(&probe.Call{PID: 1, TID: 7, Seq: 3, Func: acl.Model.Lookup("aclrtSynchronizeDevice").ID, Start: 1700, Recording: 9}))
	s.ok(s.Call(&probe.Call{PID: 1, TID: 8, Seq: 1, Func: acl.Model.Lookup("aclrtSynchronizeDevice").ID, Start: 1800, NoEnd: true}))
	s.ok(s.Finish())
	if s.Device() != "Ascend910B1" {
		t.Errorf("%q", s.Device())
	}
	s.want(s.Writer(), s.path, `
aclrtMalloc@7 100+10 out0=0x807060504030201
aclrtGetSocName@7 200+10 =1
  255.0 dir 1 @210 0x0+11: whole none "Ascend910B1"
aclrtSynchronizeDevice@7 700+0 unfinished out249=0x9
aclrtSynchronizeDevice@8 800+0 unfinished noend
gap 0: 300..400 3 calls dropped
gap 1: 300..500 4 calls made inside another call, as by a signal's handler
gap -1: 300..600 5 calls dropped
`)
	if want := (Counts{Calls: 4, Unfinished: 2, NoEnd: 1, Lost: 12, Nested: 4, NoRing: 5}); s.Count != want || s.Count.Made() != 16 {
		t.Errorf("%+v", s.Count)
	}
	if s.Last != 800 || s.Lacks != format.Dropped {
		t.Errorf("last at %d, %v", s.Last, s.Lacks)
	}
	if pid, tid, ok := s.Thread(1); !ok || pid != 1 || tid != 9 || s.ProcessOf(1) != 0 {
		t.Errorf("thread 1 is %d of %d", tid, pid)
	}
	if _, _, ok := s.Thread(3); ok {
		t.Error("a thread that is none")
	}
}

// A segment that is left gets no more payloads: what it still waited for is missing there, and the next one has all threads.
func TestLeftSegmentGetsNoPayloads(t *testing.T) {
	s := newScript(t, Options{HashOnly: true})
	first, firstPath := &Segment{W: s.Writer()}, s.path
	s.ok(s.Turn(first))
	s.allocate()
	a, b := s.copy(7, toDevice, 6), s.copy(7, toHost, 4)
	s.payload(7, a, 0, source(0, false, 6, "abc"))
	second := &Segment{W: s.file(), First: s.Count.Calls}
	s.ok(s.Turn(second))
	c := s.copy(7, toDevice, 3)
	s.payload(7, c, 0, source(0, false, 3, "ne"))
	s.ok(s.Leave(first))
	s.ok(s.Leave(first))
	s.payload(7, a, 3, source(0, false, 6, "def"))
	s.payload(7, b, 0, target(0, false, 4, "back"))
	s.payload(7, c, 2, source(0, false, 3, "w"))
	s.ok(s.Finish())
	s.want(first.W, firstPath, `
aclrtMallocHost@7 100+10 out0=0x7f0000000000
aclrtMemcpyAsync@7 200+10
  2.0 dir 0 @315 0x7f0000000000+6: missing dropped ""
aclrtMemcpyAsync@7 300+10
  0.0 dir 1 @415 0x7f0000000000+4: missing never synchronized ""
`)
	s.want(second.W, s.path, `
aclrtMemcpyAsync@7 400+10
  2.0 dir 0 @415 0x7f0000000000+3: hash-only none ""
`)
}
