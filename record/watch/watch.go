// Package watch observes a recording's processes from outside, and reports calls that bypass the shim.
//
// The recorder starts one Watcher for the program that it starts. A Watcher reads /proc and memory of the processes, and it
// changes nothing in them.
package watch

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/record/host"
)

// A Watcher looks at the processes now and then. It finds processes that map the runtime without the shim, and libraries that
// are bound to the runtime directly. It may miss a process that lives for less than the time between two looks.
type Watcher struct {
	root    int
	shim    string // path, as it is mapped
	preload string // path, as LD_PRELOAD has it
	session string // the folder that the shim looks for
	model   *api.Model
	names   map[string]bool // functions that the shim replaces
	procs   map[procKey]*watched
	refs    map[host.FileKey][]reference
	inside  map[host.FileKey][]string // runtime functions that are linked into a program
	found   map[string]format.Unhooked
	bare    map[procKey]format.Unhooked // processes that had not loaded the shim when they were last seen, and why
	newest  string                      // newest process or thread at the last look
	settled bool                        // it was also the newest at the look before
	stop    chan struct{}
	ended   sync.WaitGroup
	window  time.Duration // between two looks, for the tests
}

type procKey struct {
	pid   int
	start int64 // time, since PIDs are reused
}

type watched struct {
	exe    string
	hooked bool
	// audited says that the audit library sees every dlsym.
	audited bool
	looks   uint      // at a hooked process
	next    time.Time // when to look again
}

// reference is a place in a loaded object that holds a function's address.
type reference struct {
	offset uint64
	name   string
}

// object is a file in a process's address space. From is the address of its first byte.
type object = procstat.MappedFile

// The first looks follow each other quickly, so that short programs are seen.
const (
	firstLook = 2 * time.Millisecond
	lookEvery = 200 * time.Millisecond
)

func Start(m *api.Model, root int, shim, session string) *Watcher {
	real, err := filepath.EvalSymlinks(shim)
	if err != nil {
		real = shim
	}
	w := &Watcher{model: m, root: root, shim: real, preload: shim, session: session, names: map[string]bool{"dlsym": true}, procs: map[procKey]*watched{}, refs: map[host.FileKey][]reference{}, inside: map[host.FileKey][]string{},
		found: map[string]format.Unhooked{}, bare: map[procKey]format.Unhooked{}, stop: make(chan struct{}), window: lookEvery}
	for i := range m.Funcs {
		w.names[m.Funcs[i].Name] = true
	}
	w.ended.Go(func() {
		runtime.LockOSThread() // processorTime is the thread's
		for next := firstLook; ; next *= 2 {
			began := processorTime()
			w.look(time.Now())
			// A look takes longer the more processes the machine has. Time spent waiting for a core on a busy machine does not count.
			pause := max(min(w.window, next), 50*(processorTime()-began))
			select {
			case <-time.After(pause):
			case <-w.stop:
				return
			}
		}
	})
	return w
}

// processorTime returns the processor time that the calling thread has used.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// End stops the Watcher and returns its findings, in a stable order.
func (w *Watcher) End() []format.Unhooked {
	close(w.stop)
	w.ended.Wait()
	for _, u := range Notes(w.session) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(w.found)), func(f format.Unhooked) bool { return f.PID == u.PID && strings.Contains(f.Reason, withoutShim) }) {
			w.report(u)
		}
	}
	return slices.SortedFunc(maps.Values(w.found), func(a, b format.Unhooked) int {
		return cmp.Or(a.PID-b.PID, strings.Compare(a.Reason, b.Reason))
	})
}

// WithoutShim returns the processes that can't have loaded the shim, with the reasons. It must be called after End.
func (w *Watcher) WithoutShim() []format.Unhooked {
	return slices.SortedFunc(maps.Values(w.bare), func(a, b format.Unhooked) int { return a.PID - b.PID })
}

