package format

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testSchema() *Schema {
	s := &Schema{API: "acl", Enums: map[string]map[string]string{"aclrtMemcpyKind": {"1": "ACL_MEMCPY_HOST_TO_DEVICE"}}}
	for i, words := range []int{0, 1, 3, 5, 10} {
		f := Function{ID: uint16(3 + 7*i), Name: fmt.Sprintf("aclrtFunc%d", i), Ret: "aclError", Words: words}
		for w := range words {
			f.Params = append(f.Params, Param{Name: fmt.Sprintf("p%d", w), Type: "uint64_t", Word: w, Words: 1})
		}
		s.Functions = append(s.Functions, f)
	}
	s.Functions[0].Ret = "void"
	s.Handles = []string{"stream"}
	s.Functions[1].Params[0].Handle = 1
	return s
}

func testMeta() *Meta {
	return &Meta{
		UUID: "00112233-4455-6677-8899-aabbccddeeff", Host: "h", Argv: []string{"app", "x"}, API: "acl", CapturedBy: "shim", Simulated: true,
		Device: Device{Name: "sim"}, StartWall: 1_700_000_000_000_000_000, StartMono: 123456789,
		Coverage: Coverage{Hooked: 5, PassedBy: map[string]uint64{"aclrtOther": 3}},
	}
}

// random makes calls that use all that the format has, with values that suit every encoding now and then.
type random struct {
	*rand.Rand
	schema *Schema
	now    [4]int64
}

func newRandom(seed uint64) *random {
	return &random{Rand: rand.New(rand.NewPCG(seed, 1)), schema: testSchema()}
}

func (r *random) value() uint64 {
	switch r.IntN(5) {
	case 0:
		return 0
	case 1:
		return uint64(r.IntN(7))
	case 2:
		return 0x124000000000 + uint64(r.IntN(100))*4096
	case 3:
		return uint64(-int64(r.IntN(100)))
	}
	return r.Uint64()
}

func (r *random) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r *random) call() *Call {
	f := &r.schema.Functions[r.IntN(len(r.schema.Functions))]
	t := uint32(r.IntN(len(r.now)))
	r.now[t] += int64(r.IntN(5000))
	c := &Call{Func: f.ID, Thread: t, Start: r.now[t]}
	r.now[t] += int64(r.IntN(900))
	c.End = r.now[t]
	if r.IntN(20) == 0 {
		c.Flags = Unfinished
	} else if r.IntN(10) == 0 && f.Ret != "void" {
		c.Ret = 0xdead_0000_0001_a21b
	}
	for range f.Words {
		c.Args = append(c.Args, r.value())
	}
	for p := range f.Words {
		if r.IntN(4) == 0 {
			c.Outs = append(c.Outs, Out{uint8(p), r.value()})
		}
	}
	for range r.IntN(3) {
		c.Data = append(c.Data, r.data(c.Start))
	}
	return c
}

func (r *random) data(start int64) Data {
	d := Data{
		Param: uint8(r.IntN(3)), Item: uint32(r.IntN(2) * r.IntN(5)), Dir: Dir(r.IntN(2)), Addr: r.value(), Group: uint64(r.IntN(3)),
		Time: start + 1 + int64(r.IntN(3)),
	}
	switch r.IntN(4) {
	case 0:
		d.Status, d.Reason, d.Len = Missing, Reason(1+r.IntN(6)), uint64(r.IntN(1<<20))
	case 1:
		d.Bytes = r.bytes(1 + r.IntN(40))
	default:
		d.Bytes = r.bytes([]int{8, 16, 64}[r.IntN(3)])
	}
	d.Len = max(d.Len, uint64(len(d.Bytes)))
	return d
}

func create(t testing.TB, path string, opts *WriterOptions) *Writer {
	t.Helper()
	w, err := Create(path, testMeta(), testSchema(), opts)
	if err != nil {
		t.Fatal(err)
	}
	addThreads(t, w)
	return w
}

func addThreads(t testing.TB, w *Writer) {
	t.Helper()
	if _, err := w.Process(Process{PID: 42, Exe: "/bin/app", Argv: []string{"app"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := w.Thread(Thread{TID: 42 + i, Name: fmt.Sprintf("t%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func collect(t testing.TB, r *Reader, f *Filter) []*Call {
	t.Helper()
	var calls []*Call
	for c, err := range r.Calls(f) {
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c.Clone())
	}
	return calls
}

// written is the Reader's form of a written call: hints are gone, and absent is nil.
func written(c *Call) *Call {
	c = c.Clone()
	if len(c.Args) == 0 {
		c.Args = nil
	}
	for i := range c.Data {
		c.Data[i].Group, c.Data[i].Call = 0, c.Index
	}
	return c
}

func equal(t testing.TB, got, want []*Call) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d calls, want %d", len(got), len(want))
	}
	for i := range got {
		g := got[i]
		if len(g.Args) == 0 {
			g.Args = nil
		}
		if len(g.Outs) == 0 {
			g.Outs = nil
		}
		if len(g.Data) == 0 {
			g.Data = nil
		}
		w := want[i]
		if len(w.Outs) == 0 {
			w.Outs = nil
		}
		if len(w.Args) == 0 {
			w.Args = nil
		}
		if len(w.Data) == 0 {
			w.Data = nil
		}
		if d := cmp.Diff(w, g); d != "" {
			t.Fatalf("call %d (-want +got):\n%s", i, d)
		}
	}
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "run.aclt") }

func sortedByStart(calls []*Call) []*Call {
	calls = slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b *Call) int { return int(a.Start - b.Start) })
	return calls
}

// allData returns the data of all calls, also from later chunks.
func allData(t *testing.T, r *Reader) map[uint64][]Data {
	t.Helper()
	data, err := r.DataByCall(nil, func(*Data) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// putBlob stores a payload.
func putBlob(w *Writer, content []byte) (BlobID, error) {
	b := w.Blobber()
	_, err := b.Write(content)
	id, err2 := b.Close()
	return id, errors.Join(err, err2)
}
