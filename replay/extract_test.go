package replay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
)

func extract(t *testing.T, path string, launch uint64) (string, *lab.Extracted) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "one.aclt")
	e, err := lab.Extract(context.Background(), path, acl.Model, launch, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return to, e
}

// An extracted launch has its kernel and the copies that made its inputs, and no unrelated calls.
func TestExtractedLaunchHasItsInputs(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	a, n := pattern(64, 3), uint64(64)
	for i := range uint64(5) {
		tw.malloc(dev+512*i, n)
	}
	tw.toDevice(dev, a)
	tw.toDevice(dev+2048, a) // not needed
	tw.launch(dev+512, dev, n)
	tw.launch(dev+2048, dev+2048, n) // not needed
	tw.sync()
	tw.toHost(dev+2048, plusOne(a)) // not needed
	launch := tw.launch(dev+1024, dev+512, n)
	tw.launch(dev+1536, dev+1024, n) // later
	tw.sync()
	tw.toHost(dev+512, plusOne(a))
	path := tw.close()
	one, e := extract(t, path, launch)
	// init, device, stream; binary, function; 3 allocations; a copy, a launch; the launch between two waits.
	if e.Calls != 14 || e.Launch != 12 || e.Kernel != "add_one" || e.Results != 0 || !e.Alone {
		t.Errorf("%+v", e)
	}
	// Its output is nowhere in the trace: that is no proof.
	r := run(t, one, &Options{Backend: l, Verify: true, Repeat: 2})
	if r.Identical || len(r.Differences) > 0 || len(r.Unverified) != 1 || r.Unverified[0].Call != e.Launch || r.Replayed != 14 {
		t.Errorf("%+v", r)
	}
	if n := r.Repeat.Launches; len(n) != 1 || n[0].Call != e.Launch || !n[0].Alone || len(n[0].NS) != 2 {
		t.Errorf("times %+v", n)
	}
}

// A copy that the program put after the launch on its stream shows the launch's output, independent of calls before the wait.
func TestExtractAsyncResult(t *testing.T) {
	l := library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	a, n := pattern(64, 3), uint64(64)
	tw.malloc(dev, n)
	tw.malloc(dev+512, n)
	tw.call("aclrtMallocHost", []uint64{page, n}, out(0, host))
	tw.toDevice(dev, a)
	tw.launch(dev, dev, n)
	launch := tw.launch(dev+512, dev, n)
	fetch := tw.toHostAsync(host, dev+512, n)
	again := tw.launch(dev+512, dev+512, n)
	tw.sync()
	tw.later(fetch, 0, plusOne(plusOne(a)))
	tw.toHost(dev+512, plusOne(plusOne(plusOne(a))))
	path := tw.close()
	for _, call := range []uint64{launch, again} {
		one, e := extract(t, path, call)
		if e.Results != 1 || !e.Alone {
			t.Errorf("%+v", e)
		}
		for _, place := range []string{compile.PlaceAuto, compile.PlaceMove} {
			identical(t, run(t, one, &Options{Backend: l, Verify: true, Place: place}), 1)
		}
		if r := run(t, one, &Options{Backend: l, Verify: true, Env: []string{"FAKE_WRONG=9"}}); len(r.Differences) != 1 {
			t.Errorf("a wrong result: %+v", r)
		}
	}
}

// Every launch of an example that loads kernels in every way is extracted to a trace that replays, at any address,
// with compared results.
func TestExtractExample(t *testing.T) {
	program := testenv.Example(t, "vector_add")
	simulate(t)
	path := recorded(t, program, "--n", "500")
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	counts, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	launches, tasks := 0, 0
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.Schema().FuncName(c.Func), "aclrtLaunchKernel") {
			continue
		}
		launches++
		for _, o := range c.Outs {
			if o.Param == api.TaskParam {
				if n, err := lab.LaunchOf(path, format.TaskID{Stream: uint32(o.Value >> 32), Task: uint32(o.Value)}); err != nil || n != c.Index {
					t.Errorf("call %d: its task is of call %d, %v", c.Index, n, err)
				}
				tasks++
			}
		}
		one, e := extract(t, path, c.Index)
		if e.Calls >= counts.Calls || e.Results != 1 {
			t.Errorf("call %d: %+v of %d calls", c.Index, e, counts.Calls)
		}
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			r := run(t, one, &Options{Verify: true, Place: place, Repeat: 3})
			identical(t, r, 1)
			if l := r.Repeat.Launches; len(l) == 0 {
				t.Errorf("call %d: no times", c.Index)
			} else if l = l[len(l)-1:]; l[0].Call != e.Launch || l[0].Kernel != e.Kernel || len(l[0].NS) != 3 || l[0].Min <= 0 || l[0].Median < l[0].Min || l[0].Max < l[0].Median {
				t.Errorf("call %d: times %+v", c.Index, l)
			}
		}
	}
	if launches < 5 || tasks < 5 {
		t.Errorf("%d launches, %d with their tasks", launches, tasks)
	}
	if _, err := lab.LaunchOf(path, format.TaskID{Stream: 1 << 20, Task: 1}); err == nil {
		t.Error("a task that nobody made")
	}
}

