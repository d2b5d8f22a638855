package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A part is a section with its bytes.
type part struct {
	elf.Section64
	data []byte
}

// whole makes an ELF file from program headers and parts. The offsets and sizes of the parts that have bytes follow from them.
func whole(progs []elf.Prog64, parts ...part) []byte {
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_AARCH64), Phoff: 64, Phnum: uint16(len(progs)), Phentsize: 56, Shnum: uint16(len(parts)), Shentsize: 64}
	h.Shoff = 64 + 56*uint64(len(progs))
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	at := h.Shoff + 64*uint64(len(parts))
	var heads []elf.Section64
	var content []byte
	for _, p := range parts {
		if p.data != nil {
			p.Off, p.Size = at+uint64(len(content)), uint64(len(p.data))
			content = append(content, p.data...)
		}
		heads = append(heads, p.Section64)
	}
	return append(le(h, progs, heads), content...)
}

func le(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

func sections(t elf.SectionType, link uint32, data []byte) part {
	return part{elf.Section64{Type: uint32(t), Link: link}, data}
}

func note(name string, typ uint32, id string) []byte {
	return append(le(uint32(len(name)), uint32(len(id)), typ), name+id...)
}

// sample is a file with each kind of table.
func sample() []byte {
	names := []byte("\x00first\x00libx.so\x00liby.so\x00")
	symbols := le(elf.Sym64{}, elf.Sym64{Name: 1, Info: 0x12, Other: 3, Shndx: 4, Value: 0x1122334455667788, Size: 0x99}, elf.Sym64{Name: 7, Info: 0x11},
		elf.Sym64{Name: 500, Info: 0x10, Shndx: 1})
	dynamic := le(uint64(elf.DT_NEEDED), uint64(7), uint64(elf.DT_SONAME), uint64(1), uint64(elf.DT_NEEDED), uint64(99), uint64(elf.DT_NEEDED), uint64(15))
	rela := le(uint64(0x40), uint64(1)<<32|8, uint64(7), uint64(0x48), uint64(2)<<32|8, uint64(0))
	progs := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: 4, Vaddr: 0x1000, Filesz: 0x20},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: 0, Vaddr: 0x2000, Filesz: 0x20},
		{Type: uint32(elf.PT_INTERP), Off: 0},
	}
	b := whole(progs, part{}, sections(elf.SHT_DYNSYM, 2, symbols), sections(elf.SHT_STRTAB, 0, names), sections(elf.SHT_DYNAMIC, 2, dynamic),
		sections(elf.SHT_RELA, 1, rela[:24]), part{elf.Section64{Type: uint32(elf.SHT_RELA), Off: 1 << 40, Size: 24}, nil}, sections(elf.SHT_RELA, 1, rela[24:]),
		sections(elf.SHT_PROGBITS, 0, note("GNU\x00", 3, "\x07")), sections(elf.SHT_NOTE, 0, append(le(uint32(4), uint32(20), uint32(3)), "GNU\x00\x08"...)),
		sections(elf.SHT_NOTE, 0, note("abc\x00", 3, "\x01")), sections(elf.SHT_NOTE, 0, note("GNU\x00", 1, "\x02")),
		sections(elf.SHT_NOTE, 0, note("GNU\x00", 3, "\xab\x00\xcd")), sections(elf.SHT_NOTE, 0, note("GNU\x00", 3, "\xef")), sections(elf.SHT_PROGBITS, 0, []byte("/lib/loader\x00\x00")))
	at := uint64(bytes.Index(b, []byte("/lib/loader")))
	binary.LittleEndian.PutUint64(b[64+2*56+8:], at)
	binary.LittleEndian.PutUint64(b[64+2*56+32:], 13)
	return b
}

