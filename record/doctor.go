package record

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/probe"
)

// Finding is what came of trying one thing that commands need.
type Finding struct {
	For    string `json:"for"` // the commands that need it
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"` // a command that grants what is missing
}

// LibraryFinding is a runtime library that a program would load, and what would be recorded of it.
type LibraryFinding struct {
	Path     string   `json:"path"`
	Exported int      `json:"exported"`  // functions
	Hooked   int      `json:"hooked"`    // recorded with their arguments
	Counted  []string `json:"counted"`   // counted by name
	PassedBy []string `json:"passed_by"` // not seen at all
}

// Diagnosis is what Diagnose found out.
type Diagnosis struct {
	Findings  []Finding        `json:"findings"`
	Libraries []LibraryFinding `json:"libraries,omitempty"`
}

// OK reports whether everything works.
func (d *Diagnosis) OK() bool {
	return !slices.ContainsFunc(d.Findings, func(f Finding) bool { return !f.OK })
}

func (d *Diagnosis) add(needs, what string, err error, detail string) *Finding {
	f := Finding{For: needs, What: what, OK: err == nil, Detail: detail}
	if err != nil {
		f.Detail = err.Error()
	}
	d.Findings = append(d.Findings, f)
	return &d.Findings[len(d.Findings)-1]
}

// Diagnose tries what the commands need on this machine, and, with a command, looks at what recording it would see.
func Diagnose(m *api.Model, command []string) *Diagnosis {
	d := &Diagnosis{}
	d.shim(m, command)
	d.add("record", "the clock", nil, probe.Clock())
	d.add("record", "memory that may not be there is read with care (process_vm_readv)", probe.ReadsOwnMemory(), "")
	sim, err := artifacts.SimulatorDir()
	d.add("record --sim, sim", "the simulator", err, sim)
	d.add("replay", "the player", player(), "")
	d.uprobes(m, sim)
	d.add("record --probe ebpf", "a program is held at its start (ptrace)", heldAtStart(), "")
	if len(command) > 0 {
		d.program(m, command[0])
	}
	return d
}

// shim makes a session and loads the shim into a program, and looks whether the command could be audited.
func (d *Diagnosis) shim(m *api.Model, command []string) {
	_, err := artifacts.Bytes(artifacts.Shim)
	if d.add("record", "the shim", err, ""); err != nil {
		return
	}
	s, err := probe.NewSession(m, nil)
	f := d.add("record", "shared memory for the rings", err, "")
	if err != nil {
		return
	}
	defer s.Close()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(s.Dir(), &fs); err == nil {
		free := fs.Bavail * uint64(fs.Bsize)
		room := min(free/4, 4<<30) / probe.RingMemory
		f.Detail = fmt.Sprintf("%d MiB free in %s; a thread takes %d MiB, so that there is room for %d (see --ring-size)",
			free>>20, filepath.Dir(s.Dir()), probe.RingMemory>>20, room)
		if room == 0 {
			f.OK = false
		}
	}
	shim, err := installShim(s.Dir())
	if err != nil {
		d.add("record", "code is loaded from there", err, "")
		return
	}
	defer shim.close()
	cmd := exec.Command("/bin/true")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+shim.path, "ACLTRACE_SESSION="+s.Dir())
	if out, e := cmd.CombinedOutput(); e != nil || len(out) > 0 {
		err = fmt.Errorf("%s: %v %s", cmd.Path, e, bytes.TrimSpace(out))
	}
	d.add("record", "the shim is loaded into a program", err, filepath.Dir(filepath.Dir(shim.path)))
	program := cmd.Path
	if len(command) > 0 {
		if path, err := find(command[0]); err == nil && executable(path) == nil {
			program = path
		}
	}
	_, err = shim.audited(program, prepend(os.Environ(), "LD_PRELOAD", shim.path, ":"))
	d.add("record --bind audit", "programs are audited (LD_AUDIT)", err, program)
}

