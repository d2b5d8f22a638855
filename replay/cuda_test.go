package replay_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// Every use of the CUDA driver in the example replays identically, at the same addresses and at others: every way to load a module, every
// kind of copy, every launch attribute, captured graphs.
func TestCUDA(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	kernels := testenv.Built(t, "bin/examples/cuda/kernels.so")
	program := testenv.Built(t, "bin/examples/cuda/driver")
	t.Setenv("FAKECUDA_KERNELS", kernels)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	path := filepath.Join(t.TempDir(), "run.aclt")
	res, err := record.Run(context.Background(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Sim: true, Capture: record.Capture{Replayable: true}, Stdout: null})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(context.Background(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
		if err != nil || rep.Verdict != verify.Unproved || !sound(rep) || len(rep.Unsupported) > 0 || rep.Verified.Results < 30 {
			t.Fatalf("%s: %v, %+v", place, err, rep)
		}
	}
	// Each copy in a graph of nodes is compared in each run, with the node's parameters at that time.
	nodes := filepath.Join(t.TempDir(), "nodes.aclt")
	for _, c := range []struct {
		name           string
		results, bytes uint64
	}{{"nodes-by-tag", 4, 12004}, {"nodes", 5, 20000}} {
		if res, err := record.Run(context.Background(), &record.Options{Model: cuda.Model, Output: nodes, Command: []string{program, c.name}, Sim: true, Capture: record.Capture{Replayable: true}, Stdout: null}); err != nil || res.ExitCode != 0 {
			t.Fatalf("%v, %+v", err, res)
		}
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			rep, err := replay.Run(context.Background(), nodes, cuda.Model, &replay.Options{Verify: true, Place: place})
			if err != nil || !sound(rep) || rep.Verified.Results != c.results || rep.Verified.Bytes != c.bytes || len(rep.Unverified) != 1 || !strings.Contains(rep.Unverified[0].Reason, "host function") {
				t.Errorf("%s, %s: %v, %+v", c.name, place, err, rep)
			}
		}
	}
	// Kernels that do nothing are detected.
	t.Setenv("FAKECUDA_KERNELS", "")
	rep, err := replay.Run(context.Background(), path, cuda.Model, &replay.Options{Verify: true, KernelLibraries: []string{}})
	if err != nil || rep.Verdict != verify.Unproved || rep.Results.Proved != 0 || rep.Results.OtherBytes == 0 {
		t.Errorf("without kernels: %v, %+v", err, rep)
	}
	if rep, err = replay.Run(context.Background(), nodes, cuda.Model, &replay.Options{Verify: true, KernelLibraries: []string{}}); err != nil || rep.Verdict != verify.Unproved || rep.Results.OtherBytes != 5 {
		t.Errorf("nodes without kernels: %v, %+v", err, rep)
	}
}

// Tagged nodes replay identically, with graph memory and conditional parts: kernels get both
// as numbers, which differ in each run.
func TestCUDATagged(t *testing.T) {
	program := testenv.CUDA(t, "testdata/tagged.c")
	path := filepath.Join(t.TempDir(), "run.aclt")
	recorded := func(args ...string) map[string]int {
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: append([]string{program}, args...), Sim: true, Capture: record.Capture{Replayable: true}})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%v, %+v", err, res)
		}
		r, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		n := map[string]int{}
		for c, err := range r.Calls(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if name := r.Schema().FuncName(c.Func); strings.Contains(name, "Node") {
				n[name]++
			}
		}
		return n
	}
	// An unknown tag is recorded with the plain function, and refused.
	want := map[string]int{"cuGraphAddMemAllocNode": 1, "cuGraphAddNode:conditional": 1, "cuGraphAddNode:kernel": 1, "cuGraphAddNode:memcpy": 2, "cuGraphAddMemFreeNode": 1, "cuGraphNodeSetParams": 1, "cuGraphAddNode": 2}
	if got := recorded("wrong"); !maps.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	if rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true}); err != nil || len(rep.Unsupported) != 2 || !strings.Contains(rep.Unsupported[0].Reason, "a kind that is not modelled") {
		t.Errorf("%v, %+v", err, rep)
	}
	recorded()
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
		if err != nil || !rep.Identical || rep.Verified.Results != 2 || len(rep.Unverified) != 0 {
			t.Errorf("%s: %v, %+v", place, err, rep)
		}
		if i := slices.IndexFunc(rep.Relocated, func(r compile.Relocated) bool { return r.Evidence == compile.ByHandle }); i < 0 {
			t.Errorf("%s: %+v", place, rep.Relocated)
		}
	}
}

