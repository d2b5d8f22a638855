package ring

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/probe"
)

// hotpathProgram builds testdata/hotpath.c. It returns the program and an environment that loads the shim.
func hotpathProgram(t testing.TB) (program string, env []string) {
	t.Helper()
	shim, include := testenv.Built(t, "lib/libacltrace.so"), "-I"+filepath.Join(testenv.Root(t), "api/acl/include")
	dir := t.TempDir()
	compile := func(out string, args ...string) {
		args = append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", include, "-o", filepath.Join(dir, out)}, args...)
		if b, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc %v: %v\n%s", args, err, b)
		}
	}
	compile("libascendcl.so", "-fPIC", "-shared", "-Wl,-soname,libascendcl.so", "../shim/bench/null.c")
	compile("hotpath", "testdata/hotpath.c", "-L"+dir, "-lascendcl")
	return filepath.Join(dir, "hotpath"), append(os.Environ(), "LD_LIBRARY_PATH="+dir, "LD_PRELOAD="+shim)
}

// launchesAlone runs launches in a process that the kernel kills at its first system call. It returns the exit status and the
// records. The hooks first and last get the session before and after.
func launchesAlone(t *testing.T, first, last func(*Session)) (syscall.WaitStatus, *everything) {
	t.Helper()
	program, env := hotpathProgram(t)
	s, err := Create(acl.Model, &Options{Buffers: Buffers{RingBytes: 1 << 20}, Calls: Calls{NoTaskIDs: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first(s)
	cmd := exec.Command(program, "1000")
	cmd.Env = append(env, "ACLTRACE_SESSION="+s.Dir())
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	e := &everything{}
	if err := s.Finish(e); err != nil {
		t.Fatal(err)
	}
	last(s)
	return cmd.ProcessState.Sys().(syscall.WaitStatus), e
}

// A recorded launch makes no system call. On a machine without a fit counter it makes two, to read the clock. Then the program
// must die, which proves that the test detects system calls.
func TestHotPathMakesNoSystemCall(t *testing.T) {
	if counterFit() {
		how, e := launchesAlone(t, nothing, nothing)
		if how.ExitStatus() != 0 || len(e.calls) != 1002 || len(e.gaps) != 0 {
			t.Errorf("the program ended with %#x; %d calls recorded, %v lost", how, len(e.calls), e.gaps)
		}
		for i := range e.calls {
			if got, want := e.calls[i].Pieces, hotpathPieces(uint32(i)); !slices.EqualFunc(got, want, samePiece) {
				t.Fatalf("launch %d leads to\n%+v, want\n%+v", i, got, want)
			}
		}
	}
	how, e := launchesAlone(t, func(s *Session) {
		s.clock.counter = false
		s.files.ctl.clock = s.clock.kind()
	}, nothing)
	if how.Signal() != syscall.SIGSYS || len(e.calls) != 2 {
		t.Errorf("with the clock of the system the program ended with %#x after %d calls", how, len(e.calls))
	}
	for _, c := range e.calls {
		if c.Start <= 0 || c.End < c.Start || c.End > probe.Now() {
			t.Errorf("call from %d to %d", c.Start, c.End)
		}
	}
}

// hotpathPieces returns the pieces of launch i in testdata/hotpath.c. The function that the program calls writes up to 256
// bytes of each, its wrapper writes more.
func hotpathPieces(i uint32) (ps []probe.Piece) {
	add := func(param uint8, words ...uint32) {
		p := probe.Piece{Param: param}
		for _, w := range words {
			p.Bytes = le.AppendUint32(p.Bytes, w)
		}
		ps = append(ps, p)
	}
	if n := i % 4; n > 0 {
		attrs := make([]uint32, 5*n)
		attrs[1] = i
		add(3, attrs...)
	}
	add(4, slices.Repeat([]uint32{i}, int(i%75))...)
	if n := i % 3; n > 0 {
		add(6, []uint32{i, 0, i, 1}[:2*n]...)
	}
	return ps
}

func samePiece(a, b probe.Piece) bool {
	return a.Param == b.Param && a.Missing == probe.Present && a.Len == uint64(len(b.Bytes)) && bytes.Equal(a.Bytes, b.Bytes)
}

func nothing(*Session) {}

// A shim from another build, with another layout or other function numbers, writes nothing and reports its presence.
func TestShimOfAnotherBuildWritesNothing(t *testing.T) {
	for name, change := range map[string]func(*control){
		"records":   func(c *control) { c.version-- },
		"functions": func(c *control) { c.functions++ },
	} {
		t.Run(name, func(t *testing.T) {
			stranger := 0
			how, e := launchesAlone(t, func(s *Session) { change(s.files.ctl) }, func(s *Session) { stranger = s.Stranger() })
			if how.ExitStatus() != 0 || len(e.calls) != 0 || stranger == 0 {
				t.Errorf("the program ended with %#x; %d calls recorded, the stranger is %d", how, len(e.calls), stranger)
			}
		})
	}
}

// No wrapper takes a lock or calls anything outside the shim except the runtime: no C library function, no linkage table.
func TestWrappersCallNothing(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("reads the instructions of x86-64")
	}
	path := testenv.Built(t, "lib/libacltrace.so")
	code, err := exec.Command("objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		t.Skipf("objdump: %v", err)
	}
	function := regexp.MustCompile(`^[0-9a-f]+ <(.*)>:$`)
	// A call through a register calls the runtime. The other functions are parts and aliases of wrappers.
	allowed := regexp.MustCompile(`\b(call|jmp|j[a-z]+) +(\*%r[a-z0-9]+$|[0-9a-f]+ <(shim_|other_|main_|plain_|acl|rt|Hccl|mstx))`)
	locked := regexp.MustCompile(`\block\b|\bxchg .*\(|\bsyscall\b|\bmfence\b`)
	var wrapper string
	wrappers := 0
	for lines := bufio.NewScanner(bytes.NewReader(code)); lines.Scan(); {
		line := lines.Text()
		if m := function.FindStringSubmatch(line); m != nil {
			wrapper = ""
			name := strings.TrimPrefix(strings.TrimPrefix(m[1], "main_"), "plain_")
			if strings.HasPrefix(name, "aclrt") || strings.HasPrefix(name, "rt") {
				wrapper = m[1]
				wrappers++
			}
			continue
		}
		_, instruction, _ := strings.Cut(line, ":\t")
		if wrapper == "" || instruction == "" {
			continue
		}
		if locked.MatchString(instruction) {
			t.Errorf("%s: %s", wrapper, instruction)
		}
		if (strings.HasPrefix(instruction, "call") || strings.HasPrefix(instruction, "j")) && !allowed.MatchString(instruction) {
			t.Errorf("%s leaves the shim: %s", wrapper, instruction)
		}
	}
	if wrappers < 300 {
		t.Errorf("%d wrappers in %s", wrappers, path)
	}
}

// While nothing is recorded, a launch costs six instructions before the jump to the runtime. They save no register and move no
// argument.
func TestIdleIsAJump(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("reads the instructions of x86-64")
	}
	path := testenv.Built(t, "lib/libacltrace.so")
	for _, name := range []string{"aclrtLaunchKernelWithHostArgs", "rtKernelLaunch", "aclrtMemcpyAsync", "aclrtSynchronizeStream"} {
		code, err := exec.Command("objdump", "-d", "--no-show-raw-insn", "--disassemble="+name, path).Output()
		if err != nil {
			t.Skipf("objdump: %v", err)
		}
		var got []string
		for line := range strings.Lines(string(code)) {
			if _, instruction, ok := strings.Cut(line, ":\t"); ok {
				got = append(got, strings.Fields(instruction)[0])
			}
		}
		if want := []string{"cmpl", "jne", "mov", "test", "je", "jmp"}; len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s begins with %v", name, got)
		}
	}
}

// The shim uses little static TLS, which libraries loaded late share, and accesses it without a call.
func TestStaticTLS(t *testing.T) {
	f := openELF(t, testenv.Built(t, "lib/libacltrace.so"))
	for _, p := range f.Progs {
		if p.Type == elf.PT_TLS && p.Memsz > 256 {
			t.Errorf("%d bytes of TLS", p.Memsz)
		}
	}
	if v, err := f.DynValue(elf.DT_FLAGS); err != nil || len(v) == 0 || v[0]&uint64(elf.DF_STATIC_TLS) == 0 {
		t.Errorf("flags %x, %v: TLS is not initial-exec", v, err)
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range syms {
		if s.Name == "__tls_get_addr" {
			t.Error("the shim asks the loader for its TLS")
		}
	}
}
