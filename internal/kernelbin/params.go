package kernelbin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// MaxUnpacked limits the bytes of a decompressed entry.
const MaxUnpacked = 256 << 20

const emCUDA = 190

// Params returns the parameter sizes in bytes of each kernel in a binary, by kernel name. It reads PTX, cubins, fat binaries
// with both, and the ELF files that Parse reads. Kernels with a parameter of unknown size are left out.
func Params(image []byte) map[string][]uint32 {
	ps := params{}
	ps.read(image)
	return ps
}

type params map[string][]uint32

func (ps params) read(b []byte) {
	switch {
	case bytes.HasPrefix(b, []byte{0x50, 0xed, 0x55, 0xba}):
		ps.fat(b)
	case bytes.HasPrefix(b, []byte(elf.ELFMAG)):
		ps.elf(b)
	default:
		ps.ptx(&ptx{text: b})
	}
}

// fat reads a fat binary. Its entries have the same kernels for several devices, so the first readable one is enough.
func (ps params) fat(b []byte) {
	const (
		asPTX, asCubin   = 1, 2
		packed, packed2  = 0x2000, 0x8000
		header, ofEntry  = 16, 64
		atFlags, atWhole = 40, 56
	)
	le := binary.LittleEndian
	if len(b) < header {
		return
	}
	begin, size := uint64(le.Uint16(b[6:])), le.Uint64(b[8:])
	if begin < header || begin > uint64(len(b)) || size > uint64(len(b))-begin {
		return
	}
	for b = b[begin:][:size]; len(b) >= ofEntry && len(ps) == 0; {
		kind, head, n := le.Uint16(b), uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
		if head < ofEntry || head > uint64(len(b)) || n > uint64(len(b))-head {
			return
		}
		body, flags, whole := b[head:][:n], le.Uint64(b[atFlags:]), le.Uint64(b[atWhole:])
		if flags&(packed|packed2) != 0 {
			// Padding up to the last word follows the block.
			body = unpack(body[:min(uint64(le.Uint32(b[16:])), n)], whole, flags&packed2 != 0)
		}
		if kind == asPTX || kind == asCubin {
			ps.read(body)
		}
		b = b[head+n:]
	}
}

// unpack decompresses a block, and returns nil unless the result has the given size.
func unpack(b []byte, size uint64, asZstd bool) []byte {
	if size == 0 || size > MaxUnpacked {
		return nil
	}
	if asZstd {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxUnpacked), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil
		}
		defer d.Close()
		to, err := d.DecodeAll(b, nil)
		if err != nil || uint64(len(to)) != size {
			return nil
		}
		return to
	}
	to := make([]byte, size)
	if n, err := lz4.UncompressBlock(b, to); err != nil || uint64(n) != size {
		return nil
	}
	return to
}

// elf reads an ELF file. Files for the GPU are read here, because debug/elf rejects some.
func (ps params) elf(b []byte) {
	const head, row, noBits = 64, 64, 8
	le := binary.LittleEndian
	if len(b) < head || elf.Class(b[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return
	}
	if le.Uint16(b[18:]) != emCUDA {
		ps.ascend(b)
		return
	}
	at, size, n, names := le.Uint64(b[40:]), uint64(le.Uint16(b[58:])), uint64(le.Uint16(b[60:])), uint64(le.Uint16(b[62:]))
	if size < row || at > uint64(len(b)) || (uint64(len(b))-at)/size < n || names >= n {
		return
	}
	content := func(i uint64) []byte {
		h := b[at+i*size:]
		off, size := le.Uint64(h[24:]), le.Uint64(h[32:])
		if le.Uint32(h[4:]) == noBits || off > uint64(len(b)) || size > uint64(len(b))-off {
			return nil
		}
		return b[off:][:size]
	}
	texts := content(names)
	for i := range n {
		name := uint64(le.Uint32(b[at+i*size:]))
		if name >= uint64(len(texts)) {
			continue
		}
		text, _, ended := bytes.Cut(texts[name:], []byte{0})
		kernel, ok := bytes.CutPrefix(text, []byte(".nv.info."))
		if !ok || !ended || len(kernel) == 0 {
			continue
		}
		if sizes, ok := infoParams(content(i)); ok {
			ps[string(kernel)] = sizes
		}
	}
}

// ascend reads the arguments from the metadata for tools: pointers, and values of known size.
func (ps params) ascend(b []byte) {
	f, err := Parse(b)
	if err != nil {
		return
	}
kernels:
	for name, args := range f.Args {
		var sizes []uint32
		for _, a := range args {
			switch {
			case a.Level > 0:
				sizes = append(sizes, 8)
			case a.Size > 0 && a.Size <= 1<<16:
				sizes = append(sizes, uint32(a.Size))
			default:
				continue kernels
			}
		}
		ps[name] = sizes
	}
}

// infoParams reads a cubin's records about one kernel: {format, attribute, size or value}. Two attributes describe a
// parameter.
func infoParams(d []byte) ([]uint32, bool) {
	const sized, param, largeParam, record = 4, 0x17, 0x45, 12
	le := binary.LittleEndian
	at := map[int]uint32{}
	for len(d) >= 4 {
		format, attribute, n := d[0], d[1], int(le.Uint16(d[2:]))
		if d = d[4:]; format != sized {
			continue
		}
		if n > len(d) {
			return nil, false
		}
		r := d[:n]
		if d = d[n:]; n < record || attribute != param && attribute != largeParam {
			continue
		}
		ordinal, size := int(le.Uint16(r[4:])), uint32(le.Uint16(r[8:]))
		if attribute == param {
			size = uint32(le.Uint16(r[10:])) >> 2 // the low two bits have another meaning
		}
		if size == 0 || at[ordinal] != 0 {
			return nil, false
		}
		at[ordinal] = size
	}
	sizes := make([]uint32, len(at))
	for i := range sizes {
		if sizes[i] = at[i]; sizes[i] == 0 {
			return nil, false
		}
	}
	return sizes, true
}

// ptx scans PTX text word by word.
type ptx struct {
	text []byte
	at   int
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '%' || c == '.'
}

// skip skips blanks, comments and strings.
func (p *ptx) skip() {
	for t := p.text; p.at < len(t); {
		switch c := t[p.at]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			p.at++
		case c == '/' && p.at+1 < len(t) && t[p.at+1] == '/':
			p.to("\n")
		case c == '/' && p.at+1 < len(t) && t[p.at+1] == '*':
			p.at += 2
			p.to("*/")
		case c == '"':
			for p.at++; p.at < len(t) && t[p.at] != '"'; p.at++ {
				if t[p.at] == '\\' {
					p.at++
				}
			}
			p.at = min(p.at+1, len(t))
		default:
			return
		}
	}
}