func (w *Watcher) look(now time.Time) {
	procs := map[procKey]*watched{}
	newest := newestProcess()
	ours := w.family(w.candidates(newest), procstat.Read)
	w.settled, w.newest = newest != "" && newest == w.newest, newest
	for _, a := range ours {
		p := w.procs[a]
		exe, _ := os.Readlink(host.ProcFile(a.pid, "exe"))
		if p == nil || p.exe != exe {
			p = &watched{exe: exe}
			w.within(a.pid, exe)
		}
		procs[a] = p
		if now.Before(p.next) {
			continue
		}
		w.process(a.pid, p)
		if !p.hooked {
			why, cause := w.why(a.pid, exe)
			if st := procstat.Read(a.pid); !st.Lives() || st.Start != a.start {
				continue // it ended during the look: keep the result of the look before
			}
			delete(w.bare, a)
			if why != "" {
				w.bare[a] = format.Unhooked{PID: a.pid, Exe: exe, Reason: why, Cause: cause}
			}
		} else {
			delete(w.bare, a)
			// Reading a large process's maps stops it for a moment. Look at it less and less often.
			p.next = now.Add(w.window << min(p.looks, 7))
			p.looks++
		}
	}
	w.procs = procs
}

// family returns the recording's processes among pids: the root, those that were known before, and their children.
func (w *Watcher) family(pids iter.Seq[int], read func(pid int) procstat.Stat) (ours []procKey) {
	children := map[int][]procKey{}
	for pid := range pids {
		if st := read(pid); st.Lives() {
			a := procKey{pid, st.Start}
			if pid == w.root || w.procs[a] != nil {
				ours = append(ours, a)
			} else {
				children[st.Parent] = append(children[st.Parent], a)
			}
		}
	}
	if !slices.ContainsFunc(ours, func(a procKey) bool { return a.pid == w.root }) {
		ours = append(ours, children[w.root]...) // its first thread has ended
	}
	for i := 0; i < len(ours); i++ {
		ours = append(ours, children[ours[i].pid]...)
	}
	return ours
}

// candidates returns the processes that may belong to the recording. These are all processes on the machine, or only the known
// ones if no process or thread was created since the look before the last one. newest is the number of the newest thread. A
// process that was being created during the look before the last one has been seen at the last look.
func (w *Watcher) candidates(newest string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if w.settled && newest == w.newest {
			for k := range w.procs {
				if !yield(k.pid) {
					return
				}
			}
			return
		}
		pids, _ := procstat.PIDs()
		for _, pid := range pids {
			if !yield(pid) {
				return
			}
		}
	}
}

// newestProcess returns the ID of the newest process or thread, "" if the kernel does not report it.
func newestProcess() string {
	b, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); err == nil && len(f) == 5 {
		return f[4]
	}
	return ""
}

func (w *Watcher) process(pid int, p *watched) {
	objects := mappedObjects(pid)
	var libs []object
	p.hooked, p.audited = false, false
	elsewhere := false
	for _, o := range objects {
		if w.isShim(o.Path) {
			p.hooked = true
		} else if filepath.Base(o.Path) == artifacts.Shim {
			elsewhere = true // an inner recording has left a note
		}
		if filepath.Base(o.Path) == artifacts.Audit {
			p.audited = true
		}
		if w.model.Library(filepath.Base(o.Path)) {
			libs = append(libs, o)
		}
	}
	switch {
	case p.hooked && len(libs) > 0:
		w.bindings(pid, p, objects)
		if why := w.cutOff(pid); why != "" {
			w.report(format.Unhooked{PID: pid, Exe: p.exe, Reason: why})
		}
	case p.hooked, elsewhere:
	case len(libs) > 0:
		why, cause := w.why(pid, p.exe)
		w.report(format.Unhooked{PID: pid, Exe: p.exe, Cause: cause, Reason: libs[0].Path + withoutShim + cmp.Or(why, "the loader has not taken it")})
	}
}

// within reports a program that has the runtime linked into it.
func (w *Watcher) within(pid int, exe string) {
	path := host.ProcFile(pid, "exe")
	k, ok := host.FileOf(path)
	if !ok {
		return
	}
	names, known := w.inside[k]
	if !known {
		names = host.DefinedFunctions(path, w.names)
		w.inside[k] = names
	}
	if len(names) > 0 {
		w.report(format.Unhooked{PID: pid, Exe: exe, Cause: format.LinkedIn, Reason: fmt.Sprintf("%d runtime functions are linked into it (%s, …), and their calls are not recorded", len(names), names[0])})
	}
}

