package record_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
)

// The aarch64 binary, alone in a folder, records an aarch64 program and reads the trace, under an emulator. In the test's own
// namespace the kernel runs aarch64 programs by that emulator.
func TestArm64BinaryRecordsUnderEmulation(t *testing.T) {
	built, qemu := arm64(t)
	dir := t.TempDir()
	b, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	acltrace := filepath.Join(dir, "acltrace")
	if err := os.WriteFile(acltrace, b, 0o755); err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(testenv.Root(t), "probe/shim/arm64test")
	flags := []string{"-std=gnu11", "-O1", "-I" + filepath.Join(testenv.Root(t), "api/acl/include")}
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libascendcl.so", "-o", dir + "/libascendcl.so", from + "/runtime.c"},
		{"-o", dir + "/program", from + "/program.c", "-L" + dir, "-lascendcl", "-lpthread"},
	} {
		crossCompile(t, append(flags, args...)...)
	}
	trace := filepath.Join(dir, "run.aclt")
	out, errs, err := runArm64(t, qemu, nil, dir, acltrace, "record", "--replayable", "-o", trace, "--", dir+"/program")
	if err != nil || out != "5 ii\n" {
		t.Fatalf("%v, %q, %q", err, out, errs)
	}
	r := open(t, trace)
	if n := count(calls(t, r), r); n["aclrtGetDevice"] != 4001 || n["aclInit"] != 1 || n["aclrtLaunchKernelWithHostArgs"] != 1 || len(r.Gaps()) != 0 {
		t.Errorf("calls %v, gaps %v", n, r.Gaps())
	}
	for command, says := range map[string]string{"info": "4,001  aclrtGetDevice\n", "cat": "aclrtSetDevice(deviceId=5) = 0", "doctor": "ok       record: the shim\n"} {
		args := []string{acltrace, command}
		if command != "doctor" {
			args = append(args, trace)
		}
		cmd := exec.Command(qemu, args...)
		cmd.Env = append(os.Environ(), "ACLTRACE_LIB=")
		if b, _ := cmd.CombinedOutput(); !strings.Contains(string(b), says) {
			t.Errorf("%s does not say %q:\n%.500s", command, says, b)
		}
	}
}

const (
	crossCompiler  = "aarch64-linux-gnu-gcc"
	crossLibraries = "/usr/aarch64-linux-gnu"
)

// arm64 is the aarch64 binary with its emulator.
func arm64(t *testing.T) (built, qemu string) {
	t.Helper()
	built = testenv.Built(t, "bin/acltrace-arm64")
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("qemu-aarch64 is not installed: run `scripts/setup.sh cross`")
	}
	return built, qemu
}

func crossCompile(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(crossCompiler); err != nil {
		t.Skipf("%s is not installed: run `scripts/setup.sh cross`", crossCompiler)
	}
	if out, err := exec.Command(crossCompiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", crossCompiler, err, out)
	}
}

// runArm64 runs a command in a namespace in which the kernel starts aarch64 programs by the emulator. The emulator finds
// libraries in a folder.
func runArm64(t *testing.T, qemu string, env []string, folder string, command ...string) (stdout, stderr string, err error) {
	t.Helper()
	// The first bytes of an aarch64 program, and a mask for them.
	const script = `mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
		printf '%s' ':acltrace:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$0:" \
		>/proc/sys/fs/binfmt_misc/register || exit 77; exec "$@"`
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, qemu}, command...)...)
	cmd.Env = append(append(os.Environ(), "QEMU_LD_PREFIX="+crossLibraries, "LD_LIBRARY_PATH="+folder, "ACLTRACE_LIB="), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 {
		t.Skipf("no namespace with binfmt_misc can be made here: %v, %s", err, errs.String())
	}
	return out.String(), errs.String(), err
}

// An aarch64 program is recorded with a fake CUDA driver for aarch64, and its replay on this machine's fake driver is identical.
func TestArm64CUDA(t *testing.T) {
	built, qemu := arm64(t)
	cudaDriver(t)
	root, dir := testenv.Root(t), t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	flags := []string{"-std=gnu11", "-O1", "-fPIC", "-I" + at("api/cuda/include"), "-I" + at("sim/cuda/include")}
	for _, args := range [][]string{
		append(testenv.FakeCUDASources(t), "-shared", "-Wl,-soname,libcuda.so.1", "-o", dir+"/libcuda.so.1", "-ldl", "-lpthread"),
		{"-shared", "-ffp-contract=off", "-o", dir + "/kernels.so", at("examples/cuda/kernels.c")},
		{"-o", dir + "/driver", at("examples/cuda/driver.c"), dir + "/libcuda.so.1", "-ldl"},
	} {
		crossCompile(t, append(slices.Clone(flags), args...)...)
	}
	trace := filepath.Join(dir, "run.aclt")
	for _, name := range []string{"attribute-cluster-dimension", "nodes"} {
		out, errs, err := runArm64(t, qemu, []string{"FAKECUDA_KERNELS=" + dir + "/kernels.so"}, dir, built, "record", "--api", "cuda", "--replayable", "-o", trace, "--", dir+"/driver", name)
		if err != nil || out != name+": ok\n" {
			t.Fatalf("%v, %q, %q", err, out, errs)
		}
		r := open(t, trace)
		if n := count(calls(t, r), r); n["cuInit"] != 1 || n["cuLaunchKernelEx"]+n["cuGraphLaunch"] == 0 || len(r.Gaps()) != 0 {
			t.Errorf("calls %v, gaps %v", n, r.Gaps())
		}
		rep, err := replay.Run(t.Context(), trace, cuda.Model, &replay.Options{Verify: true, KernelLibraries: []string{at("bin/examples/cuda/kernels.so")}})
		// Results and dependencies of graph nodes are read by process_vm_readv, which the emulator lacks.
		unsupported := slices.DeleteFunc(rep.Unsupported, func(u compile.Unsupported) bool {
			return name == "nodes" && strings.Contains(u.Reason, "dependencies was not recorded")
		})
		if err != nil || len(rep.Differences)+len(unsupported) > 0 || name != "nodes" && (!rep.Identical || rep.Verified.Results == 0) {
			t.Errorf("%s: %v, %+v", name, err, rep)
		}
	}
}

// The aarch64 binary alone has the demo: its program computes right results on the simulator, and its replay differs nowhere. The
// emulator has no process_vm_readv, so the trace lacks the results.
func TestArm64Demo(t *testing.T) {
	built, qemu := arm64(t)
	dir := t.TempDir()
	out, errs, err := runArm64(t, qemu, []string{"XDG_CACHE_HOME=" + dir}, dir, built, "demo", "--tokens", "2", "-o", filepath.Join(dir, "demo.aclt"))
	if !strings.Contains(out, "tiny_decoder: 2 tokens right (800 launches)") || !strings.Contains(out, "calls replayed in") || !strings.Contains(out, "nothing differs; 2 of 2 results are unproved") {
		t.Errorf("%v, %s, %s", err, out, errs)
	}
}