// to moves past the next occurrence of a text.
func (p *ptx) to(end string) {
	if i := bytes.Index(p.text[p.at:], []byte(end)); i >= 0 {
		p.at += i + len(end)
	} else {
		p.at = len(p.text)
	}
}

// word returns the next name, directive, number or other character, "" at the end.
func (p *ptx) word() string {
	p.skip()
	if p.at >= len(p.text) || p.text[p.at] == 0 {
		p.at = len(p.text)
		return ""
	}
	begin := p.at
	for p.at++; isWord(p.text[begin]) && p.at < len(p.text) && isWord(p.text[p.at]) && p.text[p.at] != '.'; p.at++ {
	}
	return string(p.text[begin:p.at])
}

// kernel moves past the next directive that begins a kernel.
func (p *ptx) kernel() bool {
	directive := []byte(".entry")
	for {
		i := bytes.Index(p.text[p.at:], directive)
		if i < 0 || bytes.IndexByte(p.text[p.at:][:i], 0) >= 0 {
			return false
		}
		before := p.text[p.at:][:i]
		line := before[bytes.LastIndexByte(before, '\n')+1:]
		if !bytes.Contains(before, []byte("/*")) && !bytes.ContainsAny(line, `/"`) {
			p.at += i
		} else {
			// It may be part of a comment or a string.
			for end := p.at + i; p.at < end; {
				if p.skip(); p.at < end {
					p.word()
				}
			}
		}
		if p.word() == string(directive) {
			return true
		}
	}
}

func (ps params) ptx(p *ptx) {
	for p.kernel() {
		name := p.word()
		known := name != ""
		sizes := []uint32{}
		before := p.at
		if p.word() != "(" {
			p.at = before // a kernel without parameters
		} else if before = p.at; p.word() != ")" {
			p.at = before
			for more := true; more; {
				var size uint32
				size, more = p.param()
				known = known && size != 0
				sizes = append(sizes, size)
			}
		}
		if known {
			ps[name] = sizes
		}
	}
}

// param reads one parameter. It returns the size, 0 if unknown, and whether more parameters follow.
func (p *ptx) param() (size uint32, more bool) {
	unit, count := uint64(0), uint64(1)
	for {
		w := p.word()
		switch {
		case w == "," || w == ")" || w == "":
			if n := unit * count; n <= 1<<16-1 {
				size = uint32(n)
			}
			return size, w == ","
		case w == "[":
			count *= number(p.word())
		case w == ".align":
			p.word()
		case w == ".v2":
			count *= 2
		case w == ".v4":
			count *= 4
		case w[0] == '.' && typeSize(w) != 0:
			unit = typeSize(w)
		}
		if count > 1<<16-1 {
			count = 0
		}
	}
}

// number reads a number. It returns 0 for other text and for numbers larger than any parameter.
func number(s string) uint64 {
	n, err := strconv.ParseUint(strings.TrimRight(s, "uU"), 0, 16)
	if err != nil || strings.Contains(s, "_") {
		return 0
	}
	return n
}

// typeSize returns the bytes of a type such as .u32, .b8, .bf16 or .f16x2, 0 for other text.
func typeSize(s string) uint64 {
	s = s[1:]
	bits := strings.TrimLeft(s, "usbf")
	if bits == s || bits == "" {
		return 0
	}
	bits, times, several := strings.Cut(bits, "x")
	n, m := number(bits)/8, uint64(1)
	if several {
		m = number(times)
	}
	if n > 16 || m > 4 {
		return 0
	}
	return n * m
}
