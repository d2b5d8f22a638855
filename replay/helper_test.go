package replay

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/schema"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/verify"
)

// lib is the folder with the current player of this folder, and with the other libraries as built last.
var lib string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "acltrace-replay-test-")
	if err != nil {
		panic(err)
	}
	lib = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func buildC(t testing.TB, out string, args ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	root := testenv.Root(t)
	args = append([]string{"-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I" + filepath.Join(root, "api/acl/include"), "-o", out}, args...)
	if b, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, b)
	}
	return out
}

// library compiles the fake runtime, with the player beside it.
func library(t testing.TB, flags ...string) string {
	t.Helper()
	player := filepath.Join(lib, "acltrace-player")
	if _, err := os.Stat(player); err != nil {
		sources, _ := filepath.Glob("player/*.c")
		buildC(t, player, append(sources, "-ldl", "-lpthread")...)
	}
	t.Setenv("ACLTRACE_LIB", lib)
	out := filepath.Join(lib, "libfake"+strings.Join(flags, "")+".so")
	if _, err := os.Stat(out); err != nil {
		buildC(t, out, append(flags, "-fPIC", "-shared", "testdata/fake.c")...)
	}
	return out
}

// traceWriter writes traces by hand: each call takes 10 ns and the next begins 10 ns later.
type traceWriter struct {
	t    *testing.T
	w    *format.Writer
	path string
	now  int64
}

func newTrace(t *testing.T) *traceWriter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.aclt")
	w, err := format.Create(path, &format.Meta{API: "acl"}, schema.Of(acl.Model), &format.WriterOptions{Compression: format.NoCompression})
	if err != nil {
		t.Fatal(err)
	}
	tw := &traceWriter{t: t, w: w, path: path, now: 100}
	tw.thread(tw.process(1), 1)
	return tw
}

func (tw *traceWriter) process(pid int) uint32 {
	i, err := tw.w.Process(format.Process{PID: pid})
	if err != nil {
		tw.t.Fatal(err)
	}
	return i
}

func (tw *traceWriter) thread(process uint32, tid int) uint32 {
	i, err := tw.w.Thread(format.Thread{Process: process, TID: tid})
	if err != nil {
		tw.t.Fatal(err)
	}
	return i
}

func (tw *traceWriter) close() string {
	if err := tw.w.Close(); err != nil {
		tw.t.Fatal(err)
	}
	return tw.path
}

type change func(*format.Call)

func out(param uint8, v uint64) change {
	return func(c *format.Call) { c.Outs = append(c.Outs, format.Out{Param: param, Value: v}) }
}

func fails(code uint64) change { return func(c *format.Call) { c.Ret = code } }

func in(param uint8, b []byte) change {
	return func(c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: param, Bytes: b, Len: uint64(len(b))})
	}
}

func item(param uint8, item uint32, b []byte) change {
	return func(c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: param, Item: item, Bytes: b, Len: uint64(len(b))})
	}
}

// got is the output of a copy, captured right after it.
func got(param uint8, b []byte) change {
	return func(c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: param, Dir: format.DirOut, Bytes: b, Len: uint64(len(b)), Time: c.End})
	}
}

func onThread(i uint32) change { return func(c *format.Call) { c.Thread = i } }

func lasting(from, to int64) change { return func(c *format.Call) { c.Start, c.End = from, to } }

// call adds a call and returns its number.
func (tw *traceWriter) call(name string, words []uint64, changes ...change) uint64 {
	tw.t.Helper()
	f := acl.Model.Lookup(name)
	if f == nil || len(words) != int(f.Words) {
		tw.t.Fatalf("%s with %d words", name, len(words))
	}
	c := format.Call{Func: uint16(f.ID), Start: tw.now, End: tw.now + 10, Args: words}
	for _, change := range changes {
		change(&c)
	}
	tw.now = max(tw.now, c.End) + 10
	i, err := tw.w.Call(&c)
	if err != nil {
		tw.t.Fatal(err)
	}
	return i
}

// later is the output of an asynchronous copy, captured right after the last call.
func (tw *traceWriter) later(call uint64, param uint8, b []byte) {
	tw.t.Helper()
	d := format.Data{Call: call, Param: param, Dir: format.DirOut, Bytes: b, Len: uint64(len(b)), Time: tw.now - 5}
	if err := tw.w.Data(&d); err != nil {
		tw.t.Fatal(err)
	}
}

func run(t *testing.T, path string, o *Options) *Report {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = testenv.Patience
	}
	o.Trust = o.Trust || o.Backend != "" && o.Backend != backend.NullName // the runtime here is a fake, and no simulator for the sandbox
	r, err := Run(context.Background(), path, acl.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// identical expects n results, all proved. A trace without results is unproved, and nothing in it may differ.
func identical(t *testing.T, r *Report, results uint64) {
	t.Helper()
	want := verify.Identical
	if results == 0 {
		want = verify.Unproved
	}
	if r.Verdict != want || r.Identical != (want == verify.Identical) || r.Verified.Results != results || len(r.Unverified) > 0 {
		t.Fatalf("%s, %d results of %d; differences %+v, unsupported %+v, unverified %+v, substituted %+v, crash %+v, note %q\n%s",
			r.Verdict, r.Verified.Results, results, r.Differences, r.Unsupported, r.Unverified, r.Substituted, r.Crash, r.Note, r.Log)
	}
}

// codes returns the number of unproved results for each reason.
func (r *Report) codes() map[verify.Reason]int {
	got := map[verify.Reason]int{}
	for _, u := range r.Unverified {
		got[u.Code] += u.Results
	}
	return got
}

// unproved expects n proved results and, for each reason, the given number of unproved ones; nothing may differ.
func unproved(t *testing.T, r *Report, results uint64, want map[verify.Reason]int) {
	t.Helper()
	got := r.codes()
	if r.Verdict != verify.Unproved || r.Identical || r.Verified.Results != results || !maps.Equal(got, want) {
		t.Fatalf("%s, %d results of %d proved, unproved %v, want %v; differences %+v, unsupported %+v, unverified %+v, crash %+v, note %q\n%s",
			r.Verdict, r.Verified.Results, results, got, want, r.Differences, r.Unsupported, r.Unverified, r.Crash, r.Note, r.Log)
	}
}
