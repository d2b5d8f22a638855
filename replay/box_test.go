package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/testenv"
)

// Kernels in the sandbox write files that acltrace reads outside of it. A list of 6 GiB was read whole, and a list of foreign files had them
// hashed.
func TestFilesOfKernelsAreBounded(t *testing.T) {
	simulate(t)
	path := foreignTrace(t, func(*format.Meta) {})
	library, _ := evil(t)
	for do, want := range map[string]string{"huge list": "kernel-libraries: it has more than ", "huge findings": "findings: it has more than ", "list is a folder": ""} {
		t.Setenv("EVIL", do)
		r, err := Run(t.Context(), path, acl.Model, &Options{KernelLibraries: []string{library}, Strict: true})
		if want == "" && (err != nil || r.Crash != nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", do, err, want)
		}
	}
	t.Setenv("EVIL", "foreign list")
	r := run(t, path, &Options{KernelLibraries: []string{library}})
	if n := len(r.KernelLibraries); n > 1 || n == 1 && r.KernelLibraries[0].Path != library {
		t.Errorf("libraries %+v, given %s", r.KernelLibraries, library)
	}
}

// Any file of a kernel whose name begins with "core" was copied into the current folder, with all zeros of its holes. Only core files are,
// a few of them, and holes stay holes.
func TestOnlyCoreFilesAreSaved(t *testing.T) {
	simulate(t)
	library, _ := evil(t)
	t.Setenv("EVIL", "cores")
	path := foreignTrace(t, func(*format.Meta) {})
	t.Chdir(t.TempDir())
	run(t, path, &Options{KernelLibraries: []string{library}})
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		var st syscall.Stat_t
		if err := syscall.Lstat(f.Name(), &st); err != nil || st.Blocks*512 > 1<<20 || st.Mode != syscall.S_IFREG|0o600 {
			t.Errorf("%s: %d blocks, mode %o, %v", f.Name(), st.Blocks, st.Mode, err)
		}
	}
	if len(names) != maxCores || !slices.Contains(names, "core.0") || slices.ContainsFunc(names, func(n string) bool { return !coreName.MatchString(n) || n == "core.sh" }) {
		t.Errorf("saved %q", names)
	}
	// A core file with more data than the limit is not saved in part.
	big := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(big, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := moveFile(big, "core", 1<<19); err == nil || exists("core") {
		t.Errorf("too large: %v, saved: %v", err, exists("core"))
	}
	if err := moveFile(big, "core", 1<<20); err != nil || !exists("core") || exists(big) {
		t.Errorf("%v, saved: %v", err, exists("core"))
	}
}

// A kernel could fill the disk: files in the replay's folder count, also without a name. A process whose first thread has ended did not count.
func TestFilesOfKernelsCountAsMemory(t *testing.T) {
	simulate(t)
	path := foreignTrace(t, func(*format.Meta) {})
	library, _ := evil(t)
	for _, do := range []string{"fill", "fill unlinked", "dead thread"} {
		t.Setenv("EVIL", do)
		_, err := Run(t.Context(), path, acl.Model, &Options{KernelLibraries: []string{library}, MaxMemory: 128 << 20})
		if e := (*MemoryError)(nil); !errors.As(err, &e) || (do == "fill") != e.Files || !strings.Contains(err.Error(), "the limit is 128 MiB") {
			t.Errorf("%s: %v", do, err)
		}
	}
}

// A file counts once, also if it is empty or has several names.
func TestStoredCountsEachFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, n int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		write(strconv.Itoa(i), 0)
	}
	if n := stored(dir); n < 10*leastFile {
		t.Errorf("10 empty files: %d bytes", n)
	}
	write("large", 1<<20)
	if err := os.Link(filepath.Join(dir, "large"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if n := stored(dir); n < 10*leastFile+1<<20 || n >= 2<<20 {
		t.Errorf("with a file of 1 MiB and a second name for it: %d bytes", n)
	}
}

// A limit was exceeded three times over: on a busy machine, the exact measurement of a process that takes memory lasts seconds.
func TestMemoryIsBoundedWithoutMappings(t *testing.T) {
	const size = 64 << 20
	if os.Getenv("ACLTRACE_TEST_MEASURED") != "" {
		fd, err := unix.MemfdCreate("memory", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		for _, of := range []int{fd, -1} {
			flags := unix.MAP_SHARED | unix.MAP_POPULATE
			if of < 0 {
				flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
			}
			if _, err := unix.Mmap(of, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "ACLTRACE_TEST_MEASURED=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process says %q", line)
	}
	u := measure(cmd.Process.Pid)
	if u.least < 2*size || u.least > 3*size || u.most < 3*size || u.most > 4*size {
		t.Errorf("%d to %d MiB, mapped are %d", u.least>>20, u.most>>20, 2*size>>20)
	}
	if n := u.exact(); n < 2*size || n > 3*size {
		t.Errorf("%d MiB, mapped are %d", n>>20, 2*size>>20)
	}
}

// Processes that a kernel had forked outlived a replay that was killed.
func TestKilledReplayLeavesNoProcess(t *testing.T) {
	simulate(t)
	library, _ := evil(t)
	t.Setenv("EVIL", "forks")
	path := foreignTrace(t, func(*format.Meta) {})
	dir := t.TempDir()
	cmd := exec.Command(testenv.Built(t, "bin/acltrace"), "replay", "--kernels="+library, path)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	var forked int
	testenv.Wait(t, "a forked process", func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "acltrace-replay-*", "acltrace-run", "forked"))
		if len(files) == 0 {
			return false
		}
		b, err := os.ReadFile(files[0])
		if err == nil {
			forked, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	session := procstat.Read(forked).Session
	if session == 0 || session == os.Getpid() {
		t.Fatalf("process %d has session %d", forked, session)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testenv.Wait(t, fmt.Sprintf("the end of session %d", session), func() bool { return len(members(session)) == 0 })
}
