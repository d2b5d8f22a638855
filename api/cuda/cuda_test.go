package cuda

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/testenv"
)

func TestLayoutsMatchTheDocuments(t *testing.T) {
	testenv.CompileC(t, "layouts.o", []string{"testdata/layouts.c"}, "-I"+testenv.Root(t)+"/api/cuda/include", "-c")
}

// Spot checks on facts that runtime-independent packages read.
func TestMeaningOfLaunchesAndCopies(t *testing.T) {
	launch := Model.Lookup("cuLaunchKernelEx")
	config := &launch.Params[launch.Param("config")]
	if launch.Task != api.Kernel || int(launch.Stream) != launch.Param("config") || config.Role != api.Struct || config.Elem != 56 {
		t.Errorf("cuLaunchKernelEx: task %s, stream %d, config is a %s of %d bytes", launch.Task, launch.Stream, config.Role, config.Elem)
	}
	attrs := api.Field{Offset: 40, Item: 1, Type: "CUlaunchAttribute", Unit: 72, Count: api.Member{Type: "uint32_t", Offset: 48, Size: 4}}
	if len(config.Fields) != 2 || config.Fields[0] != (api.Field{Offset: 32, Object: api.Stream}) || config.Fields[1] != attrs {
		t.Errorf("fields of CUlaunchConfig: %+v", config.Fields)
	}
	block := Model.Lookup("cuMemcpy3DAsync_v2").Params[0].CopyDesc
	if block == nil || block.From.Host != 40 || block.To.Kind != 120 || block.To.Rows != 168 || block.Depth != 192 {
		t.Errorf("the block of CUDA_MEMCPY3D: %+v", block)
	}
	if b := Model.Lookup("cuMemcpy2D_v2").Params[0].CopyDesc; b == nil || b.Depth != api.NoField || b.From.Z != api.NoField || b.To.Pitch != 104 {
		t.Errorf("the block of CUDA_MEMCPY2D: %+v", b)
	}
	if e := Model.Layout("CUlaunchAttribute"); e == nil || e.Size != 72 || len(e.Cases) != 17 || len(e.Cases[4]) != 3 {
		t.Errorf("what is shown of launch attributes: %+v", e)
	}
	for name, want := range map[string]api.Sync{"cuStreamQuery": api.PollStream, "cuEventQuery": api.PollEvent, "cuCtxSynchronize": api.SyncDevice, "cuEventSynchronize": api.SyncEvent} {
		if f := Model.Lookup(name); f.Sync != want {
			t.Errorf("%s: %s", name, f.Sync)
		}
	}
	if !Model.DeviceFault(700) || Model.DeviceFault(600) || Model.Pending != 600 || Model.ErrorName(700) != "CUDA_ERROR_ILLEGAL_ADDRESS" {
		t.Error("error codes")
	}
	if !Model.Library("libcuda.so.1") || Model.Library("libcudart.so.12") {
		t.Error("libraries")
	}
}

// A variant for the thread's own default stream has the same meaning.
func TestThreadVariantsKeepTheirMeaning(t *testing.T) {
	for i := range Model.Funcs {
		f := &Model.Funcs[i]
		n := len(f.Name) - len("_ptsz")
		if n < 0 || f.Name[n:] != "_ptsz" && f.Name[n:] != "_ptds" {
			continue
		}
		of := Model.Lookup(f.Name[:n])
		if of == nil || of.Modelled != f.Modelled || of.Task != f.Task || of.Stream != f.Stream || of.ID == f.ID {
			t.Errorf("%s is not as %s", f.Name, f.Name[:n])
		}
	}
	if f := Model.Lookup("cuLaunchKernel_ptsz"); f == nil || f.Task != api.Kernel {
		t.Error("cuLaunchKernel_ptsz is no launch")
	}
}
