package shimtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/pierrec/lz4/v4"
)

// paramsReader is a program with the shim's reader of GPU binaries. It lists kernels and their parameter sizes.
type paramsReader struct {
	in  io.Writer
	out *bufio.Reader
	err *bytes.Buffer
}

func newParamsReader(t testing.TB) *paramsReader {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	bin := filepath.Join(t.TempDir(), "params")
	if out, err := exec.Command(cc, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined,address", "-fno-sanitize-recover", "-I../shim",
		"-o", bin, "testdata/params_main.c", "../shim/cuda/params.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := &paramsReader{err: &bytes.Buffer{}}
	c := exec.Command(bin)
	c.Stderr = p.err
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		c.Wait()
	})
	return p
}

func (p *paramsReader) of(t testing.TB, image []byte) []string {
	t.Helper()
	if _, err := p.in.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(image))), image...)); err != nil {
		t.Fatalf("%v\n%s", err, p.err)
	}
	var kernels []string
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v for %q\n%s", err, image, p.err)
		}
		if line == "\n" {
			return kernels
		}
		kernels = append(kernels, strings.TrimSuffix(line, "\n"))
	}
}

// kernelsPTX is as compilers write it, with what PTX allows besides.
const kernelsPTX = `//
// .entry none(.param .u32 x) is a comment
//
.version 7.8
.target sm_80, texmode_independent
.address_size 64
.file	1 ".entry \"neither"
.extern .func  (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1) ;
.visible .global .align 4 .u32 counter;
.visible .func  (.param .b32 func_retval0) helper(.param .b64 helper_param_0)
{
	ret;
}
	// .globl	_Z3addPKfS0_Pfi
.visible .entry _Z3addPKfS0_Pfi(
	.param .u64 _Z3addPKfS0_Pfi_param_0,
	.param .u64 .ptr .global .align 16 _Z3addPKfS0_Pfi_param_1,
	.param .u64 _Z3addPKfS0_Pfi_param_2, /* , .entry ( */
	.param .u32 _Z3addPKfS0_Pfi_param_3
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<2>;
	mov.u32 	%r2, %ctaid.x;
	ret;
}
.weak .entry structs(.param .align 8 .b8 structs_param_0[24], .param .align 64 .b8 map[0x80], .param .u8 small,.param .f16 half, .param .b128 wide)
{ ret; }
.entry pairs(.param .v4 .f32 quad, .param .f16x2 two, .param .bf16 brain, .param .s16 s, .param .align 2 .b16 a[3])
{ ret; }
.visible .entry nothing()
{ ret; }
.visible .entry bare
{ ret; }
.visible .entry opaque(.param .texref t, .param .u32 n)
{ ret; }
.visible .entry last(.param .f64 x)
{ ret; }
`

var kernelsWant = []string{"_Z3addPKfS0_Pfi 8 8 8 4", "structs 24 128 1 2 16", "pairs 16 4 2 2 6", "nothing", "bare", "last 8"}

// param returns a cubin record for a parameter.
func param(large bool, ordinal, offset, size uint16) []byte {
	if large {
		return binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(
			[]byte{4, 0x45, 12, 0, 0, 0, 0, 0}, ordinal), offset), size), 0x0500)
	}
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(
		[]byte{4, 0x17, 12, 0, 0, 0, 0, 0}, ordinal), offset), uint32(size)<<18|0x1f000)
}

// cubin returns an ELF file with these sections. The section names come first.
func cubin(sections ...string) []byte {
	names := []byte{0}
	type section struct{ name, offset, size int }
	var rows []section
	body := make([]byte, 64)
	for i := 0; i < len(sections); i += 2 {
		rows = append(rows, section{len(names), len(body), len(sections[i+1])})
		names = append(append(names, sections[i]...), 0)
		body = append(body, sections[i+1]...)
	}
	rows = append(rows, section{0, len(body), len(names)})
	body = append(body, names...)
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	le := binary.LittleEndian
	copy(body, "\x7fELF\x02\x01\x01\x33")
	le.PutUint16(body[18:], 190) // EM_CUDA
	le.PutUint64(body[40:], uint64(len(body)))
	le.PutUint16(body[52:], 64)
	le.PutUint16(body[58:], 64)
	le.PutUint16(body[60:], uint16(len(rows)))
	le.PutUint16(body[62:], uint16(len(rows)-1))
	for _, r := range rows {
		h := make([]byte, 64)
		le.PutUint32(h, uint32(r.name))
		le.PutUint32(h[4:], 1)
		le.PutUint64(h[24:], uint64(r.offset))
		le.PutUint64(h[32:], uint64(r.size))
		body = append(body, h...)
	}
	return body
}

type fatEntry struct {
	kind  uint16
	flags uint64
	body  []byte
	raw   int // length before packing
}

func fat(entries ...fatEntry) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, e := range entries {
		h := make([]byte, 64)
		padded := (len(e.body) + 7) &^ 7
		le.PutUint16(h, e.kind)
		le.PutUint16(h[2:], 0x0101)
		le.PutUint32(h[4:], 64)
		le.PutUint64(h[8:], uint64(padded))
		le.PutUint64(h[40:], e.flags)
		if e.raw > 0 {
			le.PutUint32(h[16:], uint32(len(e.body)))
			le.PutUint64(h[56:], uint64(e.raw))
		}
		body = append(append(append(body, h...), e.body...), make([]byte, padded-len(e.body))...)
	}
	h := make([]byte, 16)
	le.PutUint32(h, 0xba55ed50)
	le.PutUint16(h[4:], 1)
	le.PutUint16(h[6:], 16)
	le.PutUint64(h[8:], uint64(len(body)))
	return append(h, body...)
}

