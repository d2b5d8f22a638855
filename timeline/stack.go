package timeline

import (
	"cmp"
	"debug/elf"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/human"
)

// StackParam is the parameter number for call stacks: an output with a hash, and, in one call per stack, the return addresses as data.
const StackParam = api.StackParam

// Stacks collects the call stacks in a trace and names their frames. Calls may come in any order in which the first call of a stack precedes its
// other calls.
type Stacks struct {
	most      int // frames that the recorder kept, 0 if unknown
	processes []format.Process
	known     map[stackKey][]uint64
	files     map[fileKey]*symbols
	shown     map[stackKey]uint64 // see Shown
	alike     map[string]uint64   // a stack by the frames that it shows
}

// fileKey identifies a file as it was during the recording.
type fileKey struct{ path, buildID string }

type stackKey struct {
	process uint32
	hash    uint64
}

// NewStacks returns Stacks without any stack.
func NewStacks(r *format.Reader) *Stacks {
	return &Stacks{most: r.Meta().Tracer.Stacks, processes: r.Processes(), known: map[stackKey][]uint64{}, files: map[fileKey]*symbols{}, shown: map[stackKey]uint64{}, alike: map[string]uint64{}}
}

// A Frame is one function on a stack, or the place where the stack was cut.
type Frame struct {
	Cut     string          // why the frames after it are missing; then the other fields are empty
	PC      uint64          // return address in the traced program
	Module  string          // path of the file, "" if unknown
	Mapping *format.Mapping // of the file, nil if unknown
	Name    string          // function, "" if the file is missing, is another build, or has no symbol for it
	Offset  uint64          // in the function, or in the file if the function is unknown
	Rebuilt bool            // the file here is another build
	first   bool            // a thread begins in it
}

func (f Frame) String() string {
	switch {
	case f.Cut != "":
		return "(cut: " + f.Cut + ")"
	case f.Name != "":
		return fmt.Sprintf("%s+%#x (%s)", human.Kernel(f.Name), f.Offset, filepath.Base(f.Module))
	case f.Module != "":
		return fmt.Sprintf("%s+%#x", filepath.Base(f.Module), f.Offset)
	}
	return fmt.Sprintf("%#x", f.PC)
}

// Of returns the stack of a call, innermost frame first; nil if none was recorded.
func (s *Stacks) Of(process uint32, c *format.Call) []Frame {
	hash, ok := s.Learn(process, c, math.MaxInt)
	if !ok {
		return nil
	}
	return s.Frames(process, hash)
}

// Learn returns the hash of the stack of a call. It returns false if no stack was recorded, or if the stack is new and most stacks are known.
func (s *Stacks) Learn(process uint32, c *format.Call, most int) (hash uint64, ok bool) {
	if hash, ok = out(c, StackParam); !ok {
		return 0, false
	}
	k := stackKey{process, hash}
	for i := range c.Data {
		if d := &c.Data[i]; d.Param == StackParam && (len(s.known) < most || s.known[k] != nil) {
			var pcs []uint64
			for b := d.Bytes; len(b) >= 8; b = b[8:] {
				pcs = append(pcs, word(b))
			}
			s.known[k] = pcs
		}
	}
	return hash, s.known[k] != nil
}

// Frames returns the frames of a known stack, innermost first. The recorder follows frame pointers. In code without them it finds any word, so an
// address outside code cuts the stack.
func (s *Stacks) Frames(process uint32, hash uint64) []Frame {
	var frames []Frame
	for i, pc := range s.known[stackKey{process, hash}] {
		f := s.frame(process, pc)
		if i > 0 && f.Mapping == nil && s.mapped(process) {
			return append(frames, Frame{Cut: "no frame pointers in " + frames[i-1].module()})
		}
		frames = append(frames, f)
	}
	n := len(frames)
	if n == 0 || frames[n-1].Mapping == nil || frames[n-1].first {
		return frames
	}
	cut := "no frame pointers in " + frames[n-1].module()
	switch {
	case s.most == 0:
		cut += ", or more frames than the recording keeps"
	case n >= s.most:
		cut = fmt.Sprintf("the recording keeps at most %d", s.most)
	}
	return append(frames, Frame{Cut: cut})
}

// Shown returns the hash of the first stack that has the same frames as a known one. Words after a cut are none, and differ from call to call.
func (s *Stacks) Shown(process uint32, hash uint64) uint64 {
	k := stackKey{process, hash}
	first, ok := s.shown[k]
	if ok {
		return first
	}
	frames := fmt.Sprint(process)
	for _, f := range s.Frames(process, hash) {
		frames += fmt.Sprintf(" %x%s", f.PC, f.Cut)
	}
	if first, ok = s.alike[frames]; !ok {
		first = hash
		s.alike[frames] = first
	}
	s.shown[k] = first
	return first
}

