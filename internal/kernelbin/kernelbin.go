// Package kernelbin reads the binaries of kernels that a program loads: ELF files whose functions are the kernels, with a section of
// metadata for each. It is used by the simulator, which loads them, and by the timeline, which names launches by what they hold.
// A File is constant once it is parsed. Nothing here reads files of its own, or trusts them: Parse never panics.
package kernelbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxSize bounds the size in bytes of a section of metadata, and is a sound bound for a whole binary.
const MaxSize = 1 << 30

// CoreSuffixes end the symbols of a kernel that was compiled for both kinds of cores.
var CoreSuffixes = []string{"_mix_aic", "_mix_aiv"}

// A File is what a binary tells of its kernels.
type File struct {
	Kernels []string          // names without the suffixes of cores, sorted
	Entries map[uint64]string // names by tiling key, from the metadata
	Symbols map[string]Symbol // with their suffixes
	Args    map[string][]Arg  // of the kernels whose metadata says it

	// Variables by name. Those of sections whose bytes are not in the file lie behind it: Empty bytes, all 0.
	Variables map[string]Symbol
	Empty     uint64
}

// A Symbol is where a function or a variable lies in its file.
type Symbol struct{ Offset, Size uint64 }

// emptyAlign is where each section begins that lies behind the file: at a multiple of it.
const emptyAlign = 512

// An Arg is what the metadata says of an argument of a kernel.
type Arg struct {
	Kind  ArgKind
	Level uint16 // of pointers between the argument and the data: 0 for a value
	Size  uint64 // bytes, 0 where it is not told
}

// ArgKind is what an argument is to a kernel.
type ArgKind uint16

var argKinds = map[ArgKind]string{1: "general", 2: "input", 3: "output", 4: "workspace", 5: "log", 6: "mc2", 7: "tiling", 10: "overflow", 11: "ffts", 12: "shape"}

// General is the kind of what is neither a tensor nor made by the runtime: a number, where there is no pointer to it.
const General ArgKind = 1

func (k ArgKind) String() string {
	if n, ok := argKinds[k]; ok {
		return n
	}
	return fmt.Sprintf("kind %d", uint16(k))
}

// Parse reads the names of the kernels in an ELF file, and their metadata.
func Parse(b []byte) (f *File, err error) {
	// The package elf is careful, and a stranger's file is worth a second belt.
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
	behind := map[elf.SectionIndex]uint64{} // where sections lie that are not in the file
	for _, s := range syms {
		if s.Section == elf.SHN_UNDEF || s.Name == "" {
			continue
		}
		if elf.ST_TYPE(s.Info) == elf.STT_OBJECT && int(s.Section) < len(file.Sections) {
			f.variable(file, s, uint64(len(b)), behind)
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

// variable notes a variable of a file of so many bytes.
func (f *File) variable(file *elf.File, s elf.Symbol, size uint64, behind map[elf.SectionIndex]uint64) {
	section := file.Sections[s.Section]
	value := s.Value
	if file.Type != elf.ET_REL { // an address, of which the section begins at another
		value -= min(value, section.Addr)
	}
	if value > section.Size || s.Size > section.Size-value || section.Size > MaxSize {
		return
	}
	at := Symbol{section.Offset + value, s.Size}
	if section.Type == elf.SHT_NOBITS {
		begin, ok := behind[s.Section]
		if !ok {
			begin = (size + f.Empty + emptyAlign - 1) / emptyAlign * emptyAlign
			behind[s.Section] = begin
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

// Types of records in the metadata of a kernel, and of those in its record for tools.
const (
	metaTools = 4
	metaEntry = 14 // the tiling key
	toolsArg  = 5
)

// meta reads the metadata of a kernel: records of a type, a length and a value.
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

// args reads what tools are told of the arguments: for each a type, a number of words, and these: what it is, its size where that is
// told, and more. The numbers begin with their highest byte.
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

// Has reports whether the file holds a kernel.
func (f *File) Has(name string) bool {
	_, ok := slices.BinarySearch(f.Kernels, name)
	return ok
}

// ByEntry returns the kernel with a tiling key: by the metadata, else by the end of its name.
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