// player starts the player, which says how it is used.
func player() error {
	b, err := artifacts.Bytes(artifacts.Player)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "acltrace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, artifacts.Player)
	if err := os.WriteFile(path, b, 0o700); err != nil {
		return err
	}
	if out, err := exec.Command(path).CombinedOutput(); !bytes.HasPrefix(out, []byte("usage:")) {
		return fmt.Errorf("it does not run here: %v %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// uprobes puts a probe that counts on the simulator, and takes it away.
func (d *Diagnosis) uprobes(m *api.Model, sim string) {
	const needs, what = "attach, record --probe ebpf", "uprobes"
	if sim == "" {
		d.add(needs, what, errors.New("not tried: there is no library to put one on"), "")
		return
	}
	u, err := probe.AttachUprobes(m, filepath.Join(sim, artifacts.Simulator), &probe.UprobeOptions{PIDs: []int{os.Getpid()}, CountOnly: true})
	if err == nil {
		err = u.Close()
	}
	f := d.add(needs, what, err, "attached "+probe.UprobeKind())
	if missing := probe.MissingCapabilities(); err != nil && len(missing) > 0 {
		f.Detail = "missing " + strings.Join(missing, " and ")
		if exe, err := os.Executable(); err == nil {
			f.Fix = fmt.Sprintf("sudo setcap %s+ep %s", strings.Join(missing, ","), exe)
		}
	}
}

func heldAtStart() error {
	cmd := exec.Command("/bin/true")
	resume, err := startStopped(cmd)
	if err != nil {
		return err
	}
	if err := resume(); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	return cmd.Wait()
}

// program says what recording would see of a program, without running it.
func (d *Diagnosis) program(m *api.Model, name string) {
	path, err := find(name)
	if err == nil {
		err = executable(path)
	}
	if d.add("record", name, err, path); err != nil {
		return
	}
	f := &d.Findings[len(d.Findings)-1]
	st, err := os.Stat(path)
	if err == nil && st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 && os.Geteuid() != 0 {
		f.OK, f.Detail = false, path+" is set-uid: nothing is loaded into it, and nothing recorded"
		return
	}
	if n, err := syscall.Getxattr(path, "security.capability", nil); err == nil && n > 0 && os.Geteuid() != 0 {
		f.OK, f.Detail = false, path+" has file capabilities: nothing is loaded into it, and nothing recorded"
		return
	}
	interp, err := interpreter(path)
	if interp == "" {
		if err != nil {
			f.OK, f.Detail = false, err.Error()
			return
		}
		f.Detail = path + " is a script: the programs that it starts are recorded"
		return
	}
	if strings.Contains(filepath.Base(interp), "musl") {
		f.Detail = path + " is linked to musl: it runs, and what it loads itself is not seen"
	}
	// The loader lists what it would load and does not start the program.
	out, err := exec.Command(interp, "--list", path).CombinedOutput()
	if err != nil {
		f.OK, f.Detail = false, fmt.Sprintf("the loader can't start it: %s", bytes.TrimSpace(out))
		return
	}
	shim, err := shimExports()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " => ")
		lib, _, _ := strings.Cut(rest, " (")
		if !ok || !m.Library(name) {
			continue
		}
		if !filepath.IsAbs(lib) {
			d.add("record", name, errors.New("not found by the loader: set LD_LIBRARY_PATH, or record with --sim"), "")
			continue
		}
		l, err := library(m, lib, shim)
		if err != nil {
			d.add("record", name, err, "")
			continue
		}
		d.Libraries = append(d.Libraries, *l)
		d.add("record", lib, nil, fmt.Sprintf("%d of %d functions are recorded, %d counted by name, %d not seen", l.Hooked, l.Exported, len(l.Counted), len(l.PassedBy)))
	}
	if d.Findings[len(d.Findings)-1] == *f { // nothing came after it
		f.Detail = "not linked to the runtime; where it loads it by itself, it is recorded from then on"
	}
}

// interpreter returns the loader that a program names, "" for a script.
func interpreter(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != machine {
		return "", fmt.Errorf("%s is a program for %s, not for %s", path, f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil && err != io.EOF {
				return "", err
			}
			return string(bytes.TrimRight(b, "\x00")), nil
		}
	}
	return "", fmt.Errorf("%s names no loader", path)
}

// exported returns the functions that an ELF file has for others.
func exported(r io.ReaderAt) (names []string, err error) {
	defer func() {
		if recover() != nil { // debug/elf may panic on what is no sound file
			err = errors.New("no sound ELF file")
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	for _, s := range syms {
		bind, kind := elf.ST_BIND(s.Info), elf.ST_TYPE(s.Info)
		if s.Section != elf.SHN_UNDEF && (kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC) && (bind == elf.STB_GLOBAL || bind == elf.STB_WEAK) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func shimExports() (map[string]bool, error) {
	b, err := artifacts.Bytes(artifacts.Shim)
	if err != nil {
		return nil, err
	}
	names, err := exported(bytes.NewReader(b))
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set, err
}

func library(m *api.Model, path string, shim map[string]bool) (*LibraryFinding, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	names, err := exported(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l := &LibraryFinding{Path: path, Exported: len(names), Counted: []string{}, PassedBy: []string{}}
	for _, n := range names {
		f := m.Lookup(n)
		switch {
		case !shim[n]:
			l.PassedBy = append(l.PassedBy, n)
		case f != nil && f.Modelled:
			l.Hooked++
		default:
			l.Counted = append(l.Counted, n)
		}
	}
	return l, nil
}
