package record_test

import (
	"fmt"
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

// A launch by a binary's handle and a number has the kernel's name and its arguments' layout, from the binary in the trace.
func TestLaunchByHandle(t *testing.T) {
	include := "-I" + filepath.Join(testenv.Root(t), "probe/shim")
	src := []string{source("handle.c")}
	kernels := testenv.CompileC(t, "kernels.o", src, "-DKERNELS", "-c")
	lib := testenv.CompileC(t, "libruntime.so", src, "-DRUNTIME", "-shared", "-fPIC", include, "-Wl,-soname,libruntime.so")
	// The old kind of path precedes the simulator's folder, which has a library with that name, too.
	program := testenv.CompileC(t, "program", append(src, lib), include, "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))
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
	unknown := "unknown kernel"
	if want := []string{"add_f32_7", unknown, "mul_f32", unknown, unknown, unknown, "function 0x6809", "function 0x6809", "mul_f32"}; !slices.Equal(names, want) {
		t.Errorf("kernels %q, want %q", names, want)
	}
	var text strings.Builder
	if err := report.Lines(&text, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), " [mul_f32] of ffts, input(64), output(64), tiling(24)"); n != 2 {
		t.Errorf("shown %d times:\n%s", n, text.String())
	}
	// Descriptors have the host memory behind their pointers, and an argument list has its block as at the launch.
	var got []string
	for _, c := range calls(t, r) {
		name := r.Schema().FuncName(c.Func)
		if name != "rtFftsPlusTaskLaunchWithFlag" && name != "rtCCULaunch" && name != "rtLaunchKernelByFuncHandle" {
			continue
		}
		for _, d := range c.Data {
			got = append(got, fmt.Sprintf("%s.%d %d %x", name, d.Item, d.Len, d.Bytes[0]))
		}
	}
	want := []string{"rtFftsPlusTaskLaunchWithFlag.0 64", "rtFftsPlusTaskLaunchWithFlag.1 64 51", "rtFftsPlusTaskLaunchWithFlag.2 256 52", "rtCCULaunch.0 120 0",
		"rtFftsPlusTaskLaunchWithFlag.0 64", "rtFftsPlusTaskLaunchWithFlag.1 64 51", "rtLaunchKernelByFuncHandle.1 24 53", "rtLaunchKernelByFuncHandle.1 24 53"}
	if len(got) != len(want) {
		t.Fatalf("captured %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("captured %q, want %q", got[i], want[i])
		}
	}
	for _, c := range calls(t, r) {
		if r.Schema().FuncName(c.Func) == "rtLaunchKernelByFuncHandle" && c.Data[0].Bytes[16] != 0x57 {
			t.Errorf("the block of arguments is not as it was at the launch: %x", c.Data[0].Bytes)
		}
	}
}
