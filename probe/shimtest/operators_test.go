package shimtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
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
		name, bind string
		command    []string
	}{
		{"linked", "", []string{linked, "linked", math}},
		{"dlopen", "", []string{other, "dlopen", math}},
		{"deepbind", "", []string{other, "deepbind", math}},
		{"namespace", "", []string{other, "namespace", math}},
		{"audit", "audit", []string{other, "deepbind", math}},
		{"audit, namespace", "audit", []string{other, "namespace", math}},
		{"loaded again", "", []string{other, "again", math, nn, math, math, nn}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "truth")
			r := bound(t, c.bind, []string{"FAKE_TRUTH=" + file}, c.command...)
			got := marks(t, r)
			if want := lines(t, file); !slices.Equal(got, want) {
				t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if m := r.Meta(); len(m.Coverage.Unhooked) > 0 || len(m.Coverage.PassedBy) > 0 || m.Tracer.Operators != "names" {
				t.Errorf("%+v, operators %q", m.Coverage, m.Tracer.Operators)
			}
		})
	}
}

// A toolkit without these functions is recorded as before.
func TestToolkitWithoutMarks(t *testing.T) {
	dir := toolkit(t, "-DOLD")
	file := filepath.Join(t.TempDir(), "truth")
	program := plusplus(t, filepath.Join(t.TempDir(), "operators"), "-L"+dir, "-lacl_rt", "-Wl,-rpath,"+dir, "-Wl,--allow-shlib-undefined", "-ldl", "-lpthread")
	for _, way := range []string{"dlopen", "deepbind"} {
		_ = os.Remove(file)
		r := bound(t, "", []string{"FAKE_TRUTH=" + file, "OLD=1"}, program, way, filepath.Join(dir, "libopapi_math.so"))
		if got, want := marks(t, r), lines(t, file); !slices.Equal(got, want) || len(want) != 3 {
			t.Errorf("%s: %q, want %q", way, got, want)
		}
	}
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
func marks(t *testing.T, r *result) (all []string) {
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
