package ring

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

const crossCompiler = "aarch64-linux-gnu-gcc"

// arm64 builds the shim and the player for aarch64 and returns their folder.
func arm64(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{crossCompiler, "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: run `scripts/setup.sh cross`", tool)
		}
	}
	if b, err := exec.Command("make", "-s", "-C", testenv.Root(t), "lib/arm64/libacltrace.so", "lib/arm64/acltrace-player").CombinedOutput(); err != nil {
		t.Fatalf("make lib/arm64: %v\n%s", err, b)
	}
	return filepath.Join(testenv.Root(t), "lib/arm64")
}

func crossCompile(t *testing.T, out string, args ...string) string {
	t.Helper()
	args = append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I" + filepath.Join(testenv.Root(t), "api/acl/include"), "-o", out}, args...)
	if b, err := exec.Command(crossCompiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", crossCompiler, args, err, b)
	}
	return out
}

// On both processors the shim needs no library and no function that may be missing. The player needs nothing newer than glibc
// 2.17.
func TestShimNeedsNoLibrary(t *testing.T) {
	t.Run("host", func(t *testing.T) {
		shimImports(t, testenv.Built(t, "lib/libacltrace.so"))
		playerImports(t, testenv.Built(t, "lib/acltrace-player"))
	})
	t.Run("arm64", func(t *testing.T) {
		dir := arm64(t)
		shimImports(t, filepath.Join(dir, "libacltrace.so"))
		playerImports(t, filepath.Join(dir, "acltrace-player"))
	})
}

func openELF(t *testing.T, path string) *elf.File {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func shimImports(t *testing.T, path string) {
	f := openELF(t, path)
	libs, err := f.ImportedLibraries()
	if err != nil || len(libs) > 0 {
		t.Errorf("%s needs %v, %v", path, libs, err)
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if s.Section == elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_WEAK {
			t.Errorf("%s is not loaded where there is no %s", path, s.Name)
		}
	}
	for _, tag := range []elf.DynTag{elf.DT_INIT, elf.DT_FINI} {
		if v, _ := f.DynValue(tag); len(v) > 0 {
			t.Errorf("%s has %v", path, tag)
		}
	}
	// One function runs when the shim is loaded: it copies the session path.
	if v, err := f.DynValue(elf.DT_INIT_ARRAYSZ); err != nil || len(v) != 1 || v[0] != 8 {
		t.Errorf("%s: bytes of functions that run when it is loaded: %v, %v, want 8", path, v, err)
	}
}

func playerImports(t *testing.T, path string) {
	syms, err := openELF(t, path).ImportedSymbols()
	if err != nil || len(syms) == 0 {
		t.Fatal(len(syms), err)
	}
	for _, s := range syms {
		if s.Version == "" {
			continue // the compiler's weak symbols
		}
		var major, minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_%d.%d", &major, &minor); n != 2 || major != 2 || minor > 17 {
			t.Errorf("%s needs %s of version %s", path, s.Name, s.Version)
		}
	}
}

// everything is a sink that keeps all records.
type everything struct {
	processes []probe.Process
	calls     []probe.Call
	payloads  []probe.Payload
	gaps      []probe.Gap
}

func (e *everything) Process(p *probe.Process) error {
	e.processes = append(e.processes, *p)
	return nil
}
func (e *everything) Gap(g *probe.Gap) error         { e.gaps = append(e.gaps, *g); return nil }
func (e *everything) TaskTime(*probe.TaskTime) error { return nil }

func (e *everything) Call(c *probe.Call) error {
	d := *c
	d.Words = append([]uint64{}, c.Words...)
	d.Pieces = append([]probe.Piece{}, c.Pieces...)
	for i := range d.Pieces {
		d.Pieces[i].Bytes = bytes.Clone(d.Pieces[i].Bytes)
	}
	e.calls = append(e.calls, d)
	return nil
}

func (e *everything) Payload(p *probe.Payload) error {
	d := *p
	d.Bytes = bytes.Clone(p.Bytes)
	e.payloads = append(e.payloads, d)
	return nil
}

