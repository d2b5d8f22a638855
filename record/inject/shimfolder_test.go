package inject

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/host"
)

// locked reports whether another open file has locked a folder.
func locked(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// The shim is beside the session, or in a folder for temporary files. It can be loaded by all users, and stays as long as a program needs it.
func TestInstallShim(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	want, err := artifacts.Bytes(acl.Model.Shim)
	if err != nil {
		t.Fatal(err)
	}
	parent, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, c := range []struct{ session, parent string }{{filepath.Join(parent, "session"), parent}, {filepath.Join(parent, "gone", "session"), tmp}} {
		f, err := InstallShim(c.session, acl.Model)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(f.Path)
		if filepath.Dir(dir) != c.parent || !strings.HasPrefix(filepath.Base(dir), shimPattern) || filepath.Base(f.Path) != artifacts.Shim || !locked(t, dir) {
			t.Errorf("%s, locked %t", f.Path, locked(t, dir))
		}
		for _, path := range []string{dir, f.Path} {
			if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v", path, st.Mode(), err)
			}
		}
		if b, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		// A program that was started with it.
		cat := exec.Command("cat")
		cat.Env = []string{"LD_PRELOAD=" + f.Path}
		in, err1 := cat.StdinPipe()
		out, err2 := cat.StdoutPipe()
		if err := errors.Join(err1, err2, cat.Start()); err != nil {
			t.Fatal(err)
		}
		_, err1 = in.Write([]byte("x"))
		_, err2 = out.Read(make([]byte, 1)) // the kernel sets the environment after Start has returned
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := os.Stat(f.Path); err != nil || locked(t, dir) {
			t.Errorf("a program uses it: %v, locked %t", err, locked(t, dir))
		}
		in.Close()
		if err := cat.Wait(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(tmp, "gone"))
	if _, err := InstallShim(filepath.Join(parent, "gone", "session"), acl.Model); err == nil || !strings.HasPrefix(err.Error(), "no folder allows loading the shim: ") {
		t.Error(err)
	}
	t.Setenv("ACLTRACE_LIB", tmp)
	if _, err := InstallShim(filepath.Join(parent, "session"), acl.Model); err == nil {
		t.Error("a shim that does not exist is installed")
	}
	if err := os.WriteFile(filepath.Join(tmp, acl.Model.Shim), []byte("no shim"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := InstallShim(filepath.Join(parent, "session"), acl.Model); err == nil || strings.Contains(err.Error(), "no folder") {
		t.Error(err)
	}
}

// Half a shim would fail in each program that loads it.
func TestInstallShimOnAFullDisk(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	parent, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 16, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	f, err := InstallShim(filepath.Join(parent, "session"), acl.Model)
	if back := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); back != nil {
		t.Fatal(back)
	}
	if err == nil {
		f.Close()
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a shim of 64 KiB is installed: %v", err)
	}
	for _, dir := range []string{parent, tmp} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
	}
}

// TestMain lets the test be the loader of a program that program has written: a script can't be one, because its shell has a loader, too.
func TestMain(m *testing.M) {
	dir := filepath.Dir(os.Args[0])
	if filepath.Base(os.Args[0]) != "loader" {
		os.Exit(m.Run())
	}
	says := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return os.ExpandEnv(string(b))
	}
	const tls = "optional_static_tls="
	_, have, _ := strings.Cut(os.Getenv("GLIBC_TUNABLES"), tls)
	room, _ := strconv.Atoi(have)
	switch least, _ := strconv.Atoi(says("least")); {
	case os.Args[1] == "--version":
		fmt.Println("ld.so (GNU libc) stable release", says("version"))
	case os.Getenv("LD_TRACE_LOADED_OBJECTS") != "1" || os.Getenv("LD_WARN") != "1":
	case room < least:
		fmt.Println("  x: error while loading shared libraries: y.so: cannot allocate memory in static TLS block")
	default:
		fmt.Println(says("line"))
	}
	os.Exit(1)
}

// loads describes a loader: its version, the room for static TLS from which it loads a program, and what it says then.
type loads struct {
	version string
	least   int
	line    string
}

