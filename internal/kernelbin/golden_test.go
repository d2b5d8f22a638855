package kernelbin_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/pierrec/lz4/v4"
)

// A section of a binary, with its name.
type section struct {
	name string
	elf.Section64
	data []byte
}

func bytesOf(order binary.ByteOrder, values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		_ = binary.Write(&b, order, v)
	}
	return b.Bytes()
}

// binaryOf makes an ELF file. Section 0 and the names of the sections, which are last, are added.
func binaryOf(machine elf.Machine, typ elf.Type, sections ...section) []byte {
	h := elf.Header64{Type: uint16(typ), Machine: uint16(machine), Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: uint16(len(sections) + 2), Shstrndx: uint16(len(sections) + 1)}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	names := []byte{0}
	sections = append([]section{{}}, append(sections, section{Section64: elf.Section64{Type: uint32(elf.SHT_STRTAB)}})...)
	for i := range sections {
		sections[i].Name = uint32(len(names))
		names = append(append(names, sections[i].name...), 0)
	}
	sections[len(sections)-1].data = names
	var heads, content []byte
	for _, s := range sections {
		s.Off = 64 + 64*uint64(len(sections)) + uint64(len(content))
		if s.data != nil {
			s.Size = uint64(len(s.data))
		}
		heads, content = append(heads, bytesOf(binary.LittleEndian, s.Section64)...), append(content, s.data...)
	}
	return slices.Concat(bytesOf(binary.LittleEndian, h), heads, content)
}

// record is a record of metadata: type, length and value.
func record(typ uint16, value []byte) []byte {
	return append(bytesOf(binary.LittleEndian, typ, uint16(len(value))), value...)
}

// arg is an argument in the record for tools, in big-endian words.
func arg(typ uint16, words ...uint64) []byte {
	return bytesOf(binary.BigEndian, typ, uint16(len(words)), words)
}

func symbols(of ...elf.Sym64) []byte {
	return bytesOf(binary.LittleEndian, append([]elf.Sym64{{}}, of...))
}

