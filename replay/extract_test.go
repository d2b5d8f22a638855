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
)

func extract(t *testing.T, path string, launch uint64) (string, *Extracted) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "one.aclt")
	e, err := Extract(context.Background(), path, acl.Model, launch, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return to, e
}

// A launch is extracted with the kernel and the copies that made its inputs, and without what is none of its business.
func TestExtract(t *testing.T) {
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
	// init, device, stream; binary, function; 3 allocations; a copy, 2 launches; then waiting for it.
	if e.Calls != 13 || e.Launch != 11 || e.Kernel != "add_one" || e.Results != 0 {
		t.Errorf("%+v", e)
	}
	identical(t, run(t, one, &Options{Backend: l, Verify: true}), 0)
}

// Every launch of an example that loads kernels in every way comes out as a trace that replays, wherever its memory lies,
// and whose results are compared.
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
				if n, err := LaunchOf(path, format.TaskID{Stream: uint32(o.Value >> 32), Task: uint32(o.Value)}); err != nil || n != c.Index {
					t.Errorf("call %d: its task is of call %d, %v", c.Index, n, err)
				}
				tasks++
			}
		}
		one, e := extract(t, path, c.Index)
		if e.Calls >= counts.Calls || e.Results != 1 {
			t.Errorf("call %d: %+v of %d calls", c.Index, e, counts.Calls)
		}
		for _, place := range []string{PlaceSame, PlaceMove} {
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
	if _, err := LaunchOf(path, format.TaskID{Stream: 1 << 20, Task: 1}); err == nil {
		t.Error("a task that nobody made")
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
	path := tw.close()
	if _, err := Extract(context.Background(), path, acl.Model, launch, path, nil); err == nil || !strings.Contains(err.Error(), "can't replace") {
		t.Errorf("onto itself: %v", err)
	}
	to := filepath.Join(t.TempDir(), "one.aclt")
	for call, want := range map[uint64]string{
		launch: "aclrtMemcpy, src: 64 bytes", foreign: "function 0x3001 is older than the trace", failed: "had failed",
		wait: "no launch", 1000: "no call 1000",
	} {
		_, err := Extract(context.Background(), path, acl.Model, call, to, nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrMissing) != (call == launch || call == foreign) {
			t.Errorf("call %d: %v", call, err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("call %d: %s is left", call, to)
		}
	}
}
