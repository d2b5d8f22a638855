package record_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record"
)

// ownLibraries makes a copy of the built libraries, so that uprobes on them see the programs of this test alone.
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

func permitted(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, probe.ErrNotPermitted) || errors.Is(err, probe.ErrNotSupported) {
		t.Skipf("no uprobes here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The kernel, which sees every call however the program makes it, counts what the shim has recorded: equal, function by
// function. So it is for programs that call the lower library directly, and for collectives, which call the runtime in turn.
func TestShimAgainstUprobes(t *testing.T) {
	type job struct {
		command   []string
		libraries []string             // that it uses beside the runtime's
		forget    func(map[string]int) // takes away what was counted and is no call of the program's
	}
	jobs := map[string]func(t *testing.T) job{
		"lower": func(t *testing.T) job { return job{command: lower(t), forget: func(map[string]int) {}} },
		"collectives": func(t *testing.T) job {
			program, lib := collectives(t)
			return job{command: []string{program}, libraries: []string{lib}, forget: func(n map[string]int) {
				// The library asks itself for the number of ranks once, inside a call that is recorded. All other
				// times the shim asks, to know how long an array is, and the library asks the runtime in turn.
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
			u, err := probe.AttachUprobes(acl.Model, filepath.Join(dir, "libascendcl.so"), &probe.UprobeOptions{CountOnly: true})
			permitted(t, err)
			defer u.Close()
			for _, lib := range j.libraries {
				if err := u.Add(lib); err != nil {
					t.Fatal(err)
				}
			}
			r, _, _ := run(t, record.Options{Replayable: true}, j.command...)
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
			// These the shim itself has called: it asks the runtime for the sizes behind an array of arguments, and for its
			// ids of tasks.
			for _, own := range []string{"aclrtFunctionGetParamCount", "aclrtFunctionGetParamInfo", "aclrtGetThreadLastTaskId", "aclrtStreamGetId"} {
				delete(witnessed, own)
			}
			if got := count(calls(t, r), r); !maps.Equal(got, witnessed) || len(got) == 0 {
				t.Errorf("the shim recorded %v\nthe kernel counted %v", got, witnessed)
			}
		})
	}
}

// Both probes see the same calls with the same arguments, in the same order.
func TestUprobesAgainstShim(t *testing.T) {
	for _, name := range []string{"hello", "vector_add", "tiny_decoder"} {
		t.Run(name, func(t *testing.T) {
			program := testenv.Example(t, name)
			ownLibraries(t)
			a, _, _ := run(t, record.Options{}, program)
			testenv.Built(t, "lib/libacltrace.so")
			o := record.Options{Probe: "ebpf"}
			o.Model, o.Output, o.Command, o.Sim = acl.Model, filepath.Join(t.TempDir(), "run.aclt"), []string{program}, true
			res, err := record.Run(t.Context(), &o)
			permitted(t, err)
			b := open(t, o.Output)
			if res.Lost != 0 || res.ExitCode != 0 || b.Meta().CapturedBy != "ebpf" || !b.Meta().Simulated {
				t.Errorf("result %+v, meta %+v", res, b.Meta())
			}
			as, bs := calls(t, a), calls(t, b)
			if len(as) != len(bs) {
				t.Fatalf("the shim recorded %d calls, the uprobes %d", len(as), len(bs))
			}
			for i := range as {
				compare(t, a, as[i], bs[i])
			}
		})
	}
}

// compare compares what two runs of a program must agree in: all but handles and addresses of the host's memory.
func compare(t *testing.T, r *format.Reader, a, b *format.Call) {
	t.Helper()
	f := acl.Model.Lookup(r.Schema().FuncName(a.Func))
	if a.Func != b.Func || a.Ret != b.Ret && f.RetError || a.Flags != b.Flags {
		t.Fatalf("call %d: %s = %d and %s = %d", a.Index, f.Name, a.Ret, r.Schema().FuncName(b.Func), b.Ret)
	}
	host := func(v uint64) bool { return v>>40 == 0x7f || v>>40 == 0x7e || v>>40 == 0x55 || v>>40 == 0x56 }
	for _, p := range f.Params {
		if p.Object != "" && p.Object != api.Device {
			continue
		}
		x, y := a.Args[p.Word], b.Args[p.Word]
		if x != y && !(host(x) && host(y)) {
			t.Errorf("call %d %s: %s is %#x and %#x", a.Index, f.Name, p.Name, x, y)
		}
	}
	outs := a.Outs
	if n := len(outs); n > 0 && outs[n-1].Param == probe.TaskParam {
		outs = outs[:n-1] // uprobes can't ask the runtime
	}
	if len(outs) != len(b.Outs) {
		t.Errorf("call %d %s: outputs %v and %v", a.Index, f.Name, outs, b.Outs)
	}
	for i := range min(len(a.Data), len(b.Data)) {
		x, y := a.Data[i], b.Data[i]
		if f.Params[x.Param].Role.String() == "args" && (x.Param != y.Param || string(x.Bytes) != string(y.Bytes) || len(x.Bytes) == 0) {
			t.Errorf("call %d %s: arguments %x and %x", a.Index, f.Name, x.Bytes, y.Bytes)
		}
	}
}

// A program that runs already is recorded from the moment of attaching, and runs on after it.
func TestAttach(t *testing.T) {
	program := testenv.Example(t, "tiny_decoder")
	lib := ownLibraries(t)
	cmd := exec.Command(program, "--tokens", "100", "--sleep-ms", "20", "--quiet")
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	trace := filepath.Join(t.TempDir(), "run.aclt")
	res, err := record.Attach(t.Context(), &record.AttachOptions{PID: cmd.Process.Pid, For: time.Second,
		Options: record.Options{Model: acl.Model, Output: trace}})
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	permitted(t, err)
	b, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v: %s", err, b)
	}
	r := open(t, trace)
	n := count(calls(t, r), r)
	if l := n["aclrtLaunchKernelWithHostArgs"]; l < 400 || l > 39600 || res.Lost != 0 {
		t.Errorf("%d launches, %d calls lost", l, res.Lost)
	}
}
