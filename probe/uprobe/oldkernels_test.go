package uprobe

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/internal/testenv"
)

// In virtual machines with older kernels, the tests of uprobes pass, and tests of whole recordings: a recorder that attaches to
// a running program sees every call that the shim sees and does not harm it. The test that attaches under load is left out,
// since it takes minutes on an emulated processor.
func TestUprobeOldKernelsSoak(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("boots virtual machines: run make soak")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the kernels that it fetches are for x86-64")
	}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is not installed: run `scripts/setup.sh kernels`")
	}
	image := machineImage(t)
	for release, kernel := range map[string]string{"bullseye": "5.10", "bookworm": "6.1"} {
		t.Run(kernel, func(t *testing.T) {
			out, err := exec.Command("../../scripts/kernel.sh", "../../build/kernels", release).Output()
			if err != nil {
				t.Skipf("the kernel of Debian %s can't be fetched: %v", release, err)
			}
			ctx := t.Context()
			if end, limited := t.Deadline(); limited {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, end.Add(-10*time.Second))
				defer cancel()
			}
			machine := exec.CommandContext(ctx, qemu, "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "2048", "-nodefaults", "-no-user-config", "-display", "none",
				"-no-reboot", "-serial", "stdio", "-kernel", strings.TrimSpace(string(out)), "-initrd", image, "-append", "console=ttyS0 quiet panic=-1 no_timer_check")
			said, err := machine.CombinedOutput()
			text := strings.ReplaceAll(string(said), "\r", "")
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			doctor := `acltrace doctor: exit code 0`
			if kernel == "5.10" {
				doctor = `missing\S* +replay: the player's sandbox: .*lacks files \(Landlock\)(?s:.*)acltrace doctor: exit code 1`
			}
			for _, want := range []string{
				`Linux ` + regexp.QuoteMeta(kernel) + `\.`,
				`uprobe\.test .*: exit code 0`,
				`ok +attach, record --probe ebpf: uprobes: by perf events`,
				doctor,
				`record\.test .*: exit code 0`,
				`the kernel has complained of nothing`,
			} {
				if !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("the machine does not say %q", want)
				}
			}
			passed := regexp.MustCompile(`(?m)^--- PASS: (\S+)`).FindAllStringSubmatch(text, -1)
			if t.Logf("%d tests passed", len(passed)); len(passed) < 21 {
				t.Errorf("%d tests passed there", len(passed))
			}
			if t.Failed() || testing.Verbose() {
				t.Log(text)
			}
		})
	}
}

// machineImage makes the machines' file system: tests, recorder, and programs with their libraries.
func machineImage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := func(name string, args ...string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", append(args[:1:1], append([]string{"-o", path}, args[1:]...)...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return path
	}
	var a archive
	a.file("init", build("init", "build", "./testdata/vm"))
	a.file("bin/uprobe.test", build("uprobe.test", "test", "-c", "."))
	lib := filepath.Dir(testLib(t))
	a.file("uprobes/libascendcl.so", filepath.Join(lib, "libascendcl.so"))
	a.file("uprobes/main", filepath.Join(lib, "main"))
	a.file("uprobes/main.c", filepath.Join(lib, "main.c"))
	// The parts of the repository that the attach tests use.
	root := testenv.Root(t)
	a.file("acltrace/record/record.test", build("record.test", "test", "-c", "../../record"))
	links := []string{filepath.Join(lib, "main"), "/bin/true", testenv.Example(t, "tiny_decoder")}
	for _, name := range []string{"lib/libascendcl.so", "lib/libaclsim.so", "lib/libacltrace.so", "lib/acltrace-player", "bin/examples/decoder_kernels.so"} {
		links = append(links, testenv.Built(t, name))
	}
	for _, name := range []string{"go.mod", "api/acl/functions.tsv", "bin/acltrace", "bin/examples/decoder_kernels.o"} {
		a.file("acltrace/"+name, testenv.Built(t, name))
	}
	a.file("bin/true", "/bin/true") // doctor starts it
	for _, path := range links {
		if name, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(name) {
			a.file("acltrace/"+name, path)
		}
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", path, err)
		}
		for _, path := range regexp.MustCompile(`(?m)(?:=>|^)\s+(/lib\S*) \(0x`).FindAllStringSubmatch(string(out), -1) {
			a.file(strings.TrimPrefix(path[1], "/"), path[1])
		}
	}
	a.add("commands", 0o100644, []byte("ACLTRACE_TEST_UPROBES=/uprobes /bin/uprobe.test -test.v -test.run "+
		"Uprobe(Arguments|Memory|Payload|NoPayload|Threads|Loss|CountOnly|Nested|Unfinished|Jump|Children|Exec|OtherProcess|AllProcesses|DeletedLibrary|Trial$)|FindLibraries\n"+
		"/acltrace/bin/acltrace doctor\n"+
		"cd /acltrace/record\n"+
		"ACLTRACE_TEST_PATIENCE=20m ./record.test -test.v -test.run ^TestUprobesAgainstShim$/^tiny_decoder$|AttachAgainstShim|AttachToGroup\n"))
	if a.err != nil {
		t.Fatal(a.err)
	}
	a.add("TRAILER!!!", 0, nil)
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, a.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return image
}

// archive is an initial file system for the kernel: cpio, format newc.
type archive struct {
	bytes.Buffer
	have map[string]bool
	err  error
}

func (a *archive) file(name, from string) {
	b, err := os.ReadFile(from)
	if err != nil && a.err == nil {
		a.err = err
	}
	for i, c := range name {
		if c == '/' {
			a.add(name[:i], 0o40755, nil)
		}
	}
	a.add(name, 0o100755, b)
}

func (a *archive) add(name string, mode int, content []byte) {
	if a.have[name] {
		return
	}
	if a.have == nil {
		a.have = map[string]bool{}
	}
	a.have[name] = true
	fmt.Fprintf(a, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", len(a.have), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	a.Write(make([]byte, -a.Len()&3))
	a.Write(content)
	a.Write(make([]byte, -a.Len()&3))
}