// Kernels, their arguments and their variables are at the places that the tables say.
func TestKernelsArgumentsAndVariablesAreFound(t *testing.T) {
	const function, object = byte(elf.STT_FUNC), byte(elf.STT_OBJECT)
	names := []byte("\x00add_mix_aic\x00add_mix_aiv\x00mul_7\x00table\x00zeros\x00more\x00gone\x00large\x00")
	at := func(name string) uint32 { return uint32(bytes.Index(names, []byte("\x00"+name+"\x00")) + 1) }
	section64 := func(typ elf.SectionType, link uint32, size uint64) elf.Section64 {
		return elf.Section64{Type: uint32(typ), Link: link, Size: size}
	}
	b := binaryOf(elf.EM_AARCH64, elf.ET_REL,
		section{".text", section64(elf.SHT_PROGBITS, 0, 0), make([]byte, 40)},
		section{".data", section64(elf.SHT_PROGBITS, 0, 0), []byte("0123456789")},
		section{".bss", section64(elf.SHT_NOBITS, 0, 100), nil},
		section{".more", section64(elf.SHT_NOBITS, 0, 8), nil},
		section{".symtab", section64(elf.SHT_SYMTAB, 6, 0), symbols(
			elf.Sym64{Name: at("add_mix_aic"), Info: function, Shndx: 1, Value: 8, Size: 4}, elf.Sym64{Name: at("add_mix_aiv"), Info: function, Shndx: 1, Value: 16, Size: 5},
			elf.Sym64{Name: at("mul_7"), Info: function, Shndx: 1, Value: 24, Size: 6}, elf.Sym64{Name: at("table"), Info: object, Shndx: 2, Value: 3, Size: 7},
			elf.Sym64{Name: at("zeros"), Info: object, Shndx: 3, Value: 60, Size: 40}, elf.Sym64{Name: at("more"), Info: object, Shndx: 4, Size: 8},
			elf.Sym64{Name: at("gone"), Info: function}, elf.Sym64{Name: at("large"), Info: object, Shndx: 2, Value: 3, Size: 8})},
		section{".strtab", section64(elf.SHT_STRTAB, 0, 0), names},
		section{".ascend.meta.mul_7", section64(elf.SHT_PROGBITS, 0, 0), slices.Concat(record(14, []byte{1}), record(14, bytesOf(binary.LittleEndian, uint64(99))), record(4, slices.Concat(
			arg(5, 2|1<<16), arg(6, 1), arg(5, 1, 4), arg(5), arg(5, 7|2<<16, 0, 1), []byte{0, 5, 0, 9}, arg(5, 1, 2))), record(4, arg(5, 3)), []byte{14, 0, 9, 0})},
		section{".ascend.meta.add_mix_aic", section64(elf.SHT_PROGBITS, 0, 0), record(4, arg(5, 1, 4))},
		section{".ascend.meta.unknown", section64(elf.SHT_PROGBITS, 0, 0), record(4, arg(5, 1, 4))},
	)
	f, err := kernelbin.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	text, data, end := uint64(64+64*11), uint64(64+64*11+40), uint64(len(b)+511)/512*512
	second := (end + 100 + 511) / 512 * 512
	want := &kernelbin.File{
		Kernels:   []string{"add", "mul_7"},
		Entries:   map[uint64]string{99: "mul_7"},
		Symbols:   map[string]kernelbin.Symbol{"add_mix_aic": {Offset: text + 8, Size: 4}, "add_mix_aiv": {Offset: text + 16, Size: 5}, "mul_7": {Offset: text + 24, Size: 6}},
		Args:      map[string][]kernelbin.Arg{"add": {{Kind: 1, Size: 4}}, "mul_7": {{Kind: 2, Level: 1}, {Kind: 1, Size: 4}, {Kind: 7, Level: 2}}},
		Variables: map[string]kernelbin.Symbol{"table": {Offset: data + 3, Size: 7}, "zeros": {Offset: end + 60, Size: 40}, "more": {Offset: second, Size: 8}},
		Empty:     second + 8 - uint64(len(b)),
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
	for entry, want := range map[uint64]string{99: "mul_7", 7: "mul_7", 8: ""} {
		if got, ok := f.ByEntry(entry); got != want || ok != (want != "") {
			t.Errorf("tiling key %d is of %q", entry, got)
		}
	}
	if got := kernelbin.Params(b); !maps.EqualFunc(got, map[string][]uint32{"add": {4}, "mul_7": {8, 4, 8}}, slices.Equal) {
		t.Errorf("parameters %v", got)
	}
	for kind, want := range map[kernelbin.ArgKind]string{1: "general", 7: "tiling", 12: "shape", 8: "kind 8"} {
		if kind.String() != want {
			t.Errorf("%v, want %s", kind, want)
		}
	}
}

// attribute is a record of a cubin: a parameter with its number and size.
func attribute(kind byte, ordinal, offset, size uint16) []byte {
	if kind == 0x17 {
		size = size<<2 | 1
		return bytesOf(binary.LittleEndian, byte(4), kind, uint16(12), uint32(0), ordinal, offset, uint16(0), size)
	}
	return bytesOf(binary.LittleEndian, byte(4), kind, uint16(12), uint32(0), ordinal, offset, size, uint16(0))
}

// Parameters in a cubin are in any order among other records. A kernel with a gap, a repetition or a cut record is left out.
func TestCubinParametersInAnyOrder(t *testing.T) {
	good := slices.Concat([]byte{1, 2, 3, 4}, attribute(0x17, 1, 8, 4), bytesOf(binary.LittleEndian, byte(4), byte(9), uint16(2), uint16(5)), attribute(0x45, 2, 12, 0x9000), attribute(0x17, 0, 0, 8))
	b := binaryOf(190, elf.ET_EXEC, section{".nv.info.good", elf.Section64{Type: 1}, good}, section{".nv.info.none", elf.Section64{Type: 1}, []byte{}},
		section{".nv.info.gap", elf.Section64{Type: 1}, slices.Concat(attribute(0x17, 0, 0, 8), attribute(0x17, 2, 8, 8))},
		section{".nv.info.twice", elf.Section64{Type: 1}, slices.Concat(attribute(0x17, 0, 0, 8), attribute(0x17, 0, 8, 8))},
		section{".nv.info.empty", elf.Section64{Type: 1}, attribute(0x17, 0, 0, 0)}, section{".nv.info.cut", elf.Section64{Type: 1}, good[:len(good)-1]},
		section{".nv.info.nothing", elf.Section64{Type: uint32(elf.SHT_NOBITS), Size: 16}, nil}, section{".nv.info.", elf.Section64{Type: 1}, good}, section{".text.good", elf.Section64{Type: 1}, good})
	want := map[string][]uint32{"good": {8, 4, 0x9000}, "none": {}, "nothing": {}}
	if got := kernelbin.Params(b); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for n := range b {
		for name, got := range kernelbin.Params(b[:n]) {
			if !slices.Equal(got, want[name]) && len(got) > 0 {
				t.Fatalf("%d bytes: %s has %v", n, name, got)
			}
		}
	}
	small := slices.Clone(b)
	small[elf.EI_CLASS] = byte(elf.ELFCLASS32)
	if got := kernelbin.Params(small); len(got) > 0 {
		t.Errorf("32 bits: %v", got)
	}
}

// The first entry of a fat binary that can be read is used, whatever entries precede it.
func TestFatEntries(t *testing.T) {
	packed := make([]byte, lz4.CompressBlockBound(len(text)))
	n, err := lz4.CompressBlock([]byte(text), packed, nil)
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	padded := append(packed[:n:n], 0, 0, 0)
	lz := fat(1, padded, 0x2000, uint64(len(text)))
	binary.LittleEndian.PutUint32(lz[16+16:], uint32(n))
	join := func(of ...[]byte) []byte {
		b := slices.Clone(of[0][:16])
		for _, f := range of {
			b = append(b, f[16:]...)
		}
		binary.LittleEndian.PutUint64(b[8:], uint64(len(b)-16))
		return b
	}
	other := fat(8, []byte("other"), 0, 0)
	second := fat(1, []byte(".entry second_entry() {}"), 0, 0)
	long := slices.Clone(second)
	binary.LittleEndian.PutUint64(long[16+8:], 1<<40)
	for name, c := range map[string]struct {
		b    []byte
		want map[string][]uint32
	}{
		"lz4": {lz, want}, "after another": {join(other, lz, second), want}, "a cubin": {fat(2, binaryOf(190, elf.ET_EXEC, section{".nv.info.k", elf.Section64{Type: 1}, attribute(0x17, 0, 0, 8)}), 0, 0), map[string][]uint32{"k": {8}}},
		"lz4 of another size": {fat(1, padded, 0x2000, uint64(len(text))-1), nil}, "after one too long": {join(long, lz), nil}, "cut": {join(other, lz)[:100], nil}, "the head only": {lz[:15], nil},
	} {
		if got := kernelbin.Params(c.b); !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Sizes of parameters follow from their types, also of vectors, arrays and packed numbers. A kernel with another type is left out.
func TestPTX(t *testing.T) {
	for source, want := range map[string]map[string][]uint32{
		".entry k(.param .u8 a, .param .s16 b, .param .f32 c, .param .b64 d, .param .b128 e)": {"k": {1, 2, 4, 8, 16}},
		".entry k(.param .v2 .f32 a, .param .v4 .u16 b, .param .f16x2 c, .param .bf16 d)":     {"k": {8, 8, 4, 2}},
		".entry k(.param .u32 a[3], .param .b8 b[2][5], .param .align 16 .b8 c[0x10])":        {"k": {12, 10, 16}},
		".entry k(.param .u64 .ptr .global .align 4 a)":                                       {"k": {8}},
		".entry k(.param .b8 a[65535])":                                                       {"k": {65535}},
		".entry k(.param .b8 a[65536])":                                                       {},
		".entry k(.param .b8 a[70000][0])":                                                    {},
		".entry k(.param .b8 a[40000][2])":                                                    {},
		".entry k(.param .b8 a[1_0])":                                                         {},
		".entry k(.param .b8 a[8U])":                                                          {"k": {8}},
		".entry k(.param .texref a)":                                                          {},
		".entry k(.param .b256 a)":                                                            {},
		".entry k(.param .f16x8 a)":                                                           {},
		".entry k(.param .u32 a, .param":                                                      {},
		".entry":                                                                              {},
		".entry a .entry b(.param .u32 x){} .entry\tc\n(\n.param\n.u8\ny\n)":                  {"a": {}, "b": {4}, "c": {1}},
		"/* .entry a() */ .entry b()":                                                         {"b": {}},
		"/* .entry a() .entry b()":                                                            {},
		"// .entry a()\n.entry b(/* x */ .param // y\n .u8 z)":                                {"b": {1}},
		`.file "a\".entry x()" .entry b()`:                                                    {"b": {}},
		`.file "a.entry x()`:                                                                  {},
		".entryx a() .entry b()":                                                              {"b": {}},
		"x/y .entry b()":                                                                      {"b": {}},
	} {
		if got := kernelbin.Params([]byte(source)); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}
