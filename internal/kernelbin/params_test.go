package kernelbin_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/klauspost/compress/zstd"
)

const text = `// .entry none(.param .u32 x)
.version 8.1
.visible .entry first(.param .u64 a, .param .align 8 .b8 b[24]) { ret; }
.visible .entry second() { ret; }
`

var want = map[string][]uint32{"first": {8, 24}, "second": {}}

// fat makes a fat binary with one compressed text.
func fat(kind uint16, body []byte, flags, whole uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 16+64)
	le.PutUint32(b, 0xba55ed50)
	le.PutUint16(b[4:], 1)
	le.PutUint16(b[6:], 16)
	e := b[16:]
	le.PutUint16(e, kind)
	le.PutUint32(e[4:], 64)
	le.PutUint64(e[8:], uint64(len(body)))
	le.PutUint32(e[16:], uint32(len(body)))
	le.PutUint64(e[40:], flags)
	le.PutUint64(e[56:], whole)
	le.PutUint64(b[8:], uint64(64+len(body)))
	return append(b, body...)
}

func TestParametersInTextAndFatBinaries(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := z.EncodeAll([]byte(text), nil)
	for name, b := range map[string][]byte{
		"text": []byte(text), "text with its end": []byte(text + "\x00.entry third(.param .u8 c) {}"), "fat": fat(1, []byte(text), 0, 0),
		"fat, zstd": fat(1, packed, 0x8000, uint64(len(text))),
	} {
		if got := kernelbin.Params(b); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, b := range map[string][]byte{
		"fat, zstd of another size": fat(1, packed, 0x8000, uint64(len(text))+1), "fat, zstd of a size that is none": fat(1, packed, 0x8000, 1<<60),
		"fat, zstd, cut": fat(1, packed[:len(packed)/2], 0x8000, uint64(len(text))), "fat, of another kind": fat(8, []byte(text), 0, 0),
	} {
		if got := kernelbin.Params(b); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzParams(f *testing.F) {
	f.Add([]byte(text))
	f.Add(fat(1, []byte(text), 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) { kernelbin.Params(b) })
}

func BenchmarkParams(b *testing.B) {
	var s strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&s, ".visible .entry k%d(.param .u64 a, .param .u32 b)\n{\n\t.reg .pred %%p<2>;\n", i)
		for range 100 {
			s.WriteString("\tmad.lo.s32 \t%r1, %r3, %r2, %r4;\n\tld.global.f32 \t%f1, [%rd6+128];\n")
		}
		s.WriteString("\tret;\n}\n")
	}
	image := []byte(s.String())
	b.SetBytes(int64(len(image)))
	for b.Loop() {
		kernelbin.Params(image)
	}
}