// Programs with two devices replay identically, and accesses without rights fail again.
func TestCUDAPeers(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cupeers.c")
	t.Setenv("FAKECUDA_DEVICES", "2")
	for _, args := range [][]string{nil, {"closed"}} {
		path := filepath.Join(t.TempDir(), "run.aclt")
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: append([]string{program}, args...), Sim: true, Capture: record.Capture{Replayable: true}})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%v, %+v", err, res)
		}
		// Each task is attributed to its device, also on default streams of stacked contexts.
		if got, want := tasksOf(t, path, api.Fill), (map[int]int{0: 2, 1: 1}); !maps.Equal(got, want) {
			t.Errorf("fills by device: %v, want %v", got, want)
		}
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
			if err != nil || !rep.Identical || len(rep.Unsupported) > 0 || rep.Verified.Results != 4 {
				t.Errorf("%v, %s: %v, %+v", args, place, err, rep)
			}
		}
		// One device is not enough for the replay.
		rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Env: []string{"FAKECUDA_DEVICES=1"}})
		if err != nil || rep.Identical || len(rep.Differences) == 0 || rep.Differences[0].Func != "cuDeviceCanAccessPeer" || rep.OtherMachineTotal != 1 || rep.OtherMachine[0].Want != "0x2" {
			t.Errorf("%v, on one device: %v, %+v", args, err, rep)
		}
	}
}

// The output of the linker is replayed, with the initial values of its variables, addresses included.
func TestCUDALinked(t *testing.T) {
	program := testenv.CUDA(t, "testdata/linked.c")
	path := filepath.Join(t.TempDir(), "run.aclt")
	// An older driver does not return parameter sizes; the linked cubin has them.
	old := testenv.FakeCUDA(t, "-DcuFuncGetParamInfo=later_one", "-DcuKernelGetParamInfo=later_two")
	for _, driver := range []string{filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1")), filepath.Dir(old)} {
		t.Setenv("LD_LIBRARY_PATH", driver)
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Capture: record.Capture{Replayable: true}})
		if err != nil || res.ExitCode != 0 || res.Incomplete != nil {
			t.Fatalf("%v, %+v", err, res)
		}
		identical(t, path, func(rep *replay.Report) bool { return rep.Verified.Results == 4 && len(rep.Unverified) == 0 })
	}
}

// Memory that one process has opened by another's key is shared again.
func TestCUDAKeys(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cuipc.c")
	path := recordedCUDA(t, program)
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && rep.Verified.Results == 2 && rep.Verified.Bytes == 12000
	})
}

// So are another process's pools, and memory shared by a descriptor, if the trace identifies the descriptor. One process waits for the other's
// events.
func TestCUDAShared(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cushare.c")
	path := recordedCUDA(t, program)
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && rep.Verified.Results == 5 && rep.Verified.Bytes == 30000
	})
	rep, err := replay.Run(t.Context(), recordedCUDA(t, program, "keyless"), cuda.Model, &replay.Options{Verify: true})
	if err != nil || len(rep.Unsupported) != 2 || rep.Unsupported[0].Func != "cuMemPoolImportFromShareableHandle" || !strings.Contains(rep.Unsupported[0].Reason, "the trace does not show its object") {
		t.Errorf("%v, %+v", err, rep)
	}
}

