package blame_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/acltrace/acltrace/internal/schema"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
)

// failing records testdata/failures.c and returns Blame's findings and their text.
func failing(t *testing.T, how string) (*blame.Report, string) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	prog := testenv.CompileC(t, "failures", []string{"testdata/failures.c"})
	path, _ := recorded(t, nil, 0, prog, kernels, how)
	rep, err := blame.Blame(open(t, path), acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.BlameText(&b, rep, nil); err != nil {
		t.Fatal(err)
	}
	return rep, b.String()
}

func because(x *blame.Suspect, kind blame.ReasonKind) bool {
	return slices.ContainsFunc(x.Reasons, func(r blame.Reason) bool { return r.Kind == kind })
}

// Blame reported for a call with an ended object only that the call itself failed, without the call that ended the
// object.
func TestBlameNamesWhoEndedTheObject(t *testing.T) {
	for how, ender := range map[string]string{"double-free": "aclrtFree", "destroyed-event": "aclrtDestroyEvent"} {
		rep, text := failing(t, how)
		if len(rep.Suspects) != 1 || !slices.ContainsFunc(rep.Suspects[0].Reasons, func(r blame.Reason) bool {
			return r.Kind == blame.ObjectEnded && r.Place.Ended.Func == ender
		}) || !strings.Contains(text, "("+ender+") had ended") {
			t.Errorf("%s:\n%s", how, text)
		}
	}
}

// Blame used neither the kernel name nor the host address in a message that is not in CANN's format.
func TestBlameReadsMessages(t *testing.T) {
	rep, text := failing(t, "host-pointer")
	x := &rep.Suspects[0]
	if x.Kernel != "add" || len(x.Arguments) != 3 || !because(x, blame.KernelNamed) || !because(x, blame.SameAddress) && !because(x, blame.SameMemory) || !strings.Contains(text, "names its kernel") || !strings.Contains(text, "which the message names") {
		t.Errorf("\n%s", text)
	}
}

// Blame listed the oldest launches in flight, although a single one had other arguments: no address, or a larger count.
func TestBlameComparesArguments(t *testing.T) {
	for how, want := range map[string]string{
		"null":     "the word at byte 8 of hostArgs is 0x0; in 40 of 41 launches of add it is an address",
		"too-many": "the word at byte 24 of hostArgs is 0x280; in 40 of 41 launches of add it is 0x40",
	} {
		rep, text := failing(t, how)
		if x := &rep.Suspects[0]; !because(x, blame.OddArgument) || x.Certain || !strings.Contains(text, want) {
			t.Errorf("%s:\n%s", how, text)
		}
	}
}

// Blame listed launches after a wait that never ended, but not the wait.
func TestBlameListsWaits(t *testing.T) {
	rep, text := failing(t, "deadlock")
	x := &rep.Suspects[0]
	if x.Func != "aclrtValueWait" || !because(x, blame.Waiting) || !strings.Contains(text, "waits for a value at 0x") || x.Partly || !strings.Contains(text, "\n20 more tasks in flight\n") {
		t.Errorf("\n%s", text)
	}
}

// Blame took the last failed call, and mistook a missing kernel for a device error.
func TestBlameTakesTheFirstFailingCall(t *testing.T) {
	rep, text := failing(t, "calls")
	if rep.Failure.Func != "aclrtMalloc" || rep.Failed != 2 || !strings.Contains(text, "1 more call failed") {
		t.Errorf("%d failed\n%s", rep.Failed, text)
	}
	if acl.Model.DeviceFault(507027) || !acl.Model.DeviceFault(507015) {
		t.Error("507027 is an error of the device, or 507015 is none")
	}
}

// TestEarlyFree records a program that frees a buffer too early in a random step. Blame must find the launch and the
// buffer.
func TestEarlyFree(t *testing.T) { earlyFree(t, nil, 4, 60, 8, 3) }

// TestEarlyFreeInRing does the same with a flight recorder whose ring has dropped most calls.
func TestEarlyFreeInRing(t *testing.T) { earlyFree(t, smallRing, 4, 12_000, 8, 1) }

var smallRing = &record.Ring{Bytes: 1 << 20}

// TestSoakEarlyFree finds the early free in 100 of 100 runs.
func TestSoakEarlyFree(t *testing.T) {
	soak(t)
	earlyFree(t, smallRing, 0, 12_000, 8, 50)
}