// cutOff returns why a process can't access the session, "" if it can.
func (w *Watcher) cutOff(pid int) string {
	control := filepath.Join(w.session, "control")
	why := ""
	absent := func(root string) bool {
		_, err := os.Stat(filepath.Join(root, control))
		return errors.Is(err, fs.ErrNotExist)
	}
	if absent("/") {
		why = fmt.Sprintf("%s was removed before its first call, by another program: the shim can't find the recorder", w.session)
	} else if absent(host.ProcFile(pid, "root")) {
		why = "it changed its root or its mounts before its first call, and the shim can't find the recorder"
	} else if uid, ok := filesUser(pid); ok && uid != 0 && uid != os.Geteuid() {
		why = fmt.Sprintf("it became user %d before its first call, who can't open files of the recorder's user %d", uid, os.Geteuid())
	}
	if why == "" {
		return ""
	}
	// A process that records already maps the control file. This is checked last, since the process maps the file before it
	// changes its root or user.
	objects := mappedObjects(pid)
	if len(objects) == 0 || slices.ContainsFunc(objects, func(o object) bool { return strings.HasSuffix(o.Path, control) }) {
		return ""
	}
	return why
}

// filesUser returns the user with whose rights a process accesses files.
func filesUser(pid int) (int, bool) {
	b, _ := procstat.Text(pid, "status")
	f := strings.Fields(procstat.Field(b, "Uid"))
	if len(f) != 4 {
		return 0, false
	}
	uid, err := strconv.Atoi(f[3])
	return uid, err == nil
}

// report keeps one report of a reason for each process: the first library of a process that is being loaded may not be that of the next look.
func (w *Watcher) report(u format.Unhooked) {
	reason := u.Reason
	if _, why, ok := strings.Cut(reason, withoutShim); ok {
		reason = withoutShim + why
	}
	w.found[fmt.Sprint(u.PID, reason)] = u
}

// isShim reports whether a mapped file is the shim. After chroot the path begins with the root.
func (w *Watcher) isShim(path string) bool { return strings.HasSuffix(path, w.shim) }

// why returns why a process can't have loaded the shim, "" if no reason is known.
func (w *Watcher) why(pid int, exe string) (string, format.UnhookedCause) {
	if host.GainsRights(exe) != "" {
		return GainedRights, ""
	}
	if err := host.CheckExecutable(host.ProcFile(pid, "exe")); errors.Is(err, host.ErrStatic) {
		return "the program is linked statically", format.NoLoader
	}
	env := host.Environ(pid)
	preload, _ := host.Lookup(env, "LD_PRELOAD")
	_, session := host.Lookup(env, "ACLTRACE_SESSION")
	switch {
	case env == nil || slices.Contains(strings.FieldsFunc(preload, func(r rune) bool { return r == ':' || r == ' ' }), w.preload):
		return "", ""
	case session:
		return preloadChanged, ""
	}
	return "its environment was cleared before it was started; keep LD_PRELOAD and ACLTRACE_SESSION in it", ""
}

// Parts of reasons.
const (
	withoutShim    = " is loaded without the shim: "
	preloadChanged = "LD_PRELOAD was changed before it was started"
)