// Queries, advice and settings return the recorded results.
func TestCUDAAsks(t *testing.T) {
	path := recordedCUDA(t, testenv.CUDA(t, "testdata/cuasks.c"))
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && len(rep.Unverified) == 0 && rep.Verified.Results == 10
	})
}

// Contexts with a part of a device are made from the resources of the replay's device. A resource that no call returned is refused.
func TestCUDAGreen(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cugreen.c")
	path := recordedCUDA(t, program)
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && len(rep.Unverified) == 0 && rep.Verified.Results == 1
	})
	rep, err := replay.Run(t.Context(), recordedCUDA(t, program, "made-up"), cuda.Model, &replay.Options{Verify: true})
	if err != nil || len(rep.Unsupported) != 1 || rep.Unsupported[0].Func != "cuDevResourceGenerateDesc" || !strings.Contains(rep.Unsupported[0].Reason, "only the runtime understands it") {
		t.Errorf("%v, %+v", err, rep)
	}
}

// Multicast addresses reach the memory of several devices again.
func TestCUDAMulticast(t *testing.T) {
	t.Setenv("FAKECUDA_DEVICES", "2")
	path := recordedCUDA(t, testenv.CUDA(t, "testdata/cumulticast.c"))
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && len(rep.Unverified) == 0 && rep.Verified.Results == 4 && rep.Verified.Bytes == 16000
	})
}

// recordedCUDA records a program on the fake driver.
func recordedCUDA(t *testing.T, command ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.aclt")
	res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: command, Sim: true, Capture: record.Capture{Replayable: true}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	return path
}

// sound reports if every result is proved, except those written by host functions and by the program without a call.
func sound(rep *replay.Report) bool {
	return (rep.Verdict == verify.Identical || rep.Verdict == verify.Unproved) && !slices.ContainsFunc(rep.Unverified, func(u compile.Unverified) bool {
		return u.Code != verify.HostFunction && u.Code != verify.Managed
	})
}

// identical replays a trace at the recorded addresses and at others. Every result is proved, and the report is consistent.
func identical(t *testing.T, path string, right func(*replay.Report) bool) {
	t.Helper()
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
		if err != nil || !sound(rep) || rep.Identical != (len(rep.Unverified) == 0) || !right(rep) {
			t.Errorf("%s: %v, %+v", place, err, rep)
		}
	}
}

