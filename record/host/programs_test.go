package host

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// A script is run by the program at the end of its chain of interpreters.
func TestInterpretersAreFollowedToTheProgram(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("program"), "\x7fELF", 0o700)
	before := "program"
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		write(t, at(name), "#! "+at(before)+" -x  y\nrest", 0o700)
		before = name
	}
	for name, want := range map[string]string{"program": "program", "a": "program", "d": "program", "e": "program"} {
		got, err := ScriptProgram(at(name))
		if name == "e" {
			want = "a" // deeper than the kernel goes
		}
		if got != at(want) || err != nil {
			t.Errorf("%s is run by %s, %v; want %s", name, got, err, want)
		}
	}
	if words, err := InterpreterLine(at("a")); err != nil || !slices.Equal(words, []string{at("program"), "-x", "y"}) {
		t.Errorf("%q, %v", words, err)
	}
	if words, err := InterpreterLine(at("program")); err != nil || words != nil {
		t.Errorf("%q, %v", words, err)
	}
	if got, err := ScriptProgram(write(t, at("empty"), "#!\n", 0o700)); got != at("empty") || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := ScriptProgram(write(t, at("broken"), "#!"+at("gone"), 0o700)); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// header is an ELF file without tables, for a machine.
func header(class elf.Class, typ elf.Type, machine elf.Machine) string {
	b := make([]byte, 64)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA] = byte(class), byte(elf.ELFDATA2LSB)
	binary.LittleEndian.PutUint16(b[16:], uint16(typ))
	binary.LittleEndian.PutUint16(b[18:], uint16(machine))
	return string(b)
}