// TestSoakMillionSteps finds it in a million-step job with three launches each (15 s), in virtual time.
// ACLTRACE_SEEDS is how many runs each kind gets.
func TestSoakMillionSteps(t *testing.T) {
	soak(t)
	seeds := 1
	if n, err := strconv.Atoi(os.Getenv("ACLTRACE_SEEDS")); err == nil {
		seeds = n
	}
	t.Setenv("ACLSIM_CLOCK", "virtual")
	earlyFree(t, smallRing, 0, 1_000_000, 3, seeds)
}

func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes minutes: make soak")
	}
}

// earlyFree records two jobs for each seed: one frees a buffer before the launch that needs it, the other one after
// it.
func earlyFree(t *testing.T, ring *record.Ring, stacks, steps, launches, seeds int) {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	prog := testenv.CompileC(t, "early_free", []string{"testdata/early_free.c"}, "-fno-omit-frame-pointer")
	for _, when := range []string{"before", "after"} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", when, seed), func(t *testing.T) {
				path, said := recorded(t, ring, stacks, prog, kernels, strconv.Itoa(steps), strconv.Itoa(seed), when, strconv.Itoa(launches))
				var launch, last int
				var buffer uint64
				if _, err := fmt.Sscan(said, &launch, &buffer, &last); err != nil {
					t.Fatalf("%q: %v", said, err)
				}
				r := open(t, path)
				if st, err := os.Stat(path); err != nil || ring != nil && st.Size() > 2*ring.Bytes {
					t.Errorf("the trace of a ring of %d bytes has %d: %v", smallRing.Bytes, st.Size(), err)
				}
				rep, err := blame.Blame(r, acl.Model, nil)
				if err != nil {
					t.Fatal(err)
				}
				var text bytes.Buffer
				if err := report.BlameText(&text, rep, nil); err != nil {
					t.Fatal(err)
				}
				if len(rep.Suspects) == 0 {
					t.Fatalf("nobody is suspected:\n%s", &text)
				}
				x := rep.Suspects[0]
				if want := fromEnd(t, r, last-launch); x.Index != want {
					t.Errorf("the suspect is call %d, the launch was call %d:\n%s", x.Index, want, &text)
				}
				i := slices.IndexFunc(x.Arguments, func(a blame.Argument) bool { return a.Finding == blame.FreedBefore || a.Finding == blame.FreedMeantime })
				if i < 0 || uint64(x.Arguments[i].Value) != buffer {
					t.Errorf("the buffer at %#x is not named:\n%s", buffer, &text)
				}
				if len(rep.History) == 0 || uint64(rep.History[0].Place.Addr) != buffer || len(rep.History[0].Accesses) == 0 {
					t.Errorf("the history of the buffer is not the first:\n%s", &text)
				}
				for _, c := range []*blame.Call{&x.Call, rep.Failure, rep.History[0].Place.Ended} {
					if stacks > 0 && (len(c.Stack) == 0 || !strings.HasPrefix(c.Stack[0], "main+") || !strings.Contains(text.String(), c.Stack[0])) {
						t.Errorf("the stack of %s is %q:\n%s", c.Func, c.Stack, &text)
					}
				}
				if !strings.Contains(text.String(), "begun    20") || rep.Begun < time.Now().Add(-time.Hour).UnixNano() {
					t.Errorf("begun at %d:\n%s", rep.Begun, &text)
				}
				if rep.Failure == nil || rep.Failure.Error != "ACL_ERROR_RT_AICORE_EXCEPTION (507015)" || !strings.Contains(rep.Message, "freed memory") {
					t.Errorf("failure %+v, message %q", rep.Failure, rep.Message)
				}
			})
		}
	}
}

