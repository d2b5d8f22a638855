package record_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
)

// cudaDriver is the example that does what programs do with the driver, on the fake one.
func cudaDriver(t *testing.T) string {
	t.Helper()
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	t.Setenv("FAKECUDA_KERNELS", testenv.Built(t, "bin/examples/cuda/kernels.so"))
	return testenv.Built(t, "bin/examples/cuda/driver")
}

func callsOf(r *format.Reader, cs []*format.Call, name string) []*format.Call {
	return slices.DeleteFunc(slices.Clone(cs), func(c *format.Call) bool { return r.Schema().FuncName(c.Func) != name })
}

func item(c *format.Call, param int, item uint32, dir format.Dir) *format.Data {
	for i := range c.Data {
		if d := &c.Data[i]; int(d.Param) == param && d.Item == item && d.Dir == dir {
			return d
		}
	}
	return nil
}

func TestCUDADriver(t *testing.T) {
	program := cudaDriver(t)
	r, res, out := run(t, record.Options{Model: cuda.Model, Replayable: true}, program)
	if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || res.Failed != 0 || strings.Count(out, ": ok\n") != strings.Count(out, "\n") {
		t.Fatalf("%+v\n%s", res, out)
	}
	if m := r.Meta(); m.API != "cuda" || !m.Simulated || m.Env["FAKECUDA_KERNELS"] == "" {
		t.Errorf("meta: API %q, simulated %t, environment %v", m.API, m.Simulated, m.Env)
	}
	cs := calls(t, r)

	// Every attribute of a launch, as it was, and the arguments with the sizes that the driver tells.
	if _, err := timeline.Load(r, cuda.Model); err != nil {
		t.Fatal(err)
	}

	launches := callsOf(r, cs, "cuLaunchKernelEx")
	ids := map[uint32]bool{}
	for _, c := range launches {
		at := item(c, 0, 1, format.DirIn)
		if at == nil || at.Len != 72 {
			t.Fatalf("attributes of call %d: %+v", c.Index, at)
		}
		ids[binary.LittleEndian.Uint32(at.Bytes)] = true
		for k, size := range []uint64{8, 8, 8, 4} {
			if d := item(c, 2, uint32(k+1), format.DirIn); d == nil || d.Len != size {
				t.Errorf("call %d: argument %d: %+v", c.Index, k, d)
			}
		}
	}
	if len(launches) != 12 || len(ids) != 12 {
		t.Errorf("%d launches with %d attributes", len(launches), len(ids))
	}
	for _, c := range callsOf(r, cs, "cuLaunchKernel") {
		if extra := c.Args[10]; extra != 0 {
			if d := item(c, 10, 1, format.DirIn); d == nil || d.Len != 32 || binary.LittleEndian.Uint32(d.Bytes[24:]) != 1000 {
				t.Errorf("a block of arguments: %+v", d)
			}
		}
	}

	// Binaries tell their own sizes: text with its end, and a fat binary behind what leads to it.
	image := item(callsOf(r, cs, "cuModuleLoadData")[0], 1, 0, format.DirIn)
	if image == nil || !bytes.HasPrefix(image.Bytes, []byte(".version 7.0")) || image.Bytes[len(image.Bytes)-1] != 0 {
		t.Errorf("PTX: %+v", image)
	}
	if fat := item(callsOf(r, cs, "cuModuleLoadFatBinary")[0], 1, 0, format.DirIn); fat == nil || binary.LittleEndian.Uint32(fat.Bytes) != 0xba55ed50 {
		t.Errorf("a fat binary: %+v", fat)
	}

	// Rows without the gaps between them, both ways.
	in, back := callsOf(r, cs, "cuMemcpy2D_v2")[0], callsOf(r, cs, "cuMemcpy2DUnaligned_v2")[0]
	if d := item(in, 0, api.BlockFrom, format.DirIn); d == nil || d.Len != 40*6 || d.Bytes[0] != 64+8 {
		t.Errorf("rows to the device: %+v", d)
	}
	if d := item(back, 0, api.BlockTo, format.DirOut); d == nil || d.Len != 40*7 || d.Bytes[0] != 64+8 || d.Bytes[6*40] != 0xee {
		t.Errorf("rows from the device: %+v", d)
	}
}

// However a program reaches the driver, its calls are recorded; what is not modelled, and tables without names, are counted.
func TestCUDAReach(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	program := testenv.CompileC(t, "reach", []string{source("cuda_reach.c")}, "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"))
	for way, copied := range map[string]string{"dlsym": "cuMemcpyHtoDAsync_v2", "first": "cuMemcpyHtoDAsync_v2", "second": "cuMemcpyHtoDAsync_v2", "self": "cuMemcpyHtoDAsync_v2", "thread": "cuMemcpyHtoDAsync_v2_ptsz"} {
		r, res, out := run(t, record.Options{Model: cuda.Model}, program, way)
		if res.ExitCode != 0 || out != "done\n" {
			t.Errorf("%s: %+v", way, res)
			continue
		}
		cs := calls(t, r)
		for _, name := range []string{"cuInit", "cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", copied, "cuGetExportTable"} {
			if len(callsOf(r, cs, name)) != 1 {
				t.Errorf("%s: %d calls of %s", way, len(callsOf(r, cs, name)), name)
			}
		}
		if res.PassedBy["cuGetExportTable"] != 1 || res.PassedBy["cuTexRefCreate"] != 1 {
			t.Errorf("%s: passed by %v", way, res.PassedBy)
		}
	}
}

// The runtime that a program is linked to, the one that it names, and the one that the machine has.
func TestRuntime(t *testing.T) {
	models := []*api.Model{acl.Model, cuda.Model}
	driver := cudaDriver(t)
	reach := testenv.CompileC(t, "reach", []string{source("cuda_reach.c")}, "-c", "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"))
	if err := os.Chmod(reach, 0o755); err != nil {
		t.Fatal(err)
	}
	lib := t.TempDir()
	if err := os.WriteFile(filepath.Join(lib, "libcuda.so.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		env     []string
		want    *api.Model
	}{
		{driver, nil, cuda.Model}, {reach, nil, cuda.Model}, {testenv.Example(t, "vector_add"), []string{"LD_LIBRARY_PATH=" + lib}, acl.Model},
		{"/bin/true", []string{"LD_LIBRARY_PATH=" + lib}, cuda.Model}, {"/bin/true", nil, acl.Model},
	} {
		if got := record.Runtime(models, c.program, c.env); got != c.want {
			t.Errorf("%s %v: %s", c.program, c.env, got.Name)
		}
	}
}
