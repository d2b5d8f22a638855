package host

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/regular"
)

// ScriptProgram returns the program that runs a script, or path itself if it is not a script.
func ScriptProgram(path string) (string, error) {
	for range 4 { // as deep as the kernel goes
		line, err := InterpreterLine(path)
		if err != nil {
			return "", err
		}
		if len(line) == 0 {
			break
		}
		path = line[0]
	}
	return path, nil
}

// InterpreterLine returns the words in a script's first line, nil if the file is not a script.
func InterpreterLine(path string) ([]string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadSlice('\n')
	rest, ok := strings.CutPrefix(string(line), "#!")
	if !ok {
		return nil, nil
	}
	return strings.Fields(rest), nil
}

// FoundLibrary is a library that a loader would load. Path is "not found" if the loader does not find it.
type FoundLibrary struct{ Name, Path string }

// LoadedLibraries asks the loader which libraries it would load for a program, with those in preload. The program does not start.
func LoadedLibraries(loader, program string, preload []string) (libs []FoundLibrary, said string, err error) {
	cmd := exec.Command(loader, "--list", program)
	if preload != nil {
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+strings.Join(preload, ":"))
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, strings.TrimSpace(errs.String() + out.String()), err
	}
	for line := range strings.Lines(out.String()) {
		name, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok && strings.HasPrefix(name, "/") {
			path, ok = name, true // it is linked to by its path
			name, _, _ = strings.Cut(name, " (")
		}
		if path, _, _ := strings.Cut(path, " ("); ok {
			libs = append(libs, FoundLibrary{filepath.Base(name), strings.TrimSpace(path)})
		}
	}
	return libs, "", nil
}

// Loader returns the loader that a program names, "" if the file is not an ELF file. Callers run the loader, so root gets an
// error if another user can change it.
func Loader(path string) (string, error) {
	f, err := elffile.Open(path)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != machine {
		return "", fmt.Errorf("%s is a program for %s, not for %s", path, f.Machine, machine)
	}
	loader := f.Interpreter()
	if loader == "" {
		return "", fmt.Errorf("%s names no loader", path)
	}
	if st, err := os.Stat(loader); err == nil && os.Geteuid() == 0 {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 {
			return "", fmt.Errorf("run loader %s of %s: it belongs to user %d, not to root; run acltrace as that user", loader, path, sys.Uid)
		}
	}
	return loader, nil
}

// FindProgram returns a program's file, found as a shell finds it.
func FindProgram(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next // the innermost says it in the fewest words
	}
	return "", fmt.Errorf("program %s: %w", program, err)
}

// ErrStatic is wrapped by the error about a program that has no loader.
var ErrStatic = errors.New("is linked statically, and the shim can't be loaded into it")

// CheckExecutable returns an error if this kernel cannot start a file as a program. The error of exec itself says little.
func CheckExecutable(path string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head)
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte("#!")):
		return nil
	case !bytes.Equal(head, []byte(elf.ELFMAG)):
		return fmt.Errorf("%s is neither an ELF program nor a script with an interpreter (#!)", path)
	}
	e, err := elffile.New(f)
	if err != nil {
		return fmt.Errorf("%s is a damaged ELF program: %w", path, err)
	}
	if e.Class != elf.ELFCLASS64 || e.Interpreter() != "" {
		return nil
	}
	if e.Type == elf.ET_EXEC || e.Type == elf.ET_DYN {
		return fmt.Errorf("%s %w", path, ErrStatic)
	}
	return fmt.Errorf("%s is an ELF file of type %s, not a program", path, e.Type)
}

// StartStopped starts a command that waits at its first instruction until resume is called on the same goroutine.
func StartStopped(cmd *exec.Cmd) (resume func() error, err error) {
	runtime.LockOSThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &ws, 0, nil); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return func() error {
		defer runtime.UnlockOSThread()
		return syscall.PtraceDetach(cmd.Process.Pid)
	}, nil
}

// FileKey identifies a file by device and inode.
type FileKey struct{ dev, ino uint64 }

// FileOf returns a file's identity.
func FileOf(path string) (FileKey, bool) {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	return FileKey{uint64(st.Dev), st.Ino}, err == nil
}

// DefinedFunctions returns the names that a program's symbol table defines as functions.
func DefinedFunctions(path string, names map[string]bool) (found []string) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	syms, err := f.Symbols(elf.SHT_SYMTAB)
	if err != nil {
		return nil
	}
	for _, s := range syms {
		if s.Defined() && s.Kind() == elf.STT_FUNC && names[string(s.Name)] && string(s.Name) != "dlsym" {
			found = append(found, string(s.Name))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// GainsRights returns why a program runs with more rights than this process, "" if it does not. The loader ignores LD_PRELOAD
// in such a program.
func GainsRights(path string) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return ""
	}
	n, err := unix.Getxattr(path, "security.capability", nil)
	switch {
	case st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Getuid():
		return "is set-uid"
	case st.Mode&unix.S_ISGID != 0 && int(st.Gid) != os.Getgid():
		return "is set-gid"
	case err == nil && n > 0 && os.Getuid() != 0:
		return "has file capabilities"
	}
	return ""
}
