package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/features"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
)

// ownLibraries copies the built libraries, so that uprobes on them see only this test's programs.
func ownLibraries(t *testing.T) string {
	t.Helper()
	from := filepath.Dir(testenv.Built(t, "lib/libascendcl.so"))
	to := t.TempDir()
	for _, name := range []string{"libascendcl.so", "libaclsim.so", "libacltrace.so"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"libacl_rt.so", "libruntime.so"} {
		if err := os.Symlink("libascendcl.so", filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ACLTRACE_LIB", to)
	return to
}

// The kernel sees every call and counts the same number as the shim for each function. This includes programs that call the lower
// library directly, and collectives, which call the runtime.
func TestShimAgainstUprobes(t *testing.T) {
	type job struct {
		command   []string
		libraries []string             // besides the runtime's
		forget    func(map[string]int) // subtracts calls that the program did not make
	}
	jobs := map[string]func(t *testing.T) job{
		"lower": func(t *testing.T) job { return job{command: lower(t), forget: func(map[string]int) {}} },
		"collectives": func(t *testing.T) job {
			program, lib := collectives(t)
			return job{command: []string{program}, libraries: []string{lib}, forget: func(n map[string]int) {
				// The library queries the number of ranks once, inside a recorded call. The shim queries it once per
				// communicator to know an array's length, and the library then queries the runtime.
				if n["HcclGetRankSize"] != 2 {
					t.Errorf("the number of ranks was asked for %d times, by the library and the shim once each is 2", n["HcclGetRankSize"])
				}
				n["aclrtGetDevice"] -= n["HcclGetRankSize"] - 1
				delete(n, "HcclGetRankSize")
			}}
		},
	}
	for _, name := range []string{"hello", "vector_add", "matmul_pipeline", "tiny_decoder"} {
		jobs[name] = func(t *testing.T) job {
			return job{command: []string{testenv.Example(t, name)}, forget: func(map[string]int) {}}
		}
	}
	for name, prepare := range jobs {
		t.Run(name, func(t *testing.T) {
			j := prepare(t)
			dir := ownLibraries(t)
			u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
			testenv.Uprobes(t, err)
			defer u.Close()
			for _, lib := range append([]string{filepath.Join(dir, "libascendcl.so")}, j.libraries...) {
				testenv.Uprobes(t, u.Add(lib))
			}
			r, _, _ := run(t, record.Options{Capture: record.Capture{Replayable: true}}, j.command...)
			seen, err := u.Counts()
			if err != nil {
				t.Fatal(err)
			}
			witnessed := map[string]int{}
			for f, n := range seen {
				if n > 0 {
					witnessed[f] = int(n)
				}
			}
			j.forget(witnessed)
			// The shim's own calls: it queries argument sizes and task ids.
			for _, own := range []string{"aclrtFunctionGetParamCount", "aclrtFunctionGetParamInfo", "aclrtGetThreadLastTaskId", "aclrtStreamGetId"} {
				delete(witnessed, own)
			}
			if got := count(calls(t, r), r); !maps.Equal(got, witnessed) || len(got) == 0 {
				t.Errorf("the shim recorded %v\nthe kernel counted %v", got, witnessed)
			}
		})
	}
}

// Both probes see the same calls with the same arguments, outputs and memory, in the same order. This holds for every example, for a
// program that calls the lower library directly, and for collectives, which enclose runtime calls.
func TestUprobesAgainstShim(t *testing.T) {
	type job struct {
		command []string
		kernels string
	}
	jobs := map[string]func(t *testing.T) job{
		"lower": func(t *testing.T) job { return job{command: lower(t)} },
	}
	for name, kernels := range map[string]string{"hello": "", "vector_add": "vector", "matmul_pipeline": "matmul", "tiny_decoder": "decoder", "histogram": "histogram"} {
		jobs[name] = func(t *testing.T) job {
			j := job{command: []string{testenv.Example(t, name)}}
			if kernels != "" {
				j.kernels = testenv.Built(t, "bin/examples/"+kernels+"_kernels.so")
			}
			return j
		}
	}
	for name, prepare := range jobs {
		t.Run(name, func(t *testing.T) {
			j := prepare(t)
			ownLibraries(t)
			if j.kernels != "" {
				t.Setenv("ACLSIM_KERNELS", j.kernels)
			}
			a, want, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{NoTaskIDs: true}, Payload: record.Full}, Limits: record.Limits{MaxSize: 1 << 40}}, j.command...)
			o := record.Options{Capture: record.Capture{Probe: "ebpf", Payload: record.Full}, Limits: record.Limits{MaxSize: 1 << 40}}
			o.Model, o.Output, o.Command, o.Sim = acl.Model, filepath.Join(t.TempDir(), "run.aclt"), j.command, true
			res, err := record.Run(t.Context(), &o)
			testenv.Uprobes(t, err)
			b := open(t, o.Output)
			if res.Lost != 0 || res.ExitCode != want.ExitCode || b.Meta().CapturedBy != "ebpf" || !b.Meta().Simulated {
				t.Errorf("result %+v, meta %+v", res, b.Meta())
			}
			as, bs := calls(t, a), calls(t, b)
			if len(as) != len(bs) {
				t.Fatalf("the shim recorded %d calls, the uprobes %d", len(as), len(bs))
			}
			ad, bd := late(t, a), late(t, b)
			for i := range as {
				compare(t, acl.Model, a, as[i], bs[i])
				if name == "histogram" {
					continue // a race between its kernels
				}
				compareData(t, acl.Model, a, b, as[i], append(as[i].Data, ad[as[i].Index]...), append(bs[i].Data, bd[bs[i].Index]...))
			}
		})
	}
}

