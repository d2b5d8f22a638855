// Package elffile reads headers, symbols, relocations and notes from ELF files in bounded time and memory.
//
// The recorder and its tools use it on other users' programs, libraries and binaries, which may be crafted. Package
// debug/elf does not suit them: it unpacks compressed sections, copies a name for every symbol and may panic. Tables are read
// from 64-bit little-endian files only, and from other ELF files only the header. The package runs and loads nothing.
package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/acltrace/acltrace/internal/regular"
)

const (
	maxHeaders     = 1 << 16   // program headers, and section headers
	maxSymbols     = 64 << 20  // bytes per symbol table
	maxStrings     = 256 << 20 // bytes per string table
	maxRelocations = 256 << 20 // bytes in all relocation tables
	maxDynamic     = 1 << 20   // bytes per dynamic section
	maxNote        = 1 << 10   // bytes per build id note
	maxName        = 4 << 10   // bytes per string; longer ones are left out
	maxListed      = 4 << 10   // strings per dynamic tag
)

// A File is an open ELF file.
type File struct {
	Class    elf.Class
	Type     elf.Type
	Machine  elf.Machine
	Progs    []elf.Prog64
	sections []elf.Section64
	r        io.ReaderAt
	close    func() error
}

// A Symbol is a symbol table entry.
type Symbol struct {
	elf.Sym64
	Name []byte // valid until the iteration ends
}

// Defined reports whether the file defines the symbol.
func (s *Symbol) Defined() bool { return elf.SectionIndex(s.Shndx) != elf.SHN_UNDEF }

// Kind returns the symbol's type.
func (s *Symbol) Kind() elf.SymType { return elf.ST_TYPE(s.Info) }

