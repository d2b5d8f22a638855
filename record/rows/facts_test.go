package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
)

func number(param uint8, v uint64) probe.Piece {
	return probe.Piece{Param: param, Dir: probe.Out, Len: 8, Bytes: binary.LittleEndian.AppendUint64(nil, v)}
}

func written(param uint8, b ...byte) probe.Piece {
	return probe.Piece{Param: param, Dir: probe.Out, Len: uint64(len(b)), Bytes: b}
}

// A process's devices have the facts that successful calls returned: of the device that an argument names, or that the thread has selected.
func TestDeviceFacts(t *testing.T) {
	s := newScript(t, Options{})
	uuid := []byte{0: 0xab, 15: 0xcd}
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 0, 0}, number(1, 1), number(2, 1<<30)) // no device is selected
	s.call(7, "aclrtDeviceGetUuid", 0, []uint64{3, 1}, written(1, uuid...))
	s.call(7, "aclrtDeviceGetUuid", 0, []uint64{3, 1}, written(1, uuid[:8]...)) // cut
	s.call(7, "aclrtDeviceGetPCIBusId", 0, []uint64{3, 1, 16}, written(1, []byte("0000:c1\x00\xff")...))
	s.call(7, "aclrtDeviceGetPCIBusId", 1, []uint64{4, 1, 16}, written(1, []byte("failed\x00")...))
	s.call(7, "aclrtSetDevice", 0, []uint64{2})
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 0, 0}, number(1, 1), number(2, 1<<34))
	s.call(7, "aclrtGetMemInfo", 0, []uint64{0, 0, 0}, number(1, 1), number(2, 1<<35)) // another kind of memory
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 0, 0}, number(1, 1), number(2, 1<<34))
	s.call(8, "aclrtGetMemInfo", 0, []uint64{1, 0, 0}, number(1, 1), number(2, 1<<36)) // another thread
	s.call(7, "aclrtSetCurrentContext", 0, []uint64{5})
	s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 0, 0}, number(1, 1), number(2, 1<<37)) // of the context's device
	s.call(7, "aclrtGetPhyDevIdByLogicDevId", 0, []uint64{1, 1}, written(1, 6, 0, 0, 0))
	s.call(7, "aclrtGetPhyDevIdByLogicDevId", 0, []uint64{uint64(1<<32 - 1), 1}, written(1, 9, 0, 0, 0))
	six := 6
	want := []format.ProcessDevice{{Number: 1, HostNumber: &six}, {Number: 2, MemoryBytes: 1 << 34}, {Number: 3, UUID: "ab000000-0000-0000-0000-0000000000cd", PCI: "0000:c1"}}
	if got := s.Processes.rows[0].Devices; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for n := range uint64(2 * maxDevices) {
		s.call(7, "aclrtSetDevice", 0, []uint64{n})
		s.call(7, "aclrtGetMemInfo", 0, []uint64{1, 0, 0}, number(1, 1), number(2, n+1))
	}
	if got := s.Processes.rows[0].Devices; len(got) != maxDevices || got[2].MemoryBytes != 3 || got[3].PCI != "0000:c1" {
		t.Errorf("%d devices", len(got))
	}
	// Numbers of a process whose devices are chosen by a variable say nothing about the host.
	s.ok(s.Process(&probe.Process{PID: 2, Variables: []string{"ASCEND_RT_VISIBLE_DEVICES=3"}}))
	f := acl.Model.Lookup("aclrtGetPhyDevIdByLogicDevId")
	s.ok(s.Call(&probe.Call{PID: 2, TID: 1, Seq: 1, Func: f.ID, Start: 2000, End: 2001, Words: []uint64{1, 1}, Pieces: []probe.Piece{written(1, 6, 0, 0, 0)}}))
	if got := s.Processes.rows[1].Devices; len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// An address is host or device memory by the allocation that it is in, and else by the device's window.