func TestSymbolsStringsAndCodeAreRead(t *testing.T) {
	b := sample()
	f, err := New(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var got []Symbol
	var numbers []int
	all, err := f.Symbols(elf.SHT_DYNSYM)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		numbers, got = append(numbers, i), append(got, Symbol{s.Sym64, slices.Clone(s.Name)})
	}
	want := []Symbol{{elf.Sym64{Name: 1, Info: 0x12, Other: 3, Shndx: 4, Value: 0x1122334455667788, Size: 0x99}, []byte("first")}, {elf.Sym64{Name: 7, Info: 0x11}, []byte("libx.so")},
		{elf.Sym64{Name: 500, Info: 0x10, Shndx: 1}, nil}}
	if !reflect.DeepEqual(got, want) || !slices.Equal(numbers, []int{1, 2, 3}) {
		t.Errorf("symbols %v %+v", numbers, got)
	}
	if !got[0].Defined() || got[1].Defined() || got[0].Kind() != elf.STT_FUNC || got[1].Kind() != elf.STT_OBJECT {
		t.Errorf("symbols %+v", got)
	}
	if !f.Exports("first") || f.Exports("libx.so") || f.Exports("none") {
		t.Error("exports the wrong symbols")
	}
	if all, err := f.Symbols(elf.SHT_SYMTAB); err != nil {
		t.Error(err)
	} else {
		for range all {
			t.Error("a symbol of a table that the file lacks")
		}
	}
	if got := f.Strings(elf.DT_NEEDED); !slices.Equal(got, []string{"libx.so", "liby.so"}) {
		t.Errorf("needed: %q", got)
	}
	if got := f.Strings(elf.DT_SONAME); !slices.Equal(got, []string{"first"}) {
		t.Errorf("name: %q", got)
	}
	if got := slices.Collect(f.Relocations()); !slices.Equal(got, []Relocation{{0x40, 1}, {0x48, 2}}) {
		t.Errorf("relocations %v", got)
	}
	if f.BuildID() != "ab00cd" || f.Interpreter() != "/lib/loader" || f.Machine != elf.EM_AARCH64 || f.Type != elf.ET_DYN || f.Class != elf.ELFCLASS64 {
		t.Errorf("%q, %q, %v, %v, %v", f.BuildID(), f.Interpreter(), f.Machine, f.Type, f.Class)
	}
	for addr, want := range map[uint64]string{0x1000: string(b[4:12]), 0x1004: string(b[8:16]), 0x101f: string(b[35:36]), 0xfff: "", 0x1020: "", 0x2000: ""} {
		at, code, err := f.Code(addr, 8)
		if string(code) != want || (err == nil) != (want != "") || err == nil && at != addr-0x1000+4 {
			t.Errorf("code at %#x: %x at %d, %v", addr, code, at, err)
		}
		ends := [2]uint64{addr, addr}
		if want != "" {
			ends = [2]uint64{0x1000, 0x1020}
		}
		if from, to := f.CodeAround(addr); from != ends[0] || to != ends[1] {
			t.Errorf("the code around %#x is from %#x to %#x", addr, from, to)
		}
	}
}

