package timeline_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// kernels lists the kernel names of the launches.
func (s *sequence) kernels() []string {
	s.t.Helper()
	var out []string
	s.events(func(_ *timeline.State, e *timeline.Event) {
		if e.Fn != nil && e.Fn.Task.String() == "kernel" {
			out = append(out, e.Kernel)
		}
	})
	return out
}

func TestKernelNames(t *testing.T) {
	const stub, bin, byEntry, cpu = 0x560000001000, 0x6601, 0x6602, 0x6603
	s := newSequence(t)
	s.Then("rtDevBinaryRegister", testtrace.A(0x7ffe0000, 0x7ffe0018), testtrace.Outs("hdl", bin))
	launch := func() { s.Then("rtKernelLaunch", testtrace.A(stub, 8, 0x7ffe0100, 16, 0, strA)) }
	launch()
	s.Then("rtFunctionRegister", testtrace.A(bin, stub, 0x7ffe0020, 0, 0), testtrace.Text("stubName", "Add"))
	launch()
	s.Then("rtKernelLaunchWithFlagV2", testtrace.A(stub, 8, 0x7ffe0100, 0, strA, 0, 0), testtrace.Reads("argsInfo", 0, testtrace.Words(0, 0, 0, 0, 0)))
	// Registered again, the stub means another function.
	s.Then("rtFunctionRegister", testtrace.A(bin, stub, 0x7ffe0020, 0, 0), testtrace.Text("stubName", "Mul"))
	launch()
	// The function is found by its entry, and its name is queried later. A query that fails gives no name.
	s.Then("aclrtBinaryGetFunctionByEntry", testtrace.A(bin, 7, 0x7ffe0018), testtrace.Outs("funcHandle", byEntry))
	run := func(fn uint64) { s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, strA)) }
	run(byEntry)
	s.Then("aclrtGetFunctionName", testtrace.A(byEntry, 64, 0x7ffe0200), testtrace.Text("name", "Softmax"))
	run(byEntry)
	s.Then("aclrtRegisterCpuFunc", testtrace.A(bin, 0x7ffe0020, 0x7ffe0028, 0x7ffe0018), testtrace.Outs("funcHandle", cpu),
		testtrace.Text("funcName", "RunCpuKernel"), testtrace.Text("kernelName", "Unique"))
	run(cpu)
	// Launches that hold the kernel name.
	s.Then("rtAicpuKernelLaunchExWithArgs", testtrace.A(6, 0x7ffe0020, 1, 0x7ffe0100, 0, strA, 0), testtrace.Text("opName", "TopK"))
	s.Then("rtAicpuKernelLaunchWithFlag", testtrace.A(0x7ffe0020, 1, 0x7ffe0100, 0, strA, 0), testtrace.Reads("launchNames", 0, testtrace.Words(1, 2, 0)),
		testtrace.Reads("launchNames", 1, []byte("libcpu_kernels.so")), testtrace.Reads("launchNames", 2, []byte("RunCast")))
	s.Then("rtKernelLaunchWithHandleV2", testtrace.A(bin, 3, 8, 0x7ffe0100, 0, strA, 0))
	want := []string{"function 0x560000001000", "Add", "Add", "Mul", "function 0x6602", "Softmax", "Unique", "TopK", "RunCast", ""}
	if got := s.kernels(); !slices.Equal(got, want) {
		t.Errorf("kernels %q, want %q", got, want)
	}
}

func TestGraphNames(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
	s.Then("aclmdlRISetName", testtrace.A(0x77, 0x7ffe0020), testtrace.Text("name", "decode"))
	s.Then("aclmdlRIDebugJsonPrint", testtrace.A(0x77, 0x7ffe0020, 0), testtrace.Text("path", "/tmp/graph.json"))
	s.Then("aclmdlRIExecuteAsync", testtrace.A(0x77, strA))
	wantUses(t, s, "stream#1", "stream#1 graph#2", "graph#2(decode)", "graph#2(decode)", "graph#2(decode) stream#1")
}

