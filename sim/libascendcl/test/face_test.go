// Package test runs C programs on the simulator's libraries, built as make builds them.
package test

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
)

const root = "../../.."

// libs builds the libraries, the kernel library and the kernel binary in one directory, once.
var libs = sync.OnceValues(func() (string, error) {
	if _, err := exec.LookPath("cc"); err != nil {
		return "", errors.New("no C compiler (cc) in PATH")
	}
	dir, err := os.MkdirTemp("", "aclsim")
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(root + "/sim/libascendcl/*.c")
	if err != nil {
		return "", err
	}
	face := append(strings.Fields("cc -std=c11 -O2 -g -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -Wl,-soname,libascendcl.so"),
		"-I"+root+"/api/acl/include", "-o", dir+"/libascendcl.so")
	for _, c := range [][]string{
		{"go", "build", "-buildmode=c-shared", "-trimpath", "-o", dir + "/libaclsim.so", root + "/sim/libascendcl/engine"},
		append(append(face, sources...), "-ldl", "-lpthread"),
		{"cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-D_GNU_SOURCE", "-I" + root + "/sim/libascendcl/include", "-o", dir + "/kernels.so", "testdata/kernels.c"},
		{"cc", "-c", "-o", dir + "/kernels.o", "testdata/binary.c"},
		{"cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-I" + root + "/sim/libascendcl/include",
			"-o", dir + "/ready.so", root + "/sim/kernels/kernels.c", "-lm"},
		{"cc", "-c", "-o", dir + "/ready.o", root + "/sim/kernels/names.c"},
		{"ln", "-s", "libascendcl.so", dir + "/libacl_rt.so"},
		{"ln", "-s", "libascendcl.so", dir + "/libruntime.so"},
	} {
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("%s: %w\n%s", strings.Join(c, " "), err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := libs(); dir != "" {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

func libraries(t testing.TB) string {
	t.Helper()
	dir, err := libs()
	if err != nil && dir == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// program compiles a program of testdata, linked to a library (none where it is "").
func program(t testing.TB, name, lib string, flags ...string) string {
	t.Helper()
	dir := libraries(t)
	exe := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I" + root + "/api/acl/include", "-o", exe, "testdata/" + name + ".c"}, flags...)
	if lib != "" {
		args = append(args, "-L"+dir, "-l"+lib)
	}
	if out, err := exec.Command("cc", append(args, "-ldl", "-lpthread", "-lm")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// run runs a program with the libraries of a directory; it must end well.
func run(t testing.TB, dir string, env []string, exe string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(exe), args, err, &out, &errs)
	}
	return out.String(), errs.String()
}

func TestUnknownKernelIsNamedOnce(t *testing.T) {
	for _, lib := range []string{"ascendcl", "acl_rt"} {
		exe := program(t, "simple", lib)
		dir := libraries(t)
		_, stderr := run(t, dir, []string{"ACLSIM_KERNELS=" + dir + "/kernels.so"}, exe, dir+"/kernels.o")
		if strings.Count(stderr, "test_unknown") != 1 {
			t.Errorf("a kernel that no library knows is not named once: %q", stderr)
		}
	}
}

// A wrong path was reported only when the program looked up a kernel, without the name of the variable.
func TestUnusableKernelLibraries(t *testing.T) {
	dir := libraries(t)
	_, stderr := run(t, dir, []string{"ACLSIM_KERNELS=/nowhere.so:" + dir + "/kernels.o:" + dir + "/kernels.so"}, program(t, "callback", "ascendcl"))
	want := "aclsim: ignore kernel library /nowhere.so: no such file or directory; correct the path in ACLSIM_KERNELS\n" +
		"aclsim: ignore kernel library " + dir + "/kernels.o: not a kernel library: it does not export aclsim_kernels; correct the path in ACLSIM_KERNELS\n"
	if stderr != want {
		t.Errorf("a program that uses no kernel:\n%s\nwant:\n%s", stderr, want)
	}
}

// A wild address among the arguments fails the launch.
func TestWildKernels(t *testing.T) {
	dir := libraries(t)
	run(t, dir, []string{"ACLSIM_KERNELS=" + dir + "/kernels.so"}, program(t, "wild", "ascendcl"), dir+"/kernels.o")
}

func TestReadyKernels(t *testing.T) {
	dir := libraries(t)
	run(t, dir, []string{"ACLSIM_KERNELS=" + dir + "/ready.so"}, program(t, "ready", "ascendcl"), dir+"/ready.o")
}

func TestFaultsAreInjectedByEnvironment(t *testing.T) {
	exe, dir := program(t, "errors", "ascendcl"), libraries(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "ACLSIM_FAULTS=aclrtMalloc:2=207001")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "returned 207001") || !strings.Contains(string(out), "injected fault: call 2") {
		t.Errorf("%v: %s", err, out)
	}
	cmd = exec.Command(exe)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "ACLSIM_FAULTS=aclrtMalloc:2")
	if out, err = cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ACLSIM_FAULTS") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCallbacksRunOnPromisedThreads(t *testing.T) {
	run(t, libraries(t), nil, program(t, "callback", "ascendcl"))
}

func TestForkedChildrenSayWhyCallsFail(t *testing.T) {
	exe := program(t, "fork", "ascendcl")
	if _, stderr := run(t, libraries(t), nil, exe, "before"); stderr != "" {
		t.Errorf("fork before the first call says %q", stderr)
	}
	_, stderr := run(t, libraries(t), nil, exe, "after")
	if n := strings.Count(stderr, "was forked"); n != 4 {
		t.Errorf("4 children said %d times why their calls fail: %q", n, stderr)
	}
}

// Flags of dlopen.
const rtldNow, rtldGlobal, rtldDeepbind = 2, 0x100, 8

// A constructor of a library that a program opens called the runtime: the engine waited for the dynamic loader for ever.
func TestFirstCallInConstructor(t *testing.T) {
	dir := libraries(t)
	lib := program(t, "first", "ascendcl", "-DLIBRARY", "-shared", "-fPIC")
	exe := program(t, "first", "ascendcl")
	for _, flags := range []int{rtldNow, rtldNow | rtldGlobal, rtldNow | rtldDeepbind} {
		run(t, dir, []string{"ACLSIM_KERNELS=" + dir + "/kernels.so"}, exe, "load", lib, strconv.Itoa(flags))
	}
}

// Frameworks ask for the version and the number of devices, and fork their workers then: all calls of the children failed.
func TestForkAfterStatelessCalls(t *testing.T) {
	if _, stderr := run(t, libraries(t), nil, program(t, "first", "ascendcl"), "fork"); stderr != "" {
		t.Errorf("it says %q", stderr)
	}
}

// The face and the engine give the same answers.
func TestAnswersWithoutEngine(t *testing.T) {
	exe := program(t, "first", "ascendcl")
	for _, env := range []string{"ACLSIM_DEVICES=1", "ACLSIM_DEVICES=3", "ACLSIM_DEVICES=17", "ACLSIM_DEVICES=x", "ACLSIM_DEVICES="} {
		run(t, libraries(t), []string{env}, exe, "answers")
	}
	// The documented list of devices that a process sees.
	for list, want := range map[string]int{"": 0, "1": 1, "0,1,3": 3, "1, 2,3": 1, "1,3,8": 2, "3,1": 0, "2,2": 0, "-1": 0, "9": 0, "1,,2": 1, "all": 0, "99999999999999999999": 0} {
		got, _ := run(t, libraries(t), []string{"ACLSIM_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=" + list}, exe, "answers")
		if !strings.Contains(got, fmt.Sprintf("%d devices\n", want)) {
			t.Errorf("ASCEND_RT_VISIBLE_DEVICES=%s: %q, want %d devices", list, got, want)
		}
	}
}

// The log lines of a program were dropped.
func TestApplicationLog(t *testing.T) {
	exe := program(t, "applog", "ascendcl")
	line := regexp.MustCompile(`^\[(\w+)\] APP\(\d+,applog\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[train\.c:42\]step: level \d of loss, 0\.5: No space left on device$`)
	levels := func(text string) (all string) {
		for l := range strings.Lines(text) {
			m := line.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
			if m == nil {
				t.Fatalf("line %q", l)
			}
			all += m[1] + " "
		}
		return all
	}
	const level, print = "ASCEND_GLOBAL_LOG_LEVEL=", "ASCEND_SLOG_PRINT_TO_STDOUT="
	for _, c := range []struct {
		env            []string
		stdout, stderr string
	}{
		{[]string{level, print}, "", "ERROR "},
		{[]string{level + "0", print + "0"}, "", "DEBUG INFO WARNING ERROR "},
		{[]string{level + "2", print + "1"}, "WARNING ERROR ", ""},
		{[]string{level + "4", print + "1"}, "", ""},
		{[]string{level + "5", print + "2"}, "", "ERROR "},
		{[]string{level + "1x", print + "1"}, "ERROR ", ""},
	} {
		if stdout, stderr := run(t, libraries(t), append(c.env, "LC_ALL=C"), exe); levels(stdout) != c.stdout || levels(stderr) != c.stderr {
			t.Errorf("%q: stdout %q, stderr %q", c.env, stdout, stderr)
		}
	}
}

// The lower library, as frameworks on CANN 8 use it.
func TestLowerLibrary(t *testing.T) {
	dir := libraries(t)
	env := []string{"ACLSIM_KERNELS=" + dir + "/kernels.so"}
	run(t, dir, env, program(t, "lower", "ascendcl", "-I"+root+"/probe/shim", "-DSYMBOLS"), dir+"/kernels.o")
}

func TestProcessesShareMemoryAndEvents(t *testing.T) {
	run(t, libraries(t), nil, program(t, "ipc", "ascendcl"))
}

func TestManyThreadsLaunchWithoutWarnings(t *testing.T) {
	exe, dir := program(t, "threads", "ascendcl"), libraries(t)
	if _, stderr := run(t, dir, []string{"ACLSIM_KERNELS=" + dir + "/kernels.so"}, exe, dir+"/kernels.o"); stderr != "" {
		t.Errorf("it says %q", stderr)
	}
}

func TestLibraryLoadsByDlopen(t *testing.T) {
	exe, dir := program(t, "dlopen", ""), libraries(t)
	run(t, dir, nil, exe)
	run(t, "", nil, exe, dir+"/libacl_rt.so")
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(cwd, dir)
	if err != nil {
		t.Fatal(err)
	}
	run(t, rel, nil, exe)
}

func TestUnsupportedFunction(t *testing.T) {
	exe := program(t, "errors", "ascendcl")
	_, stderr := run(t, libraries(t), nil, exe)
	if want := "aclsim: aclmdlInitDump is not simulated and returns 207000\n"; stderr != want {
		t.Errorf("stderr is %q, want %q", stderr, want)
	}
}

func TestMissingEngine(t *testing.T) {
	exe, dir := program(t, "errors", "ascendcl"), t.TempDir()
	b, err := os.ReadFile(libraries(t) + "/libascendcl.so")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/libascendcl.so", b, 0o755); err != nil {
		t.Fatal(err)
	}
	_, stderr := run(t, dir, nil, exe, "no-engine")
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, dir+"/libaclsim.so") || !strings.Contains(stderr, "make build") {
		t.Errorf("stderr is %q", stderr)
	}
}

func TestEnvironmentSetsAddresses(t *testing.T) {
	exe, dir := program(t, "errors", "ascendcl"), libraries(t)
	list := filepath.Join(t.TempDir(), "places")
	if err := os.WriteFile(list, []byte("# first\n0x12c041200000\n\n12c041200400\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env       []string
		want      string
		complaint string
	}{
		{nil, "0x124041200000\n0x124041200200\n", ""},
		{[]string{"ACLSIM_VA_BASE=0x550000000000"}, "0x550041200000\n0x550041200200\n", ""},
		{[]string{"ACLSIM_VA_BASE=zero"}, "0x124041200000\n0x124041200200\n", "ignore ACLSIM_VA_BASE=zero: want a hexadecimal multiple"},
		{[]string{"ACLSIM_PLACE=" + list}, "0x12c041200000\n0x12c041200400\n", ""},
		{[]string{"ACLSIM_PLACE=" + list + "x"}, "0x124041200000\n0x124041200200\n", list + "x"},
		{[]string{"ACLSIM_DEVICES=99"}, "0x124041200000\n0x124041200200\n", "ignore ACLSIM_DEVICES=99: want a number from 1 to "},
	} {
		stdout, stderr := run(t, dir, c.env, exe)
		stderr = strings.ReplaceAll(stderr, "aclsim: aclmdlInitDump is not simulated and returns 207000\n", "")
		if stdout != c.want || (stderr != "") != (c.complaint != "") || !strings.Contains(stderr, c.complaint) {
			t.Errorf("%v: %q, %q", c.env, stdout, stderr)
		}
	}
}

// The face exports the functions of both libraries, the mark of the simulator with its question, and nothing else.
func TestOnlyRuntimeFunctionsAreExported(t *testing.T) {
	f, err := elf.Open(libraries(t) + "/libascendcl.so")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"aclsim_simulated": true, "aclsim_unknown": true, "aclsim_mark": true, "aclsim_late": true, "aclsim_number": true, "aclsim_now": true, "aclsim_work": true, "aclsim_own": true, "aclsim_place": true}
	for _, name := range strings.Fields("sigaction signal bsd_signal sysv_signal __sysv_signal sigset sigaltstack close close_range closefrom dup2 dup3") {
		want[name] = true // see guest.c
	}
	for _, fn := range acl.Model.Funcs {
		if fn.Form == nil && (fn.Layer == "acl" || fn.Layer == "rt") {
			want[fn.Name] = true
		}
	}
	tables, err := filepath.Glob(root + "/api/acl/headers/*/functions.tsv")
	if err != nil || len(tables) < 4 {
		t.Fatalf("%d headers that declare more functions, %v", len(tables), err)
	}
	for _, path := range tables {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if name, _, _ := strings.Cut(line, "\t"); name[0] != '#' {
				want[name] = true
			}
		}
	}
	for _, s := range syms {
		if s.Section == elf.SHN_UNDEF {
			continue
		}
		if !want[s.Name] {
			t.Errorf("%s is exported", s.Name)
		}
		delete(want, s.Name)
	}
	for n := range want {
		t.Errorf("%s is not exported", n)
	}
}

// BenchmarkFace reports what calls cost a C program.
func BenchmarkFace(b *testing.B) {
	exe, dir := program(b, "bench", "ascendcl"), libraries(b)
	for b.Loop() {
		stdout, _ := run(b, dir, []string{"ACLSIM_KERNELS=" + dir + "/kernels.so"}, exe, dir+"/kernels.o")
		for _, l := range strings.Split(strings.TrimSpace(stdout), "\n") {
			var name string
			var v float64
			if _, err := fmt.Sscan(l, &name, &v); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(v, name)
		}
	}
}

// Programs that include acl_prof.h, acl_dump.h, acl_tdt.h or acl_tdt_queue.h did not compile, nor those that use the structures of acl.h by their
// documented types. As C and as C++ they compile, link and run, and what is not simulated says so in one line.
func TestFurtherHeaders(t *testing.T) {
	dir := libraries(t)
	for language, flags := range map[string][]string{"c": nil, "c++": {"-x", "c++", "-std=gnu++11"}} {
		exe := filepath.Join(t.TempDir(), "headers")
		compiler := map[string]string{"c": "cc", "c++": "c++"}[language]
		args := append(flags, "-O2", "-Wall", "-Wextra", "-Werror", "-I"+root+"/api/acl/include", "-o", exe, "testdata/headers.c", "-L"+dir, "-lascendcl")
		if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", language, err, out)
		}
		_, stderr := run(t, dir, nil, exe)
		for _, want := range []string{"aclrtRandomNumAsync is not simulated and returns 207000", "acldumpRegCallback is not simulated and returns 207000", "acldumpUnregCallback is not simulated and does nothing",
			"aclprofInit is not simulated and returns 207000", "aclprofCreateConfig is not simulated and does nothing", "acltdtCreateQueue is not simulated and returns 207000",
			"acltdtCreateChannel is not simulated and does nothing"} {
			if n := strings.Count(stderr, "aclsim: "+want+"\n"); n != 1 {
				t.Errorf("%s: %q is said %d times in %q", language, want, n, stderr)
			}
		}
		if n := strings.Count(stderr, "\n"); n != strings.Count(stderr, " is not simulated and ") {
			t.Errorf("%s: other lines in %q", language, stderr)
		}
	}
}