// tasksOf counts the tasks of a kind by device.
func tasksOf(t *testing.T, path string, kind api.Task) map[int]int {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := timeline.NewWalk(r, cuda.Model, nil)
	n := map[int]int{}
	err = w.Run(&timeline.Visitor{Task: func(x *timeline.Task) error {
		if x.Fn.Task == kind {
			n[w.Lanes[x.Lane].Device]++
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Kernels get the replay's host memory. Content that is missing in the trace is reported once for each memory.
func TestCUDAZeroCopy(t *testing.T) {
	program := testenv.CUDA(t, "testdata/zerocopy.c")
	path := recordedCUDA(t, program)
	identical(t, path, func(rep *replay.Report) bool {
		return rep.Verified.Results == 1 && len(rep.Unverified) == 3 && strings.Contains(rep.Unverified[2].Reason, "the program may write")
	})
}

// Stores of the program to managed memory are not in the trace: results computed from them differ, and the report gives the reason.
func TestCUDAManaged(t *testing.T) {
	path := recordedCUDA(t, testenv.CUDA(t, "testdata/zerocopy.c"), "managed")
	rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true})
	if err != nil || rep.Identical || len(rep.Differences) != 2 || len(rep.Uninitialised) != 0 {
		t.Fatalf("%v: %+v", err, rep)
	}
	computed, copied := rep.Differences[0], rep.Differences[1]
	const why = "without a call"
	if len(computed.Chain) != 1 || !strings.Contains(computed.Chain[0].Note, why) || computed.Reason != "" || !strings.Contains(copied.Reason, why) {
		t.Errorf("%+v, %+v", computed, copied)
	}
	if len(rep.Unverified) != 1 || !strings.Contains(rep.Unverified[0].Reason, "the program may write to this memory without a call") {
		t.Errorf("%+v", rep.Unverified)
	}
}

// The CUDA runtime gets its context from an unnamed function: the replay uses the device's primary context instead, also for threads on
// which the unnamed function made it current. Look-ups of such functions are reported, and are no difference.
func TestCUDAHidden(t *testing.T) {
	program := testenv.CUDA(t, "testdata/hidden.c", "-lpthread")
	recordedCUDA(t, program, "unbegun")
	identical(t, recordedCUDA(t, program), func(rep *replay.Report) bool {
		return rep.Verified.Results == 2 && slices.Equal(rep.AskedFor, []string{"cuGetExportTable"}) && strings.Contains(rep.Note, "cuGetExportTable")
	})
}

// callsTo returns the calls of a trace to a function, or to functions with that prefix.
func callsTo(t *testing.T, path, name string) (calls []*format.Call) {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.Schema().FuncName(c.Func), name) {
			calls = append(calls, c.Clone())
		}
	}
	return calls
}

// brought reports if the last asynchronous copy to the host was recorded with the wanted bytes.
func brought(t *testing.T, path string, want []byte) bool {
	t.Helper()
	copies := callsTo(t, path, "cuMemcpyDtoHAsync")
	if len(copies) == 0 {
		return false
	}
	d := copies[len(copies)-1].Data
	return len(d) == 1 && bytes.Equal(d[0].Bytes, want)
}

// Each thread has a default stream of its own, with a common handle or none: a wait by one thread says nothing about another's stream.
func TestCUDAPerThread(t *testing.T) {
	program := testenv.CUDA(t, "testdata/perthread.c")
	for _, how := range []string{"handle", "ptsz"} {
		path := recordedCUDA(t, program, how)
		if !brought(t, path, bytes.Repeat([]byte{7}, 256)) {
			t.Errorf("%s: the copy's result is that of another moment", how)
		}
		rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true})
		if err != nil || !rep.Identical || rep.Verified.Results != 1 || len(rep.Streams) != 3 {
			t.Errorf("%s: %v, %+v", how, err, rep)
		}
	}
}

// Functions of newer drivers: batched copies, copies with attributes, host functions with a synchronization mode.
func TestCUDANewer(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cunewer.c")
	path := filepath.Join(t.TempDir(), "run.aclt")
	res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program}, Sim: true, Capture: record.Capture{Replayable: true}})
	if err != nil || res.ExitCode != 0 || len(res.PassedBy) != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && rep.Verified.Results == 9 && rep.Verified.Bytes == 1800
	})

	// An address that the driver does not export is matched by the requested version, up to the newest known version. Newer functions pass
	// through and are counted.
	other := testenv.FakeCUDA(t, "-DcuMemcpyWithAttributesAsync=hidden")
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(other))
	for version, passed := range map[string]uint64{"13020": 0, "13030": 1} {
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program, version}})
		if err != nil || res.ExitCode != 0 || res.PassedBy["cuMemcpyWithAttributesAsync"] != passed {
			t.Fatalf("version %s: %v, %+v", version, err, res)
		}
		r, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := uint64(0)
		for c := range r.Calls(nil) {
			if r.Schema().FuncName(c.Func) == "cuMemcpyWithAttributesAsync" {
				seen++
			}
		}
		r.Close()
		if seen+passed != 1 {
			t.Errorf("version %s: %d calls, %d passed by", version, seen, passed)
		}
	}
}

// A copy's data is not taken for the result of an earlier copy to the same memory, if the wait for the earlier one comes while the later one
// is in flight.
func TestCUDAOvertaken(t *testing.T) {
	program := testenv.CUDA(t, "testdata/overtaken.c")
	path := recordedCUDA(t, program)
	rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true})
	if err != nil || rep.DifferingTotal != 0 || rep.Verified.Results != 1 || len(rep.Unverified) != 1 || !strings.Contains(rep.Unverified[0].Reason, "overwritten") {
		t.Errorf("%v, %+v", err, rep)
	}
}

