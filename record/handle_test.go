package record_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// A launch by the handle of a binary and a number has the name of the kernel, from the binary that the trace holds, and what the
// binary says of the arguments.
func TestLaunchByHandle(t *testing.T) {
	include := "-I" + filepath.Join(testenv.Root(t), "probe/shim")
	src := []string{source("handle.c")}
	kernels := testenv.CompileC(t, "kernels.o", src, "-DKERNELS", "-c")
	lib := testenv.CompileC(t, "libruntime.so", src, "-DRUNTIME", "-shared", "-fPIC", include, "-Wl,-soname,libruntime.so")
	program := testenv.CompileC(t, "program", append(src, lib), include, "-Wl,-rpath,"+filepath.Dir(lib))
	r, res, _ := run(t, record.Options{}, program, kernels)
	if res.ExitCode != 0 {
		t.Fatalf("%+v", res)
	}
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range tl.Tasks {
		names = append(names, tl.Tasks[i].Name)
	}
	if want := []string{"add_f32_7", "unknown kernel", "mul_f32", "mul_f32"}; !slices.Equal(names, want) {
		t.Errorf("kernels %q, want %q", names, want)
	}
	var text strings.Builder
	if err := report.Lines(&text, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), " [mul_f32] of ffts, input(64), output(64), tiling(24)"); n != 2 {
		t.Errorf("shown %d times:\n%s", n, text.String())
	}
}