// Notes returns the processes of a session that had its variables without the shim, by their own notes. Only the simulator leaves notes
// (sim/libascendcl/face.c).
func Notes(session string) (us []format.Unhooked) {
	const pattern = "bare."
	files, _ := filepath.Glob(filepath.Join(session, pattern+"*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		pid, err2 := strconv.Atoi(filepath.Base(f)[len(pattern):])
		exe, library, ok := strings.Cut(string(b), "\n")
		if err == nil && err2 == nil && ok {
			us = append(us, format.Unhooked{PID: pid, Exe: exe, Reason: library + withoutShim + preloadChanged})
		}
	}
	return us
}

// GainedRights is the reason for programs that run with other rights than their caller.
const GainedRights = "the program is set-uid or set-gid or has capabilities, and the loader ignores LD_PRELOAD in it"

// mappings reads a process's mappings. It fails if the process ends meanwhile, since the text then ends at any line.
func mappings(pid int) ([]byte, error) {
	f, err := os.Open(host.ProcFile(pid, "maps"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, procstat.MaxText))
	if err != nil {
		return nil, err
	}
	_, err = f.ReadAt(make([]byte, 1), 0)
	return b, err
}

// mappedObjects returns the files that a process maps, by ascending address.
func mappedObjects(pid int) []object {
	b, err := mappings(pid)
	if err != nil {
		return nil
	}
	var os []object
	for f := range procstat.Mapped(b) {
		// A file that is loaded twice, in two namespaces, is two objects.
		if n := len(os); n > 0 && os[n-1].Path == f.Path && f.Offset != 0 {
			os[n-1].To = f.To
		} else if f.Offset == 0 {
			os = append(os, f)
		}
	}
	return os
}

// bindings reports objects whose references to runtime functions bypass the shim.
func (w *Watcher) bindings(pid int, p *watched, objects []object) {
	mem, err := os.Open(host.ProcFile(pid, "mem"))
	if err != nil {
		return
	}
	defer mem.Close()
	for _, o := range objects {
		if w.isShim(o.Path) || w.model.Library(filepath.Base(o.Path)) {
			continue
		}
		past, asks := w.lasting(pid, func() ([]string, bool) { return w.past(pid, mem, o, objects) })
		if len(past) > 0 {
			slices.Sort(past)
			past = slices.Compact(past)
			w.report(format.Unhooked{PID: pid, Exe: p.exe, Reason: fmt.Sprintf("%s calls %d functions of the runtime past the shim (%s, …): RTLD_DEEPBIND or dlmopen", o.Path, len(past), past[0])})
		}
		if asks && !p.audited {
			w.report(format.Unhooked{PID: pid, Exe: p.exe, Reason: o.Path + " asks for functions by dlsym past the shim: RTLD_DEEPBIND or dlmopen"})
		}
	}
}

// lasting returns the result of past that remains: the loader may have bound the references just now, and the shim then binds them before
// the program uses them.
func (w *Watcher) lasting(pid int, past func() (names []string, asks bool)) (names []string, asks bool) {
	names, asks = past()
	for range 5 {
		if len(names) == 0 && !asks {
			break
		}
		time.Sleep(w.window / 10)
		if !procstat.Read(pid).Lives() {
			return nil, false // a single look may have come between the loader and the shim
		}
		names, asks = past()
	}
	return names, asks
}

// past returns the runtime functions to which a mapped object is bound directly, and whether it calls a dlsym that bypasses the
// shim.
func (w *Watcher) past(pid int, mem io.ReaderAt, o object, objects []object) (names []string, asks bool) {
	for _, r := range w.references(pid, o) {
		var word [8]byte
		if _, err := mem.ReadAt(word[:], int64(o.From+r.offset)); err != nil {
			continue
		}
		at := binary.LittleEndian.Uint64(word[:])
		i := slices.IndexFunc(objects, func(t object) bool { return at >= t.From && at < t.To })
		switch {
		case i < 0 || objects[i].Path == o.Path || w.isShim(objects[i].Path):
		case r.name == "dlsym":
			asks = !systemLibrary(o.Path)
		case w.model.Library(filepath.Base(objects[i].Path)):
			names = append(names, r.name)
		}
	}
	return names, asks
}

// systemLibrary reports whether a library belongs to the C library, whose parts may refer to each other.
func systemLibrary(path string) bool {
	base := filepath.Base(path)
	parts := []string{"libc.", "libdl.", "libpthread.", "libm.", "ld-"}
	return slices.ContainsFunc(parts, func(n string) bool { return strings.HasPrefix(base, n) })
}

// references returns an object's references to functions that the shim replaces.
func (w *Watcher) references(pid int, o object) []reference {
	path := filepath.Join(host.ProcFile(pid, "root"), o.Path)
	k, ok := host.FileOf(path)
	if !ok {
		return nil
	}
	refs, ok := w.refs[k]
	if !ok {
		refs = readReferences(path, w.names)
		w.refs[k] = refs
	}
	return refs
}

func readReferences(path string, names map[string]bool) (refs []reference) {
	f, err := elffile.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	syms, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return nil
	}
	wanted := map[int]string{}
	for i, s := range syms {
		if !s.Defined() && names[string(s.Name)] {
			wanted[i] = string(s.Name)
		}
	}
	first := uint64(0) // link address of the file's first byte, not 0 in a program that is not relocatable
	for _, p := range f.Progs {
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			first = p.Vaddr - p.Off
			break
		}
	}
	for r := range f.Relocations() {
		if name, ok := wanted[r.Symbol]; ok {
			refs = append(refs, reference{r.Offset - first, name})
		}
	}
	return refs
}
