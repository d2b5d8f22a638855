package record_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
)

// The one file for aarch64 machines, alone in a folder: it records a program of its processor and reads the trace, as far as
// an emulator shows. The kernel starts what the recorder starts with the emulator, in a namespace of the test's own.
func TestArm64(t *testing.T) {
	const compiler, libraries = "aarch64-linux-gnu-gcc", "/usr/aarch64-linux-gnu"
	built := testenv.Built(t, "bin/acltrace-arm64")
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("qemu-aarch64 is not installed: run `scripts/setup.sh cross`")
	}
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
		if out, err := exec.Command(compiler, append(flags, args...)...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v\n%s", compiler, err, out)
		}
	}
	// What a program for aarch64 begins with, and which of its bytes count.
	const script = `mount -t binfmt_misc none /proc/sys/fs/binfmt_misc &&
		printf '%s' ':acltrace:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$0:" \
		>/proc/sys/fs/binfmt_misc/register || exit 77; exec "$@"`
	trace := filepath.Join(dir, "run.aclt")
	cmd := exec.Command("/bin/sh", "-c", script, qemu, acltrace, "record", "--replayable", "-o", trace, "--", dir+"/program")
	cmd.Env = append(os.Environ(), "QEMU_LD_PREFIX="+libraries, "LD_LIBRARY_PATH="+dir, "ACLTRACE_LIB=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 {
		t.Skipf("no namespace with binfmt_misc can be made here: %v, %s", err, errs.String())
	}
	if err != nil || out.String() != "5 ii\n" {
		t.Fatalf("%v, %q, %q", err, out.String(), errs.String())
	}
	r := open(t, trace)
	if n := count(calls(t, r), r); n["aclrtGetDevice"] != 4001 || n["aclInit"] != 1 || n["aclrtLaunchKernelWithHostArgs"] != 1 || len(r.Gaps()) != 0 {
		t.Errorf("calls %v, gaps %v", n, r.Gaps())
	}
	for command, says := range map[string]string{"info": "aclrtGetDevice                 4001\n", "cat": "aclrtSetDevice(deviceId=5) = 0", "doctor": "works    record: the shim\n"} {
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
