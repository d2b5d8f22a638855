package record_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
)

// The shim under an older C library, in a root file system of its own: ACLTRACE_OLD_ROOT names one with a C compiler, as
// `debootstrap --variant=minbase --include=gcc,libc6-dev bullseye DIR` makes (glibc 2.31).
func TestOldRoot(t *testing.T) {
	root := os.Getenv("ACLTRACE_OLD_ROOT")
	if root == "" || os.Getuid() != 0 {
		t.Skip("needs root and a file system with an older C library, named by ACLTRACE_OLD_ROOT")
	}
	testenv.Built(t, "lib/libacltrace.so")
	dir, err := os.MkdirTemp(filepath.Join(root, "tmp"), "acltrace-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	from := testenv.Root(t)
	for _, args := range [][]string{
		{"cp", "-r", from + "/api/acl/include", from + "/probe/shim/arm64test/runtime.c", from + "/probe/shim/arm64test/program.c", dir},
		{"mount", "--bind", "/dev/shm", filepath.Join(root, "dev/shm")},
	} {
		if args[0] == "mount" {
			if err := os.MkdirAll(args[3], 0o755); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = exec.Command("umount", args[3]).Run() }()
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	inside := strings.TrimPrefix(dir, filepath.Clean(root))
	script := "cd " + inside + " && gcc -std=gnu11 -O1 -Iinclude -fPIC -shared -Wl,-soname,libascendcl.so -o libascendcl.so runtime.c && " +
		"gcc -std=gnu11 -O1 -Iinclude -o program program.c -L. -lascendcl -lpthread -Wl,-rpath," + inside
	if out, err := exec.Command("chroot", root, "/bin/sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, res, out := run(t, record.Options{}, "/usr/sbin/chroot", root, inside+"/program")
	n := count(calls(t, r), r)
	if res.ExitCode != 0 || n["aclrtGetDevice"] < 4000 || n["aclInit"] != 1 || res.Lost != 0 || len(res.Unhooked) != 0 {
		t.Errorf("%+v, calls %v, %s", res, n, out)
	}
}
