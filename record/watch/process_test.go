package watch

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record/host"
)

const page = 1 << 14 // a multiple of the kernel's

// newWatcher returns a Watcher for the test's own process, which tests call themselves. Its session has a control file.
func newWatcher(t *testing.T) *Watcher {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shim := filepath.Join(dir, artifacts.Shim)
	w := &Watcher{model: acl.Model, root: os.Getpid(), shim: shim, preload: shim, session: filepath.Join(dir, "session"), names: map[string]bool{"dlsym": true, "aclInit": true, "aclFinalize": true},
		procs: map[procKey]*watched{}, refs: map[host.FileKey][]reference{}, inside: map[host.FileKey][]string{}, found: map[string]format.Unhooked{}, bare: map[procKey]format.Unhooked{}, window: time.Millisecond}
	if err := os.Mkdir(w.session, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.session, "control"), nil)
	return w
}

// reasons returns the reasons of the findings about a process, without the paths of the test's folder.
func (w *Watcher) reasons(pid int) (all []string) {
	for _, u := range w.found {
		if u.PID == pid {
			all = append(all, strings.ReplaceAll(u.Reason, filepath.Dir(w.session)+"/", ""))
		}
	}
	slices.Sort(all)
	return all
}

func write(t *testing.T, path string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// mapFile maps a file into the test's own process until the test ends, from its first byte.
func mapFile(t *testing.T, path string, b []byte) []byte {
	t.Helper()
	write(t, path, append(slices.Clone(b), make([]byte, 2*page-len(b))...))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	return m
}

func address(m []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m)))) }

// slots are the offsets of the references in library's file.
var slots = []uint64{page + 8, page + 16, page + 24, page + 32}

// library returns a shared object that refers to functions. It is linked at an address other than its offset.
func library(names ...string) []byte {
	le := func(values ...any) []byte {
		var b bytes.Buffer
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
		return b.Bytes()
	}
	const at, off = 0x5000, 0x1000
	text, syms, relocations := []byte{0}, le(elf.Sym64{}), []byte{}
	for i, name := range names {
		s := elf.Sym64{Name: uint32(len(text)), Info: 0x12}
		if name, ok := strings.CutPrefix(name, "own "); ok {
			s.Shndx, names[i] = 1, name
		}
		syms, text = append(syms, le(s)...), append(text, names[i]+"\x00"...)
		relocations = append(relocations, le(slots[i]+at-off, uint64(i+1)<<32|6, uint64(0))...)
	}
	progs := []elf.Prog64{{Type: uint32(elf.PT_NOTE), Vaddr: 1}, {Type: uint32(elf.PT_LOAD), Vaddr: at, Off: off}, {Type: uint32(elf.PT_LOAD), Vaddr: 3}}
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Phoff: 64, Phnum: 3, Phentsize: 56, Shoff: 64 + 3*56, Shnum: 4, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	content := h.Shoff + 4*64
	a, b := content+uint64(len(syms)), content+uint64(len(syms)+len(text))
	return append(le(h, progs, []elf.Section64{{}, {Type: uint32(elf.SHT_DYNSYM), Link: 2, Off: content, Size: uint64(len(syms))},
		{Type: uint32(elf.SHT_STRTAB), Off: a, Size: uint64(len(text))}, {Type: uint32(elf.SHT_RELA), Link: 1, Off: b, Size: uint64(len(relocations))}}), slices.Concat(syms, text, relocations)...)
}