// late returns data that came after its call.
func late(t *testing.T, r *format.Reader) map[uint64][]format.Data {
	t.Helper()
	late := map[uint64][]format.Data{}
	for d, err := range r.Data(&format.DataFilter{Late: true}) {
		if err != nil {
			t.Fatal(err)
		}
		k := *d
		k.Bytes = bytes.Clone(d.Bytes)
		late[d.Call] = append(late[d.Call], k)
	}
	return late
}

// compareData compares the memory that belongs to a call. Uprobes mark memory that they can't capture as missing.
func compareData(t *testing.T, m *api.Model, ra, rb *format.Reader, c *format.Call, as, bs []format.Data) {
	t.Helper()
	f := m.Lookup(ra.Schema().FuncName(c.Func))
	type key struct {
		param uint8
		item  uint32
		dir   format.Dir
	}
	find := func(k key) *format.Data {
		for i := range bs {
			if bs[i].Param == k.param && bs[i].Item == k.item && bs[i].Dir == k.dir {
				return &bs[i]
			}
		}
		return nil
	}
	content := func(r *format.Reader, d *format.Data) []byte {
		if d.Len <= format.InlineLimit {
			return d.Bytes
		}
		b, err := r.Blob(d.Blob)
		if err != nil {
			t.Fatalf("call %d: %v", c.Index, err)
		}
		return b
	}
	host := func(v uint64) bool { return v>>40 == 0x7f || v>>40 == 0x7e || v>>40 == 0x55 || v>>40 == 0x56 }
	for i := range as {
		x := &as[i]
		if int(x.Param) >= len(f.Params) && x.Param != api.RetParam {
			continue
		}
		y := find(key{x.Param, x.Item, x.Dir})
		where := fmt.Sprintf("call %d %s: parameter %d, item %d", c.Index, f.Name, x.Param, x.Item)
		switch {
		case y == nil && f.Params[x.Param].Role == api.ArgArray && unsized(bs, x.Param) && (m == acl.Model || fileGone(t, m, rb)):
			continue // the examples' kernels have no metadata, or the program has removed their file after loading it
		case y == nil && f.Params[x.Param].Size.Stored:
			continue // only the runtime knows the sizes
		case y == nil && x.Item != 0 && f.Task == api.GraphRun:
			continue // copied when a graph runs
		case y == nil:
			t.Errorf("%s: not in the trace of the uprobes", where)
			continue
		case x.Len != y.Len && !(y.Status == format.Missing && y.Len == 0):
			t.Errorf("%s: %d and %d bytes", where, x.Len, y.Len)
			continue
		case x.Status == format.Whole && y.Status == format.Missing && (y.Reason == format.Unawaited || y.Len == 0):
			continue // result of a copy that was not awaited yet
		case x.Status == format.Whole && y.Status == format.Missing && y.Reason == format.LimitReached && (x.Len > 1<<20 || f.Params[x.Param].CopyDesc != nil) && oldKernel():
			continue // before Linux 6.0 uprobes capture no more, and no rows
		case x.Status != y.Status:
			t.Errorf("%s: status %v and %v %v", where, x.Status, y.Status, y.Reason)
			continue
		case x.Status != format.Whole:
			continue
		}
		p, q := content(ra, x), content(rb, y)
		for at := 0; at < len(p); at += 8 {
			v, w := p[at:min(at+8, len(p))], q[at:min(at+8, len(q))]
			if bytes.Equal(v, w) || len(v) == 8 && host(binary.LittleEndian.Uint64(v)) && host(binary.LittleEndian.Uint64(w)) {
				continue
			}
			t.Errorf("%s: at %d %x and %x", where, at, v, w)
			break
		}
	}
}