// On a driver that is no simulator, allocations get their recorded addresses on request: the ranges are reserved
// before the driver starts, because it would use some of them, and memory is mapped there.
func TestCUDAPlace(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	testenv.Built(t, "lib/fakecuda/libcuda.so.1")
	t.Setenv("FAKECUDA_KERNELS", testenv.Built(t, "bin/examples/cuda/kernels.so"))
	program, dir := testenv.Built(t, "bin/examples/cuda/driver"), t.TempDir()
	driver := aDriver(t)
	path := filepath.Join(dir, "run.aclt")
	res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: []string{program, "load-ptx", "copies", "order", "pools", "nodes"}, Sim: true, Capture: record.Capture{Replayable: true}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	// The driver's reserved addresses begin at the recorded ones, and it places memory of its own there.
	env := []string{"FAKECUDA_VA_BASE=301c00000000"}
	taken := append(env, "FAKECUDA_TAKES=302000000000")
	for _, c := range []struct {
		place, want string
		env         []string
	}{{compile.PlaceAuto, "moved", env}, {compile.PlaceSame, "same", env}, {compile.PlaceSame, "same", taken}} {
		rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Backend: driver, Trust: true, Verify: true, Place: c.place, Env: c.env})
		if err != nil || rep.DifferingTotal != 0 || len(rep.Unsupported) > 0 || rep.Placement != c.want || rep.Verified.Results < 8 {
			t.Errorf("%s %v: %v, %+v", c.place, c.env, err, rep)
		}
	}
	// Unavailable addresses are reported.
	if rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Backend: driver, Trust: true, Verify: true, Place: compile.PlaceSame, Env: []string{"FAKECUDA_VA_BASE=500000000000"}}); err == nil || rep.Placement != "moved" || !strings.Contains(err.Error(), "and was at 0x3020") {
		t.Errorf("addresses that the driver does not have: %v, %+v", err, rep)
	}
}

// A failed allocation fails again, and does not take the address of the next one with its size.
func TestCUDAPlaceFails(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cuplace.c")
	driver := aDriver(t)
	path := recordedCUDA(t, program)
	rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Backend: driver, Trust: true, Verify: true, Place: compile.PlaceSame, Env: []string{"FAKECUDA_VA_BASE=301c00000000"}})
	if err != nil || !rep.Identical || rep.Placement != "same" {
		t.Errorf("%v, %+v", err, rep)
	}
	// The memory around an address has the size of the player's mapping.
	if rep.OtherMachineTotal != 1 || rep.OtherMachine[0].Param != "psize" || rep.OtherMachine[0].Want != "0x1800" || rep.OtherMachine[0].Got != "0x1770" {
		t.Errorf("%+v", rep.OtherMachine)
	}
	if rep, err = replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true}); err != nil || !rep.Identical || rep.OtherMachineTotal != 0 {
		t.Errorf("%v, %+v", err, rep)
	}
}

// Memory that a stream frees is reused only after the stream has reached the free, also if the player places it.
func TestCUDAPlaceFreeAsync(t *testing.T) {
	program := testenv.CUDA(t, "testdata/cufree.c")
	driver := aDriver(t)
	path := recordedCUDA(t, program)
	rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Backend: driver, Trust: true, Verify: true, Place: compile.PlaceSame, Env: []string{"FAKECUDA_VA_BASE=301c00000000"}})
	if err != nil || !rep.Identical || rep.Placement != "same" || rep.Verified.Results != 2 {
		t.Errorf("%v, %+v", err, rep)
	}
}

// aDriver is the fake driver without the symbol of a simulator.
func aDriver(t *testing.T) string {
	return testenv.FakeCUDA(t, "-Dfakecuda_simulated=a_driver")
}

