package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
)

// Addresses and handles in the handmade traces, from a run that is over.
const (
	dev    = 0x124041200000
	host   = 0x7f0000000000
	page   = 0x560000001000 // memory of the program
	stream = 0x1000
	bin    = 0x2000
	fun    = 0x3000
	other  = "0x134000000000" // the fake runtime's own choice for device memory
)

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*7)
	}
	return b
}

func plusOne(b []byte) []byte {
	c := bytes.Clone(b)
	for i := range c {
		c[i]++
	}
	return c
}

func words(ws ...uint64) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// calls that the traces share
func (tw *traceWriter) begin() {
	tw.call("aclInit", []uint64{0})
	tw.call("aclrtSetDevice", []uint64{0})
	tw.call("aclrtCreateStream", []uint64{page}, out(0, stream))
}

func (tw *traceWriter) malloc(addr, n uint64) uint64 {
	return tw.call("aclrtMalloc", []uint64{page, n, 0}, out(0, addr))
}

func (tw *traceWriter) mallocHost(addr, n uint64) {
	tw.call("aclrtMallocHost", []uint64{page, n}, out(0, addr))
}

func (tw *traceWriter) toDevice(dst uint64, b []byte) uint64 {
	return tw.call("aclrtMemcpy", []uint64{dst, uint64(len(b)), page, uint64(len(b)), 1}, in(2, b))
}

func (tw *traceWriter) toHost(src uint64, b []byte) uint64 {
	return tw.call("aclrtMemcpy", []uint64{page, uint64(len(b)), src, uint64(len(b)), 2}, got(0, b))
}

func (tw *traceWriter) toHostAsync(dst, src, n uint64) uint64 {
	return tw.call("aclrtMemcpyAsync", []uint64{dst, n, src, n, 2, stream})
}

func (tw *traceWriter) sync() uint64 { return tw.call("aclrtSynchronizeStream", []uint64{stream}) }

func (tw *traceWriter) load() {
	// Two options of 20 bytes; the second begins with 7.
	options := make([]byte, 40)
	options[20] = 7
	tw.call("aclrtBinaryLoadFromFile", []uint64{page, page, page}, in(0, []byte("/gone/kernels.o")), item(0, 1, []byte("binary\n")), in(1, options), out(2, bin))
	tw.call("aclrtBinaryGetFunction", []uint64{bin, page, page}, in(1, []byte("add_one")), out(2, fun))
}

func (tw *traceWriter) launch(dst, src, n uint64) uint64 {
	return tw.call("aclrtLaunchKernelWithHostArgs", []uint64{fun, 1, stream, 0, page, 32, page, 1},
		in(4, words(dst, src, n, dev+1<<30)), in(6, binary.LittleEndian.AppendUint32(make([]byte, 4), 0)[:8]))
}

// The placeholder of launch is word 0 of the block, so a block that is not passed afresh launches with garbage.
func TestKernelArgumentsAreRelocated(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	a, n := pattern(256, 3), uint64(256)
	tw.malloc(dev, n)
	tw.malloc(dev+512, n)
	tw.toDevice(dev, a)
	launch := tw.launch(dev+512, dev, n)
	tw.sync()
	tw.toHost(dev+512, plusOne(a))
	tw.launch(dev+512+128, dev+64, 64) // inside the allocations
	tw.sync()
	want := plusOne(a)
	copy(want[128:], plusOne(a[64:128]))
	tw.toHost(dev+512, want)
	path := tw.close()
	for _, base := range []string{"0x124041200000", other} {
		r := run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_BASE=" + base}})
		identical(t, r, 2)
		if r.RelocatedTotal != 4 || r.Relocated[0].Call != launch || r.Relocated[0].Value != "0x124041200200" || r.Relocated[1].Offset != 8 {
			t.Errorf("relocated %d: %+v", r.RelocatedTotal, r.Relocated)
		}
		if want := map[bool]string{true: "moved", false: "same"}[base == other]; r.Placement != want {
			t.Errorf("placement %q, want %q", r.Placement, want)
		}
	}
	// Required but unavailable recorded addresses are an error.
	_, err := Run(context.Background(), path, acl.Model, &Options{Backend: l, Trust: true, Verify: true, Place: compile.PlaceSame, Env: []string{"FAKE_BASE=" + other}})
	if err == nil || !strings.Contains(err.Error(), "allocation of call 5 is at 0x134000000000") {
		t.Errorf("error %v", err)
	}
}

// A table of addresses is copied to the device and back: both have the new addresses.
func TestPointerTable(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	tw.malloc(dev+512, 64)
	table := words(dev+512, dev+512+63, 0, math.MaxUint64, dev+512+64)
	tw.toDevice(dev, table)
	tw.toHost(dev, table)
	tw.call("aclrtFree", []uint64{dev + 512})
	tw.toHost(dev, table)
	r := run(t, tw.close(), &Options{Backend: l, Verify: true, Env: []string{"FAKE_BASE=" + other}})
	identical(t, r, 2)
	if r.RelocatedTotal != 3 {
		t.Errorf("relocated %+v; one past the end is an address in a table, null and ~0 are none", r.Relocated)
	}
}