// unsized reports whether data is marked as arguments with an unknown size.
func unsized(ds []format.Data, param uint8) bool {
	return slices.ContainsFunc(ds, func(d format.Data) bool {
		return d.Param == param && d.Item == 0 && d.Status == format.Missing && d.Reason == format.Unreadable
	})
}

// fileGone reports whether a file was already removed when the recorder looked.
func fileGone(t *testing.T, m *api.Model, r *format.Reader) bool {
	t.Helper()
	ds := late(t, r)
	for _, c := range calls(t, r) {
		f := m.Lookup(r.Schema().FuncName(c.Func))
		for _, d := range append(c.Data, ds[c.Index]...) {
			if int(d.Param) < len(f.Params) && f.Params[d.Param].Role == api.File && d.Item == 1 && d.Status == format.Missing {
				return true
			}
		}
	}
	return false
}

func oldKernel() bool {
	version, err := features.LinuxVersionCode()
	return err == nil && version < 6<<16
}

// compare compares two runs, except handles and host addresses.
func compare(t *testing.T, m *api.Model, r *format.Reader, a, b *format.Call) {
	t.Helper()
	f := m.Lookup(r.Schema().FuncName(a.Func))
	if a.Func != b.Func || a.Ret != b.Ret && f.RetError || a.Flags != b.Flags {
		t.Fatalf("call %d: %s = %d and %s = %d", a.Index, f.Name, a.Ret, r.Schema().FuncName(b.Func), b.Ret)
	}
	host := func(v uint64) bool { return v>>40 == 0x7f || v>>40 == 0x7e || v>>40 == 0x55 || v>>40 == 0x56 }
	for _, p := range f.Params {
		if p.Object != "" && p.Object != api.Device {
			continue
		}
		for w := range p.Words {
			x, y := a.Args[p.Word+w], b.Args[p.Word+w]
			if x != y && !(host(x) && host(y)) {
				t.Errorf("call %d %s: %s is %#x and %#x", a.Index, f.Name, p.Name, x, y)
			}
		}
	}
	if len(stored(a)) != len(stored(b)) {
		t.Errorf("call %d %s: outputs %v and %v", a.Index, f.Name, a.Outs, b.Outs)
	}
}

// A running program is recorded from the moment of attaching, and runs on afterwards.
func TestAttachedProgramRunsOn(t *testing.T) {
	program := testenv.Example(t, "tiny_decoder")
	lib := ownLibraries(t)
	cmd := exec.Command(program, "--tokens", "250", "--sleep-ms", "20", "--quiet")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	testenv.Wait(t, "a program in the middle of its work", func() bool { return ran(cmd.Process.Pid) > 20 })
	// It is stopped until the probes are attached, and again after enough calls until they are removed.
	stand := func(still bool) {
		sig := syscall.SIGCONT
		if still {
			sig = syscall.SIGSTOP
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Error(err)
		}
	}
	stand(true)
	r, res := attach(t, record.AttachOptions{PID: cmd.Process.Pid}, func(l *launches) {
		stand(false)
		launching(t, 1)(l)
		stand(true)
	})
	// A recording with a time limit ends by itself.
	if _, err := record.Attach(t.Context(), &record.AttachOptions{PID: cmd.Process.Pid, Options: record.Options{Limits: record.Limits{For: time.Millisecond}, Model: acl.Model, Output: filepath.Join(t.TempDir(), "for.aclt")}}); err != nil {
		t.Error(err)
	}
	stand(false)
	b, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v: %s", err, b)
	}
	n := count(calls(t, r), r)
	if l := n["aclrtLaunchKernelWithHostArgs"]; l < 400 || l > 99600 || res.Lost != 0 {
		t.Errorf("%d launches, %d calls lost", l, res.Lost)
	}
}