func TestMappedAddresses(t *testing.T) {
	const size = 2 << 20
	s := newSequence(t)
	s.Then("aclrtReserveMemAddress", testtrace.A(0x7ffe0000, 4*size, 0, 0, 1), testtrace.Outs("virPtr", devA))
	s.Then("aclrtMallocPhysical", testtrace.A(0x7ffe0008, size, 0x7ffe0100, 0), testtrace.Outs("handle", 0x31))
	set := func(addr uint64) { s.Then("aclrtMemset", testtrace.A(addr, 16, 0, 16)) }
	set(devA + size) // reserved, but not mapped
	s.Then("aclrtMapMem", testtrace.A(devA+size, size, 0, 0x31, 0))
	set(devA + size + 0x10)
	set(devA)
	s.Then("aclrtUnmapMem", testtrace.A(devA+size))
	set(devA + size)
	s.Then("aclrtReleaseMemAddress", testtrace.A(devA))
	var got []string
	s.events(func(_ *timeline.State, e *timeline.Event) {
		line := ""
		for _, u := range e.Uses {
			line += timeline.Place(u) + " "
		}
		got = append(got, line)
		if u, ok := e.Use(0); ok && e.Fn.Name == "aclrtMapMem" {
			if p := u.Object.Parent; p == nil || p.Kind != "reservation" || u.Object.Handle-p.Handle != size || u.Object.Size != size {
				t.Errorf("mapped memory %+v in %+v", u.Object, p)
			}
		}
	})
	want := []string{"reservation#1 ", "physical_memory#2 ", "", "physical_memory#2 device#3 ", "device#3+0x10 ", "", "device#3 ", "", "reservation#1 "}
	if !slices.Equal(got, want) {
		t.Errorf("calls name\n%q, want\n%q", got, want)
	}
}

func TestRegisteredHostMemory(t *testing.T) {
	for _, alias := range []uint64{devB, host} {
		s := newSequence(t)
		s.Then("aclrtHostRegister", testtrace.A(host, 0x1000, 0, 0x7ffe0000), testtrace.Outs("devPtr", alias))
		s.Then("aclrtHostGetDevicePointer", testtrace.A(host, 0x7ffe0000, 0), testtrace.Outs("pDevice", alias))
		s.Then("aclrtMemset", testtrace.A(alias+0x10, 16, 0, 16))
		s.Then("aclrtHostUnregister", testtrace.A(host))
		s.Then("aclrtMemset", testtrace.A(alias+0x10, 16, 0, 16))
		s.Then("aclrtMemset", testtrace.A(host, 16, 0, 16))
		if alias == host {
			wantUses(t, s, "registered_memory#1 registered_memory#1", "registered_memory#1 registered_memory#1", "registered_memory#1+0x10", "registered_memory#1", "", "")
		} else {
			wantUses(t, s, "registered_memory#1 mapped_host_memory#2", "registered_memory#1 mapped_host_memory#2", "mapped_host_memory#2+0x10", "registered_memory#1", "", "")
		}
	}
}

// A registration inside an allocation replaced the allocation, and its end ended both.
func TestRegistrationIsAnAliasOfAllocatedMemory(t *testing.T) {
	s := newSequence(t)
	s.Then("aclrtMallocHost", testtrace.A(0, 0x3000), testtrace.Outs("hostPtr", host))
	s.Then("aclrtHostRegister", testtrace.A(host+0x1000, 0x1000, 0, 0x7ffe0000), testtrace.Outs("devPtr", devB))
	for _, at := range []uint64{devB + 8, host + 0x1008, host + 0x2008} {
		s.Then("aclrtMemset", testtrace.A(at, 16, 0, 16))
	}
	s.Then("aclrtHostUnregister", testtrace.A(host+0x1000))
	s.Then("aclrtMemset", testtrace.A(devB+8, 16, 0, 16))
	s.Then("aclrtMemset", testtrace.A(host+0x1008, 16, 0, 16))
	s.Then("aclrtHostRegisterV2", testtrace.A(host, 0x1000, 2))
	s.Then("aclrtFreeHost", testtrace.A(host))
	s.Then("aclrtMemset", testtrace.A(host+8, 16, 0, 16))
	wantUses(t, s, "host#1", "registered_memory#2(host#1+0x1000) mapped_host_memory#3", "mapped_host_memory#3+0x8", "registered_memory#2(host#1+0x1000)+0x8",
		"host#1+0x2008", "registered_memory#2(host#1+0x1000)", "", "host#1+0x1008", "registered_memory#4(host#1)", "host#1", "")
}

func TestRuntimeMemory(t *testing.T) {
	s := newSequence(t)
	s.Then("aclrtBinaryGetGlobal", testtrace.A(0x6601, 0x7ffe0020, 0x7ffe0000, 0x7ffe0008), testtrace.Outs("dptr", devA), testtrace.Outs("size", 0x40), testtrace.Text("name", "table"))
	s.Then("aclrtMemset", testtrace.A(devA+0x3f, 1, 0, 1))
	s.Then("aclrtMemset", testtrace.A(devA+0x40, 1, 0, 1))
	s.Malloc(devB, 0x100)
	s.Then("aclrtMemGetAddressRange", testtrace.A(devB+8, 0x7ffe0000, 0x7ffe0008), testtrace.Outs("pbase", devB), testtrace.Outs("psize", 0x100))
	wantUses(t, s, "binary#1(older) runtime_memory#2(table)", "runtime_memory#2(table)+0x3f", "", "device#3", "device#3+0x8 device#3")
}