// The recorded runtime gave the same handle and address to two objects in turn.
func TestHandlesUsedAgain(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	a, b := pattern(64, 1), pattern(128, 9)
	tw.malloc(dev, 64)
	tw.toDevice(dev, a)
	tw.toHost(dev, a)
	tw.call("aclrtFree", []uint64{dev})
	tw.call("aclrtDestroyStream", []uint64{stream})
	tw.call("aclrtCreateStream", []uint64{page}, out(0, stream))
	tw.malloc(dev, 128)
	tw.toDevice(dev, b)
	tw.sync()
	tw.toHost(dev+1, b[1:])
	// A destroyed object is still destroyed, and its use fails with the same code.
	tw.call("aclrtDestroyStream", []uint64{stream})
	tw.call("aclrtSynchronizeStream", []uint64{stream}, fails(107018))
	tw.call("aclrtFree", []uint64{dev})
	tw.call("aclrtFree", []uint64{dev}, fails(107000))
	tw.call("aclrtMalloc", []uint64{page, 0, 0}, fails(107000))
	r := run(t, tw.close(), &Options{Backend: l, Verify: true, Env: []string{"FAKE_BASE=" + other}})
	identical(t, r, 2)
}

// Results of asynchronous copies exist only after the program's own synchronization, and the buffer has other
// content afterwards.
func TestResultsOfAsynchronousCopies(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.mallocHost(host, 256)
	tw.malloc(dev, 256)
	a, b := pattern(100, 1), pattern(100, 2)
	var last []uint64
	for _, data := range [][]byte{a, b} {
		// From pinned memory to the device and back, in the middle of both.
		tw.call("aclrtMemcpyAsync", []uint64{dev + 8, 248, host + 16, 100, 1, stream}, in(2, data))
		tw.sync()
		last = append(last, tw.toHostAsync(host+128, dev+8, 100))
		tw.call("aclrtSetDevice", []uint64{0})
		tw.sync()
		tw.later(last[len(last)-1], 0, data)
	}
	// A copy to unpinned memory of the program is over when it returns.
	tw.call("aclrtMemcpyAsync", []uint64{page, 100, dev + 8, 100, 2, stream}, got(0, b))
	path := tw.close()
	identical(t, run(t, path, &Options{Backend: l, Verify: true}), 3)

	r := run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_WRONG=99"}})
	if r.Identical || len(r.Differences) != 3 {
		t.Fatalf("a wrong byte was not seen: %+v", r.Differences)
	}
	d := r.Differences[0]
	if d.Call != last[0] || d.Func != "aclrtMemcpyAsync" || d.Param != "dst" || d.Offset != 99 || d.Bytes != 1 || d.Want != hexOf(a[99]) || d.Got != hexOf(a[99]^0xff) {
		t.Errorf("difference %+v", d)
	}

	r = run(t, path, &Options{Backend: l, Env: []string{"FAKE_WRONG=99"}})
	if r.Identical || r.Note == "" || len(r.Differences) != 0 {
		t.Errorf("without verification: identical %v, note %q", r.Identical, r.Note)
	}
}

func hexOf(b byte) string { return string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15]) }

// If the wait for a copy is not in the trace, the time of its result is unknown.
func TestNobodyWaits(t *testing.T) {
	l := library(t)
	for _, waits := range []bool{true, false} {
		tw := newTrace(t)
		tw.begin()
		tw.mallocHost(host, 64)
		tw.malloc(dev, 64)
		a := pattern(64, 7)
		tw.toDevice(dev, a)
		c := tw.toHostAsync(host, dev, 64)
		if waits {
			tw.sync()
		} else {
			tw.call("aclrtSetDevice", []uint64{0})
		}
		tw.later(c, 0, a)
		r := run(t, tw.close(), &Options{Backend: l, Verify: true})
		if waits {
			identical(t, r, 1)
		} else if r.Identical || r.Verified.Results != 0 || len(r.Unverified) != 1 || r.Unverified[0].Call != c {
			t.Errorf("%+v", r)
		}
	}
}

// A copy from pinned memory that an earlier copy still writes to: content that the recorder saw in between is old.
func TestInFlight(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	a, old := pattern(64, 1), make([]byte, 64)
	tw.mallocHost(host, 64)
	tw.malloc(dev, 64)
	tw.malloc(dev+512, 64)
	tw.toDevice(dev, a)
	c := tw.toHostAsync(host, dev, 64)
	// With unpinned memory the stream is drained, without a trace of it in the recording.
	tw.call("aclrtMemcpyAsync", []uint64{dev + 512, 64, page, 64, 1, stream}, in(2, old))
	tw.call("aclrtMemcpyAsync", []uint64{dev + 512, 64, host, 64, 1, stream}, in(2, old))
	tw.sync()
	tw.later(c, 0, a)
	tw.toHost(dev+512, a)
	identical(t, run(t, tw.close(), &Options{Backend: l, Verify: true}), 2)
}

