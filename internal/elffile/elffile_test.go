package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"
)

// everything reads all parts of a file.
func everything(f *File) (symbols int) {
	for _, table := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		if all, err := f.Symbols(table); err == nil {
			for _, s := range all {
				symbols++
				if s.Kind() == elf.STT_FUNC && symbols%64 == 0 {
					_, _, _ = f.Code(s.Value, 32)
				}
			}
		}
	}
	for range f.Relocations() {
	}
	f.BuildID()
	f.Interpreter()
	f.Strings(elf.DT_NEEDED)
	return symbols
}

// FuzzFile reads damaged and crafted ELF files.
func FuzzFile(f *testing.F) {
	for _, sections := range [][]elf.Section64{nil, tables(3, 40), tables(math.MaxInt64, math.MaxUint64), {{Type: uint32(elf.SHT_NOTE), Off: 64, Size: 40}}} {
		f.Add(file(sections, make([]byte, 200)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := New(bytes.NewReader(b)); err == nil {
			everything(e)
		}
	})
}

// file makes an ELF file from section headers and the bytes after them.
func file(sections []elf.Section64, content []byte) []byte {
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Shoff: 64, Shentsize: 64, Shnum: uint16(len(sections)), Phentsize: 56}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, h)
	_ = binary.Write(&b, binary.LittleEndian, sections)
	b.Write(content)
	return b.Bytes()
}

// tables makes sections with n symbols and a string table, both at the same offset.
func tables(n, names uint64) []elf.Section64 {
	const at = 64 + 3*64
	return []elf.Section64{{}, {Type: uint32(elf.SHT_DYNSYM), Off: at, Size: n * 24, Link: 2}, {Type: uint32(elf.SHT_STRTAB), Off: at, Size: names}}
}

// The results match debug/elf.
func TestFileIsReadAsByDebugElf(t *testing.T) {
	path := os.Args[0]
	for _, p := range []string{"/bin/sh", "/usr/bin/env"} {
		if _, err := os.Stat(p); err == nil {
			path = p
		}
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	want, _ := g.DynamicSymbols()
	var got, names []string
	all, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		got = append(got, string(s.Name))
	}
	for _, s := range want {
		names = append(names, s.Name)
	}
	libs, _ := g.ImportedLibraries()
	if !slices.Equal(got, names) || !slices.Equal(f.Strings(elf.DT_NEEDED), libs) || f.Machine != g.Machine || f.Type != g.Type || f.Interpreter() == "" {
		t.Errorf("%d symbols, want %d; libraries %q, want %q; %v, %v, loader %q", len(got), len(names), f.Strings(elf.DT_NEEDED), libs, f.Machine, f.Type, f.Interpreter())
	}
}

// A crafted ELF file with a few KB took all memory: table sizes were not checked, sections were decompressed, and each symbol
// got a copy of one long name.
func TestSmallFileCostsLittle(t *testing.T) {
	compressed := tables(2, 10)
	compressed[1].Flags = uint64(elf.SHF_COMPRESSED)
	for name, b := range map[string][]byte{
		"a huge symbol table": file(tables(1<<40, 10), nil),
		"a huge string table": file(tables(2, 1<<62), make([]byte, 100)),
		"a table past 2^63":   file(tables(2, math.MaxUint64), make([]byte, 100)),
		"compressed symbols":  file(compressed, make([]byte, 100)),
	} {
		f, err := New(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := f.Symbols(elf.SHT_DYNSYM); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	// 50,000 symbols with one name of 1 MB.
	names := append(bytes.Repeat([]byte{1}, 1_200_000), 0)
	f, err := New(bytes.NewReader(file(tables(50_000, uint64(len(names))), names)))
	if err != nil {
		t.Fatal(err)
	}
	allocated := testing.AllocsPerRun(1, func() {
		if n := everything(f); n != 49_999 {
			t.Errorf("%d symbols", n)
		}
	})
	if allocated > 1000 {
		t.Errorf("%v allocations for 50,000 symbols", allocated)
	}
}
