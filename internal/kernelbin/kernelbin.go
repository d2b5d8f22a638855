// Package kernelbin reads kernel binaries: ELF files whose functions are kernels, with a metadata section for each, and the
// binaries of GPUs.
//
// The simulator uses it to load binaries, the timeline to name launches, and capture to find kernels' parameter sizes.
// Callers pass the content; the package opens no files. Binaries are not trusted: Parse never panics. A File is constant after
// Parse, and any goroutine may read it.
package kernelbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/sim/opapi/block"
)

// MaxSize limits the bytes of a metadata section. Callers use it for whole binaries, too.
const MaxSize = 1 << 30

// CoreSuffixes end the symbols of kernels that are compiled for both core kinds.
var CoreSuffixes = []string{"_mix_aic", "_mix_aiv"}

// A File describes the kernels and variables in a binary.
type File struct {
	Kernels []string          // names without CoreSuffixes, sorted
	Entries map[uint64]string // names by tiling key, from the metadata
	Symbols map[string]Symbol // by name with suffix
	Args    map[string][]Arg  // from the metadata, by kernel
	// Operators is set if all kernels have the argument block of an operator, see sim/opapi/block.
	Operators bool

	// Variables by name. Sections without bytes in the file are placed after its end. They have Empty bytes, all 0.
	Variables map[string]Symbol
	Empty     uint64
}

// A Symbol locates a function or a variable in its file.
type Symbol struct{ Offset, Size uint64 }

// emptyAlign is the alignment of the sections after the end of the file.
const emptyAlign = 512

// An Arg describes a kernel argument.
type Arg struct {
	Kind  ArgKind
	Level uint16 // pointers between the argument and the data: 0 for a value
	Size  uint64 // bytes, 0 if unknown
}

// ArgKind is the purpose of an argument.
type ArgKind uint16

var argKinds = map[ArgKind]string{1: "general", 2: "input", 3: "output", 4: "workspace", 5: "log", 6: "mc2", 7: "tiling", 10: "overflow", 11: "ffts", 12: "shape"}

// General arguments are neither tensors nor made by the runtime: numbers, if there is no pointer.
const General ArgKind = 1

func (k ArgKind) String() string {
	if n, ok := argKinds[k]; ok {
		return n
	}
	return fmt.Sprintf("kind %d", uint16(k))
}

// Parse reads an ELF file's kernels, variables and metadata.
func Parse(b []byte) (f *File, err error) {
	// Package elf should not panic, but the file is not trusted.
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("damaged ELF file: %v", r)
		}
	}()
	file, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	syms, err := file.Symbols()
	if err != nil && len(syms) == 0 {
		syms, err = file.DynamicSymbols()
		if err != nil {
			return nil, err
		}
	}
	f = &File{Entries: map[uint64]string{}, Symbols: map[string]Symbol{}, Args: map[string][]Arg{}, Variables: map[string]Symbol{}}
	after := map[elf.SectionIndex]uint64{} // offsets of sections without bytes in the file
	for _, s := range syms {
		if s.Section == elf.SHN_UNDEF || s.Name == "" {
			continue
		}
		if elf.ST_TYPE(s.Info) == elf.STT_OBJECT && int(s.Section) < len(file.Sections) {
			f.variable(file, s, uint64(len(b)), after)
		}
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC {
			continue
		}
		at := Symbol{Size: s.Size}
		if int(s.Section) < len(file.Sections) {
			at.Offset = min(file.Sections[s.Section].Offset+s.Value, uint64(len(b)))
		}
		f.Symbols[s.Name] = at
		f.Kernels = append(f.Kernels, trimCore(s.Name))
	}
	slices.Sort(f.Kernels)
	f.Kernels = slices.Compact(f.Kernels)
	for _, s := range file.Sections {
		if s.Name == block.Section {
			if err := operators(s); err != nil {
				return nil, err
			}
			f.Operators = true
		}
		name, ok := strings.CutPrefix(s.Name, ".ascend.meta.")
		if !ok || s.Size > MaxSize {
			continue
		}
		d, err := s.Data()
		if err != nil {
			return nil, err
		}
		f.meta(trimCore(name), d)
	}
	return f, nil
}

