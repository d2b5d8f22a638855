package opinfo

import (
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestHash(t *testing.T) {
	for text, want := range map[string]uint64{"Add": 0x0000e141001138d9, "MatMulV2": 0x4199db10b0a3c2d8, "aclnnAdd_AddAiCore_Add": 0xe2c6b77c62d4313e, "": 0} {
		if h := Hash(text); h != want {
			t.Errorf("%q: %#x, want %#x", text, h, want)
		}
	}
}

// describe writes a description in one of the layouts.
func describe(older bool, node, kind string, tensors ...[11]uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32(nil, 4), 1<<16|24)
	b = le.AppendUint64(le.AppendUint64(b, Hash(node)), Hash(kind))
	if !older {
		b = append(le.AppendUint64(b, 7), make([]byte, 8)...)
	}
	b = le.AppendUint32(le.AppendUint32(b, 1), uint32(len(tensors)))
	for _, t := range tensors {
		for _, v := range t {
			b = le.AppendUint32(b, v)
		}
	}
	return b
}

var (
	in      = [11]uint32{0, 2, 1, 2, 3}
	full    = [11]uint32{0, 29 | 5<<8, 27, 1, 2, 3, 4, 5, 6, 7, 8}
	missing = [11]uint32{0, 42, 28}
	strange = [11]uint32{7, 200, 99, 0, 4}
	out     = [11]uint32{1, 2, 1, 2, 3}
)

func TestBothLayouts(t *testing.T) {
	for _, older := range []bool{true, false} {
		b := describe(older, "aclnnAdd_AddAiCore_Add", "Add", in, full, missing, strange, out)
		x, ok := Decode(b)
		if !ok || older != (x.Attributes == 0) {
			t.Fatalf("%t %+v", ok, x)
		}
		const want = "aclnnAdd_AddAiCore_Add, mixed, cube, 24 blocks of 1+1 cores, HF32: float16[2,3], bfloat16[1,2,3,4,5,6,7,8]:FRACTAL_NZ, none, " +
			"out dtype 99[0,4]:format 200, out float16[2,3]"
		if got := string(x.AppendText(nil, Known())); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A description of a hostile trace has any size and any count.
func TestOtherSizesAreRefused(t *testing.T) {
	for _, older := range []bool{true, false} {
		whole := describe(older, "x", "y", in, out)
		for n := range len(whole) {
			if _, ok := Decode(whole[:n]); ok && n != olderHead { // a description without tensors
				t.Errorf("%d of %d bytes are a description", n, len(whole))
			}
		}
		count := len(whole) - 2*tensorSize - 4
		for _, n := range []uint32{0, 1, 3, 1 << 31, 1<<32 - 1} {
			b := slices.Clone(whole)
			binary.LittleEndian.PutUint32(b[count:], n)
			if _, ok := Decode(b); ok {
				t.Errorf("%d tensors of 2", n)
			}
		}
	}
}

// A trace has the names of operators that no release has.
func TestExtendedNames(t *testing.T) {
	n := Known().Extend()
	n.Add("aclnnMine")
	n.Add("MineInner")
	for node, kind := range map[string]string{"aclnnAdd_AddAiCore_Add": "Add", "aclnnMine_MineInner_Add": "Add", "aclnnAdd_MineInner_Mine": "Mine", "Mine": "Mine"} {
		if got, ok := n.Node(Hash(node), Hash(kind)); got != node || !ok {
			t.Errorf("%s is %q", node, got)
		}
	}
	if text, ok := Known().Of(Hash("MineInner")); ok {
		t.Errorf("the releases have %s", text)
	}
}

// A signature has the inputs, an arrow and the outputs.
func TestSignatures(t *testing.T) {
	for want, tensors := range map[string][][11]uint32{
		"Add(float16[2,3], none) -> float16[2,3]": {in, missing, out}, "Add()": nil, "Add() -> float16[2,3], float16[2,3]": {out, out}, "Add(float16[2,3])": {in},
	} {
		x, _ := Decode(describe(false, "aclnnAdd_AddAiCore_Add", "Add", tensors...))
		if got := string(x.AppendSignature(nil, Known())); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	x, _ := Decode(describe(true, "x", "y", slices.Repeat([][11]uint32{in}, 40)...))
	if got := string(x.AppendSignature(nil, Known())); strings.Count(got, "float16[2,3]") != shown || !strings.HasSuffix(got, ", …)") {
		t.Error(got)
	}
}

// A description that is encoded decodes to itself.
func TestEncodedDescriptionsDecode(t *testing.T) {
	x := Info{Task: 4, Blocks: 24, Slaves: 2, Node: Hash("a"), Type: Hash("b"), Attributes: 7, HF32: true, Tensors: []Tensor{
		{Format: 2, DType: 27, Dims: [8]uint32{2, 3}, Rank: 2}, {Output: true, Format: 29, DType: 1, Dims: [8]uint32{1, 2, 3, 4, 5, 6, 7, 8}, Rank: 8}, {},
	}}
	for _, x := range []Info{x, {}} {
		if got, ok := Decode(x.Encode()); !ok || !reflect.DeepEqual(got, x) {
			t.Errorf("%+v, want %+v", got, x)
		}
	}
}

// Profilers write names of data types in capitals, with a prefix or without, and some in another way.
func TestNamesOfProfilers(t *testing.T) {
	for name, want := range map[string]string{"DT_BF16": "bfloat16", "FLOAT": "float32", "DOUBLE": "float64", "INT64": "int64", "DT_FLOAT16": "float16", "BOOL": "bool", "UNDEFINED": "undefined", "HALF": ""} {
		if v, ok := DType(name); ok != (want != "") || ok && DTypeName(v) != want {
			t.Errorf("%s is %s", name, DTypeName(v))
		}
	}
	for _, name := range []string{"ND", "FRACTAL_NZ", "NC1HWC0"} {
		if v, ok := Format(name); !ok || FormatName(v) != name {
			t.Errorf("%s is %s", name, FormatName(v))
		}
	}
	if _, ok := Format("N/A"); ok {
		t.Error("N/A is a format")
	}
}

func TestNames(t *testing.T) {
	var n Names
	x, _ := Decode(describe(false, "aclnnMine_MineInner_Kernel", "Kernel"))
	text := func() string { return string(x.AppendText(nil, &n)) }
	if got := text(); got[:2] != "0x" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct{ add, want string }{
		{"Kernel", "Kernel in 0x"},
		{"aclnnMine", "Kernel in 0x"},
		{"MineInner", "aclnnMine_MineInner_Kernel, "},
	} {
		n.Add(c.add)
		if got := text(); got[:len(c.want)] != c.want {
			t.Errorf("with %s: %q, want %q", c.add, got, c.want)
		}
	}
	if text, ok := n.Of(Hash("Mine")); !ok || text != "Mine" {
		t.Error("the type of an operator's kernel is unknown")
	}
	if text, ok := Known().Of(Hash("Matmul")); !ok || text != "Matmul" {
		t.Errorf("%q", text)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(describe(true, "a", "b", in))
	f.Add(describe(false, "a", "b", full, missing))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, ok := Decode(b); ok {
			x.AppendText(nil, &Names{})
		}
	})
}