func TestAllocationDecidesHostOrDevice(t *testing.T) {
	s := newScript(t, Options{})
	in, out := acl.Model.Device.From+0x1000, uint64(0x7000)
	note := func(name string, ret, addr, n uint64) {
		s.call(7, name, ret, []uint64{1, n, 0}[:acl.Model.Lookup(name).Words], number(0, addr))
	}
	check := func(what string, addr uint64, want bool) {
		t.Helper()
		if got := s.given.onHost(1, addr); got != want {
			t.Errorf("%s: %#x is on the host: %t", what, addr, got)
		}
	}
	check("nothing", 0, false)
	check("nothing", out, true)
	check("the window's first byte", acl.Model.Device.From, false)
	check("before the window", acl.Model.Device.From-1, true)
	check("the window's last byte", acl.Model.Device.To-1, false)
	check("behind the window", acl.Model.Device.To, true)
	note("aclrtMallocHost", 0, in, 16)
	note("aclrtMalloc", 0, out, 16)
	note("aclrtMallocHost", 1, in+64, 16) // it failed
	note("aclrtMalloc", 0, in+64, 16)     // as its address says
	for _, c := range []struct {
		what string
		addr uint64
		want bool
	}{{"host memory", in, true}, {"its last byte", in + 15, true}, {"behind it", in + 16, false}, {"before it", in - 1, false}, {"device memory", out, false}, {"its last byte", out + 15, false}, {"behind it", out + 16, true}, {"a failed call", in + 64, false}} {
		check(c.what, c.addr, c.want)
	}
	if n := len(s.given.byProcess[1]); n != 2 {
		t.Errorf("%d allocations", n)
	}
	s.call(7, "aclrtFree", 0, []uint64{in}) // not of its kind
	check("freed as another kind", in, true)
	s.call(7, "aclrtFreeHost", 0, []uint64{in + 1})
	check("freed elsewhere", in, true)
	s.call(7, "aclrtFreeHost", 0, []uint64{in})
	check("freed", in, false)
	s.call(7, "aclrtFree", 0, []uint64{out})
	check("freed", out, true)
	s.call(7, "aclrtHostRegister", 0, []uint64{in, 32, 0, 1}, number(3, out))
	check("registered", in+31, true)
	if s.given.onHost(2, in) {
		t.Error("an allocation of another process")
	}
}

// Each reason of the probe for missing content is one of the file, and a reason of a later probe is none.
func TestReasonsForMissingContent(t *testing.T) {
	for m := probe.DeviceMemory; int(m) < len(reasons); m++ {
		d := data(&probe.Piece{Param: 3, Missing: m, Addr: 5, Len: 7, Item: 2, Dir: probe.Out})
		if d.Status != format.Missing || (d.Reason == format.NoReason) != (m == probe.Hashed) || d.Param != 3 || d.Addr != 5 || d.Len != 7 || d.Item != 2 || d.Dir != format.DirOut {
			t.Errorf("%d: %+v", m, d)
		}
	}
	if d := data(&probe.Piece{Missing: probe.Missing(len(reasons))}); d.Status != format.Missing || d.Reason != format.NoReason {
		t.Errorf("%+v", d)
	}
	if d := data(&probe.Piece{Early: true}); d.Status != format.Whole || d.Reason != format.TakenEarly {
		t.Errorf("%+v", d)
	}
}

// Payloads end at nine tenths of the largest file, kernel arguments that are missing are counted, and memory that has no content is too.
func TestPayloadsEndBeforeTheFileLimit(t *testing.T) {
	s := newScript(t, Options{MaxSize: 1})
	s.allocate()
	a := s.copy(7, toDevice, 6)
	s.payload(7, a, 0, source(0, false, 6, "abcdef"))
	launch := func(missing probe.Missing, param uint8) {
		s.call(7, "aclrtLaunchKernel", 0, []uint64{1, 1, 1, 64, 5}, probe.Piece{Param: param, Dir: probe.In, Missing: missing, Len: 64})
	}
	launch(probe.UnknownSize, 2)
	launch(probe.OverLimit, 2)
	launch(probe.OverLimit, 2)
	launch(probe.Unreadable, 2)
	launch(probe.OverLimit, 0)
	launch(probe.OverLimit, probe.StackParam)
	p := &s.Payloads
	if !p.Cut || p.Unkept != 0 || p.Unsized != 0 || p.CutArguments != 0 {
		t.Errorf("%+v", p)
	}
	s.call(7, "aclrtHostRegister", 0, []uint64{pinned, 4096, 0, 1}, number(3, device))
	s.call(7, "aclrtHostRegister", 1, []uint64{pinned, 4096, 0, 1}, number(3, device))
	if p.Unkept != 4096 {
		t.Errorf("%d bytes are accessible without a call", p.Unkept)
	}
	s.want(s.Writer(), s.path, limits)
}