// A cut file has an error for a table that is cut, and no part of the table.
func TestCutFile(t *testing.T) {
	b := sample()
	end := func(of string) int { return bytes.Index(b, []byte(of)) + len(of) }
	symbols, relocations := end("liby.so\x00"), end("\x48\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	heads := 64 + 3*56 + 14*64
	for n := range b {
		f, err := New(bytes.NewReader(b[:n]))
		if (err == nil) != (n >= heads) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err != nil {
			continue
		}
		if _, err := f.Symbols(elf.SHT_DYNSYM); (err == nil) != (n >= symbols) || f.Exports("first") != (n >= symbols) {
			t.Errorf("%d bytes: symbols %v", n, err)
		}
		if got := len(slices.Collect(f.Relocations())); got == 2 != (n >= relocations) {
			t.Errorf("%d bytes: %d relocations", n, got)
		}
		if got := f.BuildID(); got != "" && got != "ab00cd" || (got != "") != (n >= end("GNU\x00\xab\x00\xcd")) {
			t.Errorf("%d bytes: build id %q", n, got)
		}
		if got := f.Interpreter(); (got != "") != (n == len(b)) && n < len(b)-1 {
			t.Errorf("%d bytes: loader %q", n, got)
		}
	}
}

// Only the header is read from files of other classes and byte orders, and nothing from files that lie about their tables.
func TestOtherHeaders(t *testing.T) {
	change := func(at int, to ...byte) []byte {
		b := sample()
		copy(b[at:], to)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"no ELF file": {change(0, 'x'), "not an ELF file"}, "empty": {nil, "not an ELF file"}, "the mark only": {[]byte(elf.ELFMAG), "not an ELF file"},
		"an unknown byte order": {change(elf.EI_DATA, 3), "damaged"}, "program headers of another size": {change(54, 57), "damaged"}, "section headers of another size": {change(58, 63), "damaged"},
		"section headers after the end": {change(40, 0, 0, 0, 1), "ends within a table"}, "section headers before 0": {change(40, 0, 0, 0, 0, 0, 0, 0, 0x80), "damaged"},
	} {
		if _, err := New(bytes.NewReader(c.b)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"32 bits": change(elf.EI_CLASS, byte(elf.ELFCLASS32)), "big-endian": change(elf.EI_DATA, byte(elf.ELFDATA2MSB))} {
		f, err := New(bytes.NewReader(b))
		if err != nil || len(f.Progs) > 0 || f.BuildID() != "" || f.Exports("first") || f.Strings(elf.DT_NEEDED) != nil || (f.Machine == elf.EM_AARCH64) != (name == "32 bits") {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if f, err := New(bytes.NewReader(change(54, 0, 0, 0, 0))); err != nil || f.Interpreter() != "" {
		t.Errorf("without program headers: %v", err)
	}
	for name, at := range map[string]int{"no string table": 64 + 3*56 + 2*64 + 4, "no such section": 64 + 3*56 + 64 + 40} {
		f, err := New(bytes.NewReader(change(at, 12)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Symbols(elf.SHT_DYNSYM); err == nil || !strings.Contains(err.Error(), "without names") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failing is a file that can't be read after its headers.
type failing struct{ io.ReaderAt }

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at >= 1<<20 {
		return 0, errors.New("broken disk")
	}
	return f.ReaderAt.ReadAt(b, at)
}

// Code may begin at the file's first byte. No place before it, and no failure of the disk, is code.
func TestPlacesOfCode(t *testing.T) {
	code := func(vaddr, off uint64) elf.Prog64 {
		return elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X), Off: off, Vaddr: vaddr, Filesz: 16}
	}
	b := whole([]elf.Prog64{code(0x1000, 0), code(0x2000, 1<<63), code(0x3000, 1<<20)})
	f, err := New(failing{bytes.NewReader(b)})
	if err != nil {
		t.Fatal(err)
	}
	if at, got, err := f.Code(0x1000, 4); at != 0 || string(got) != elf.ELFMAG || err != nil {
		t.Errorf("%d, %q, %v", at, got, err)
	}
	for addr, want := range map[uint64]string{0x2000: "damaged", 0x3000: "broken disk", 0x4000: "address 0x4000 is in no code"} {
		if _, got, err := f.Code(addr, 4); err == nil || !strings.Contains(err.Error(), want) || len(got) > 0 {
			t.Errorf("%#x: %q, %v", addr, got, err)
		}
	}
}

// A table may be empty, begin at the file's first byte, and be as large as its limit.
func TestTablesUpToTheirLimit(t *testing.T) {
	r := strings.NewReader("0123456789")
	for _, c := range []struct {
		at, n, limit uint64
		want         string
	}{{0, 10, 10, "0123456789"}, {0, 0, 5, ""}, {9, 1, 1, "9"}, {0, 10, 9, "damaged"}, {1, 10, 10, "damaged"}, {1 << 63, 1, 1, "damaged"}, {1<<63 - 1, 1, 1, "damaged"}} {
		b, err := read(r, c.at, c.n, c.limit)
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && string(b) != c.want || (err != nil) != (c.want == "damaged") {
			t.Errorf("%+v: %q, %v", c, b, err)
		}
	}
}

func TestBuildIDOfPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(path, sample(), 0o600); err != nil {
		t.Fatal(err)
	}
	if id := BuildID(path); id != "ab00cd" {
		t.Error(id)
	}
	if id := BuildID(path + ".gone"); id != "" {
		t.Error(id)
	}
}