// Open opens a regular file.
func Open(path string) (*File, error) {
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := New(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	f.close = file.Close
	return f, nil
}

// Close closes a file that Open has opened.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

var errDamaged = errors.New("damaged ELF file")

// New reads the headers of an ELF file.
func New(r io.ReaderAt) (*File, error) {
	head := make([]byte, binary.Size(elf.Header64{}))
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < elf.EI_NIDENT || string(head[:4]) != elf.ELFMAG {
		return nil, errors.New("not an ELF file")
	}
	f := &File{Class: elf.Class(head[elf.EI_CLASS]), r: r}
	if order := elf.Data(head[elf.EI_DATA]); n < len(head) || order != elf.ELFDATA2LSB {
		if order == elf.ELFDATA2MSB {
			return f, nil
		}
		return nil, errDamaged
	}
	var h elf.Header64
	decode(head, &h)
	f.Type, f.Machine = elf.Type(h.Type), elf.Machine(h.Machine)
	if f.Class != elf.ELFCLASS64 {
		return f, nil
	}
	if f.Progs, err = headers[elf.Prog64](r, h.Phoff, h.Phnum, h.Phentsize); err == nil {
		f.sections, err = headers[elf.Section64](r, h.Shoff, h.Shnum, h.Shentsize)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// decode fills a fixed-size structure from bytes.
func decode(b []byte, to any) { _, _ = binary.Decode(b, binary.LittleEndian, to) }

// headers reads a table with n headers. Each must have the size that T has.
func headers[T elf.Prog64 | elf.Section64](r io.ReaderAt, at uint64, n, size uint16) ([]T, error) {
	var one T
	if n == 0 {
		return nil, nil
	}
	if int(size) != binary.Size(one) {
		return nil, errDamaged
	}
	b, err := read(r, at, uint64(n)*uint64(size), maxHeaders*uint64(size))
	if err != nil {
		return nil, err
	}
	all := make([]T, n)
	for i := range all {
		decode(b[i*int(size):], &all[i])
	}
	return all, nil
}

// read reads n bytes. It fails if n exceeds a limit or the file is shorter.
func read(r io.ReaderAt, at, n, limit uint64) ([]byte, error) {
	if n > limit {
		return nil, fmt.Errorf("%w: a table of %d bytes, want at most %d", errDamaged, n, limit)
	}
	if int64(at) < 0 || int64(at+n) < 0 {
		return nil, errDamaged
	}
	// ReadAll allocates only as much as the file has.
	b, err := io.ReadAll(io.NewSectionReader(r, int64(at), int64(n)))
	if err == nil && uint64(len(b)) < n {
		err = fmt.Errorf("%w: it ends within a table", errDamaged)
	}
	return b, err
}

// section returns the first section with a type.
func (f *File) section(t elf.SectionType) *elf.Section64 {
	for i := range f.sections {
		if s := &f.sections[i]; elf.SectionType(s.Type) == t {
			return s
		}
	}
	return nil
}

// data reads a section. It refuses compressed ones, which no loader or linker accepts.
func (f *File) data(s *elf.Section64, limit uint64) ([]byte, error) {
	if elf.SectionFlag(s.Flags)&elf.SHF_COMPRESSED != 0 {
		return nil, fmt.Errorf("%w: a compressed table", errDamaged)
	}
	return read(f.r, s.Off, s.Size, limit)
}

// linked reads a section's string table.
func (f *File) linked(s *elf.Section64) ([]byte, error) {
	if uint64(s.Link) >= uint64(len(f.sections)) || elf.SectionType(f.sections[s.Link].Type) != elf.SHT_STRTAB {
		return nil, fmt.Errorf("%w: a table without names", errDamaged)
	}
	return f.data(&f.sections[s.Link], maxStrings)
}

// text returns the string at an offset in a string table, nil if there is none or it exceeds maxName bytes.
func text(table []byte, at uint64) []byte {
	if at >= uint64(len(table)) {
		return nil
	}
	table = table[at:]
	table = table[:min(len(table), maxName+1)]
	if n := bytes.IndexByte(table, 0); n >= 0 {
		return table[:n]
	}
	return nil
}

// Symbols returns the symbols in SHT_SYMTAB or SHT_DYNSYM with their numbers, from 1. A file without the table has none.
func (f *File) Symbols(table elf.SectionType) (iter.Seq2[int, *Symbol], error) {
	s := f.section(table)
	if s == nil {
		return func(func(int, *Symbol) bool) {}, nil
	}
	b, err := f.data(s, maxSymbols)
	if err != nil {
		return nil, err
	}
	names, err := f.linked(s)
	if err != nil {
		return nil, err
	}
	return func(yield func(int, *Symbol) bool) {
		var sym Symbol
		const size = elf.Sym64Size
		for i := 1; (i+1)*size <= len(b); i++ {
			e := b[i*size:]
			sym.Sym64 = elf.Sym64{Name: binary.LittleEndian.Uint32(e), Info: e[4], Other: e[5], Shndx: binary.LittleEndian.Uint16(e[6:]),
				Value: binary.LittleEndian.Uint64(e[8:]), Size: binary.LittleEndian.Uint64(e[16:])}
			if sym.Name = text(names, uint64(sym.Sym64.Name)); !yield(i, &sym) {
				return
			}
		}
	}, nil
}

// Exports reports whether the file defines a dynamic symbol.
func (f *File) Exports(name string) bool {
	symbols, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		return false
	}
	for _, s := range symbols {
		if s.Defined() && string(s.Name) == name {
			return true
		}
	}
	return false
}

// Strings returns the strings for a tag in the dynamic section, such as DT_NEEDED.
func (f *File) Strings(tag elf.DynTag) []string {
	s := f.section(elf.SHT_DYNAMIC)
	if s == nil {
		return nil
	}
	b, err := f.data(s, maxDynamic)
	if err != nil {
		return nil
	}
	names, err := f.linked(s)
	if err != nil {
		return nil
	}
	var all []string
	for ; len(b) >= 16 && len(all) < maxListed; b = b[16:] {
		if elf.DynTag(binary.LittleEndian.Uint64(b)) == tag {
			if name := text(names, binary.LittleEndian.Uint64(b[8:])); name != nil {
				all = append(all, string(name))
			}
		}
	}
	return all
}

// A Relocation is a place in memory that the loader fills.
type Relocation struct {
	Offset uint64
	Symbol int // number in SHT_DYNSYM, 0 for none
}

// Relocations returns the entries in all SHT_RELA tables.
func (f *File) Relocations() iter.Seq[Relocation] {
	return func(yield func(Relocation) bool) {
		left := uint64(maxRelocations)
		for i := range f.sections {
			s := &f.sections[i]
			if elf.SectionType(s.Type) != elf.SHT_RELA {
				continue
			}
			b, err := f.data(s, left)
			if err != nil {
				continue
			}
			left -= uint64(len(b))
			for ; len(b) >= 24; b = b[24:] {
				r := Relocation{binary.LittleEndian.Uint64(b), int(binary.LittleEndian.Uint64(b[8:]) >> 32)}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// BuildID returns the build id in hexadecimal, "" if the file has none.
func (f *File) BuildID() string {
	const gnu, buildID = "GNU\x00", 3
	for i := range f.sections {
		s := &f.sections[i]
		if elf.SectionType(s.Type) != elf.SHT_NOTE {
			continue
		}
		b, err := f.data(s, maxNote)
		if err != nil || len(b) < 16 || binary.LittleEndian.Uint32(b) != uint32(len(gnu)) || binary.LittleEndian.Uint32(b[8:]) != buildID || string(b[12:16]) != gnu {
			continue
		}
		if n := binary.LittleEndian.Uint32(b[4:]); uint64(n) <= uint64(len(b)-16) {
			return hex.EncodeToString(b[16 : 16+n])
		}
	}
	return ""
}

// BuildID returns a file's build id in hexadecimal, "" if it has none or can't be read.
func BuildID(path string) string {
	f, err := Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return f.BuildID()
}

// Interpreter returns the path to the program's loader, "" if it has none.
func (f *File) Interpreter() string {
	for i := range f.Progs {
		if p := &f.Progs[i]; elf.ProgType(p.Type) == elf.PT_INTERP {
			b, err := read(f.r, p.Off, p.Filesz, maxName)
			if err != nil {
				return ""
			}
			return string(bytes.TrimRight(b, "\x00"))
		}
	}
	return ""
}

// Code returns the file offset for the code at an address, and at most n bytes from there.
func (f *File) Code(addr uint64, n int) (offset uint64, code []byte, err error) {
	p := f.segment(addr)
	if p == nil {
		return 0, nil, fmt.Errorf("address %#x is in no code", addr)
	}
	offset = p.Off + (addr - p.Vaddr)
	if int64(offset) < 0 {
		return 0, nil, errDamaged
	}
	code = make([]byte, min(uint64(n), p.Filesz-(addr-p.Vaddr)))
	got, err := f.r.ReadAt(code, int64(offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, err
	}
	return offset, code[:got], nil
}

// CodeAround returns the ends of the code that is mapped together with an address, two equal ones if the address is in no code.
func (f *File) CodeAround(addr uint64) (from, to uint64) {
	p := f.segment(addr)
	if p == nil {
		return addr, addr
	}
	return p.Vaddr, p.Vaddr + p.Filesz
}

// segment returns the segment with the code at an address, nil if there is none.
func (f *File) segment(addr uint64) *elf.Prog64 {
	for i := range f.Progs {
		p := &f.Progs[i]
		if elf.ProgType(p.Type) == elf.PT_LOAD && elf.ProgFlag(p.Flags)&elf.PF_X != 0 && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p
		}
	}
	return nil
}