// The shim for aarch64 records a program in an emulator.
func TestShimArm64(t *testing.T) {
	shim := filepath.Join(arm64(t), "libacltrace.so")
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("qemu-aarch64 is not installed: run `scripts/setup.sh cross`")
	}
	dir, source := t.TempDir(), filepath.Join(testenv.Root(t), "probe/shim/arm64test")
	crossCompile(t, filepath.Join(dir, "libascendcl.so"), "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libascendcl.so", filepath.Join(source, "runtime.c"))
	program := crossCompile(t, filepath.Join(dir, "program"), filepath.Join(source, "program.c"), "-L"+dir, "-lascendcl", "-lpthread")

	s, err := Create(acl.Model, &Options{Buffers: Buffers{RingBytes: 256 << 10}, Calls: Calls{NoTaskIDs: true}, PayloadLimit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// The emulated counter differs from this machine's.
	s.clock.counter = false
	s.files.ctl.clock = s.clock.kind()
	before := probe.Now()
	cmd := exec.Command(qemu, "-L", "/usr/aarch64-linux-gnu", "-E", "LD_PRELOAD="+shim,
		"-E", "LD_LIBRARY_PATH="+dir, "-E", "ACLTRACE_SESSION="+s.Dir(), program)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if err != nil || out.String() != "5 ii\n" || errs.Len() > 0 {
		t.Fatalf("%v, %q, %q", err, out.String(), errs.String())
	}
	e := &everything{}
	if err := s.Finish(e); err != nil {
		t.Fatal(err)
	}
	if len(e.processes) != 1 || len(e.gaps) != 0 || len(s.Refused()) != 0 {
		t.Fatalf("%+v, %+v, %d refused", e.processes, e.gaps, s.Refused())
	}
	slices.SortStableFunc(e.calls, func(a, b probe.Call) int { return cmp.Compare(a.Start, b.Start) })
	main := e.calls[0].TID
	var names []string
	byName := map[string][]*probe.Call{}
	for i := range e.calls {
		c := &e.calls[i]
		f := acl.Model.Func(c.Func)
		if c.Unfinished() || c.Start < before || c.End < c.Start || c.End > probe.Now() {
			t.Errorf("%s from %d to %d", f.Name, c.Start, c.End)
		}
		byName[f.Name] = append(byName[f.Name], c)
		if c.TID == main {
			names = append(names, f.Name)
		}
	}
	want := "aclInit aclrtSetDevice aclrtGetDevice aclrtCreateStream aclrtMalloc aclrtMemcpy aclrtCreateBinary " +
		"aclrtBinaryLoad aclrtBinaryGetFunction aclrtLaunchKernelWithHostArgs aclrtMemcpy aclrtMallocHost aclrtMemcpyAsync aclrtSynchronizeStream aclrtMemcpy aclFinalize"
	if got := strings.Join(names, " "); got != want {
		t.Fatalf("calls %s", got)
	}
	if n := len(byName["aclrtGetDevice"]); n != 4*1000+1 {
		t.Errorf("%d calls of aclrtGetDevice", n)
	}
	piece := func(name string, i int, param uint8) probe.Piece {
		c := byName[name][i]
		for _, p := range c.Pieces {
			if p.Param == param {
				return p
			}
		}
		for _, p := range e.payloads {
			if p.TID == c.TID && p.Seq == c.Seq && p.Param == param {
				return p.Piece
			}
		}
		return probe.Piece{}
	}
	if w := byName["aclrtSetDevice"][0].Words; w[0] != 5 {
		t.Errorf("aclrtSetDevice%v", w)
	}
	if p := piece("aclrtGetDevice", 0, 0); p.Dir != probe.Out || len(p.Bytes) < 4 || le.Uint32(p.Bytes) != 5 {
		t.Errorf("aclrtGetDevice gave %+v", p)
	}
	if p := piece("aclrtMalloc", 0, 0); len(p.Bytes) != 8 || le.Uint64(p.Bytes) != 0x124000000000 || byName["aclrtMalloc"][0].Words[1] != 8192 {
		t.Errorf("aclrtMalloc gave %+v", p)
	}
	if p := piece("aclrtMemcpy", 0, 2); !bytes.Equal(p.Bytes, bytes.Repeat([]byte{'i'}, 8192)) {
		t.Errorf("the copy to the device is %+v", p)
	}
	if p := piece("aclrtBinaryGetFunction", 0, 1); string(p.Bytes) != "kernel" {
		t.Errorf("the kernel's name is %+v", p)
	}
	launch := byName["aclrtLaunchKernelWithHostArgs"][0]
	if w := launch.Words; w[0] != 0x77 || w[1] != 8 || w[5] != 24 {
		t.Errorf("launch %x", w)
	}
	if p := piece("aclrtLaunchKernelWithHostArgs", 0, 4); len(p.Bytes) != 24 || le.Uint64(p.Bytes) != 0x1111 || le.Uint64(p.Bytes[8:]) != 0x2222222222222222 || le.Uint64(p.Bytes[16:]) != 3 {
		t.Errorf("arguments %+v", p)
	}
	if p := piece("aclrtMemcpy", 1, 0); !bytes.Equal(p.Bytes, bytes.Repeat([]byte{'i'}, 100)) {
		t.Errorf("the copy from the device is %+v", p)
	}
	// The emulator has no process_vm_readv: the piece is marked as unreadable, and the program runs on.
	if p := piece("aclrtMemcpyAsync", 0, 0); p.Missing != probe.Unreadable && !bytes.Equal(p.Bytes, bytes.Repeat([]byte{'i'}, 64)) {
		t.Errorf("the result of the asynchronous copy is %+v", p)
	}
	if failed := byName["aclrtMemcpy"][2]; int32(failed.Ret) == 0 {
		t.Error("the failed copy is recorded as a success")
	}
	// Ring files stay until Reap.
	if ends, err := s.Reap(e); err != nil || len(ends) != 1 {
		t.Errorf("%+v, %v", ends, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), "ring.*")); len(left) != 0 {
		t.Errorf("left in the session: %v", left)
	}
}