// operators checks the section that declares operators' argument blocks: a version of 4 bytes.
func operators(s *elf.Section) error {
	if s.Type == elf.SHT_NOBITS || s.Size != 4 {
		return fmt.Errorf("section %s has %d bytes: want a version of 4", s.Name, s.Size)
	}
	d, err := s.Data()
	if err != nil {
		return fmt.Errorf("section %s: %w", s.Name, err)
	}
	if v := binary.LittleEndian.Uint32(d); v != block.Version {
		return fmt.Errorf("section %s has version %d: want %d; use the operators of this acltrace", s.Name, v, block.Version)
	}
	return nil
}

// variable adds a variable. The size is the file's.
func (f *File) variable(file *elf.File, s elf.Symbol, size uint64, after map[elf.SectionIndex]uint64) {
	section := file.Sections[s.Section]
	value := s.Value
	if file.Type != elf.ET_REL { // the value is an address
		value -= min(value, section.Addr)
	}
	if value > section.Size || s.Size > section.Size-value || section.Size > MaxSize {
		return
	}
	at := Symbol{section.Offset + value, s.Size}
	if section.Type == elf.SHT_NOBITS {
		begin, ok := after[s.Section]
		if !ok {
			begin = (size + f.Empty + emptyAlign - 1) / emptyAlign * emptyAlign
			after[s.Section] = begin
			f.Empty = begin + section.Size - size
		}
		at.Offset = begin + value
	} else if at.Offset > size || at.Size > size-at.Offset {
		return
	}
	f.Variables[s.Name] = at
}

func trimCore(name string) string {
	for _, suffix := range CoreSuffixes {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// Record types in a kernel's metadata, and field types in its record for tools.
const (
	metaTools = 4
	metaEntry = 14 // the tiling key
	toolsArg  = 5
)

// meta reads a kernel's metadata: records with type, length and value.
func (f *File) meta(kernel string, d []byte) {
	if !f.Has(kernel) {
		return
	}
	le := binary.LittleEndian
	for len(d) >= 4 {
		typ, n := le.Uint16(d), int(le.Uint16(d[2:]))
		if d = d[4:]; n > len(d) {
			return
		}
		switch {
		case typ == metaEntry && n >= 8:
			f.Entries[le.Uint64(d)] = kernel
		case typ == metaTools && len(f.Args[kernel]) == 0:
			f.Args[kernel] = args(d[:n])
		}
		d = d[n:]
	}
}

// args reads the argument list for tools. Each argument has a type, a word count and the words: kind, size if known, and
// more. Numbers are big-endian.
func args(d []byte) []Arg {
	be := binary.BigEndian
	var as []Arg
	for len(d) >= 4 {
		typ, n := be.Uint16(d), 8*int(be.Uint16(d[2:]))
		if d = d[4:]; n > len(d) {
			break
		}
		if typ == toolsArg && n >= 8 {
			what := be.Uint64(d)
			a := Arg{Kind: ArgKind(what), Level: uint16(what >> 16)}
			if n >= 16 {
				a.Size = be.Uint64(d[8:])
			}
			as = append(as, a)
		}
		d = d[n:]
	}
	return as
}

// Has reports whether the file contains a kernel.
func (f *File) Has(name string) bool {
	_, ok := slices.BinarySearch(f.Kernels, name)
	return ok
}

// ByEntry returns the kernel with a tiling key, from the metadata or else from the end of its name.
func (f *File) ByEntry(entry uint64) (string, bool) {
	if n, ok := f.Entries[entry]; ok {
		return n, true
	}
	suffix := "_" + strconv.FormatUint(entry, 10)
	for _, n := range f.Kernels {
		if strings.HasSuffix(n, suffix) {
			return n, true
		}
	}
	return "", false
}