// The error says why a file is no program that can be recorded.
func TestCheckExecutable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{
		"#!/bin/sh\n": "", "echo\n": "neither an ELF program nor a script", "": "neither an ELF program nor a script", "\x7fELF": "damaged ELF program", "\x7fEL": "neither",
		header(elf.ELFCLASS64, elf.ET_EXEC, elf.EM_X86_64): "is linked statically", header(elf.ELFCLASS64, elf.ET_DYN, elf.EM_X86_64): "is linked statically",
		header(elf.ELFCLASS64, elf.ET_REL, elf.EM_X86_64): "is an ELF file of type ET_REL, not a program", header(elf.ELFCLASS32, elf.ET_EXEC, elf.EM_386): "",
	} {
		err := CheckExecutable(write(t, path, text, 0o700))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || errors.Is(err, ErrStatic) != strings.Contains(want, "statically") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := CheckExecutable(path + ".gone"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// The loader is the one that a program for this machine names. Root does not run the loader of another user.
func TestRootRunsNoForeignLoader(t *testing.T) {
	dir := t.TempDir()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	program := func(loader string) string {
		b := []byte(header(elf.ELFCLASS64, elf.ET_DYN, machine))
		binary.LittleEndian.PutUint64(b[32:], 64)
		binary.LittleEndian.PutUint16(b[54:], 56)
		binary.LittleEndian.PutUint16(b[56:], 1)
		p := make([]byte, 56)
		binary.LittleEndian.PutUint32(p, uint32(elf.PT_INTERP))
		binary.LittleEndian.PutUint64(p[8:], 120)
		binary.LittleEndian.PutUint64(p[32:], uint64(len(loader)+1))
		return write(t, filepath.Join(dir, "program"), string(b)+string(p)+loader+"\x00", 0o700)
	}
	own := write(t, filepath.Join(dir, "ld.so"), "", 0o700)
	for _, loader := range []string{own, filepath.Join(dir, "gone")} {
		if got, err := Loader(program(loader)); got != loader || err != nil {
			t.Errorf("%s, %v", got, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(own, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := Loader(program(own)); got != "" || err == nil || !strings.Contains(err.Error(), "it belongs to user 12345, not to root") {
			t.Errorf("%s, %v", got, err)
		}
	}
	path := filepath.Join(dir, "file")
	for text, want := range map[string]string{header(elf.ELFCLASS64, elf.ET_DYN, machine): "names no loader", header(elf.ELFCLASS64, elf.ET_DYN, elf.EM_S390): "is a program for EM_S390, not for", "text": ""} {
		if got, err := Loader(write(t, path, text, 0o700)); got != "" || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %v; want %q", got, err, want)
		}
	}
}

// Libraries have the names and the paths that the loader prints, also those that it does not find.
func TestLoadedLibraries(t *testing.T) {
	dir := t.TempDir()
	loader := write(t, filepath.Join(dir, "ld.so"), "#!/bin/sh\n[ \"$1 $2\" = \"--list prog\" ] || { echo \"wrong: $*\" >&2; exit 1; }\n"+
		"echo \"\tlinux-vdso.so.1 (0x00007ffd)\"; echo \"\tliba.so.1 => /usr/lib/liba.so.1 (0x1)\"; echo \"\tlibb.so => not found\"; echo \"\t/lib64/ld.so (0x2)\"; echo \"\t$LD_PRELOAD (0x3)\"\n", 0o700)
	got, said, err := LoadedLibraries(loader, "prog", []string{"/p.so", "q"})
	want := []FoundLibrary{{"liba.so.1", "/usr/lib/liba.so.1"}, {"libb.so", "not found"}, {"ld.so", "/lib64/ld.so"}, {"p.so:q", "/p.so:q"}}
	if err != nil || said != "" || !slices.Equal(got, want) {
		t.Errorf("%q, %q, %v", got, said, err)
	}
	if _, said, err := LoadedLibraries(loader, "other", nil); err == nil || said != "wrong: --list other" {
		t.Errorf("%q, %v", said, err)
	}
}

// A stopped program does nothing until it is resumed, and then all.
func TestStartStopped(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	cmd := exec.Command("/bin/sh", "-c", "echo x > "+made)
	resume, err := StartStopped(cmd)
	if err != nil {
		t.Skip(err)
	}
	if b, err := os.ReadFile(ProcFile(cmd.Process.Pid, "wchan")); err == nil && Exists(made) {
		t.Errorf("it runs: %s", b)
	}
	if err := errors.Join(resume(), cmd.Wait()); err != nil || !Exists(made) {
		t.Errorf("after it was resumed: %v", err)
	}
	if _, err := StartStopped(exec.Command(made + ".gone")); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// A program that runs with more rights ignores the shim.
func TestGainsRights(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "file"), "", 0o755)
	if got := GainsRights(path) + GainsRights(path+".gone"); got != "" {
		t.Error(got)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes files of others")
	}
	for _, c := range []struct {
		uid, gid int
		mode     os.FileMode
		want     string
	}{{0, 0, 0o755 | os.ModeSetuid | os.ModeSetgid, ""}, {5, 0, 0o755 | os.ModeSetuid, "is set-uid"}, {0, 5, 0o755 | os.ModeSetgid, "is set-gid"}, {5, 5, 0o755, ""}} {
		if err := errors.Join(os.Chown(path, c.uid, c.gid), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		if got := GainsRights(path); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	// Root has all capabilities that a file can give.
	capable := make([]byte, 20)
	binary.LittleEndian.PutUint32(capable, 0x02000000)
	binary.LittleEndian.PutUint32(capable[4:], 1<<unix.CAP_SYS_PTRACE)
	if err := unix.Setxattr(path, "security.capability", capable, 0); err != nil {
		t.Skip(err)
	}
	if got := GainsRights(path); got != "" {
		t.Errorf("root gains rights from a file that %s", got)
	}
}

// The facts from /proc about this process agree with those of package os.
func TestOfThisProcess(t *testing.T) {
	pid := os.Getpid()
	if argv := Argv(pid); !slices.Equal(argv, os.Args) {
		t.Errorf("%q, want %q", argv, os.Args)
	}
	if dir, err := os.Getwd(); err != nil {
		t.Fatal(err)
	} else if got, err := Cwd(pid); got != dir || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"A=1", "MARK=" + t.TempDir(), "AB=2"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := cmd.Process.Pid
	// Its environment is there a moment after it has begun.
	testenv.Wait(t, "the environment of the child", func() bool { return slices.Equal(Mentioning(cmd.Env[1]), []int{child}) })
	if Variable(child, "AB") != "2" || Variable(child, "B") != "" || ThreadName(child, child) != "sleep" || ThreadName(child, pid) != "" || !AnyAlive([]int{1 << 22, child}) {
		t.Errorf("%q", Environ(child))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if AnyAlive([]int{1 << 22, child}) || Environ(child) != nil || Argv(child) != nil {
		t.Error("an ended process is alive")
	}
	for env, want := range map[string]int{"RANK=3": 3, "RANK=x": -1, "": -1, "RANK=-1": -1, "RANK=2147483648": -1} {
		n, ok := Rank([]string{"A=1", env})
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: rank %d, %v", env, n, ok)
		}
	}
	for _, name := range format.RankVariables {
		if n, ok := Rank([]string{name + "=7"}); !ok || n != 7 {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
	code := Code(pid)
	if len(code) == 0 || slices.ContainsFunc(code, func(m format.Mapping) bool { return m.Start >= m.End || m.Path == "" }) {
		t.Errorf("%+v", code)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := Libraries(pid, func(name string) bool { return name == filepath.Base(self) }); !slices.Equal(got, []string{self}) {
		t.Errorf("%q", got)
	}
	a, ok := FileOf(self)
	b, ok2 := FileOf(filepath.Dir(self) + "/./" + filepath.Base(self))
	c, ok3 := FileOf("/")
	if a != b || a == c || !ok || !ok2 || !ok3 {
		t.Errorf("%v %v %v", a, b, c)
	}
	if _, ok := FileOf(self + ".gone"); ok {
		t.Error("a file that does not exist has an identity")
	}
	names := map[string]bool{"main.main": true, "runtime.main": true, "dlsym": true, "none": true}
	if got := DefinedFunctions(self, names); len(got) > 0 && !slices.Contains(got, "runtime.main") || slices.Contains(got, "none") {
		t.Errorf("%q", got)
	}
}