const limits = `
aclrtMallocHost@7 100+10 out0=0x7f0000000000
aclrtMemcpyAsync@7 200+10
  2.0 dir 0 @215 0x7f0000000000+6: missing limit reached ""
aclrtLaunchKernel@7 300+10
  2.0 dir 0 @300 0x0+64: missing unreadable ""
aclrtLaunchKernel@7 400+10
  2.0 dir 0 @400 0x0+64: missing limit reached ""
aclrtLaunchKernel@7 500+10
  2.0 dir 0 @500 0x0+64: missing limit reached ""
aclrtLaunchKernel@7 600+10
  2.0 dir 0 @600 0x0+64: missing unreadable ""
aclrtLaunchKernel@7 700+10
  0.0 dir 0 @700 0x0+64: missing limit reached ""
aclrtLaunchKernel@7 800+10
  253.0 dir 0 @800 0x0+64: missing limit reached ""
aclrtHostRegister@7 900+10 out3=0x124000000000
aclrtHostRegister@7 1000+10 =1 out3=0x124000000000
`

// Content of memory is at the call that it arrived with, before or after it, whether the call failed or not, and never at an earlier one.
func TestVisibleMemory(t *testing.T) {
	s := newScript(t, Options{Visible: true, HashOnly: true})
	memory := func(seq uint64, missing probe.Missing, text string) {
		s.payload(7, seq, 0, probe.Piece{Param: probe.MemoryParam, Dir: probe.In, Missing: missing, Addr: pinned, Len: uint64(len(text)), Bytes: []byte(text)})
	}
	memory(2, 0, "ahead")
	s.call(7, "aclrtHostRegister", 0, []uint64{pinned, 4096, 0, 1}, number(3, device))
	memory(1, 0, "first")
	s.call(7, "aclrtSynchronizeStream", 507015, []uint64{5})
	memory(1, 0, "late")
	memory(2, probe.Unreadable, "lost")
	if s.Payloads.Unkept != 4 || len(s.Payloads.ahead) != 0 {
		t.Errorf("%+v", s.Payloads)
	}
	s.ok(s.Finish())
	s.want(s.Writer(), s.path, visible)
}

const visible = `
aclrtHostRegister@7 100+10 out3=0x124000000000
  248.0 dir 0 @115 0x7f0000000000+5: whole none "first"
aclrtSynchronizeStream@7 200+10 =507015
  248.0 dir 0 @15 0x7f0000000000+5: whole none "ahead"
  248.0 dir 0 @215 0x7f0000000000+4: missing unreadable ""
`

// A hook may leave a call out or fail, and then the call is not counted.
func TestHookMayLeaveACallOut(t *testing.T) {
	s := newScript(t, Options{})
	s.call(7, "aclrtGetDevice", 0, []uint64{1})
	failed := errors.New("full")
	keep, err := false, error(nil)
	s.Hooks.Keep = func(f *api.Func, c *format.Call, pieces []probe.Piece) (bool, error) {
		if f.Name != "aclrtSetDevice" || len(c.Args) != 1 || len(pieces) != 1 {
			t.Errorf("%s, %d arguments, %d pieces", f.Name, len(c.Args), len(pieces))
		}
		return keep, err
	}
	call := func(seq uint64) error {
		return s.Call(&probe.Call{PID: 1, TID: 7, Seq: seq, Func: acl.Model.Lookup("aclrtSetDevice").ID, Start: 1300, End: 1310, Words: []uint64{1}, Pieces: []probe.Piece{number(9, 1)}})
	}
	s.ok(call(5))
	if s.Count.Calls != 1 || s.threads.byKey[threadKey{1, 7}].next != 6 {
		t.Errorf("%+v", s.Count)
	}
	keep = true
	s.ok(call(6))
	err = failed
	if got := call(7); got != failed || s.Count.Calls != 2 {
		t.Errorf("%v, %+v", got, s.Count)
	}
	s.Hooks.Call = func(*api.Func, *format.Call) error { return failed }
	err = nil
	if got := call(8); got != failed || s.Count.Calls != 2 {
		t.Errorf("%v, %+v", got, s.Count)
	}
}