// mapped reports whether the code of a process is known.
func (s *Stacks) mapped(process uint32) bool {
	return int(process) < len(s.processes) && len(s.processes[process].Maps) > 0
}

// module returns the name of the frame's file.
func (f Frame) module() string {
	if f.Module == "" {
		return fmt.Sprintf("the code at %#x", f.PC)
	}
	return filepath.Base(f.Module)
}

func (s *Stacks) frame(process uint32, pc uint64) Frame {
	f := Frame{PC: pc}
	if int(process) >= len(s.processes) {
		return f
	}
	for i := range s.processes[process].Maps {
		m := &s.processes[process].Maps[i]
		// A return address may be one past the end of the code.
		if pc-1 < m.Start || pc-1 >= m.End {
			continue
		}
		f.Module, f.Mapping, f.Offset = m.Path, m, pc-m.Start+m.Offset
		k := fileKey{m.Path, m.BuildID}
		if s.files[k] == nil {
			s.files[k] = readSymbols(k)
		}
		f.Rebuilt = s.files[k].rebuilt
		f.first = s.files[k].begins(filepath.Base(f.Module), f.Offset)
		f.Name, f.Offset = s.files[k].find(f.Offset)
		break
	}
	return f
}

// symbols are the functions in an ELF file.
type symbols struct {
	loads   []elf.Prog64
	funcs   []function // by address
	rebuilt bool       // the file is another build, and has no functions here
}

type function struct {
	addr, size uint64
	name       string
}

// readSymbols reads the functions in a file. There are none if the file is missing, is another build, or is not an ELF file. The trace chose the
// path, so the file may be anything.
func readSymbols(k fileKey) *symbols {
	s := &symbols{}
	f, err := elffile.Open(k.path)
	if err != nil {
		return s
	}
	defer f.Close()
	if k.buildID != "" && f.BuildID() != k.buildID {
		s.rebuilt = true
		return s
	}
	for _, p := range f.Progs {
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			s.loads = append(s.loads, p)
		}
	}
	for _, table := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		all, err := f.Symbols(table)
		if err != nil {
			continue
		}
		for _, sym := range all {
			if sym.Kind() == elf.STT_FUNC && sym.Value != 0 {
				s.funcs = append(s.funcs, function{sym.Value, sym.Size, string(sym.Name)})
			}
		}
	}
	slices.SortStableFunc(s.funcs, func(a, b function) int { return cmp.Compare(a.addr, b.addr) })
	return s
}

// find returns the function that a return address in the file belongs to, and the offset in it. If there is none, it returns "" and the offset in
// the file.
func (s *symbols) find(offset uint64) (string, uint64) {
	addr, i := s.before(offset)
	if i == 0 {
		return "", offset
	}
	if f := s.funcs[i-1]; f.size == 0 || addr <= f.addr+f.size {
		return f.name, addr - f.addr
	}
	return "", offset
}

// before returns the address of an offset in the file, and the number of functions that begin before it.
func (s *symbols) before(offset uint64) (addr uint64, n int) {
	for _, p := range s.loads {
		if offset >= p.Off && offset < p.Off+p.Filesz {
			addr = offset - p.Off + p.Vaddr
			return addr, sort.Search(len(s.funcs), func(i int) bool { return s.funcs[i].addr >= addr })
		}
	}
	return 0, 0
}

// begins reports whether a thread begins at a return address in the file: in the program's entry, or in a file of the C library. If the library's
// functions are known, only those that begin threads count, since others call functions of the program too. glibc does not export two of these. They
// stand before the exported function that refers to them.
func (s *symbols) begins(file string, offset uint64) bool {
	name, _ := s.find(offset)
	switch {
	case name == "_start", strings.HasPrefix(file, "libpthread"), strings.HasPrefix(file, "ld-"):
		return true
	case !strings.HasPrefix(file, "libc.so") && !strings.HasPrefix(file, "libc-"):
		return false
	case name == "" && len(s.funcs) > 0:
		if _, i := s.before(offset); i < len(s.funcs) {
			name = s.funcs[i].name
		}
	}
	for _, begin := range []string{"__libc_start", "pthread_create", "start_thread", "clone", "__clone"} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return len(s.funcs) == 0
}