func TestFailingCalls(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.call("aclrtMemcpy", []uint64{dev, 8, page, 16, 1}, fails(107000))
	tw.call("aclrtSynchronizeStream", []uint64{0x999}, fails(107017)) // an unknown handle
	tw.call("aclrtMalloc", []uint64{page, 1 << 40, 0}, fails(207001))
	path := tw.close()
	r := run(t, path, &Options{Backend: l, Verify: true})
	identical(t, r, 0)
	if s := r.Results.String(); !strings.Contains(s, "no results") {
		t.Error(s)
	}

	// A call that now succeeds, or fails with another code, differs.
	tw = newTrace(t)
	tw.begin()
	bad := tw.call("aclrtSynchronizeStream", []uint64{stream}, fails(507015))
	r = run(t, tw.close(), &Options{Backend: l, Verify: true})
	if r.Identical || len(r.Differences) != 1 || r.Differences[0].Call != bad || r.Differences[0].Got != "ACL_SUCCESS" {
		t.Errorf("differences %+v", r.Differences)
	}
}

// A failed allocation ends the replay, because later calls would use it.
func TestFailedAllocationEndsTheReplay(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	a := pattern(64, 5)
	m := tw.malloc(dev, 64)
	tw.toDevice(dev, a)
	c := tw.toHost(dev, a)
	r := run(t, tw.close(), &Options{Backend: l, Verify: true, Env: []string{"FAKE_FAIL=aclrtMalloc"}})
	if r.Identical || r.Crash != nil || len(r.Differences) != 1 || r.Differences[0].Call != m || r.Replayed != 4 {
		t.Errorf("%+v", r)
	}
	if len(r.Unverified) != 1 || r.Unverified[0].Call != c {
		t.Errorf("unverified %+v", r.Unverified)
	}
}

func (c *Crash) is(call uint64, f, signal string) bool {
	return c.Call == call && c.Func == f && c.Signal == signal
}

// A debugger may run the player: breakpoints stop in the runtime's functions, and a crash is reported as without it.
func TestDebuggerRunsThePlayer(t *testing.T) {
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("no gdb")
	}
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	bad := tw.toDevice(dev, pattern(64, 1))
	path := tw.close()
	gdb := []string{"gdb", "-q", "-nx", "-batch", "-ex", "set breakpoint pending on", "-ex", "break aclrtMalloc", "-ex", "run", "-ex", "continue", "-ex", "backtrace", "--args"}
	r := run(t, path, &Options{Backend: l, Verify: true, Wrapper: gdb, Timeout: testenv.Patience, Env: []string{"FAKE_CRASH=aclrtMemcpy"}})
	if strings.Contains(r.Log, "ptrace") {
		t.Skip("nothing may be traced here")
	}
	if r.Crash == nil || r.Crash.Call != bad || r.Crash.Func != "aclrtMemcpy" {
		t.Errorf("crash %+v\n%s", r.Crash, r.Log)
	}
	for _, want := range []string{"Breakpoint 1, ", "SIGSEGV", "in aclrtMemcpy"} {
		if !strings.Contains(r.Log, want) {
			t.Errorf("no %q in\n%s", want, r.Log)
		}
	}
	r = run(t, path, &Options{Backend: l, Verify: true, Wrapper: gdb, Timeout: testenv.Patience})
	if r.Crash != nil || len(r.Differences) != 0 || r.Replayed != r.Calls {
		t.Errorf("without a crash: %+v", r)
	}
}