// Textures and surfaces are made again from their memory, and kernels get the replay's numbers. Equal words with another meaning
// stay unchanged.
func TestCUDATexture(t *testing.T) {
	program := testenv.CUDA(t, "testdata/texture.c")
	path := recordedCUDA(t, program, "wrong")
	seen := slices.ContainsFunc(callsTo(t, path, "cuTexObjectCreate"), func(c *format.Call) bool {
		return len(c.Data) == 2 && c.Data[0].Len == 144 && c.Data[1].Len == 104 && len(c.Outs) == 1
	})
	launches := callsTo(t, path, "cuLaunchKernel")
	if !seen || len(launches) != 9 {
		t.Error("a texture was not recorded with what it is made of")
	}
	same := func(path string, results uint64, numbers int) {
		t.Helper()
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
			if err != nil || !rep.Identical || rep.Verified.Results != results {
				t.Errorf("%s: %v, %+v", place, err, rep)
				continue
			}
			n := 0
			for _, r := range rep.Relocated {
				if r.Evidence == compile.ByHandle {
					n++
				}
			}
			if n != numbers {
				t.Errorf("%s: %d numbers of %d, %+v", place, n, numbers, rep.Relocated)
			}
		}
	}
	same(path, 9, 10)
	// An extracted launch contains the calls that made its textures, and their content.
	one := filepath.Join(t.TempDir(), "one.aclt")
	for k, want := range map[int]struct {
		results uint64
		numbers int
	}{6: {2, 2}, 7: {1, 9}, 8: {1, 10}} {
		if _, err := lab.Extract(t.Context(), path, cuda.Model, launches[k].Index, one, nil); err != nil {
			t.Fatal(err)
		}
		same(one, want.results, want.numbers)
	}
}

// An extracted launch has the copies to, between and from arrays that made the memory that its kernel reads, and no other. They were left
// out before.
func TestCUDAExtractArrays(t *testing.T) {
	path, one := recordedCUDA(t, testenv.CUDA(t, "testdata/arrays.c")), filepath.Join(t.TempDir(), "one.aclt")
	if _, err := lab.Extract(t.Context(), path, cuda.Model, callsTo(t, path, "cuLaunchKernel")[0].Index, one, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"cuMemcpyHtoA_v2": 2, "cuMemcpyAtoA_v2": 1, "cuMemcpyAtoD_v2": 1, "cuMemcpyHtoD_v2": 0, "cuMemcpyDtoA_v2": 0} {
		if n := len(callsTo(t, one, name)); n != want {
			t.Errorf("%d calls to %s, want %d", n, name, want)
		}
	}
	identical(t, one, func(rep *replay.Report) bool { return rep.Verified.Results == 1 })
}

// A capture into an existing graph, and a capture after nodes that the program has added, replay identically:
// captured nodes are known once the driver has returned them.
func TestCUDACaptureTo(t *testing.T) {
	program := testenv.CUDA(t, "testdata/captureto.c")
	path := recordedCUDA(t, program)
	identical(t, path, func(rep *replay.Report) bool { return rep.Verified.Results == 10 && len(rep.Unverified) == 0 })
}

// Handles that only an array of the driver gave were older than the trace, so that updates of captured graphs were refused.
func TestCUDAHandlesInArrays(t *testing.T) {
	include := "-I" + filepath.Join(testenv.Root(t), "sim/cuda/include")
	t.Setenv("FAKECUDA_KERNELS", testenv.CompileC(t, "cufound.so", []string{"testdata/cufound.c"}, "-DKERNEL", "-shared", "-fPIC", include))
	path := recordedCUDA(t, testenv.CUDA(t, "testdata/cufound.c"))
	identical(t, path, func(rep *replay.Report) bool {
		return len(rep.Unsupported) == 0 && rep.Verified.Results == 3 && rep.Identical
	})
	// Calls that give no new handle are left out, as other queries.
	rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true})
	if calls := len(callsTo(t, path, "cuGraphGetEdges")) + len(callsTo(t, path, "cuGraphNodeGetDependencies")); err != nil || calls != 2 || rep.Calls-rep.Replayed < 3 {
		t.Errorf("%v, %d of %d calls replayed", err, rep.Replayed, rep.Calls)
	}
}