// The libraries, kernel libraries and last calls of processes are kept for after their end.
func TestProcessFacts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lib, link := filepath.Join(dir, "libascendcl.so"), filepath.Join(dir, "link.so")
	if err := errors.Join(os.WriteFile(lib, make([]byte, 4096), 0o600), os.Symlink(lib, link)); err != nil {
		t.Fatal(err)
	}
	ps := newProcesses(acl.Model)
	if ps.Look(os.Getpid()) {
		t.Error("the test maps the runtime")
	}
	f, err := os.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	if !ps.Look(os.Getpid()) || !ps.Libraries[lib] || len(ps.Libraries) != 1 {
		t.Errorf("%v", ps.Libraries)
	}
	// What a process reports counts if it can't be looked at.
	ps = newProcesses(acl.Model)
	if ps.learn(&probe.Process{PID: 1, Libraries: []string{link, acl.Model.Simulator.Symbol}}) != true || !reflect.DeepEqual(ps.Libraries, map[string]bool{link: false, acl.Model.Simulator.Symbol: false}) || len(ps.Local()) != 0 {
		t.Errorf("%v", ps.Libraries)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	ps = newProcesses(acl.Model)
	if ps.learn(&probe.Process{PID: 2, Local: ended.Process.Pid, Libraries: []string{link, "relative.so"}}) || !reflect.DeepEqual(ps.Libraries, map[string]bool{lib: true, "relative.so": false}) || !slices.Equal(ps.Local(), []int{ended.Process.Pid}) {
		t.Errorf("%v", ps.Libraries)
	}
	// Libraries that are loaded later, of processes that have not ended.
	for end, want := range map[int64]int{0: 1, 5: 0} {
		ps = newProcesses(acl.Model)
		ps.local[1] = os.Getpid()
		ps.add(0, format.Process{PID: 1, End: end})
		if ps.LookAgain(); len(ps.Libraries) != want || ps.Len() != 1 {
			t.Errorf("ended %d: %v", end, ps.Libraries)
		}
	}
	// Kernel libraries in the environment of a process.
	c := exec.Command("cat")
	c.Dir, c.Env = dir, []string{acl.Model.Simulator.Kernels + "=own.so:/lib/other.so"}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	_, err1 = in.Write([]byte("x"))
	_, err2 = out.Read(make([]byte, 1)) // the kernel sets the environment after Start has returned
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if ps.Look(c.Process.Pid); !slices.Equal(ps.KernelLibs, []string{dir + "/own.so", "/lib/other.so"}) {
			t.Errorf("%q", ps.KernelLibs)
		}
	}
	// The environment of the started program, unless it has executed another.
	ps.Command = Command{PID: 9, Path: link, Env: []string{"A=b"}}
	for _, x := range []struct {
		p    probe.Process
		want string
	}{{probe.Process{Local: 9, Exe: lib}, "[A=b]"}, {probe.Process{Local: 9, Exe: link, Variables: []string{"own"}}, "[own]"}, {probe.Process{Local: 8, Exe: lib}, "[]"}, {probe.Process{Exe: lib}, "[]"}} {
		if got := fmt.Sprint(ps.environment(&x.p)); got != x.want {
			t.Errorf("%+v: %s", x.p, got)
		}
	}
}

// A rank is in the variables that a process reports, or else in those that it was started with.
func TestReportedVariablesDecideTheRank(t *testing.T) {
	c := exec.Command("cat")
	c.Env = []string{format.RankVariables[0] + "=5"}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	_, err1 = in.Write([]byte("x"))
	_, err2 = out.Read(make([]byte, 1)) // the kernel sets the environment after Start has returned
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	s := newScript(t, Options{})
	for i, x := range []struct {
		variables []string
		local     int
		want      int // -1 for none
	}{{nil, c.Process.Pid, 5}, {[]string{format.RankVariables[0] + "=7"}, c.Process.Pid, 7}, {[]string{"A=b"}, c.Process.Pid, -1}, {nil, 0, -1}, {[]string{format.RankVariables[0] + "=8"}, 0, 8}} {
		s.ok(s.Process(&probe.Process{PID: 100 + i, Local: x.local, Variables: x.variables}))
		rank, ok := s.Processes.Ranks[uint32(i)]
		if ok != (x.want >= 0) || ok && (rank.Number != x.want || len(rank.Variables) != 1) || s.Processes.rows[i].Rank != max(x.want, 0) {
			t.Errorf("%+v: %+v, %t, %+v", x, rank, ok, s.Processes.rows[i])
		}
	}
	if !s.Processes.has(1, format.RankVariables[0]) || s.Processes.has(1, "A") || s.Processes.has(2, format.RankVariables[0]) {
		t.Error("a variable is that of another process")
	}
}