// program writes an ELF program with such a loader.
func program(t *testing.T, l loads) string {
	t.Helper()
	dir := t.TempDir()
	loader, path := filepath.Join(dir, "loader"), filepath.Join(dir, "program")
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Phoff: 64, Phnum: 1, Phentsize: 56, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var b bytes.Buffer
	for _, v := range []any{h, elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(loader) + 1)}, []byte(loader + "\x00")} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if host.CheckExecutable(exe) == nil {
		t.Skip("this test has a loader, and can't be one")
	}
	for name, text := range map[string]string{"version": "version " + l.version, "least": strconv.Itoa(l.least), "line": l.line, "program": b.String()} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	if err := errors.Join(err, os.Symlink(exe, loader)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program is refused if its loader can't audit, and an environment variable that helps is named.
func TestProgramThatCannotAuditIsRefused(t *testing.T) {
	testenv.Built(t, "lib/libacltrace.so")
	f, err := InstallShim(filepath.Join(t.TempDir(), "session"), acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	audit := filepath.Join(filepath.Dir(f.Path), artifacts.Audit)
	for name, c := range map[string]struct {
		program string
		want    string // the error, "" for none
		setting string
	}{
		"fine":                   {program(t, loads{"2.36", 0, ""}), "", ""},
		"audit is refused":       {program(t, loads{"2.36", 0, "ERROR: ld.so: object '$LD_AUDIT' audit interface version unknown; ignored."}), "audit interface version unknown; ignored.", ""},
		"another line":           {program(t, loads{"2.36", 0, "ERROR: other.so audit interface\n$LD_AUDIT is loaded"}), "", ""},
		"too little TLS":         {program(t, loads{"2.36", 10_000, ""}), "y.so: cannot allocate memory in static TLS block", "GLIBC_TUNABLES=a=b:glibc.rtld.optional_static_tls=16384"},
		"the smallest setting":   {program(t, loads{"2.36", 4096, ""}), "y.so: cannot allocate memory in static TLS block", "GLIBC_TUNABLES=a=b:glibc.rtld.optional_static_tls=4096"},
		"the largest setting":    {program(t, loads{"2.36", 1 << 20, ""}), "y.so: cannot allocate memory in static TLS block", "GLIBC_TUNABLES=a=b:glibc.rtld.optional_static_tls=1048576"},
		"never enough":           {program(t, loads{"2.36", 1<<20 + 1, ""}), "y.so: cannot allocate memory in static TLS block", ""},
		"an older loader":        {program(t, loads{"2.34", 0, ""}), "runs on glibc 2.34, older than 2.35", ""},
		"not a program":          {f.lock.Name(), "is not a regular file", ""},
		"a script that is gone":  {filepath.Join(t.TempDir(), "gone"), "no such file", ""},
		"a program without ELF":  {write(t, "text"), "is not a program with a loader", ""},
		"a script for a program": {write(t, "#!"+program(t, loads{"2.36", 0, ""})+"\n"), "", ""},
	} {
		env, err := f.Audited(c.program, []string{"PATH=/bin:/usr/bin", "GLIBC_TUNABLES=a=b", "LD_AUDIT=/outer.so"})
		if c.want == "" {
			if err != nil || len(env) != 3 || env[len(env)-1] != "LD_AUDIT="+audit+":/outer.so" {
				t.Errorf("%s: %q, %v", name, env, err)
			}
			continue
		}
		if err == nil || env != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want %s", name, env, err, c.want)
			continue
		}
		var refused *AuditError
		if setting := errors.As(err, &refused) && refused.Setting != ""; setting != (c.setting != "") || setting && (refused.Setting != c.setting || err.Error() != c.want+": set "+c.setting) {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if st, err := os.Stat(audit); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v", err)
	}
	if got := tuned([]string{"GLIBC_TUNABLES=x=1::n=3:y=2"}, "n", "4"); got != "GLIBC_TUNABLES=x=1:y=2:n=4" {
		t.Errorf("%q", got)
	}
	t.Setenv("ACLTRACE_LIB", t.TempDir())
	if _, err := f.Audited("/bin/sh", nil); err == nil {
		t.Error("without an audit library")
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
