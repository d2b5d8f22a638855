package path

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/timeline"
)

// The programs of testdata/known.c on a simulator in virtual time. A call takes 1 us, a launch 2 us, the return from a wait 3 us. An idle stream begins
// 5 us after the launch, a busy one 1 us after the task before. Copies take 10 us and 1 us for each kB.
func TestKnownPrograms(t *testing.T) {
	source := []string{"testdata/known.c"}
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "known.so", source, "-DKERNELS", "-shared", "-fPIC"))
	binary := testenv.CompileC(t, "known.o", source, "-DKERNELS", "-c", "-fPIC")
	program := testenv.CompileC(t, "known", source, "-Wl,-rpath,"+filepath.Join(testenv.Root(t), "lib"))
	costs := filepath.Join(t.TempDir(), "costs.json")
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.Host, m.Launch = "known", model.Host{Call: 1000, Submit: 2000, Sync: 3000, Function: 1000}, model.Launch{Latency: 5000, Overhead: 1000}
	for k, c := range m.Copies {
		c.Sizes = []model.CopySize{{Latency: 10_000, Rate: 1}}
		m.Copies[k] = c
	}
	if b, err := json.Marshal(m); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(costs, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host", "kernel", "streams", "copy", "value", "threads", "gap", "first", "two"} {
		for _, measured := range []bool{true, false} {
			title := name + map[bool]string{false: ", no device times"}[measured]
			t.Run(title, func(t *testing.T) {
				o := &record.Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "t.aclt"), Command: []string{program, binary, name}, Sim: true, Limits: record.Limits{Buffers: record.Buffers{Block: true}},
					Env: append(os.Environ(), "ACLSIM_CLOCK=virtual", "ACLSIM_MODEL="+costs)}
				if measured {
					o.Capture.DeviceTime = 1
				}
				res, err := record.Run(context.Background(), o)
				if err != nil || res.ExitCode != 0 || res.Lost > 0 {
					t.Fatal(err, res)
				}
				testenv.Golden(t, "known.txtar", title, knownPath(t, o.Output))
			})
		}
	}
}

// knownPath returns the path of a program after its first calls.
func knownPath(t *testing.T, file string) string {
	t.Helper()
	r, err := format.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := timeline.NewWalk(r, acl.Model, nil)
	f := NewFinder(w)
	if err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error { f.Call(h, k, w.Links(), 0); return nil }}); err != nil {
		t.Fatal(err)
	}
	p := f.Rest()
	check(t, p)
	begin, parts := 0, p.Parts()
	for i := range parts {
		q := &parts[i]
		if q.Func == "aclrtGetDeviceCount" {
			begin = i + 1
		}
	}
	if begin == 0 {
		t.Fatalf("the path lacks the program's begin:\n%s", lines(parts))
	}
	parts = parts[begin:]
	start := parts[0].From
	for i := range parts {
		parts[i].From, parts[i].To = parts[i].From-start, parts[i].To-start
		number := 1 // instead of the thread's id: 0 for the main thread, whichever of them was recorded first
		for th, row := range r.Threads() {
			n := number
			if row.TID == r.Processes()[row.Process].PID {
				n = 0
			} else {
				number++
			}
			if parts[i].Where == w.ThreadName(uint32(th)) {
				parts[i].Where = fmt.Sprintf("thread#%d", n)
			}
		}
	}
	return lines(parts)
}