// A run of a graph gets as many results as it says, after it. Earlier content of their memory is recorded with whole payloads only.
func TestGraphRun(t *testing.T) {
	for _, hash := range []bool{false, true} {
		s := newScript(t, Options{HashOnly: hash})
		n := s.call(7, "aclmdlRIExecuteAsync", 0, []uint64{5, 6}, written(0, 2, 0), probe.Piece{Dir: probe.In, Item: 1, Addr: pinned, Len: 5, Bytes: []byte("older")}, number(probe.StackParam, 9))
		for item := range uint32(3) {
			s.payload(7, n, 0, probe.Piece{Dir: probe.Out, Item: item + 1, Addr: pinned, Len: 3, Bytes: []byte("new")})
		}
		if p := &s.Payloads; p.Copies.Count != 2 || p.Copies.CallsNS != 20 || p.Copies.Bytes != 6 {
			t.Errorf("%+v", p.Copies)
		}
		s.ok(s.Finish())
		s.want(s.Writer(), s.path, graphRun[hash])
	}
}

var graphRun = map[bool]string{false: `
aclmdlRIExecuteAsync@7 100+10 out253=0x9
  0.1 dir 0 @100 0x7f0000000000+5: whole none "older"
  0.1 dir 1 @115 0x7f0000000000+3: whole none "new"
  0.2 dir 1 @115 0x7f0000000000+3: whole none "new"
`, true: `
aclmdlRIExecuteAsync@7 100+10 out253=0x9
  0.1 dir 0 @100 0x7f0000000000+5: missing excluded by the payload level ""
  0.1 dir 1 @115 0x7f0000000000+3: hash-only none ""
  0.2 dir 1 @115 0x7f0000000000+3: hash-only none ""
`}

// A killed process has the latest call of each thread, those first that did not return, and the libraries of operators that it reported.
func TestKilledProcessHasItsLatestCalls(t *testing.T) {
	s := newScript(t, Options{})
	s.call(7, "aclrtGetDevice", 0, []uint64{1})
	s.call(6, "aclrtGetDevice", 0, []uint64{1})
	s.ok(s.Call(&probe.Call{PID: 1, TID: 9, Seq: 1, Func: acl.Model.Lookup("aclrtSynchronizeDevice").ID, Start: 1700}))
	s.ok(s.Call(&probe.Call{PID: 1, TID: 8, Seq: 1, Func: acl.Model.Lookup("aclrtSynchronizeDevice").ID, Start: 1700}))
	s.ok(s.Call(&probe.Call{PID: 2, TID: 8, Seq: 1, Func: acl.Model.Lookup("aclrtSetDevice").ID, Start: 1700, End: 1800, Words: []uint64{1}}))
	operators := "/lib/" + acl.Model.Operators[0]
	s.ok(s.Ended(&probe.End{PID: 1, Seen: 2000, Signal: 9, Code: probe.NoCode, Args: []string{"train", "-x"}, Libraries: []string{operators, "/lib/libc.so.6"}}))
	s.ok(s.Ended(&probe.End{PID: 2, Seen: 500, Replaced: true, Clean: true}))
	s.ok(s.Ended(&probe.End{PID: 3, Seen: 500, Libraries: []string{"/other/" + acl.Model.Operators[0]}}))
	want := []Died{{PID: 1, Command: "train -x", Signal: 9, Last: []string{"thread 8 in aclrtSynchronizeDevice", "thread 9 in aclrtSynchronizeDevice", "thread 6 after aclrtGetDevice", "thread 7 after aclrtGetDevice"}}}
	if !reflect.DeepEqual(s.Processes.Died, want) {
		t.Errorf("%+v", s.Processes.Died)
	}
	if p := s.Processes.rows; p[0].End != 1000 || p[0].Signal != 9 || !p[0].Killed || p[1].End != 0 {
		t.Errorf("%+v", p)
	}
	if !reflect.DeepEqual(s.Processes.Libraries, map[string]bool{operators: true}) {
		t.Errorf("%v", s.Processes.Libraries)
	}
}

