package testenv

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

// KernelBinary returns an ELF file that names kernels, the last with a tiling key in its metadata. operators is the content of the section that
// declares operators' argument blocks; nil for none.
func KernelBinary(entry uint64, operators []byte, names ...string) []byte {
	le := binary.LittleEndian
	strtab, symtab := []byte{0}, make([]byte, 24)
	for _, n := range names {
		sym := make([]byte, 24)
		le.PutUint32(sym, uint32(len(strtab)))
		sym[4] = byte(elf.STB_GLOBAL)<<4 | byte(elf.STT_FUNC)
		le.PutUint16(sym[6:], 1)
		symtab = append(symtab, sym...)
		strtab = append(append(strtab, n...), 0)
	}
	meta := []byte{1, 0, 4, 0, 1, 0, 0, 0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	le.PutUint64(meta[12:], entry)
	type section struct {
		name       string
		typ        elf.SectionType
		data       []byte
		link, size uint32
	}
	sections := []section{
		{},
		{".text", elf.SHT_PROGBITS, make([]byte, 16), 0, 0},
		{".symtab", elf.SHT_SYMTAB, symtab, 3, 24},
		{".strtab", elf.SHT_STRTAB, strtab, 0, 0},
		{".ascend.meta." + names[len(names)-1], elf.SHT_PROGBITS, meta, 0, 0},
		{".shstrtab", elf.SHT_STRTAB, nil, 0, 0},
	}
	if operators != nil {
		sections = slices.Insert(sections, 5, section{".aclsim.operators", elf.SHT_PROGBITS, operators, 0, 0})
	}
	last := len(sections) - 1
	var shstr []byte
	offs := make([]int, len(sections))
	for i, s := range sections {
		offs[i] = len(shstr)
		shstr = append(append(shstr, s.name...), 0)
	}
	sections[last].data = shstr
	file := make([]byte, 64)
	copy(file, "\x7fELF\x02\x01\x01")
	le.PutUint16(file[16:], uint16(elf.ET_REL))
	le.PutUint16(file[18:], uint16(elf.EM_AARCH64))
	le.PutUint32(file[20:], 1)
	var headers []byte
	for i, s := range sections {
		h := make([]byte, 64)
		le.PutUint32(h, uint32(offs[i]))
		le.PutUint32(h[4:], uint32(s.typ))
		le.PutUint64(h[24:], uint64(len(file)))
		le.PutUint64(h[32:], uint64(len(s.data)))
		le.PutUint32(h[40:], s.link)
		le.PutUint64(h[48:], 1)
		le.PutUint64(h[56:], uint64(s.size))
		headers = append(headers, h...)
		file = append(file, s.data...)
	}
	le.PutUint64(file[40:], uint64(len(file)))
	le.PutUint16(file[52:], 64)
	le.PutUint16(file[58:], 64)
	le.PutUint16(file[60:], uint16(len(sections)))
	le.PutUint16(file[62:], uint16(last))
	return append(file, headers...)
}
