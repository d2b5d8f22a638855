package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

// The libraries of operators that the loader finds show what of operators can be recorded.
func TestBoundariesOfOperators(t *testing.T) {
	const program = "/bin/cat" // which looks for libraries in LD_LIBRARY_PATH alone
	lib := filepath.Dir(testenv.Built(t, "lib/libnnopbase.so"))
	source := filepath.Join(t.TempDir(), "lib.c")
	if err := os.WriteFile(source, []byte("int x(void) { return 1; }\n#ifdef ALL\nint aclrtCacheLastTaskOpInfo(void); int y(void) { return aclrtCacheLastTaskOpInfo(); }\n"+
		"void NnopbaseGetExecutor(void) {} void NnopbaseRunForWorkspace(void) {} void NnopbaseRunWithWorkspace(void) {}\n#endif\n#ifdef CALLS\nvoid NnopbaseGetExecutor(void); void z(void) { NnopbaseGetExecutor(); }\n#endif\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := func(dir, name string, flags ...string) {
		b := mustRead(t, testenv.CompileC(t, name, []string{source}, append([]string{"-shared", "-fPIC", "-Wl,-soname," + name}, flags...)...))
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	old, generated := t.TempDir(), t.TempDir()
	build(old, "libnnopbase.so")
	build(old, "libopapi.so")
	build(generated, "libnnopbase.so", "-DALL")
	build(generated, "libopapi.so", "-DCALLS", "-L"+generated, "-Wl,--no-as-needed", "-lnnopbase", "-Wl,--unresolved-symbols=ignore-all")
	build(generated, "libopapi_math.so", "-L"+generated, "-Wl,--no-as-needed", "-lnnopbase", "-Wl,--unresolved-symbols=ignore-all")
	for dir, want := range map[string][]string{
		lib: {"it exports 5 of the 8 boundaries of operators that are recorded", "it describes tasks: their shapes can be recorded", "5 of them are called through imports of libopapi.so, libopapi_math.so, libopapi_nn.so, libopapi_transformer.so, libopapi_cv.so"},
		old: {"it exports no boundary of operators, as in CANN 8.3 and older: operators have no names", "it imports no function to describe tasks: shapes can be recorded only if it looks that up"},
		generated: {"it exports 3 of the 8 boundaries of operators that are recorded", "it describes tasks: their shapes can be recorded", "1 of them is called through imports of libopapi.so",
			"libopapi_math.so: no imports of them, so that the shim does not see these operators, and eBPF does"},
	} {
		t.Setenv("LD_LIBRARY_PATH", dir)
		d := &Diagnosis{}
		d.program(acl.Model, []string{program})
		i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Check == Operators })
		if i < 0 {
			t.Fatalf("no finding with %s", dir)
		}
		var got []string
		for _, n := range d.Findings[i].Notes {
			got = append(got, n.Text)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || !d.Findings[i].OK || d.Findings[i].Subject != filepath.Join(dir, "libnnopbase.so") {
			t.Errorf("%s: got  %q\nwant %q", d.Findings[i].Subject, got, want)
		}
	}
	t.Setenv("LD_LIBRARY_PATH", old)
	d := &Diagnosis{}
	if d.operators(acl.Model, "/gone", program); len(d.Findings) > 0 {
		t.Errorf("%+v", d.Findings)
	}
}
