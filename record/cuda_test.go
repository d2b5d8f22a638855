package record_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// cudaDriver is an example with common uses of the driver, on the fake one.
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
	r, res, out := run(t, record.Options{Model: cuda.Model, Capture: record.Capture{Replayable: true}}, program)
	if res.ExitCode != 0 || res.Lost != 0 || res.Unfinished != 0 || res.Failed != 0 || strings.Count(out, ": ok\n") != strings.Count(out, "\n") {
		t.Fatalf("%+v\n%s", res, out)
	}
	if m := r.Meta(); m.API != "cuda" || !m.Simulated || m.Env["FAKECUDA_KERNELS"] == "" {
		t.Errorf("meta: API %q, simulated %t, environment %v", m.API, m.Simulated, m.Env)
	}
	cs := calls(t, r)

	// A launch has every attribute, and its arguments with the sizes that the driver reports.
	tl, err := timeline.Load(r, cuda.Model)
	if err != nil {
		t.Fatal(err)
	}
	// Fields of structures count: a launch's stream, a copy's size.
	for i := range tl.Tasks {
		switch k := &tl.Tasks[i]; {
		case k.Fn.Name == "cuLaunchKernelEx" && tl.Lanes[k.Lane].Stream == nil:
			t.Errorf("the launch of call %d is on lane %+v", k.Call, tl.Lanes[k.Lane])
		case k.Fn.Name == "cuMemcpy2D_v2" && k.Bytes != 40*6:
			t.Errorf("the copy of call %d is one of %d bytes", k.Call, k.Bytes)
		}
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
	if len(launches) != 16 || len(ids) != 16 || len(callsOf(r, cs, "cuStreamSetAttribute")) != 1 {
		t.Errorf("%d launches with %d attributes", len(launches), len(ids))
	}
	for _, c := range callsOf(r, cs, "cuLaunchKernel") {
		if extra := c.Args[10]; extra != 0 {
			if d := item(c, 10, 1, format.DirIn); d == nil || d.Len != 32 || binary.LittleEndian.Uint32(d.Bytes[24:]) != 1000 {
				t.Errorf("a block of arguments: %+v", d)
			}
		}
	}

	// A copy of rows accesses each row if there are gaps, and one range if there are none.
	ts, err := access.New(r, cuda.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := ts.State
	want := map[string]struct {
		reads, writes int
		size          uint64
	}{"cuMemcpy2D_v2": {6, 6, 40}, "cuMemcpy2DUnaligned_v2": {7, 7, 40}, "cuMemcpy3D_v2": {1, 1, 192}, "cuMemcpy3DAsync_v2": {1, 1, 192}}
	place := `(0x[0-9a-f]+|[a-z_]+#\d+(\+0x[0-9a-f]+)?)`
	shape := regexp.MustCompile(`^(\d+ planes of )?[1-9]\d* rows of [1-9]\d* B from ` + place + ` to ` + place + `$`)
	for _, c := range cs {
		q := ts.Apply(0, c)
		e := q.Event
		described := slices.ContainsFunc(e.Fn.Params, func(p api.Param) bool { return p.CopyDesc != nil })
		if text := string(s.AppendCopy(nil, e)); shape.MatchString(text) != described || (text != "") != described {
			t.Errorf("call %d, %s, copies %q", c.Index, e.Fn.Name, text)
		}
		accesses, all := q.Addresses()
		w, ok := want[r.Schema().FuncName(c.Func)]
		if !ok {
			continue
		}
		n := map[access.Kind]int{}
		for _, k := range accesses {
			n[k.Kind]++
			if k.Size != w.size {
				t.Errorf("%s accesses %+v", e.Fn.Name, k)
			}
		}
		if !all || n[access.Reads] != w.reads || n[access.Writes] != w.writes {
			t.Errorf("%s: %v, all %t", e.Fn.Name, n, all)
		}
	}

	// Kernel arguments behind a structure.
	for _, name := range []string{"cuGraphAddKernelNode_v2", "cuGraphExecKernelNodeSetParams_v2", "cuGraphAddNode_v2:kernel", "cuGraphExecNodeSetParams:kernel", "cuGraphNodeSetParams:kernel"} {
		c := callsOf(r, cs, name)[0]
		for k, size := range []uint64{8, 8, 8, 4} {
			if d := item(c, len(c.Args)-1, uint32(api.ArgItems+1+k), format.DirIn); d == nil || d.Len != size || k == 3 && binary.LittleEndian.Uint32(d.Bytes) != 1000 {
				t.Errorf("%s: argument %d: %+v", name, k, d)
			}
		}
	}

	// Binaries have their own sizes: text has an end, and a fat binary has a header.
	image := item(callsOf(r, cs, "cuModuleLoadData")[0], 1, 0, format.DirIn)
	if image == nil || !bytes.HasPrefix(image.Bytes, []byte(".version 7.0")) || image.Bytes[len(image.Bytes)-1] != 0 {
		t.Errorf("PTX: %+v", image)
	}
	if fat := item(callsOf(r, cs, "cuModuleLoadFatBinary")[0], 1, 0, format.DirIn); fat == nil || binary.LittleEndian.Uint32(fat.Bytes) != 0xba55ed50 {
		t.Errorf("a fat binary: %+v", fat)
	}

	// Rows without the gaps between them, both ways.
	in, back := callsOf(r, cs, "cuMemcpy2D_v2")[0], callsOf(r, cs, "cuMemcpy2DUnaligned_v2")[0]
	if d := item(in, 0, api.CopyFrom, format.DirIn); d == nil || d.Len != 40*6 || d.Bytes[0] != 64+8 {
		t.Errorf("rows to the device: %+v", d)
	}
	if d := item(back, 0, api.CopyTo, format.DirOut); d == nil || d.Len != 40*7 || d.Bytes[0] != 64+8 || d.Bytes[6*40] != 0xee {
		t.Errorf("rows from the device: %+v", d)
	}
}

// A driver before CUDA 12.4 does not report argument sizes. They are then taken from the binaries, for every way to load a binary
// and to get a kernel, and a replay finds the addresses among the arguments.
func TestCUDABeforeParamInfo(t *testing.T) {
	program, dir := cudaDriver(t), t.TempDir()
	old := testenv.FakeCUDA(t, "-DcuFuncGetParamInfo=later_one", "-DcuKernelGetParamInfo=later_two")
	cases := []string{"load-ptx", "load-options", "load-file", "load-fat", "load-library", "many-arguments", "cooperative", "attribute-priority", "nodes"}
	var args [2]map[string]int
	for i, lib := range []string{filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1")), filepath.Dir(old)} {
		t.Setenv("LD_LIBRARY_PATH", lib)
		path := filepath.Join(dir, "run.aclt")
		res, err := record.Run(t.Context(), &record.Options{Model: cuda.Model, Output: path, Command: append([]string{program}, cases...), Capture: record.Capture{Replayable: true}, Stdout: os.Stderr})
		if err != nil || res.ExitCode != 0 || res.Failed != 0 {
			t.Fatalf("%s: %v, %+v", lib, err, res)
		}
		r := open(t, path)
		args[i] = map[string]int{}
		for _, c := range calls(t, r) {
			if name := r.Schema().FuncName(c.Func); strings.Contains(name, "Kernel") {
				args[i][name] += len(c.Data)
			}
		}
		rep, err := replay.Run(t.Context(), path, cuda.Model, &replay.Options{Verify: true, Place: compile.PlaceMove})
		if err != nil || rep.Results.Unproved != 1 || rep.Unverified[0].Code != verify.HostFunction || rep.DifferingTotal > 0 || rep.Verified.Results < 10 {
			t.Errorf("%s: %v, %+v", lib, err, rep)
		}
	}
	if args[0]["cuLaunchKernel"] < 20 || !maps.Equal(args[0], args[1]) {
		t.Errorf("arguments %v, of an older driver %v", args[0], args[1])
	}
}

// Tasks are measured between events, on the trace's clock: a kernel of 4 ms takes no less, and ends before the wait for it. The
// program's own results and calls do not change.
func TestCUDADeviceTime(t *testing.T) {
	program := cudaDriver(t)
	root := testenv.Root(t)
	t.Setenv("FAKECUDA_KERNELS", testenv.CompileC(t, "slow.so", []string{source("cuda_slow.c")}, "-shared", "-fPIC", "-I"+filepath.Join(root, "sim/cuda/include"), "-D_POSIX_C_SOURCE=200809L"))
	before, _, plain := run(t, record.Options{Model: cuda.Model}, program)
	r, res, out := run(t, record.Options{Model: cuda.Model, Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, program)
	if res.ExitCode != 0 || res.Failed != 0 || out != plain {
		t.Fatalf("%+v\n%s", res, out)
	}
	tl, err := timeline.Load(r, cuda.Model)
	if err != nil {
		t.Fatal(err)
	}
	kernels, n := 0, uint64(0)
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		if k.Measured {
			n++
		}
		if k.Fn.Task != api.Kernel || k.Name != "add" {
			continue
		}
		kernels++
		if !k.Measured || k.To-k.From < 4e6-1000 || k.From < k.Issued {
			t.Errorf("launch %d: measured %t, from %d to %d, called at %d", k.Call, k.Measured, k.From, k.To, k.Issued)
		}
	}
	timesShown(t, filepath.Join(t.TempDir(), "shown"), program)
	if said := r.Meta().DeviceTime; kernels < 20 || said == nil || said.Measured != n || said.Captured != 3 || said.Refused+said.Unsound+said.PoolExhausted != 0 {
		t.Errorf("%d launches and %d measured tasks; the trace says %+v", kernels, n, said)
	}
	for _, name := range []string{"cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuEventDestroy_v2", "cuCtxGetCurrent"} {
		if with, without := len(callsOf(r, calls(t, r), name)), len(callsOf(before, calls(t, before), name)); with != without {
			t.Errorf("%d calls of %s, and %d without --device-time", with, name, without)
		}
	}
}

// timesShown records a program, and looks for its kernels' device times in the exports.
func timesShown(t *testing.T, base, program string) {
	t.Helper()
	tool := func(args ...string) []byte {
		out, err := exec.Command(testenv.Built(t, "bin/acltrace"), args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	trace := base + ".aclt"
	tool("record", "-q", "--sim", "--device-time", "all", "-o", trace, "--", program)
	tl, err := timeline.Load(open(t, trace), cuda.Model)
	if err != nil {
		t.Fatal(err)
	}
	var want []int64
	sum := int64(0)
	for i := range tl.Tasks {
		if k := &tl.Tasks[i]; k.Fn.Task == api.Kernel && k.Name == "add" && k.Measured {
			want = append(want, k.To-k.From)
			sum += k.To - k.From
		}
	}
	slices.Sort(want)
	same := func(viewer string, got []int64) {
		if slices.Sort(got); len(want) < 20 || !slices.Equal(got, want) {
			t.Errorf("%s: kernels that took %d, not %d", viewer, got, want)
		}
	}

	var chrome struct {
		TraceEvents []struct {
			Name, Cat string
			Dur       float64
		}
	}
	tool("export", "chrome", trace, "-o", base+".json")
	b, err := os.ReadFile(base + ".json")
	if err == nil {
		err = json.Unmarshal(b, &chrome)
	}
	if err != nil {
		t.Fatal(err)
	}
	var took []int64
	for _, e := range chrome.TraceEvents {
		if e.Cat == "task" && e.Name == "add" {
			took = append(took, int64(math.Round(e.Dur*1e3)))
		}
	}
	same("chrome", took)

	tool("export", "otlp", trace, "-o", base+".jsonl")
	if b, err = os.ReadFile(base + ".jsonl"); err != nil {
		t.Fatal(err)
	}
	took = nil
	for _, m := range regexp.MustCompile(`"name":"add","kind":5,"startTimeUnixNano":"(\d+)","endTimeUnixNano":"(\d+)"`).FindAllSubmatch(b, -1) {
		from, _ := strconv.ParseInt(string(m[1]), 10, 64)
		to, _ := strconv.ParseInt(string(m[2]), 10, 64)
		took = append(took, to-from)
	}
	same("OTLP", took)

	// The exporter's own test reads such a file with Perfetto.
	out, _ := exec.Command(testenv.Built(t, "bin/acltrace"), "export", "perfetto", trace, "-o", base+".pftrace").CombinedOutput()
	tasks := regexp.MustCompile(`the times of (\d+) of (\d+) tasks are brackets`).FindSubmatch(out)
	if tasks == nil || string(tasks[2]) != fmt.Sprint(len(tl.Tasks)) || string(tasks[1]) == string(tasks[2]) {
		t.Errorf("perfetto: %s", out)
	}

	var stats struct {
		Groups []struct {
			Name     string
			Launches int
			DeviceNS int64 `json:"device_ns"`
		}
	}
	if err := json.Unmarshal(tool("stats", "--by", "kernel", "--json", trace), &stats); err != nil || len(stats.Groups) == 0 || stats.Groups[0].Name != "add" ||
		stats.Groups[0].DeviceNS != sum {
		t.Errorf("stats: %v, %+v, not %d", err, stats, sum)
	}
}

// Binaries of any size are stored completely, although the program may reuse their memory once they are loaded.
func TestCUDABinaries(t *testing.T) {
	testenv.Built(t, "lib/libacltrace-cuda.so")
	lib := filepath.Dir(testenv.Built(t, "lib/fakecuda/libcuda.so.1"))
	program := testenv.CompileC(t, "binaries", []string{source("cuda_binaries.c")}, "-I"+filepath.Join(testenv.Root(t), "api/cuda/include"), "-L"+lib, "-lcuda")
	sizes := []int{100, format.InlineLimit - 1, format.InlineLimit, 100_000, 3 << 20} // and the end of each
	args := []string{program}
	for _, n := range sizes {
		args = append(args, strconv.Itoa(n))
	}
	r, res, out := run(t, record.Options{Model: cuda.Model, Capture: record.Capture{Replayable: true}}, args...)
	if res.ExitCode != 0 || res.Failed != 0 {
		t.Fatalf("%+v\n%s", res, out)
	}
	cs, after := calls(t, r), late(t, r)
	for _, name := range []string{"cuModuleLoadData", "cuLibraryLoadData"} {
		for i, c := range callsOf(r, cs, name) {
			image := slices.IndexFunc(cuda.Model.Lookup(name).Params, func(p api.Param) bool { return p.Role == api.Image })
			c.Data = append(c.Data, after[c.Index]...)
			d := item(c, image, 0, format.DirIn)
			if d == nil || d.Status != format.Whole || d.Len != uint64(sizes[i]+1) {
				t.Errorf("%s of %d bytes: %+v", name, sizes[i]+1, d)
				continue
			}
			b := d.Bytes
			if d.Len > format.InlineLimit {
				var err error
				if b, err = r.Blob(d.Blob); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.HasPrefix(b, []byte(".version 7.0\n")) || !bytes.HasSuffix(b, []byte("\n\x00")) {
				t.Errorf("%s of %d bytes holds %q … %q", name, d.Len, b[:20], b[len(b)-20:])
			}
		}
	}
	if rep, err := replay.Run(t.Context(), r.Path(), cuda.Model, &replay.Options{Verify: true}); err != nil || len(rep.Unsupported) != 0 || len(rep.Differences) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A program's calls are recorded for every way to get the driver's functions. Functions outside the model, and tables without
// names, are counted.
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
		in, err := report.NewInfo(r.Path(), r, cuda.Model)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := in.Text(&text, nil); err != nil {
			t.Fatal(err)
		}
		lines := strings.Join(strings.Fields(text.String()), " ")
		if !strings.Contains(lines, "by name cuTexRefCreate, called 1 time ") || !strings.Contains(lines, "looked up cuGetExportTable, 1 time; unknown if it was called") {
			t.Errorf("%s: %s", way, lines)
		}
	}
}

// installed reports whether this machine has a runtime's device or library, which decides for programs that name no runtime.
func installed(m *api.Model) bool {
	_, err := detect.Library(m, nil)
	return err == nil || slices.ContainsFunc(m.Installed.Devices, func(pattern string) bool { found, _ := filepath.Glob(pattern); return len(found) > 0 })
}

// The runtime that a program is linked to, the one that it names, and the one that the machine has.
func TestRuntimeFollowsProgramThenMachine(t *testing.T) {
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
	type row struct {
		program string
		env     []string
		want    *api.Model
	}
	rows := []row{{driver, nil, cuda.Model}, {reach, nil, cuda.Model}, {testenv.Example(t, "vector_add"), []string{"LD_LIBRARY_PATH=" + lib}, acl.Model}}
	if !slices.ContainsFunc(models, installed) {
		rows = append(rows, row{"/bin/true", []string{"LD_LIBRARY_PATH=" + lib}, cuda.Model}, row{"/bin/true", nil, acl.Model}, row{"", []string{"LD_LIBRARY_PATH=" + lib}, cuda.Model})
	}
	for _, c := range rows {
		if got, why := detect.Runtime(models, c.program, c.env); got != c.want {
			t.Errorf("%s %v: %s, since %s", c.program, c.env, got.Name, why)
		}
	}

	// Device code decides if nothing names the runtime. It may be in the program or in a library that it is linked to.
	code, plain := filepath.Join(lib, "code.c"), filepath.Join(lib, "plain.c")
	for path, text := range map[string]string{code: "const char *ptx(void) { return \".version 6.0\\n.target sm_70\\n\"; }\n", plain: "const char *ptx(void); int main(void) { return ptx() == 0; }\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	library, alone, dynamic := filepath.Join(lib, "libcode.so"), filepath.Join(lib, "alone"), filepath.Join(lib, "dynamic")
	for _, args := range [][]string{{"-shared", "-fPIC", "-o", library, code}, {"-o", alone, plain, code}, {"-o", dynamic, plain, library, "-Wl,-rpath," + lib}} {
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for program, says := range map[string]string{alone: alone + " has code", dynamic: library + ", a library of " + dynamic} {
		if got, why := detect.Runtime(models, program, nil); got != cuda.Model || !strings.HasPrefix(why, says) {
			t.Errorf("%s: %s, since %s", program, got.Name, why)
		}
	}

	// A device on the machine counts more than libraries, and less than the program.
	with := *cuda.Model
	with.Installed.Devices = []string{filepath.Join(lib, "libcud?.so.1")}
	models = []*api.Model{acl.Model, &with}
	if err := os.WriteFile(filepath.Join(lib, "libascendcl.so"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]*api.Model{"/bin/true": &with, testenv.Example(t, "vector_add"): acl.Model} {
		if got, _ := detect.Runtime(models, program, []string{"LD_LIBRARY_PATH=" + lib}); got != want {
			t.Errorf("%s beside a device: %s", program, got.Name)
		}
	}
	if got := record.RuntimeOf(models, &record.AttachOptions{PID: os.Getpid()}); got != &with {
		t.Errorf("a process beside a device: %s", got.Name)
	}
	if got := record.RuntimeOf(models, &record.AttachOptions{All: true, Options: record.Options{Capture: record.Capture{Library: filepath.Join(lib, "libascendcl.so")}}}); got != acl.Model {
		t.Errorf("processes that use a library, beside a device: %s", got.Name)
	}

	// The library is found by name, its interface's name first.
	if path, err := detect.Library(cuda.Model, []string{"LD_LIBRARY_PATH=" + lib}); err != nil || path != filepath.Join(lib, "libcuda.so.1") {
		t.Errorf("the library: %s, %v", path, err)
	}
	nowhere := *cuda.Model
	nowhere.Layers = []api.Layer{{Libraries: []string{"libnowhere.so"}}}
	if path, err := detect.Library(&nowhere, nil); err == nil || !strings.Contains(err.Error(), "libnowhere.so is not installed") {
		t.Errorf("a library that is nowhere: %s, %v", path, err)
	}
}

// The command for machines with a GPU, on the fake driver: identical and different cases, call counts that agree with CUPTI's and
// some that do not, figures, and the files that it keeps if time runs out.
func TestGPUScript(t *testing.T) {
	driver := cudaDriver(t)
	testenv.Built(t, "lib/cupti-count.so")
	script, dir := filepath.Join(testenv.Root(t), "scripts/test-gpu.sh"), t.TempDir()
	try := func(env ...string) (string, error) {
		c := exec.Command(script)
		c.Env = append(os.Environ(), append([]string{"FAKE=1", "STEPS=2", "RUNS=1", "OUT=" + dir}, env...)...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	saw := func(out string, what ...string) bool {
		return !slices.ContainsFunc(what, func(w string) bool { return !strings.Contains(out, w) })
	}

	// A driver that does not report itself as fake is taken for a device.
	device := testenv.FakeCUDA(t, "-Dfakecuda_simulated=a_driver")
	if out, err := try("CASES=load-ptx nodes-by-tag", "FAKE="+filepath.Dir(device)); err != nil || strings.Count(out, "  identical\n") != 2 || strings.Count(out, "  unproved\n") != 3 {
		t.Errorf("on what may be a device: %v\n%s", err, out)
	}

	// CUPTI's counts come from another run of the same program. They begin within cuInit.
	r, _, _ := run(t, record.Options{Model: cuda.Model}, driver, "load-ptx")
	counted := map[string]int{}
	for _, c := range calls(t, r) {
		counted[r.Schema().FuncName(c.Func)]++
	}
	delete(counted, "cuInit")
	counted["cuFuncGetParamInfo"] = 9 // the recorder's own queries
	file := filepath.Join(dir, "counted")
	count := func() {
		var lines []byte
		for name, n := range counted {
			lines = fmt.Appendf(lines, "%s %d\n", name, n)
		}
		if err := os.WriteFile(file, lines, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cupti := []string{"CUPTI=" + testenv.CompileC(t, "libcupti.so", []string{source("fakecupti.c")}, "-shared", "-fPIC"), "FAKECUPTI=" + file}
	count()
	out, err := try(append(cupti, "CASES=load-ptx")...)
	if err != nil || !saw(out, "load-ptx ", "the same functions, as often each", "2 steps of 100 launches", "replay, asap", "replay, recorded", "recorded, 1 runs") ||
		strings.Count(out, "  identical\n") != 3 || strings.Count(out, "  unproved\n") != 1 || strings.Count(out, "2 %\n") != 3 || !strings.Contains(out, "tasks measured") && !strings.Contains(out, "task measured") {
		t.Errorf("%v\n%s", err, out)
	}
	counted["cuMemAlloc_v2"]++
	delete(counted, "cuMemFree_v2")
	count()
	if out, err = try(append(cupti, "CASES=load-ptx")...); err == nil || !saw(out, "DIFFERS (acltrace/CUPTI): ", fmt.Sprintf(" cuMemAlloc_v2 %d/%d", counted["cuMemAlloc_v2"]-1, counted["cuMemAlloc_v2"]), " cuMemFree_v2 3/0") {
		t.Errorf("calls that were not recorded: %v\n%s", err, out)
	}

	if out, err = try("CASES=order", "FAKECUDA_KERNELS="); err == nil || !saw(out, "FAILED: wrong: ") {
		t.Errorf("a program that fails: %v\n%s", err, out)
	}
	table, err := os.ReadFile(filepath.Join(dir, "table.txt"))
	kept, cant := exec.Command("tar", "tzf", filepath.Join(dir, "kept.tar.gz")).Output()
	if files, _ := os.ReadDir(dir); err != nil || cant != nil || len(files) > 4 || !saw(string(kept), "kept/facts", "kept/order/bare", "kept/order/trace.aclt", "kept/order/info") || !saw(string(table), "order ", "FAILED: wrong: ") {
		t.Errorf("what was kept: %v, %v, %v\n%s\n%s", err, cant, files, kept, table)
	}
	// Third-party programs run in between, if there are any. One that fails does not stop the rest.
	python := filepath.Join(dir, "python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\n[ \"$2\" = have ] && echo have torch && echo have cupy && exit\n[ \"$2\" = graph ] && kill -SEGV $$\necho work: 1.5 ms: ok\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err = try("CASES=load-ptx", "PYTHON="+python); err == nil || !saw(out, "PyTorch, an array ", "PyTorch, a captured graph ", "cupy ", "--device-time ", "PyTorch, 2 steps ", "recorded, 1 runs") {
		t.Errorf("others' programs: %v\n%s", err, out)
	}
	if out, err = try("CASES=order", "TOTAL=0"); err == nil || !saw(out, "NOT RECORDED", "no time was left", "NOT MEASURED") {
		t.Errorf("without time: %v\n%s", err, out)
	}
	if out, err = try("CASES=nothing"); err == nil {
		t.Errorf("a case that there is not: %s", out)
	}
}