// A CUDA kernel gets memory that was freed and that begins where a live allocation ends.
func TestFreedCUDA(t *testing.T) {
	prog := testenv.CUDA(t, "testdata/cuda_freed.c")
	path, _ := recordedOf(t, cuda.Model, smallRing, 0, prog)
	rep, err := blame.Blame(open(t, path), cuda.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.BlameText(&text, rep, nil); err != nil {
		t.Fatal(err)
	}
	if rep.Failure == nil || rep.Failure.Error != "CUDA_ERROR_ILLEGAL_ADDRESS (700)" || len(rep.Suspects) == 0 || rep.Suspects[0].Kernel != "clip" {
		t.Fatalf("%s", &text)
	}
	said := text.String()
	for _, want := range []string{"(cuMemFree_v2) had freed, unless it is the end of device#", "+0 of 4,096 bytes; freed before the call began", "no task used it before it was freed"} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
}

func recorded(t *testing.T, ring *record.Ring, stacks int, command ...string) (path, said string) {
	t.Helper()
	return recordedOf(t, acl.Model, ring, stacks, command...)
}

func recordedOf(t *testing.T, m *api.Model, ring *record.Ring, stacks int, command ...string) (path, said string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "t.aclt")
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var res *record.Result
	for range 5 { // a recorder without a core for half a second no longer blocks the program, and calls are lost
		if err := out.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		res, err = record.Run(context.Background(), &record.Options{Model: m, Output: path, Command: command, Sim: true, Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Ring: ring, Capture: record.Capture{Calls: record.Calls{Stacks: stacks}}, Stdin: null, Stdout: out, Stderr: null})
		if err != nil {
			t.Fatal(err)
		}
		if res.Lost == 0 {
			break
		}
	}
	if res.ExitCode != 7 || res.Lost > 0 {
		t.Fatalf("%v: %+v", command, res)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return path, string(b)
}

func open(t *testing.T, path string) *format.Reader {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// fromEnd returns the launch n launches before the last one.
func fromEnd(t *testing.T, r *format.Reader, n int) uint64 {
	t.Helper()
	var all []uint64
	for c, err := range r.CallsByStart(&format.Filter{NoArgs: true, NoData: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if f := acl.Model.Func(api.ID(c.Func)); f != nil && f.Task == api.Kernel {
			all = append(all, c.Index)
		}
	}
	if len(all) <= n {
		t.Fatalf("%d launches, not more than %d", len(all), n)
	}
	return all[len(all)-1-n]
}

// gathered builds a trace. DeviceA holds a table with an address in DeviceB. Two kernels are launched, tasks 40 and 41 on
// the runtime's stream 9. Synchronizing their stream returns the code.
func gathered(t *testing.T, code int32, message string) *format.Reader {
	t.Helper()
	b := testtrace.New(t)
	b.Call(0, 1_000, 2_500, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3_000, 3_700, "aclrtMalloc", testtrace.A(0x7ffe0000, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	b.Call(0, 3_800, 4_100, "aclrtMalloc", testtrace.A(0x7ffe0000, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceB))
	b.Call(0, 4_200, 4_300, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamA))
	b.Call(0, 5_000, 5_900, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "gather"), testtrace.Outs("funcHandle", testtrace.Function))
	b.Call(0, 6_000, 6_900, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 4096, testtrace.HostA, 16, 1), data("src", 7, testtrace.DeviceB+256))
	for i := range uint64(2) {
		b.Call(0, 7_000+100*int64(i), 7_050+100*int64(i), "aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 8, testtrace.StreamA, 0, 0x7ffe0100, 16, 0, 0),
			data("hostArgs", testtrace.DeviceA+8*i, 3), task(9, 40+uint32(i)))
	}
	var mod []testtrace.Mod
	if code != 0 {
		mod = append(mod, testtrace.Fails(code))
	}
	b.Call(0, 8_000, 9_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), mod...)
	b.Call(0, 9_100, 9_200, "aclGetRecentErrMsg", nil, func(_ *api.Func, c *format.Call) {
		c.Ret = 0x7f0000000100
		c.Data = append(c.Data, format.Data{Param: api.RetParam, Dir: format.DirOut, Len: uint64(len(message)), Bytes: []byte(message), Time: c.Start})
	})
	return b.Load().Reader
}

// data adds words that the call reads through a parameter.
func data(param string, words ...uint64) testtrace.Mod {
	return func(f *api.Func, c *format.Call) {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param(param)), Len: uint64(len(b)), Bytes: b, Time: c.Start})
	}
}

// task sets the runtime's task ids for a call.
func task(stream, task uint32) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskParam, Value: uint64(stream)<<32 | uint64(task)})
	}
}

// Record recommends blame after a crash, and blame ended with an error if no call had failed.
func TestBlameReportsACrashWithoutAFailedCall(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 2_500, "aclrtSetDevice", testtrace.A(0))
	b.Process(0, format.Process{PID: 4001, Killed: true, Signal: 11})
	rep, err := blame.Blame(b.Load().Reader, acl.Model, nil)
	if err != nil || rep.Failure != nil || len(rep.Suspects) != 0 || len(rep.Died) != 1 || rep.Died[0].Last[0].Func != "aclrtSetDevice" {
		t.Fatalf("%v, %+v", err, rep)
	}
	var text bytes.Buffer
	if err := report.BlameText(&text, rep, nil); err != nil || !strings.Contains(text.String(), "killed by SIGSEGV") || !strings.Contains(text.String(), "--call 0:0") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// The failed call with the lowest number was taken for the first one, although a call of another thread had failed before.