// A payload may arrive after its call if it is not in the call's record itself: data of copies and files, and inputs that are large or of unknown size.
func TestPayloadsApart(t *testing.T) {
	for _, c := range []struct {
		task api.Task
		p    api.Param
		want bool
	}{
		{api.Copy, api.Param{Role: api.Reads}, true}, {api.Kernel, api.Param{Role: api.Writes}, true}, {api.NoTask, api.Param{Role: api.File}, true}, {api.NoTask, api.Param{Role: api.Image}, true},
		{api.Copy, api.Param{Role: api.Struct}, true}, {api.Kernel, api.Param{Role: api.Struct}, false}, {api.Kernel, api.Param{Role: api.Args}, false},
		{api.NoTask, api.Param{Role: api.In, Memory: api.Memory{Size: api.Size{Unit: format.InlineLimit}}}, false},
		{api.NoTask, api.Param{Role: api.In, Memory: api.Memory{Size: api.Size{Unit: format.InlineLimit + 1}}}, true},
		{api.NoTask, api.Param{Role: api.In, Memory: api.Memory{Size: api.Size{Unit: 8, Mul: []uint8{1}}}}, true},
		{api.NoTask, api.Param{Role: api.Uses, Memory: api.Memory{Size: api.Size{Unit: 8, Stored: true}}}, true},
		{api.NoTask, api.Param{Role: api.Out}, false}, {api.NoTask, api.Param{Role: api.Value}, false},
	} {
		if got := mayBeApart(&api.Func{Meaning: api.Meaning{Task: c.task}}, &c.p); got != c.want {
			t.Errorf("the payload of %v in a task %v may be apart: %t", c.p.Role, c.task, got)
		}
	}
}

// A process that sets its variables after it has begun, as torch's mp.spawn lets it, had no rank. It has the one with which it joined its largest communicator.
func TestRanksOfCommunicators(t *testing.T) {
	s := newScript(t, Options{})
	for pid, variables := range [][]string{3: nil, 4: {"RANK=9"}, 5: nil} {
		if pid > 1 {
			s.ok(s.Process(&probe.Process{PID: pid, Variables: variables}))
		}
	}
	seq := uint64(0)
	join := func(pid int, name string, ret uint64, words ...uint64) {
		t.Helper()
		seq++
		f := acl.Model.Lookup(name)
		s.ok(s.Call(&probe.Call{PID: pid, TID: 1, Seq: seq, Func: f.ID, Ret: ret, Start: int64(1000 * seq), End: int64(1000*seq + 1), Words: append(words, 0, 0, 0, 0)[:f.Words]}))
	}
	check := func(want string) {
		t.Helper()
		got := map[int]int{}
		for i, p := range s.Processes.rows {
			if r, known := s.Processes.Ranks[uint32(i)]; known {
				got[p.PID] = r.Number
			}
			if _, known := got[p.PID]; p.Ranked(&format.Meta{}) != known || p.Rank != got[p.PID] || p.Joined != (known && p.PID != 4) {
				t.Errorf("%+v, %v", p, got)
			}
		}
		if got := fmt.Sprint(got); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	const root, file = "HcclCommInitRootInfo", "HcclCommInitClusterInfo"
	join(1, root, 0, 1, 0, 0) // alone
	join(2, root, 7, 4, 0, 3) // failed
	check("map[4:9]")
	join(1, root, 0, 2, 0, 1)
	join(4, root, 0, 2, 0, 0)
	check("map[1:1 4:9]")
	join(2, root, 0, 2, 0, 1) // of another group of two
	check("map[4:9]")
	join(2, root, 0, 4, 0, 3)
	join(2, root, 0, 2, 0, 0)
	check("map[1:1 2:3 4:9]")
	join(5, file, 0, 0, 2)
	check("map[1:1 2:3 4:9 5:2]")
	join(5, "HcclCommInitClusterInfoConfig", 0, 0, 4)
	check("map[1:1 2:3 4:9]")
	join(1, "HcclCommInitRootInfoConfig", 0, 8, 0, 6)
	check("map[1:6 2:3 4:9]")
}