// Memory that a process exports as a descriptor and imports again is the same memory. If several processes do so, the owner of a
// descriptor is ambiguous, and that is reported.
func TestCUDADescriptor(t *testing.T) {
	program := testenv.CUDA(t, "testdata/descriptor.c")
	path := filepath.Join(t.TempDir(), "run.aclt")
	for _, args := range [][]string{{"two"}, nil} {
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: append([]string{program}, args...), Sim: true, Capture: record.Capture{Replayable: true}})
		if err != nil || res.ExitCode != 0 {
			t.Fatalf("%v, %+v", err, res)
		}
		for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
			rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: place})
			switch {
			case err != nil:
				t.Errorf("%s: %v", place, err)
			case args != nil:
				if len(rep.Unsupported) == 0 || rep.Unsupported[0].Func != "cuMemImportFromShareableHandle" || !strings.Contains(rep.Unsupported[0].Reason, "may come from another process") {
					t.Errorf("two processes, %s: %+v", place, rep)
				}
			case !rep.Identical || rep.Verified.Results != 1 || len(rep.Unsupported) != 0:
				t.Errorf("%s: %+v", place, rep)
			}
		}
	}
}

// Tensor maps are made again for their memory, and the replay's maps replace the program's everywhere: in arguments,
// structures, graphs, and device memory. Their bytes are opaque.
func TestCUDATensorMaps(t *testing.T) {
	program := testenv.CUDA(t, "testdata/tensormaps.c")
	path := recordedCUDA(t, program)
	tokens := func(rep *replay.Report) (n int) {
		for _, r := range rep.Relocated {
			if r.Evidence == compile.ByToken {
				n++
			}
		}
		return n
	}
	identical(t, path, func(rep *replay.Report) bool { return rep.Verified.Results == 12 && tokens(rep) == 15 })
	// An extracted launch has the calls that made its tensor maps, and the content of their memory.
	launches := callsTo(t, path, "cuLaunchKernel")
	one := filepath.Join(t.TempDir(), "one.aclt")
	for _, k := range []int{0, 4, 5, 7} {
		if _, err := lab.Extract(t.Context(), path, cuda.Model, launches[k].Index, one, nil); err != nil {
			t.Fatal(err)
		}
		identical(t, one, func(rep *replay.Report) bool { return rep.Verified.Results > 0 && tokens(rep) > 0 })
	}
}

// The history of a byte that was copied from an array was empty: it has the copies to the array, and the launches that name it.
func TestCUDAExplainArrays(t *testing.T) {
	explained := func(path, call string, nth int) (names []string) {
		t.Helper()
		r, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		h, err := lab.Explain(t.Context(), r, cuda.Model, []lab.Byte{{Call: callsTo(t, path, call)[nth].Index, Offset: 5}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range h[0].Chain {
			names = append(names, w.Name)
		}
		return names
	}
	arrays := recordedCUDA(t, testenv.CUDA(t, "testdata/arrays.c"))
	texture := recordedCUDA(t, testenv.CUDA(t, "testdata/texture.c"))
	for _, c := range []struct {
		path, call string
		nth        int
		want       []string
	}{
		{texture, "cuMemcpy2D", 1, []string{"turn"}},
		{texture, "cuMemcpyAtoH", 0, []string{"turn"}},
		{arrays, "cuMemcpyAtoH", 0, []string{"cuMemcpyHtoA_v2", "cuMemcpyHtoA_v2"}},
		{arrays, "cuMemcpyAtoH", 1, []string{"cuMemcpyAtoA_v2"}},
		{arrays, "cuMemcpyAtoH", 2, []string{"cuMemcpyDtoA_v2"}},
		{arrays, "cuMemcpyDtoH", 0, []string{"next"}},
	} {
		if names := explained(c.path, c.call, c.nth); !slices.Equal(names, c.want) {
			t.Errorf("%s %d: %q, want %q", c.call, c.nth, names, c.want)
		}
	}
}