func TestBlameTakesTheEarliestFailure(t *testing.T) {
	for _, code := range []int32{107000, 507015} {
		b := testtrace.New(t)
		b.Call(0, 2_000, 2_500, "aclrtSynchronizeDevice", nil, testtrace.Fails(code))
		b.Call(1, 1_000, 1_500, "aclrtSynchronizeDevice", nil, testtrace.Fails(code))
		rep, err := blame.Blame(b.Load().Reader, acl.Model, nil)
		if err != nil || rep.Failure.Index != 1 || len(rep.Earlier) != 0 {
			t.Errorf("%d: %v, %+v", code, err, rep)
		}
	}
}

// A service that its manager ended by SIGTERM was reported as a crash, in a call that returned as fast as the others before.
func TestBlameAcceptsAnEndThatASignalAskedFor(t *testing.T) {
	for _, c := range []struct {
		end    int64
		signal syscall.Signal
		failed bool
	}{{60_000, syscall.SIGTERM, false}, {900_000, syscall.SIGTERM, true}, {60_000, syscall.SIGSEGV, true}} {
		b := testtrace.New(t)
		b.Call(0, 1_000, 31_000, "aclrtSynchronizeDevice", nil)
		b.Call(0, 40_000, 41_000, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
		b.Process(0, format.Process{PID: 4001, End: c.end, Killed: true, Signal: int(c.signal)})
		b.Meta(func(m *format.Meta) { m.EndNS = c.end })
		rep, err := blame.Blame(b.Cut().Reader, acl.Model, nil)
		if !c.failed && !errors.Is(err, blame.ErrNothingFailed) {
			t.Errorf("%+v: %v, %+v", c, err, rep)
		}
		if c.failed && (err != nil || rep.Failure == nil || len(rep.Died) > 0 != (c.signal == syscall.SIGSEGV)) {
			t.Errorf("%+v: %v, %+v", c, err, rep)
		}
	}
}

func TestNothingFailed(t *testing.T) {
	if _, err := blame.Blame(gathered(t, 0, ""), acl.Model, nil); !errors.Is(err, blame.ErrNothingFailed) {
		t.Errorf("%v", err)
	}
}

// Blame said of a call that had succeeded that it never returned, if the call was named.
func TestNamedCallDidNotFail(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 2_500, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 3_000, 3_500, "aclrtSetDevice", testtrace.A(99), testtrace.Fails(107001))
	b.Call(0, 4_000, 4_500, "aclrtSynchronizeDevice", nil, testtrace.Hangs)
	r := b.Load().Reader
	for call, want := range []string{"call 0 aclrtSetDevice did not fail", "", ""} {
		n := uint64(call)
		rep, err := blame.Blame(r, acl.Model, &blame.Options{Call: &n})
		if want != "" {
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("call %d: %+v, %v, want %q", call, rep, err, want)
			}
		} else if err != nil || rep.Failure == nil || rep.Failure.Index != n {
			t.Errorf("call %d: %+v, %v", call, rep, err)
		}
	}
}