func packed(t testing.TB, kind uint16, raw []byte) fatEntry {
	t.Helper()
	to := make([]byte, lz4.CompressBlockBound(len(raw)))
	n, err := lz4.CompressBlock(raw, to, nil)
	if err != nil || n == 0 || n >= len(raw) {
		t.Fatalf("packing: %d of %d bytes, %v", n, len(raw), err)
	}
	return fatEntry{kind, 0x2000 | 0x11, to[:n], len(raw)}
}

func paramsImages(t testing.TB) map[string]struct {
	image []byte
	want  []string
} {
	// Parameters in reverse order, among other records; a device function; kernels with too many parameters and with a gap.
	small := string(slices.Concat([]byte{4, 0x0a, 8, 0, 9, 0, 0, 0, 0x60, 1, 0x1c, 0}, []byte{3, 0x19, 0x1c, 0}, param(false, 3, 24, 4), param(false, 2, 16, 8),
		param(false, 1, 8, 8), param(false, 0, 0, 8), []byte{1, 0x2a, 0, 0}, []byte{3, 0x1b, 0xff, 0}))
	large := string(slices.Concat(param(true, 0, 0, 32000), param(true, 1, 32000, 8)))
	many := ""
	for i := range uint16(23*16 + 1) {
		many += string(param(false, i, 8*i, 8))
	}
	elf := cubin(".nv.info", string([]byte{4, 0x2f, 8, 0, 1, 0, 0, 0, 8, 0, 0, 0}), ".nv.info._Z3addPKfS0_Pfi", small, ".text._Z3addPKfS0_Pfi", "\x00\x01", ".nv.info.big", large,
		".nv.info.many", many, ".nv.info.hole", string(param(false, 1, 8, 8)), ".nv.info.nothing", string([]byte{3, 0x1b, 0xff, 0}))
	fromELF := []string{"_Z3addPKfS0_Pfi 8 8 8 4", "big 32000 8", "nothing"}
	ptx := []byte(kernelsPTX)
	zstd := fatEntry{2, 0x8011, []byte("\x28\xb5\x2f\xfd not looked into"), 100}
	return map[string]struct {
		image []byte
		want  []string
	}{
		"PTX":                         {append(ptx, 0), kernelsWant},
		"PTX without an end":          {ptx, kernelsWant},
		"a cubin":                     {elf, fromELF},
		"fat, PTX":                    {fat(fatEntry{1, 0x11, ptx, 0}), kernelsWant},
		"fat, packed PTX":             {fat(packed(t, 1, append(ptx, 0))), kernelsWant},
		"fat, packed cubin":           {fat(packed(t, 2, elf), packed(t, 1, ptx)), fromELF},
		"fat, one that is not read":   {fat(zstd, fatEntry{8, 0, []byte("source"), 0}, fatEntry{2, 0x11, elf, 0}), fromELF},
		"fat, none that can be read":  {fat(zstd), nil},
		"fat, without entries":        {fat(), nil},
		"text that is something else": {[]byte("hello"), nil},
		"nothing":                     {nil, nil},
	}
}

func TestParameterSizesMatchTheGoReader(t *testing.T) {
	p := newParamsReader(t)
	for name, c := range paramsImages(t) {
		if got := p.of(t, c.image); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		// The Go reader returns the same. It also reads kernels with more parameters.
		var own []string
		for kernel, sizes := range kernelbin.Params(c.image) {
			if kernel != "many" {
				own = append(own, strings.TrimSpace(kernel+" "+strings.Trim(fmt.Sprint(sizes), "[]")))
			}
		}
		slices.Sort(own)
		if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(own, want) {
			t.Errorf("%s: in Go %q, want %q", name, own, want)
		}
	}

	// Wrong bytes and cut files do no harm. The sanitizers end the reader if they do.
	n := 0
	for _, c := range paramsImages(t) {
		b := c.image
		for i := range b {
			was := b[i]
			for _, v := range []byte{0, 1, 0x7f, 0xff, was + 1, was ^ 0x80} {
				b[i] = v
				p.of(t, b)
				n++
			}
			b[i] = was
			p.of(t, b[:i])
		}
	}
	if n < 10000 {
		t.Errorf("%d binaries with a wrong byte", n)
	}
}

// The sizes of a kernel are queried once, and again after functions have ended. Concurrent readers never see a mixture.
func TestSizesAreQueriedOnce(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	bin := filepath.Join(t.TempDir(), "sizes")
	if out, err := exec.Command(cc, "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "-I../shim",
		"-o", bin, "testdata/sizes_main.c", "../shim/task/sizes.c", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin).CombinedOutput()
	const want = "first: asked 5, recorded 4\nagain: asked 0, recorded 8\nafter an end: asked 5, recorded 8\n" +
		"in two lines: asked 26, recorded 48\nwithout arguments: asked 0, recorded 0\nfull\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

func FuzzParams(f *testing.F) {
	for _, c := range paramsImages(f) {
		f.Add(c.image)
	}
	p := newParamsReader(f)
	f.Fuzz(func(t *testing.T, image []byte) { p.of(t, image) })
}
