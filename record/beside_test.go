package record_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// Both probes record the same run, and both traces have the same calls on each thread, to the word and the byte.
func TestUprobesBesideShim(t *testing.T) {
	for name, args := range map[string][]string{"jobs": nil, "batches": {"4", "1500"}, "condition": nil, "vmm": nil} {
		t.Run(name, func(t *testing.T) {
			besideShim(t, name, 1, args...)
		})
	}
}

// This is repeated with different work for the threads while other programs keep the processors busy.
func TestSoakUprobesBesideShim(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes long: make soak")
	}
	for _, busy := range []int{0, runtime.NumCPU(), 2 * runtime.NumCPU()} {
		t.Run(fmt.Sprintf("%d busy", busy), func(t *testing.T) {
			for range busy {
				cmd := exec.Command("sh", "-c", "while :; do :; done")
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}()
			}
			besideShim(t, "jobs", 20)
		})
	}
}

// besideShim does the same for a program from the replay tests.
func besideShim(t *testing.T, name string, times int, args ...string) {
	t.Helper()
	program := testenv.CompileC(t, name, []string{"../replay/testdata/" + name + ".c"}, "-lpthread")
	kernels := []string{"../replay/testdata/kernels.c"}
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "kernels.so", kernels, "-shared", "-fPIC"))
	binary := testenv.CompileC(t, "kernels.o", kernels, "-c", "-fPIC")
	lib := ownLibraries(t)
	for range times {
		o := record.AttachOptions{All: true, Options: record.Options{Model: acl.Model, Capture: record.Capture{Library: filepath.Join(lib, "libascendcl.so")}, Output: filepath.Join(t.TempDir(), "uprobes.aclt")}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var seen *record.Result
		ended := make(chan error, 1)
		go func() {
			var err error
			seen, err = record.Attach(ctx, &o)
			ended <- err
		}()
		testenv.Wait(t, "probes", func() bool { return attached(o.Output) || len(ended) > 0 })
		if len(ended) > 0 {
			testenv.Uprobes(t, <-ended)
		}
		a, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{NoTaskIDs: true}}, Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, append([]string{program, binary}, args...)...)
		stop()
		if err := <-ended; err != nil || seen.Lost != 0 || seen.Incomplete != nil || res.Lost != 0 || res.ExitCode != 0 {
			t.Fatalf("the shim %+v, the uprobes %+v, %v", res, seen, err)
		}
		sameRun(t, a, open(t, o.Output))
	}
}

// sameRun compares the traces from the shim and the uprobes for one run.
func sameRun(t *testing.T, a, b *format.Reader) {
	t.Helper()
	as, bs := byThread(t, a), byThread(t, b)
	ad, bd := late(t, a), late(t, b)
	if len(as) != len(bs) || len(as) == 0 {
		t.Errorf("the shim has seen %d threads, the uprobes %d", len(as), len(bs))
	}
	for tid, xs := range as {
		ys := bs[tid]
		if len(xs) != len(ys) {
			t.Errorf("thread %d: the shim has seen %d calls, the uprobes %d", tid, len(xs), len(ys))
		}
		for i := range min(len(xs), len(ys)) {
			x, y := xs[i], ys[i]
			if x.Func != y.Func || !slices.Equal(x.Args, y.Args) || x.Ret != y.Ret || !slices.Equal(stored(x), stored(y)) || x.Flags != y.Flags {
				t.Fatalf("call %d of thread %d: the shim has seen %s %+v\nthe uprobes %s %+v", i, tid, a.Schema().FuncName(x.Func), x, b.Schema().FuncName(y.Func), y)
			}
			sameData(t, a, b, x, append(x.Data, ad[x.Index]...), append(y.Data, bd[y.Index]...))
		}
	}
}

func byThread(t *testing.T, r *format.Reader) map[int][]*format.Call {
	t.Helper()
	of := map[int][]*format.Call{}
	for _, c := range calls(t, r) {
		tid := r.Threads()[c.Thread].TID
		of[tid] = append(of[tid], c)
	}
	return of
}

// sameData compares the memory that belongs to one call. Only the shim has results of asynchronous copies, and files that the
// program has removed before the recorder reads them.
func sameData(t *testing.T, ra, rb *format.Reader, c *format.Call, as, bs []format.Data) {
	t.Helper()
	content := func(r *format.Reader, d *format.Data) []byte {
		if d.Status != format.Whole || d.Len <= format.InlineLimit {
			return d.Bytes
		}
		b, err := r.Blob(d.Blob)
		if err != nil {
			t.Fatalf("call %d: %v", c.Index, err)
		}
		return b
	}
	type key struct {
		param uint8
		item  uint32
		dir   format.Dir
	}
	seen := map[key]*format.Data{}
	for i := range bs {
		seen[key{bs[i].Param, bs[i].Item, bs[i].Dir}] = &bs[i]
	}
	for i := range as {
		x := &as[i]
		k := key{x.Param, x.Item, x.Dir}
		y := seen[k]
		delete(seen, k)
		switch {
		case y == nil:
			t.Fatalf("call %d %s: %+v is not in the trace of the uprobes", c.Index, ra.Schema().FuncName(c.Func), k)
		case y.Status == format.Missing && y.Reason == format.Unawaited, y.Status == format.Missing && isFile(ra, c, x):
		case x.Status != y.Status || x.Len != y.Len || x.Addr != y.Addr || !bytes.Equal(content(ra, x), content(rb, y)):
			t.Fatalf("call %d %s: %+v: the shim has %+v, the uprobes %+v", c.Index, ra.Schema().FuncName(c.Func), k, x, y)
		}
	}
	for k := range seen {
		t.Fatalf("call %d %s: only the uprobes have %+v", c.Index, ra.Schema().FuncName(c.Func), k)
	}
}

func isFile(r *format.Reader, c *format.Call, d *format.Data) bool {
	f := acl.Model.Lookup(r.Schema().FuncName(c.Func))
	return d.Item != 0 && int(d.Param) < len(f.Params) && f.Params[d.Param].Role == api.File
}