func TestCrashAndHang(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	bad := tw.toDevice(dev, pattern(64, 5))
	tw.sync()
	path := tw.close()
	r := run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_CRASH=aclrtMemcpy"}})
	if r.Identical || r.Crash == nil || !r.Crash.is(bad, "aclrtMemcpy", "segmentation fault") || len(r.Crash.Args) != 5 || r.Crash.Args[3] != "count=64" || r.Crash.TID != 1 || r.Crash.StartNS == 0 {
		t.Errorf("crash %+v", r.Crash)
	}
	hang := func(call uint64, name string) *Report {
		t.Helper()
		for limit := 200 * time.Millisecond; ; limit *= 4 { // on a busy machine another call may take as long
			r := run(t, path, &Options{Backend: l, Verify: true, Timeout: limit, Env: []string{"FAKE_HANG=" + name}})
			if r.Crash != nil && r.Crash.is(call, name, TimedOut) {
				return r
			}
			if limit > testenv.Patience/4 {
				t.Fatalf("crash %+v", r.Crash)
			}
		}
	}
	if r = hang(bad+1, "aclrtSynchronizeStream"); r.Identical || !slices.Equal(r.Crash.Args, []string{"stream=stream#1"}) {
		t.Errorf("crash %+v", r.Crash)
	}
	// Allocations that were not reached have not moved.
	if r = hang(bad-1, "aclrtMalloc"); r.Placement != "same" {
		t.Errorf("placement %s", r.Placement)
	}
	// The other thread is in a call that waits, and may have begun it later.
	tw = newTrace(t)
	two := onThread(tw.thread(0, 2))
	tw.begin()
	tw.malloc(dev, 64)
	tw.call("aclrtSynchronizeStream", []uint64{stream}, two, lasting(tw.now, tw.now+100))
	tw.now -= 90
	bad = tw.toDevice(dev, pattern(64, 5))
	both := tw.close()
	for range 5 {
		r = run(t, both, &Options{Backend: l, Env: []string{"FAKE_CRASH=aclrtMemcpy", "FAKE_HANG=aclrtSynchronizeStream"}})
		if r.Crash == nil || !r.Crash.is(bad, "aclrtMemcpy", "segmentation fault") || r.Crash.TID != 1 {
			t.Errorf("crash %+v", r.Crash)
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, path, acl.Model, &Options{Backend: l, Trust: true, Env: []string{"FAKE_HANG=aclrtSynchronizeStream"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestMissingFunction(t *testing.T) {
	l := library(t, "-DWITHOUT_MEMCPY")
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	first := tw.toDevice(dev, pattern(64, 5))
	tw.toDevice(dev, pattern(64, 6))
	r := run(t, tw.close(), &Options{Backend: l, Verify: true, Env: []string{"FAKE_CRASH=aclInit"}})
	if r.Identical || r.Crash != nil || len(r.Unsupported) != 1 || r.Unsupported[0].Func != "aclrtMemcpy" || r.Unsupported[0].Calls != 2 || r.Unsupported[0].Call != first {
		t.Errorf("%+v", r)
	}
}

// A series of polls becomes one that ends with the recorded answer, with any number of queries.
func TestPollsBecomeOne(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.mallocHost(host, 64)
	tw.malloc(dev, 64)
	a := pattern(64, 7)
	tw.toDevice(dev, a)
	c := tw.toHostAsync(host, dev, 64)
	tw.call("aclrtStreamQuery", []uint64{stream, page}, out(1, uint64(acl.ACL_STREAM_STATUS_NOT_READY)))
	tw.call("aclrtStreamQuery", []uint64{stream, page}, out(1, uint64(acl.ACL_STREAM_STATUS_COMPLETE)))
	tw.later(c, 0, a)
	r := run(t, tw.close(), &Options{Backend: l, Verify: true})
	identical(t, r, 1)
	if r.Calls != 9 || r.Replayed != 8 || r.Volatile != 2 {
		t.Errorf("calls %d, replayed %d, volatile %d", r.Calls, r.Replayed, r.Volatile)
	}
}

// A poll that found work incomplete was made again, unless the next call was the same poll. The replay's device may be faster: then strict mode took
// the poll for a wait, and missed the race after it.
func TestPollsOfIncompleteWorkAreLeftOut(t *testing.T) {
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	tw.call("aclrtStreamQuery", []uint64{stream, page}, out(1, uint64(acl.ACL_STREAM_STATUS_NOT_READY)))
	tw.call("aclrtSynchronizeStream", []uint64{stream})
	r := run(t, tw.close(), &Options{Backend: library(t), Verify: true})
	if r.Replayed != r.Calls-1 || r.Volatile != 1 {
		t.Errorf("calls %d, replayed %d, volatile %d", r.Calls, r.Replayed, r.Volatile)
	}
}

// A graph that was destroyed while the replay's device still ran it was reported as different: a test of torch_npu destroys it at once.
func TestGraphIsDestroyedAfterItsRuns(t *testing.T) {
	const graph = 0x592000000000
	tw := newTrace(t)
	tw.begin()
	tw.call("aclmdlRIBuildBegin", []uint64{page, 0}, out(0, graph))
	tw.call("aclmdlRIDestroy", []uint64{graph}, fails(uint64(acl.ACL_ERROR_RT_MODEL_RUNNING)))
	tw.call("aclmdlRIDestroy", []uint64{graph})
	r := run(t, tw.close(), &Options{Backend: library(t), Verify: true})
	identical(t, r, 0)
	if r.Replayed != r.Calls-1 || r.Volatile != 1 {
		t.Errorf("calls %d, replayed %d, volatile %d", r.Calls, r.Replayed, r.Volatile)
	}
}

// Without a library every call returns at once: failed calls, polls, and waits for memory that the program has then written to.
func TestNullBackendReturnsAtOnce(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.mallocHost(host, 64)
	tw.malloc(dev, 64)
	a := pattern(64, 7)
	tw.call("aclrtMemcpyAsync", []uint64{dev, 64, host, 64, 1, stream}, in(2, a))
	tw.call("aclrtMemcpyAsync", []uint64{dev, 64, host, 128, 1, stream}, fails(100000))
	c := tw.toHostAsync(host, dev, 64)
	tw.call("aclrtStreamQuery", []uint64{stream, page}, out(1, uint64(acl.ACL_STREAM_STATUS_NOT_READY)))
	tw.call("aclrtStreamQuery", []uint64{stream, page}, out(1, uint64(acl.ACL_STREAM_STATUS_COMPLETE)))
	tw.later(c, 0, a)
	path := tw.close()
	was := run(t, path, &Options{Backend: l})
	for _, pace := range []string{PaceASAP, PaceRecorded} {
		r := run(t, path, &Options{Backend: backend.NullName, Pace: pace, Repeat: 2})
		if r.Replayed != was.Replayed || r.Crash != nil || r.DifferingTotal != 0 || len(r.Unverified) != 0 || r.Placement != "" || r.Repeat.Runs != 2 {
			t.Errorf("%s: %+v", pace, r)
		}
	}
	if _, err := Run(context.Background(), path, acl.Model, &Options{Backend: backend.NullName, Verify: true}); err == nil || !strings.Contains(err.Error(), "no library") {
		t.Errorf("verified without a library: %v", err)
	}
}

// Missing data is substituted, listed, and prevents a proof.
func TestSubstitutedDataPreventsAProof(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	missing := func(c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: 2, Len: 64, Status: format.Missing, Reason: format.LevelExcluded})
	}
	c := tw.call("aclrtMemcpy", []uint64{dev, 64, page, 64, 1}, missing)
	tw.toHost(dev, make([]byte, 64))
	never := tw.call("aclrtMemcpy", []uint64{page, 64, dev, 64, 2})
	r := run(t, tw.close(), &Options{Backend: l, Verify: true})
	if r.Identical || r.Verified.Results != 0 || len(r.Substituted) != 1 || r.Substituted[0].Call != c || r.Substituted[0].Reason != "excluded by the payload level" {
		t.Errorf("%+v", r)
	}
	if len(r.Unverified) != 2 || r.Unverified[0].Call != never || r.Unverified[0].Code != verify.NotRecorded || r.Unverified[1].Code != verify.Data {
		t.Errorf("unverified %+v", r.Unverified)
	}
}

// Threads without a recording are missing from a replay, even if all other results are proved.
func TestThreadsNotRecorded(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	m := format.Meta{API: "acl", Coverage: format.Coverage{Refused: 2}}
	if err := tw.w.SetMeta(&m); err != nil {
		t.Fatal(err)
	}
	r := run(t, tw.close(), &Options{Backend: l, Verify: true})
	if r.Identical || len(r.Unsupported) != 1 || !strings.Contains(r.Unsupported[0].Reason, "all calls on 2 threads") {
		t.Errorf("%+v", r)
	}
}

// Unrecorded content of a placeholder is substituted and reported.
func TestBufferNotRecorded(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	const list, param = 0x4000, 0x5000
	launch := func(more ...change) uint64 {
		tw.call("aclrtKernelArgsInit", []uint64{fun, page}, out(1, list))
		tw.call("aclrtKernelArgsAppendPlaceHolder", []uint64{list, page}, out(1, param))
		tw.call("aclrtKernelArgsGetPlaceHolderBuffer", []uint64{list, param, 16, page}, out(3, host))
		tw.call("aclrtKernelArgsFinalize", []uint64{list})
		return tw.call("aclrtLaunchKernelWithConfig", []uint64{fun, 1, stream, 0, list, 0}, more...)
	}
	launch(func(c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: 4, Item: 1, Addr: host, Len: 16, Bytes: pattern(16, 1)})
	})
	c := launch()
	r := run(t, tw.close(), &Options{Backend: l, PlanOnly: io.Discard})
	if len(r.Substituted) != 1 || r.Substituted[0] != (compile.Substituted{Call: c, Func: "aclrtLaunchKernelWithConfig", Param: "argsHandle", Bytes: 16, Reason: "not recorded"}) {
		t.Errorf("%+v", r.Substituted)
	}
}

func TestDamagedPayload(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	a := pattern(10000, 7)
	tw.malloc(dev, 10000)
	tw.toDevice(dev, a)
	tw.toHost(dev, a)
	path := tw.close()
	identical(t, run(t, path, &Options{Backend: l, Verify: true}), 1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, a)
	if at < 0 {
		t.Fatal("the payload is not in the file as it is")
	}
	b[at+5000] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Run(context.Background(), path, acl.Model, &Options{Backend: l, Trust: true, Verify: true})
	var corrupt *format.ErrCorrupt
	if !errors.As(err, &corrupt) || corrupt.Offset == 0 || !strings.HasPrefix(err.Error(), "call 4 aclrtMemcpy, payload for parameter src, blob 1: "+path+": ") || strings.Count(err.Error(), path) != 1 {
		t.Errorf("error %v", err)
	}
}

// Unsupported calls are reported before anything runs.
func TestUnsupportedCallsAreReportedFirst(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.call("aclrtSynchronizeStream", []uint64{stream})
	tw.call("aclrtMemcpy", []uint64{dev, 8, dev + 64, 8, 3})
	r := run(t, tw.close(), &Options{Backend: l, Verify: true, Env: []string{"FAKE_CRASH=aclrtSynchronizeStream"}})
	if r.Identical || r.Crash != nil || len(r.Unsupported) != 2 || !strings.Contains(r.Unsupported[0].Reason, "older than the trace") || !strings.Contains(r.Unsupported[1].Reason, "outside all allocations") {
		t.Errorf("unsupported %+v", r.Unsupported)
	}
}

// Regression: a result was compared after the wait of another process, if that ended later: in that process, which has other memory.
func TestResultsBelongToTheirProcess(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	two := onThread(tw.thread(tw.process(2), 2))
	for _, on := range []change{onThread(0), two} {
		tw.call("aclInit", []uint64{0}, on)
		tw.call("aclrtSetDevice", []uint64{0}, on)
	}
	tw.call("aclrtCreateStream", []uint64{page}, out(0, stream))
	tw.call("aclrtMallocHost", []uint64{page, 64}, out(0, host))
	tw.call("aclrtMalloc", []uint64{page, 64, 0}, out(0, dev))
	a := pattern(64, 3)
	tw.call("aclrtMemcpy", []uint64{dev, 64, page, 64, 1}, in(2, a))
	c := tw.call("aclrtMemcpyAsync", []uint64{host, 64, dev, 64, 2, stream})
	tw.call("aclrtSynchronizeStream", []uint64{stream})
	tw.call("aclrtSynchronizeDevice", nil, two)
	tw.later(c, 0, a)
	identical(t, run(t, tw.close(), &Options{Backend: l, Verify: true}), 1)
}

// Each captured process is a process in the replay, with its own runtime: both have the same handles and addresses.
func TestProcessesHaveTheirOwnRuntime(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	two := tw.thread(tw.process(2), 2)
	for round := range byte(3) {
		for thread := range uint32(2) {
			on := onThread(thread)
			if round == 0 {
				tw.call("aclInit", []uint64{0}, on)
				tw.call("aclrtSetDevice", []uint64{0}, on)
				tw.call("aclrtMalloc", []uint64{page, 64, 0}, out(0, dev), on)
			}
			b := pattern(64, 10*round+byte(thread))
			tw.call("aclrtMemcpy", []uint64{dev, 64, page, 64, 1}, in(2, b), on)
		}
		for thread := range uint32(2) {
			tw.call("aclrtMemcpy", []uint64{page, 64, dev, 64, 2}, got(0, pattern(64, 10*round+byte(thread))), onThread(thread))
		}
	}
	last := tw.call("aclrtFree", []uint64{dev}, onThread(two))
	path := tw.close()
	for _, base := range []string{"0x124041200000", other} {
		identical(t, run(t, path, &Options{Backend: l, Verify: true, Env: []string{"FAKE_BASE=" + base}}), 6)
	}
	// A crash in one ends both, and is reported.
	r := run(t, path, &Options{Backend: l, Env: []string{"FAKE_CRASH=aclrtFree"}})
	if r.Crash == nil || r.Crash.Call != last || r.Crash.Func != "aclrtFree" || !strings.Contains(r.Crash.Signal, "segmentation") {
		t.Errorf("%+v", r.Crash)
	}
}

func TestUnfinishedCallsAreUnproved(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	c := tw.call("aclrtSynchronizeStream", []uint64{stream}, func(c *format.Call) { c.Flags = format.Unfinished })
	if err := tw.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := tw.w.Abort(); err != nil {
		t.Fatal(err)
	}
	r := run(t, tw.path, &Options{Backend: l, Verify: true})
	if r.Verdict != verify.Unproved || r.Replayed != 3 || len(r.Unverified) != 2 || r.Unverified[0].Call != c || !strings.Contains(r.Unverified[1].Reason, "cut") {
		t.Errorf("%+v", r)
	}
}

func TestEmptyTraceProvesNothing(t *testing.T) {
	path := newTrace(t).close()
	r := run(t, path, &Options{Verify: true})
	if r.Identical || !strings.Contains(r.Note, "no calls") {
		t.Errorf("%+v", r)
	}
	if _, err := Bundle(path, acl.Model, filepath.Join(t.TempDir(), "bundle"), nil); !errors.Is(err, compile.ErrMissing) {
		t.Errorf("a bundle of nothing: %v", err)
	}
}

func TestPlanOnly(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.malloc(dev, 64)
	tw.toDevice(dev+8, pattern(8, 5))
	var b strings.Builder
	r := run(t, tw.close(), &Options{Backend: l, PlanOnly: &b, Env: []string{"FAKE_CRASH=aclInit"}})
	if r.Crash != nil || !strings.Contains(b.String(), "aclrtMemcpy(dst=device 2+0x8, destMax=0x8, src=data, count=0x8, kind=0x1) = ACL_SUCCESS") {
		t.Errorf("plan:\n%s", &b)
	}
}

// The player refuses a changed plan.
func TestPlayerRefusesAChangedPlan(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	keep := t.TempDir()
	path := tw.close()
	run(t, path, &Options{Backend: l, Keep: keep})
	b, err := os.ReadFile(keep + "/plan")
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(keep+"/plan", b, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &compile.Plan{Model: acl.Model, File: &plan.File{Path: keep + "/plan", Header: plan.View[plan.Header](b, 0, 1)[0]}}
	o := &Options{Backend: l, Timeout: time.Minute}
	s := &session{p: &judge{p, o, backend.New(l, acl.Model)}, o: o, dir: keep, meta: &format.Meta{}}
	if _, err := s.play(context.Background(), 0); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("error %v", err)
	}
}

// A result is compared after the call that waited for it, and not after other waits that ended before: not after a query of another
// stream, a poll that was repeated, or a wait for an event that was recorded elsewhere.
func TestWaitedWith(t *testing.T) {
	const events, second = 0x7000, stream + 8
	tw := newTrace(t)
	two := onThread(tw.thread(0, 2))
	tw.begin()
	tw.call("aclrtSetDevice", []uint64{0}, two)
	tw.call("aclrtCreateStream", []uint64{page}, out(0, second))
	tw.malloc(dev, 64)
	tw.mallocHost(host, 64)
	tw.call("aclrtCreateEvent", []uint64{page}, out(0, events))
	tw.call("aclrtCreateEvent", []uint64{page}, out(0, events+8))
	tw.toDevice(dev, pattern(64, 7))
	copies := func() (copied uint64) {
		copied = tw.toHostAsync(host, dev, 64)
		tw.call("aclrtRecordEvent", []uint64{events, stream})
		tw.call("aclrtRecordEvent", []uint64{events + 8, second})
		return copied
	}
	want := map[uint64]uint64{}
	for _, other := range []func(now int64){
		func(now int64) {
			tw.call("aclrtStreamQuery", []uint64{second, page}, two, out(1, 0), lasting(now, now+20))
		},
		func(now int64) {
			tw.call("aclrtStreamQuery", []uint64{stream, page}, two, out(1, 1), lasting(now, now+20))
		},
		func(now int64) {
			tw.call("aclrtSynchronizeEvent", []uint64{events + 8}, two, lasting(now, now+20))
		},
	} {
		c := copies()
		now := tw.now
		want[c] = tw.call("aclrtSynchronizeEvent", []uint64{events}, lasting(now, now+10))
		other(now)
		tw.later(c, 0, pattern(64, 7))
	}
	// A call that waited for the device, and began before the copy's call returned, is made after the copy.
	now := tw.now
	early := tw.call("aclrtMemcpyAsync", []uint64{host, 64, dev, 64, 2, stream}, lasting(now, now+100))
	want[early] = tw.call("aclrtSynchronizeDevice", nil, two, lasting(now+10, now+90))
	tw.call("aclrtStreamQuery", []uint64{second, page}, two, out(1, 0), lasting(now+91, now+95))
	tw.later(early, 0, pattern(64, 7))
	r, err := format.Open(tw.close(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := compile.Trace(r, acl.Model, t.TempDir(), (&Options{Verify: true}).forCompiler(acl.Model))
	if err != nil {
		t.Fatal(err)
	}
	got, copied := map[uint64]uint64{}, uint64(0)
	for i := range p.Threads {
		after, waits := uint64(0), uint64(0) // the last call, and the instructions of the first thread for which it waited
		for n, in := range p.File.Instructions(i) {
			switch {
			case in.Calls():
				if after = in.Call; i == 0 && after == early {
					copied = uint64(n) + 1
				}
			case in.Op == plan.OpWait && in.Fn == 0:
				waits = max(waits, in.At)
			case in.Op == plan.OpCheck && in.Call != after:
				got[in.Call] = after
				if in.Call == early && waits < copied {
					t.Errorf("the wait that had begun early is made behind %d instructions, the copy is number %d", waits, copied)
				}
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("results are compared behind %v, want %v", got, want)
	}
}

// Calls of two threads, in turn: each needs the other's latest result, or finds none.
func TestThreadsReplayInRecordedOrder(t *testing.T) {
	l := library(t)
	for range 20 {
		tw := newTrace(t)
		two := onThread(tw.thread(0, 2))
		tw.call("aclInit", []uint64{0})
		tw.call("aclrtSetDevice", []uint64{0}, two)
		tw.call("aclrtCreateStream", []uint64{page}, out(0, stream))
		tw.load()
		a := pattern(64, 7)
		tw.call("aclrtMalloc", []uint64{page, 64, 0}, two, out(0, dev))
		tw.malloc(dev+512, 64)
		tw.call("aclrtMalloc", []uint64{page, 64, 0}, two, out(0, dev+1024))
		tw.toDevice(dev, a)
		tw.sync()
		// These overlap on one stream: the call that ended first goes first.
		launch := func(dst, src uint64, changes ...change) uint64 {
			return tw.call("aclrtLaunchKernelWithHostArgs", []uint64{fun, 1, stream, 0, page, 32, 0, 0}, append(changes, in(4, words(dst, src, 64, 0)))...)
		}
		now := tw.now
		second := launch(dev+1024, dev+512, lasting(now, now+100))
		first := launch(dev+512, dev, two, lasting(now+10, now+50))
		tw.call("aclrtSynchronizeStream", []uint64{stream}, two)
		tw.toHost(dev+1024, plusOne(plusOne(a)))
		tw.mallocHost(host, 64)
		c := tw.toHostAsync(host, dev+1024, 64)
		tw.call("aclrtSynchronizeStream", []uint64{stream}, two)
		tw.later(c, 0, plusOne(plusOne(a)))
		// The buffer that the other thread has read is used again.
		tw.call("aclrtMemcpyAsync", []uint64{dev, 64, host, 64, 1, stream}, in(2, a))
		r := run(t, tw.close(), &Options{Backend: l, Verify: true, Env: []string{"FAKE_BASE=" + other}})
		identical(t, r, 2)
		if len(r.Ambiguous) != 1 || r.Ambiguous[0].Calls != [2]uint64{first, second} {
			t.Fatalf("ambiguous %+v, want %d before %d", r.Ambiguous, first, second)
		}
	}
}

// The time between calls is kept on request only.
func TestGapsAreKeptOnRequest(t *testing.T) {
	l := library(t)
	trace := func(gap int64) string {
		tw := newTrace(t)
		tw.begin()
		tw.sync()
		tw.now += gap
		tw.sync()
		return tw.close()
	}
	if r := run(t, trace(3600e9), &Options{Backend: l}); r.ReplayedNS > 60e9 {
		t.Errorf("as soon as possible took %d ns", r.ReplayedNS)
	}
	path := trace(50e6)
	// No call is early. Delays depend on the machine: the first call's delay shortens the whole.
	for pace, want := range map[string]int64{PaceRecorded: 50e6, PaceScaled + "0.5": 25e6, PaceScaled + "2": 100e6} {
		r := run(t, path, &Options{Backend: l, Pace: pace})
		if r.RecordedNS < 50e6 || r.Pace.Mode != pace || r.Pace.Late == nil {
			t.Fatalf("%s: recorded %d ns, %+v", pace, r.RecordedNS, r.Pace)
		}
		least := want - 1e6 - r.Pace.Late.Max
		if r.ReplayedNS < least || r.Pace.ErrorPercent < 100*(float64(least)/float64(want)-1) {
			t.Errorf("%s: recorded %d ns, replayed %d, %+v %+v", pace, r.RecordedNS, r.ReplayedNS, r.Pace, r.Pace.Late)
		}
		if len(r.Streams) != 1 || r.Streams[0].RecordedNS != r.RecordedNS-60 || r.Streams[0].ReplayedNS < least || r.Streams[0].Stream != "stream#1" {
			t.Errorf("%s: streams %+v of %d ns", pace, r.Streams, r.RecordedNS)
		}
	}
	// A simulator is informed about late calls: the call after one that took 30 ms was due at once.
	late := trace(0)
	if r := run(t, late, &Options{Backend: l, Pace: PaceRecorded, Env: []string{"FAKE_SLOW=aclrtCreateStream"}}); r.Crash != nil || r.Replayed != 5 {
		t.Errorf("%+v, crash %+v", r, r.Crash)
	}
	if r := run(t, late, &Options{Backend: l, Env: []string{"FAKE_SLOW=aclrtCreateStream"}}); r.Crash == nil {
		t.Error("the library does not look")
	}
	for _, pace := range []string{"scaled:", "scaled:0", "scaled:-1", "scaled:NaN", "scaled:1e99", "slow"} {
		if _, err := Run(context.Background(), path, acl.Model, &Options{Backend: l, Trust: true, Pace: pace}); err == nil {
			t.Errorf("pace %s is taken", pace)
		}
	}
}

// A trace runs on a device only if it is trusted. A copy of the simulator is no device, and --plan-only runs nothing.
func TestDeviceNeedsTrust(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	path := tw.close()
	ctx := context.Background()
	if _, err := Run(ctx, path, acl.Model, &Options{Backend: l}); !errors.Is(err, ErrTrust) || !strings.Contains(err.Error(), l) {
		t.Errorf("error %v", err)
	}
	if rep, err := Run(ctx, path, acl.Model, &Options{Backend: l, PlanOnly: io.Discard}); err != nil || rep.Replayed != 0 {
		t.Errorf("plan: %+v, %v", rep, err)
	}
	if rep, err := Run(ctx, path, acl.Model, &Options{Backend: l, Trust: true}); err != nil || rep.Replayed != 3 {
		t.Errorf("trusted: %+v, %v", rep, err)
	}
	simulate(t)
	b, err := os.ReadFile(filepath.Join(lib, "libascendcl.so"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	backend := filepath.Join(dir, "other.so")
	if err := errors.Join(os.WriteFile(backend, b, 0o700), os.Symlink(filepath.Join(lib, "libaclsim.so"), filepath.Join(dir, "libaclsim.so"))); err != nil {
		t.Fatal(err)
	}
	if rep, err := Run(ctx, path, acl.Model, &Options{Backend: backend}); err != nil || rep.Replayed != 3 {
		t.Errorf("a copy of the simulator: %+v, %v", rep, err)
	}
}