// An extract of a launch that had failed expected success if a later launch used the same memory: the failure was reported as a difference.
func TestExtractOfAFailedLaunchFailsAsInTheTrace(t *testing.T) {
	tw := newTrace(t)
	tw.begin()
	tw.load()
	for i := range uint64(3) {
		tw.malloc(dev+512*i, 64)
	}
	fine := tw.launch(dev+1024, dev, 16)
	tw.sync()
	launch := tw.launch(dev+512, dev, 64)
	tw.launch(dev+512, dev+512, 64) // overwrites the result
	tw.call("aclrtSynchronizeStream", []uint64{stream}, fails(507015))
	path := tw.close()
	for call, failed := range map[uint64]bool{fine: false, launch: true} {
		to, e := extract(t, path, call)
		r, err := format.Open(to, nil)
		if err != nil {
			t.Fatal(err)
		}
		var last format.Call
		for c, err := range r.Calls(nil) {
			if err != nil {
				t.Fatal(err)
			}
			last = *c
		}
		r.Close()
		if f := acl.Model.Func(api.ID(last.Func)); e.Failed != failed || f.Sync == api.NoSync || f.Failed(last.Ret) != failed {
			t.Errorf("%+v: the extract ends with %s = %d", e, f.Name, int32(last.Ret))
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	tw := newTrace(t)
	tw.begin()
	tw.load()
	tw.malloc(dev, 64)
	tw.call("aclrtMemcpy", []uint64{dev, 64, page, 64, 1}) // without its payload
	launch := tw.launch(dev, dev, 64)
	foreign := tw.call("aclrtLaunchKernelWithHostArgs", []uint64{fun + 1, 1, stream, 0, page, 32, 0, 0}, in(4, words(0, 0, 0, 0)))
	failed := tw.call("aclrtLaunchKernelWithHostArgs", []uint64{fun, 1, stream, 0, page, 32, 0, 0}, in(4, words(0, 0, 0, 0)), fails(207001))
	wait := tw.sync()
	tw.call("aclmdlRICaptureBegin", []uint64{stream, 1})
	captured := tw.launch(dev, dev, 64)
	path := tw.close()
	if _, err := lab.Extract(context.Background(), path, acl.Model, launch, path, nil); err == nil || !strings.Contains(err.Error(), "can't replace") {
		t.Errorf("onto itself: %v", err)
	}
	to := filepath.Join(t.TempDir(), "one.aclt")
	for call, want := range map[uint64]string{
		launch: "aclrtMemcpy, src: 64 B", foreign: "function 0x3001 is older than the trace", failed: "failed: there is nothing to run",
		wait: "not a kernel launch", 1000: "no call 1000", captured: "adds a kernel to a graph",
	} {
		_, err := lab.Extract(context.Background(), path, acl.Model, call, to, nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, compile.ErrMissing) != (call == launch || call == foreign) {
			t.Errorf("call %d: %v", call, err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("call %d: %s is left", call, to)
		}
	}
}

// A short trace is read before anything is shown. The last number is the total.
func TestExtractReportsProgress(t *testing.T) {
	library(t)
	tw := newTrace(t)
	tw.begin()
	tw.load()
	tw.malloc(dev, 64)
	tw.toDevice(dev, pattern(64, 3))
	launch := tw.launch(dev, dev, 64)
	tw.sync()
	var read []int
	o := &lab.ExtractOptions{Progress: func(parts string, done, total int) {
		if parts == "calls read" {
			read = append(read, done, total)
		}
	}}
	path := tw.close()
	if _, err := lab.Extract(t.Context(), path, acl.Model, launch, filepath.Join(t.TempDir(), "one.aclt"), o); err != nil {
		t.Fatal(err)
	}
	if len(read) != 2 || read[0] != read[1] || read[0] < 8 {
		t.Errorf("calls read: %d", read)
	}
}
