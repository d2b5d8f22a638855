package shimtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
)

// toolkit compiles the stand-ins for libnnopbase, the runtime and two libraries with operators into a folder.
func toolkit(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	build := func(out string, args ...string) {
		plusplus(t, filepath.Join(dir, out), slices.Concat([]string{"-shared", "-fPIC", "-Wl,-soname," + out, "-L" + dir, "-Wl,-rpath,$ORIGIN"}, args, flags)...)
	}
	build("libacl_rt.so", "-DRUNTIME")
	build("libnnopbase.so", "-DBASE", "-lacl_rt")
	build("libopapi_math.so", "-DOPERATORS", `-DNAME="Add"`, "-lnnopbase")
	build("libopapi_nn.so", "-DOPERATORS", `-DNAME="Mul"`, "-lnnopbase")
	return dir
}

func plusplus(t *testing.T, out string, args ...string) string {
	t.Helper()
	const source = "testdata/operators.cc"
	testenv.Uses(t, source)
	if _, err := exec.LookPath("c++"); err != nil {
		t.Skip("no C++ compiler")
	}
	args = slices.Concat([]string{"-std=gnu++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", out, source}, args)
	if b, err := exec.Command("c++", args...).CombinedOutput(); err != nil {
		t.Fatalf("c++ %v: %v\n%s", args, err, b)
	}
	return out
}

// Every boundary of an operator was to be recorded once, in order, with its name and executor; also that of an operator that throws.
func TestOperatorsAreMarked(t *testing.T) {
	dir := toolkit(t)
	program := func(flags ...string) string {
		return plusplus(t, filepath.Join(t.TempDir(), "operators"), append(flags, "-L"+dir, "-lacl_rt", "-Wl,-rpath,"+dir, "-Wl,--allow-shlib-undefined", "-ldl", "-lpthread")...)
	}
	linked, other := program("-Wl,--no-as-needed", "-lopapi_math", "-lnnopbase"), program()
	math, nn := filepath.Join(dir, "libopapi_math.so"), filepath.Join(dir, "libopapi_nn.so")
	for _, c := range []struct {
		name    string
		how     record.Capture
		command []string
	}{
		{"linked", record.Capture{}, []string{linked, "linked", math}},
		{"dlopen", record.Capture{}, []string{other, "dlopen", math}},
		{"deepbind", record.Capture{}, []string{other, "deepbind", math}},
		{"namespace", record.Capture{}, []string{other, "namespace", math}},
		{"audit", record.Capture{Bind: "audit"}, []string{other, "deepbind", math}},
		{"audit, namespace", record.Capture{Bind: "audit"}, []string{other, "namespace", math}},
		{"loaded again", record.Capture{}, []string{other, "again", math, nn, math, math, nn}},
		{"eBPF, linked", record.Capture{Probe: "ebpf"}, []string{linked, "linked", math}},
		{"eBPF, deepbind", record.Capture{Probe: "ebpf"}, []string{other, "deepbind", math}},
		{"eBPF, namespace", record.Capture{Probe: "ebpf"}, []string{other, "namespace", math}},
		{"eBPF, loaded again", record.Capture{Probe: "ebpf"}, []string{other, "again", math, nn, math, math, nn}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &record.Options{Capture: c.how}
			if o.Limits.Block = c.how.Probe == ""; !o.Limits.Block {
				uprobes(t)
			}
			file := filepath.Join(t.TempDir(), "truth")
			r := recorded(t, o, []string{"FAKE_TRUTH=" + file}, c.command...)
			got := marks(t, r.Reader)
			if want := lines(t, file); !slices.Equal(got, want) {
				t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if m := r.Meta(); len(m.Coverage.Unhooked) > 0 || len(m.Coverage.PassedBy) > 0 || m.Tracer.Operators != "names" {
				t.Errorf("%+v, operators %q", m.Coverage, m.Tracer.Operators)
			}
		})
	}
}