// References are found by the wanted functions that another object defines, at their distance from the file's first byte.
func TestReferencesToWantedFunctions(t *testing.T) {
	names := map[string]bool{"aclInit": true, "dlsym": true, "aclFinalize": true}
	path := write(t, filepath.Join(t.TempDir(), "lib.so"), library("aclInit", "puts", "dlsym", "own aclFinalize"))
	if got, want := readReferences(path, names), []reference{{slots[0], "aclInit"}, {slots[2], "dlsym"}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// A file is read once, and a file without a mapping is linked at 0.
	w := newWatcher(t)
	none := library("aclInit")
	none[64+56], none[64+2*56] = byte(elf.PT_NOTE), byte(elf.PT_NOTE)
	for _, b := range [][]byte{none, nil} {
		if got, want := w.references(os.Getpid(), object{Path: write(t, path, b)}), []reference{{slots[0] + 0x4000, "aclInit"}}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	for _, cut := range []int{10, 64 + 3*56 + 64} {
		if got := readReferences(write(t, path, library("aclInit")[:cut]), names); got != nil {
			t.Errorf("a file of %d bytes: %v", cut, got)
		}
	}
}

// A process that has the shim may still call the runtime past it: a library's references then hold other addresses than the shim's.
func TestCallsPastTheShim(t *testing.T) {
	const many = " functions of the runtime past the shim ("
	why, _ := newWatcher(t).why(os.Getpid(), "")
	for _, c := range []struct {
		name   string
		file   string // of the library that calls
		slots  []string
		absent string // not mapped
		want   []string
	}{
		{"bound to the shim", "user.so", []string{"shim", "shim", "shim", "shim"}, "", nil},
		{"bound to itself", "user.so", []string{"user", "user", "user", "user"}, "", nil},
		{"not bound yet", "user.so", []string{"", "", "", ""}, "", nil},
		{"behind the end of the runtime", "user.so", []string{"end", "end", "", ""}, "", nil},
		{"bound to the runtime", "user.so", []string{"runtime", "shim", "shim", "shim"}, "", []string{"user.so calls 1" + many + "aclInit, …): RTLD_DEEPBIND or dlmopen"}},
		{"more than one, and one twice", "user.so", []string{"runtime", "runtime", "shim", "runtime"}, "", []string{"user.so calls 2" + many + "aclFinalize, …): RTLD_DEEPBIND or dlmopen"}},
		{"bound to another library", "user.so", []string{"libc", "libc", "shim", "libc"}, "", nil},
		{"dlsym of the C library", "user.so", []string{"shim", "shim", "libc", "shim"}, "", []string{"user.so asks for functions by dlsym past the shim: RTLD_DEEPBIND or dlmopen"}},
		{"dlsym that the audit library sees", "user.so", []string{"shim", "shim", "libc", "shim"}, "none", nil},
		{"the C library's own dlsym", "libdl.so.2", []string{"shim", "shim", "libc", "shim"}, "", nil},
		{"the runtime itself", "libascendcl.so.1", []string{"runtime", "runtime", "libc", "runtime"}, "", nil},
		{"without the shim", "user.so", []string{"runtime", "libc", "libc", "shim"}, "shim", []string{"runtime is loaded without the shim: " + why}},
		{"in an inner recording", "user.so", []string{"runtime", "libc", "libc", "shim"}, "shim, but another", nil},
		{"cut off", "user.so", []string{"shim", "shim", "shim", "shim"}, "control", []string{"session was removed before its first call, by another program: the shim can't find the recorder"}},
		{"without the runtime", "user.so", []string{"libc", "libc", "libc", "shim"}, "runtime", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWatcher(t)
			dir := filepath.Dir(w.session)
			maps := map[string][]byte{"user": mapFile(t, filepath.Join(dir, c.file), library("aclInit", "aclFinalize", "dlsym", "aclInit")), "libc": mapFile(t, filepath.Join(dir, "libc.so.6"), nil)}
			if c.absent != "runtime" {
				maps["runtime"] = mapFile(t, filepath.Join(dir, "libascendcl.so"), nil)
			}
			switch c.absent {
			case "shim":
			case "shim, but another":
				mapFile(t, filepath.Join(t.TempDir(), artifacts.Shim), nil)
			default:
				maps["shim"] = mapFile(t, w.shim, nil)
			}
			if c.absent == "control" {
				if err := os.Remove(filepath.Join(w.session, "control")); err != nil {
					t.Fatal(err)
				}
			}
			if c.absent == "none" {
				mapFile(t, filepath.Join(dir, artifacts.Audit), nil)
			}
			for i, to := range c.slots {
				at := uint64(0)
				switch {
				case to == "end":
					at = address(maps["runtime"]) + 2*page
					for slices.ContainsFunc(mappedObjects(os.Getpid()), func(o object) bool { return o.From <= at && at < o.To }) {
						at += page // another file is mapped there
					}
				case maps[to] != nil:
					at = address(maps[to])
				}
				binary.LittleEndian.PutUint64(maps["user"][slots[i]:], at)
			}
			p := &watched{exe: "self"}
			w.process(os.Getpid(), p)
			if got := strings.ReplaceAll(strings.Join(w.reasons(os.Getpid()), "\n"), "libascendcl.so", "runtime"); got != strings.Join(c.want, "\n") {
				t.Errorf("%q, want %q", got, c.want)
			}
			if p.hooked != (maps["shim"] != nil) || p.audited != (c.absent == "none") {
				t.Errorf("hooked %v, audited %v", p.hooked, p.audited)
			}
			for _, u := range w.found {
				if u.Exe != "self" {
					t.Errorf("exe %q", u.Exe)
				}
			}
		})
	}
}

// A reference that can't be read is left out, and those after it are read.
func TestUnreadableReference(t *testing.T) {
	w := newWatcher(t)
	dir := filepath.Dir(w.session)
	o := object{Path: write(t, filepath.Join(dir, "user.so"), library("aclInit", "aclFinalize"))}
	runtime := object{From: 7, To: 8, Path: "/libascendcl.so"}
	mem := make([]byte, slots[1]+8)
	mem[slots[1]] = 7
	if names, asks := w.past(os.Getpid(), unreadable{bytes.NewReader(mem), int64(slots[0])}, o, []object{o, {From: 5, To: 7, Path: "/other.so"}, runtime}); !slices.Equal(names, []string{"aclFinalize"}) || asks {
		t.Errorf("%q, %v", names, asks)
	}
}

// unreadable is memory whose word at bad can't be read.
type unreadable struct {
	io.ReaderAt
	bad int64
}

func (u unreadable) ReadAt(b []byte, at int64) (int, error) {
	if at == u.bad {
		b[0] = 7
		return 1, io.ErrUnexpectedEOF
	}
	return u.ReaderAt.ReadAt(b, at)
}

// References that the loader has just bound are no finding if the shim binds them a little later, or if the process ends.
func TestLastingReferences(t *testing.T) {
	w := newWatcher(t)
	w.window = 0
	for _, c := range []struct {
		until int // the look that is the first to find nothing
		asks  bool
		pid   int
		looks int
		found bool
	}{{1, false, os.Getpid(), 1, false}, {3, false, os.Getpid(), 3, false}, {3, true, os.Getpid(), 3, false}, {100, false, os.Getpid(), 6, true}, {100, true, os.Getpid(), 6, true}, {100, false, ended(t), 1, false}} {
		looks := 0
		names, asks := w.lasting(c.pid, func() ([]string, bool) {
			if looks++; looks >= c.until {
				return nil, false
			} else if c.asks {
				return nil, true
			}
			return []string{"f"}, false
		})
		if found := len(names) > 0 || asks; found != c.found || looks != c.looks || asks && !c.asks {
			t.Errorf("%+v: %q, %v after %d looks", c, names, asks, looks)
		}
	}
}

// A file is an object each time that it is mapped from its first byte, up to its last part.
func TestMappedObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	for range 2 {
		if err := unix.Mprotect(mapFile(t, path, nil)[page:], unix.PROT_READ); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, o := range mappedObjects(os.Getpid()) {
		if o.Path == path && o.Offset == 0 {
			if n++; o.To-o.From != 2*page {
				t.Errorf("it has %d bytes", o.To-o.From)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d objects", n)
	}
	part := filepath.Join(t.TempDir(), "part.so")
	f, err := os.Open(write(t, part, make([]byte, 2*page)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), page, page, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	if slices.ContainsFunc(mappedObjects(os.Getpid()), func(o object) bool { return o.Path == part }) {
		t.Error("a file that is not mapped from its first byte is an object")
	}
	if got := mappedObjects(ended(t)); got != nil {
		t.Errorf("a process that has ended maps %v", got)
	}
}

// ended returns the PID of a process that has ended.
func ended(t *testing.T) int {
	t.Helper()
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// child starts a program that waits until the test ends, and returns when it runs with its own environment. The program copies its input.
func child(t *testing.T, env []string, attr *syscall.SysProcAttr, name string, args ...string) (int, io.Writer) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Env, c.SysProcAttr = env, attr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	if _, err := in.Write([]byte("line\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "line\n" {
		t.Fatalf("%s wrote %q: %v", name, line, err)
	}
	return c.Process.Pid, in
}

// The reason why a process has no shim is in its program and its environment.
func TestReasonForAMissingShim(t *testing.T) {
	w := newWatcher(t)
	session := "ACLTRACE_SESSION=" + w.session
	for _, c := range []struct{ name, preload, want string }{
		{"kept", w.preload, ""},
		{"kept among others", "/lib/a.so:" + w.preload + " /lib/b.so", ""},
		{"changed", "/lib/a.so:" + w.preload + ".other", preloadChanged},
	} {
		pid, _ := child(t, []string{session, "LD_PRELOAD=" + c.preload}, nil, "cat")
		if why, cause := w.why(pid, "/bin/cat"); why != c.want || cause != "" {
			t.Errorf("%s: %q, %q", c.name, why, cause)
		}
	}
	pid, _ := child(t, []string{}, nil, "cat")
	if why, cause := w.why(pid, "/bin/cat"); !strings.HasPrefix(why, "its environment was cleared") || cause != "" {
		t.Errorf("cleared: %q, %q", why, cause)
	}
	if why, cause := w.why(ended(t), "/bin/cat"); why != "" || cause != "" {
		t.Errorf("a process that has ended: %q, %q", why, cause)
	}
	set := write(t, filepath.Join(t.TempDir(), "set-uid"), nil)
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(set, 1, 1), os.Chmod(set, 0o755|os.ModeSetuid)); err != nil {
			t.Fatal(err)
		}
		if why, cause := w.why(pid, set); why != GainedRights || cause != "" {
			t.Errorf("set-uid: %q, %q", why, cause)
		}
	}
	if host.CheckExecutable(host.ProcFile(os.Getpid(), "exe")) != nil { // static, without cgo
		if why, cause := w.why(os.Getpid(), ""); why != "the program is linked statically" || cause != format.NoLoader {
			t.Errorf("static: %q, %q", why, cause)
		}
	}
}

// A process that lost sight of the recorder's files before its first call is reported, and one that has opened them is not.
// Regression: if the files were gone for the recorder too, "it changed its root or its mounts" blamed the process.
func TestCutOff(t *testing.T) {
	w := newWatcher(t)
	pid, _ := child(t, nil, nil, "cat")
	if why := w.cutOff(pid); why != "" {
		t.Errorf("a process that sees the session: %q", why)
	}
	control := filepath.Join(w.session, "control")
	if os.Geteuid() == 0 {
		pid, _ := child(t, nil, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "cat")
		if why := w.cutOff(pid); why != "it became user 65534 before its first call, who can't open files of the recorder's user 0" {
			t.Errorf("another user: %q", why)
		}
	}
	mapFile(t, control, nil)
	if err := os.Rename(control, control+".moved"); err != nil {
		t.Fatal(err)
	}
	if why := w.cutOff(pid); !strings.HasPrefix(why, w.session+" was removed") {
		t.Errorf("a process that does not see the session: %q", why)
	}
	if why := w.cutOff(os.Getpid()); !strings.HasPrefix(why, w.session+" was removed") {
		t.Errorf("a process that maps another file: %q", why)
	}
	if err := os.Rename(control+".moved", control); err != nil {
		t.Fatal(err)
	}
	w.session = "/gone" + w.session
	if why := w.cutOff(ended(t)); why != "" {
		t.Errorf("a process that has ended: %q", why)
	}
	w.session = strings.TrimPrefix(w.session, "/gone")
	if uid, ok := filesUser(os.Getpid()); uid != os.Geteuid() || !ok {
		t.Errorf("the test is user %d, %v", uid, ok)
	}
	if _, ok := filesUser(ended(t)); ok {
		t.Error("a process that has ended has a user")
	}
	// A process that has opened the session before it left it: its mapping has the path in the old root.
	old := &Watcher{session: strings.TrimPrefix(w.session, "/")}
	if why := old.cutOff(os.Getpid()); why != "" {
		t.Errorf("a process that maps the session: %q", why)
	}
}

// A look finds the recording's processes with their children, and forgets those that have ended.
func TestLookFindsTheRecordingsProcesses(t *testing.T) {
	w := newWatcher(t)
	self := procKey{os.Getpid(), procstat.Read(os.Getpid()).Start}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	k, _ := host.FileOf(exe)
	w.inside[k] = []string{"aclFinalize", "aclInit"}
	bare, in := child(t, nil, nil, "sh", "-c", "read x; echo $x; read x; exec env LD_PRELOAD="+w.preload+" cat")
	kept, _ := child(t, []string{"LD_PRELOAD=" + w.preload}, nil, "cat")
	now := time.Now()
	w.look(now)
	if len(w.procs) != 3 || w.procs[self] == nil {
		t.Fatalf("%d processes", len(w.procs))
	}
	bareKey := procKey{bare, procstat.Read(bare).Start}
	if u := w.bare[bareKey]; u.PID != bare || u.Exe != w.procs[bareKey].exe || !strings.HasPrefix(u.Reason, "its environment was cleared") {
		t.Errorf("%+v", u)
	}
	if u := w.bare[procKey{kept, procstat.Read(kept).Start}]; u.PID != 0 {
		t.Errorf("%+v", u)
	}
	if got := w.reasons(os.Getpid()); !slices.Equal(got, []string{"2 runtime functions are linked into it (aclFinalize, …), and their calls are not recorded"}) {
		t.Errorf("%q", got)
	}
	for _, u := range w.found {
		if u.Exe != exe || u.Cause != format.LinkedIn {
			t.Errorf("%+v", u)
		}
	}
	// A program that executes another is another program.
	before := w.procs[bareKey]
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	testenv.Wait(t, "the shell executes cat", func() bool { return len(host.Argv(bare)) == 1 })
	w.look(now)
	if p := w.procs[bareKey]; p == nil || p == before || p.exe == before.exe {
		t.Errorf("after exec it is %+v", p)
	}
	if u := w.bare[bareKey]; u.PID != 0 {
		t.Errorf("after exec with the shim: %+v", u)
	}
	// A process with the shim is looked at less and less often, and at once if it executes another program.
	mapFile(t, w.shim, nil)
	for i := range 12 {
		w.look(now)
		p := w.procs[self]
		if want := w.window << min(i, 7); p.next.Sub(now) != want || !p.hooked {
			t.Errorf("look %d is after %v, want %v", i+1, p.next.Sub(now), want)
		}
		next := p.next
		w.look(next.Add(-1))
		if p = w.procs[self]; p.next != next || len(w.procs) != 3 {
			t.Error("it was looked at before its time, or those after it were not")
		}
		now = next
	}
	if w.bare[self].PID != 0 {
		t.Errorf("a process with the shim is bare: %+v", w.bare[self])
	}
	w.root, w.procs, w.settled = bare, map[procKey]*watched{}, false
	w.look(now)
	if len(w.procs) != 1 || w.procs[bareKey] == nil {
		t.Errorf("of one process %d are known", len(w.procs))
	}
}

// The recording is the root, its descendants and those that belonged to it before. A root whose first thread has ended still has children.
func TestDescendantsBelongToTheRecording(t *testing.T) {
	self := procstat.Read(os.Getpid())
	read := func(parents map[int]int) func(pid int) procstat.Stat {
		return func(pid int) procstat.Stat {
			st := self
			st.Start, st.Parent = int64(pid)*10, parents[pid]
			if parents[pid] < 0 {
				return procstat.Stat{}
			}
			return st
		}
	}
	w := &Watcher{root: 5, procs: map[procKey]*watched{{9, 90}: {}, {3, 31}: {}}}
	for _, c := range []struct {
		parents map[int]int
		want    []int
	}{
		{map[int]int{1: 0, 2: 1, 3: 1, 5: 1, 6: 5, 7: 6, 8: 1, 9: 1, 10: 9}, []int{5, 6, 7, 9, 10}},
		{map[int]int{1: 0, 5: -1, 6: 5, 7: 6, 8: 1}, []int{6, 7}},
		{map[int]int{1: 0, 5: 1, 6: 5, 7: -1, 8: 7}, []int{5, 6}},
	} {
		var got []int
		for _, a := range w.family(maps.Keys(c.parents), read(c.parents)) {
			if got = append(got, a.pid); a.start != int64(a.pid)*10 {
				t.Errorf("%v", a)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// A program with the runtime linked into it is found by its symbols, which are read once.
func TestLinkedIn(t *testing.T) {
	w := newWatcher(t)
	if w.within(ended(t), ""); len(w.inside) != 0 {
		t.Errorf("a program that has ended: %v", w.inside)
	}
	exe := host.ProcFile(os.Getpid(), "exe")
	w.names["runtime.main"] = true
	if len(host.DefinedFunctions(exe, w.names)) == 0 {
		t.Skip("the test has no symbols")
	}
	w.within(os.Getpid(), "self")
	w.names = nil
	w.within(os.Getpid(), "self")
	if got := w.reasons(os.Getpid()); len(got) != 1 || !strings.Contains(got[0], "(runtime.main, …)") {
		t.Errorf("%q", got)
	}
	w = newWatcher(t)
	if w.within(os.Getpid(), "self"); len(w.found) != 0 {
		t.Errorf("%+v", w.found)
	}
}

// A Watcher finds a process by itself. Its findings have an order, and a process's own note is one of them if there is no other.
func TestStartAndEnd(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shim := write(t, filepath.Join(dir, "real.so"), nil)
	link := filepath.Join(dir, "link.so")
	if err := os.Symlink(shim, link); err != nil {
		t.Fatal(err)
	}
	kept, _ := child(t, []string{"LD_PRELOAD=" + link}, nil, "cat")
	session := filepath.Join(dir, "session")
	if err := os.Mkdir(session, 0o700); err != nil {
		t.Fatal(err)
	}
	w := Start(acl.Model, kept, link, session)
	w.End()
	if got := w.WithoutShim(); len(got) != 0 || w.shim != shim {
		t.Errorf("%s, %+v", w.shim, got)
	}
	bare, _ := child(t, nil, nil, "cat")
	w = Start(acl.Model, bare, filepath.Join(dir, "none"), session)
	if w.shim != w.preload || !w.names["aclInit"] || !w.names["dlsym"] {
		t.Errorf("%+v", w)
	}
	w.found["1"], w.found["2"], w.found["3"] = format.Unhooked{PID: 7, Reason: "b"}, format.Unhooked{PID: 7, Reason: "a"}, format.Unhooked{PID: 5, Reason: "libx.so" + withoutShim + "z"}
	for name, text := range map[string]string{"bare.5": "/bin/five\nliba.so", "bare.7": "/bin/seven\nliba.so", "bare.x": "/bin/x\nliba.so", "bare.9": "half a note", "other.8": "/bin/x\nliba.so"} {
		write(t, filepath.Join(session, name), []byte(text))
	}
	want := []format.Unhooked{{PID: 5, Reason: "libx.so" + withoutShim + "z"}, {PID: 7, Reason: "a"}, {PID: 7, Reason: "b"}, {PID: 7, Exe: "/bin/seven", Reason: "liba.so" + withoutShim + preloadChanged}}
	if got := w.End(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i := range 20 {
		w.bare[procKey{-i, 0}] = format.Unhooked{PID: -i}
	}
	if got := w.WithoutShim(); len(got) != 21 || got[0].PID != -19 || got[19].PID != 0 || got[20].PID != bare {
		t.Errorf("%+v", got)
	}
}

// The kernel's newest thread tells whether there may be new processes.
func TestNewestProcess(t *testing.T) {
	before, err := strconv.Atoi(newestProcess())
	if err != nil {
		t.Fatal(err)
	}
	if ended(t); newestProcess() == strconv.Itoa(before) {
		t.Errorf("it is %d after another process was made", before)
	}
}

// A process that was loading its libraries was listed twice, with the first library of two looks.
func TestReportsAreOfAProcess(t *testing.T) {
	w := &Watcher{found: map[string]format.Unhooked{}}
	for _, reason := range []string{"libb.so" + withoutShim + preloadChanged, "liba.so" + withoutShim + preloadChanged, "the program is linked statically"} {
		w.report(format.Unhooked{PID: 7, Reason: reason})
	}
	if len(w.found) != 2 {
		t.Errorf("%+v", w.found)
	}
}