// A query that returned "not ready" was taken for a failure.
func TestPendingIsNoFailure(t *testing.T) {
	f := cuda.Model.Lookup("cuStreamQuery")
	path := filepath.Join(t.TempDir(), "t.aclt")
	w, err := format.Create(path, &format.Meta{API: cuda.Model.Name}, schema.Of(cuda.Model), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Process(format.Process{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	th, err := w.Thread(format.Thread{Process: p, TID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Call(&format.Call{Func: uint16(f.ID), Thread: th, Start: 1, End: 2, Args: []uint64{0}, Ret: uint64(cuda.Model.Pending)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := blame.Blame(r, cuda.Model, nil); !errors.Is(err, blame.ErrNothingFailed) {
		t.Errorf("%v", err)
	}
}

func TestMessageNamesTask(t *testing.T) {
	for _, test := range []struct {
		message string
		call    uint64
		certain bool
	}{
		{"Aicore kernel execute failed, device_id=0, stream_id=9, report_stream_id=3, task_id=41, flip_num=0, fault kernel_name=gather, program id=2", 7, true},
		{"Aicore kernel execute failed, stream_id=9, task_id=40, flip_num=0, fault kernel_name=gather", 6, true},
		{"task_id=40, flip_num=1, stream_id=9", 6, false}, // no call has them: both are in flight
		{"something went wrong", 6, false},
	} {
		rep, err := blame.Blame(gathered(t, 507015, test.message), acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Message != test.message || rep.InFlight != 2 || len(rep.Suspects) == 0 {
			t.Fatalf("%+v", rep)
		}
		if x := rep.Suspects[0]; x.Index != test.call || x.Certain != test.certain {
			t.Errorf("%q: the first suspect is %+v", test.message, x)
		}
		if strings.Contains(test.message, "flip_num=1") != (len(rep.Unknown) == 1) {
			t.Errorf("%q: unknown: %+v", test.message, rep.Unknown)
		}
	}
}

func TestTaskOfLog(t *testing.T) {
	r := gathered(t, 0, "")
	rep, err := blame.Blame(r, acl.Model, &blame.Options{Task: &format.TaskID{Stream: 9, Task: 41}})
	if err != nil {
		t.Fatal(err)
	}
	x := rep.Suspects[0]
	if len(rep.Suspects) != 1 || !x.Certain || x.Index != 7 || x.Kernel != "gather" || x.Blocks != 8 || len(x.Arguments) != 1 || x.Arguments[0].Place.Offset != 8 {
		t.Errorf("%+v", rep)
	}
	if _, err := blame.Blame(r, acl.Model, &blame.Options{Task: &format.TaskID{Stream: 9, Task: 42}}); err == nil || !strings.Contains(err.Error(), "task 42 of stream 9") {
		t.Errorf("%v", err)
	}
}

// TestThroughTable finds the accesses to memory whose address is in a table on the device.
func TestThroughTable(t *testing.T) {
	w, err := blame.Where(gathered(t, 0, ""), acl.Model, testtrace.DeviceB+300, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Places) != 1 || w.Places[0].Place.Offset != 300 || w.Places[0].Place.Ended != nil {
		t.Fatalf("%+v", w)
	}
	var got []string
	for _, a := range w.Places[0].Accesses {
		got = append(got, fmt.Sprintf("%d %s", a.Index, report.AccessText(&a)))
	}
	want := []string{"5 aclrtMemcpy put its address into device#1", "6 gather may change it, through device#1", "7 gather may change it, through device#1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAddressOutsideOfAllocations(t *testing.T) {
	r := gathered(t, 0, "")
	w, err := blame.Where(r, acl.Model, testtrace.DeviceA+5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Places) != 0 || w.Below == nil || w.Below.Offset != 5000 || w.Above == nil || w.Above.Addr != testtrace.DeviceB {
		t.Errorf("%+v", w)
	}
	call := uint64(2) // makes the second buffer
	w, err = blame.Where(r, acl.Model, testtrace.DeviceB, &blame.WhereOptions{Call: &call})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Places) != 1 || len(w.Places[0].Accesses) != 0 || w.At == nil || w.At.Index != 2 {
		t.Errorf("%+v", w)
	}
}

// Live allocations are those at a moment or at the end.
func TestLiveAllocationsAreListed(t *testing.T) {
	r := gathered(t, 0, "")
	for call, want := range map[uint64]string{2: "1 allocation live at the start of call 2 aclrtMalloc on thread 4001 at 0.000003s: 4 KiB\n\n  process         address  bytes  allocation, made by\n     4001  0x124000000000  4,096  device#1, call 1 aclrtMalloc at 0.000003s\n",
		math.MaxUint64: "2 allocations live at the end of the trace: 8 KiB\n"} {
		o := &blame.WhereOptions{Call: &call}
		if call == math.MaxUint64 {
			o = nil
		}
		x, err := blame.MapAt(r, acl.Model, o)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := report.MapText(&text, "t.aclt", x, nil); err != nil || !strings.HasPrefix(text.String(), want) {
			t.Errorf("%v: %q, want %q", err, &text, want)
		}
	}
	// A narrow terminal clipped the number of the call.
	x, err := blame.MapAt(r, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.MapText(&text, "t.aclt", x, &report.TextOptions{Width: 60}); err != nil || !strings.Contains(text.String(), "  device#1, call 1\n") || longest(text.String()) > 60 {
		t.Errorf("%v: %q", err, &text)
	}
}

// longest returns the number of columns of the longest line, except those with a command.
func longest(text string) (n int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "next: ") {
			n = max(n, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
	}
	return n
}

// TestWhereBreaksLines prints the uses of an address to a terminal.
func TestWhereBreaksLines(t *testing.T) {
	x, err := blame.Where(gathered(t, 0, ""), acl.Model, testtrace.DeviceB, nil)
	if err != nil {
		t.Fatal(err)
	}
	for width, fits := range map[int]bool{0: false, 40: true} {
		var text bytes.Buffer
		if err := report.WhereText(&text, "t.aclt", x, &report.TextOptions{Width: width}); err != nil || longest(text.String()) <= 40 != fits {
			t.Errorf("width %d: %v: %q", width, err, &text)
		}
	}
}