// eBPF also records the marks of a library that is loaded from a folder that is not searched, and those of a process that runs already.
func TestMarksOfLaterLibraries(t *testing.T) {
	uprobes(t)
	dir, elsewhere := toolkit(t), toolkit(t)
	program := plusplus(t, filepath.Join(t.TempDir(), "operators"), "-L"+dir, "-lacl_rt", "-Wl,-rpath,"+dir, "-Wl,--allow-shlib-undefined", "-ldl", "-lpthread")
	command := []string{program, "gate", filepath.Join(elsewhere, "libopapi_math.so")}
	files := func() (truth string, env []string, gate *gate) {
		dir := t.TempDir()
		truth, gate = filepath.Join(dir, "truth"), newGate(filepath.Join(dir, "gate"))
		return truth, []string{"FAKE_TRUTH=" + truth, "FAKE_GATE=" + gate.path}, gate
	}
	check := func(r *format.Reader, truth string) {
		got := slices.DeleteFunc(marks(t, r), func(line string) bool { return line == atGate })
		if want := lines(t, truth); !slices.Equal(got, want) {
			t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	t.Run("record", func(t *testing.T) {
		truth, env, gate := files()
		r := recorded(t, &record.Options{Capture: record.Capture{Probe: "ebpf"}, Follower: gate}, env, command...)
		check(r.Reader, truth)
		if len(r.Unhooked) != 1 || !strings.Contains(r.Unhooked[0].Reason, "libnnopbase.so was found late: marks in its first ") {
			t.Errorf("not seen: %+v", r.Unhooked)
		}
	})
	t.Run("attach", func(t *testing.T) {
		truth, env, gate := files()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Process.Kill()
		testenv.Wait(t, "the program loads the operators", func() bool {
			libs, _ := uprobe.FindMarked(acl.Model, cmd.Process.Pid)
			return len(libs) > 0
		})
		o := &record.AttachOptions{PID: cmd.Process.Pid, Options: record.Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "run.aclt"), Follower: gate}}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if res, err := record.Attach(t.Context(), o); err != nil || res.Lost != 0 || len(res.Unhooked) > 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		r, err := format.Open(o.Output, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		check(r, truth)
	})
}

// uprobes skips the test on a machine without them.
func uprobes(t *testing.T) {
	t.Helper()
	u, err := uprobe.Load(acl.Model, &uprobe.Options{CountOnly: true})
	testenv.Uprobes(t, err)
	u.Close()
}

// atGate is what marks returns for the calls of a program at its gate.
const atGate = "NnopbaseRunWithWorkspace 0x77"

// A gate holds a program until a recorder has seen a call of it. It implements record.Follower.
type gate struct {
	path string
	open sync.Once
}

func newGate(path string) *gate { return &gate{path: path} }

func (g *gate) Call(c *format.Call, _ bool) {
	if f := acl.Model.Func(api.ID(c.Func)); f != nil && f.Operator == api.GeneratedPhaseTwo {
		g.open.Do(func() { _ = os.WriteFile(g.path, nil, 0o600) })
	}
}
func (*gate) Begin(*format.Meta)                   {}
func (*gate) Process(*format.Process)              {}
func (*gate) Thread(*format.Thread)                {}
func (*gate) Device(uint32, *format.ProcessDevice) {}
func (*gate) Measured(uint64, int64, int64)        {}
func (*gate) Gap(*format.Gap)                      {}
func (*gate) Drained(int64)                        {}
func (*gate) End(int64)                            {}

// A toolkit without these functions is recorded as before.
func TestToolkitWithoutMarks(t *testing.T) {
	dir := toolkit(t, "-DOLD")
	file := filepath.Join(t.TempDir(), "truth")
	program := plusplus(t, filepath.Join(t.TempDir(), "operators"), "-L"+dir, "-lacl_rt", "-Wl,-rpath,"+dir, "-Wl,--allow-shlib-undefined", "-ldl", "-lpthread")
	check := func(name string, r *result) {
		if got, want := marks(t, r.Reader), lines(t, file); !slices.Equal(got, want) || len(want) != 3 || len(r.Unhooked) > 0 {
			t.Errorf("%s: %q, want %q, not seen %+v", name, got, want, r.Unhooked)
		}
		_ = os.Remove(file)
	}
	for _, way := range []string{"dlopen", "deepbind"} {
		check(way, bound(t, "", []string{"FAKE_TRUTH=" + file, "OLD=1"}, program, way, filepath.Join(dir, "libopapi_math.so")))
	}
	uprobes(t)
	check("eBPF", recorded(t, &record.Options{Capture: record.Capture{Probe: "ebpf"}}, []string{"FAKE_TRUTH=" + file, "OLD=1"}, program, "dlopen", filepath.Join(dir, "libopapi_math.so")))
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// marks returns the launches and marks of a trace as the stand-ins write them.
func marks(t *testing.T, r *format.Reader) (all []string) {
	t.Helper()
	names := map[uint64]string{}
	for d, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		names[d.Call] = string(d.Bytes)
	}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		f := acl.Model.Func(api.ID(c.Func))
		line := f.Name
		switch {
		case f.EntryMark():
			if c.End != c.Start || c.Ret != 0 {
				t.Errorf("%s takes %d and returns %d", f.Name, c.End-c.Start, c.Ret)
			}
			if f.Names >= 0 {
				line += " " + names[c.Index]
			}
			for _, p := range f.Params {
				if e := c.Args[p.Word]; p.Object == api.Executor && f.Operator != api.OperatorPhaseOne {
					if e == 0 {
						line += " (nil)"
					} else {
						line += fmt.Sprintf(" %#x", e)
					}
				}
			}
		case f.Task != api.Kernel:
			continue
		}
		all = append(all, line)
	}
	return all
}
