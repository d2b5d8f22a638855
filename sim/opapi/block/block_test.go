package block_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

const base = 0x124000000000

// all has a parameter of each type.
func all() *testtrace.Operator {
	return &testtrace.Operator{Name: "aclnnAll", Workspace: base + 4096, WorkspaceSize: 512, Params: []testtrace.OperatorParam{
		{Type: 'T', Tensors: []testtrace.OperatorTensor{testtrace.Contiguous(base, block.In, 1, 2, 3)}},
		{Type: 'L', Tensors: []testtrace.OperatorTensor{testtrace.Contiguous(base+512, block.In|block.Out, 29, 5), testtrace.Absent, {Base: base + 1024, Format: 29, Role: block.Out, Dims: []int64{4, 4}, Storage: []int64{1, 1, 16, 16}}}},
		{Type: 'T', Null: true}, {Type: 'l'}, {Type: 'p'},
		{Type: 'S', Value: []block.Scalar{{DType: 0, Value: [16]byte{0, 0, 128, 63}}}},
		{Type: 'A', Value: []block.Scalar{{DType: 9}, {DType: 17, Value: [16]byte{15: 1}}}},
		{Type: 'I', Value: []int64{-1, 2, 3}}, {Type: 'F', Value: []float32{0.5, -2}}, {Type: 'B', Value: []bool{true, false, true}},
		{Type: 's', Value: "BSND"}, {Type: 's', Value: ""}, {Type: 's', Null: true},
		{Type: 'i', Value: int64(-7)}, {Type: 'u', Value: int64(7)}, {Type: 'j', Value: int64(-1)}, {Type: 'h', Value: int64(2)}, {Type: 'c', Value: int64(3)}, {Type: 'b', Value: int64(1)},
		{Type: 'd', Value: 0.25}, {Type: 'f', Value: 1e-5},
		{Type: 't', Tensors: []testtrace.OperatorTensor{{Base: base + 2048, Offset: 8, DType: 27, Format: 2, Role: block.In | block.Out, Flags: 1, Dims: []int64{2, 2}, Strides: []int64{8, 1}, Storage: []int64{32}}}},
	}}
}

// again returns the content of a decoded block.
func again(x *block.Block) *testtrace.Operator {
	o := &testtrace.Operator{Name: x.Name, Workspace: x.Workspace, WorkspaceSize: x.WorkspaceSize}
	for i := range x.Params {
		p := &x.Params[i]
		q := testtrace.OperatorParam{Type: p.Type, Null: p.Null, Value: p.Value()}
		if strings.IndexByte("TtLl", p.Type) >= 0 {
			for _, t := range x.Tensors[p.First:][:p.Count] {
				flags := byte(0)
				if t.RoleUnknown {
					flags = 1
				}
				if t.Absent {
					q.Tensors = append(q.Tensors, testtrace.OperatorTensor{Offset: t.Offset, DType: t.DType, Format: t.Format, Role: t.Role, Flags: flags | 2, Storage: []int64{}})
					continue
				}
				q.Tensors = append(q.Tensors, testtrace.OperatorTensor{Base: t.Base, Offset: t.Offset, DType: t.DType, Format: t.Format, Role: t.Role, Flags: flags,
					Dims: t.Dims(), Strides: t.Strides(), Storage: t.StorageDims()})
			}
		}
		o.Params = append(o.Params, q)
	}
	return o
}

func decode(t testing.TB, b []byte) *block.Block {
	t.Helper()
	x, err := block.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A block is decoded with all values, and its operands have the words and bytes that the operator uses.
func TestDecodingKeepsAllValues(t *testing.T) {
	b := all().Bytes()
	x := decode(t, b)
	if got := again(x).Bytes(); !slices.Equal(got, b) {
		t.Errorf("encoded again:\n%x, want\n%x", got, b)
	}
	var got []string
	for _, o := range x.Operands() {
		if w := binary.LittleEndian.Uint64(b[o.At:]); w != o.Addr {
			t.Errorf("the word at %d is %#x, want %#x", o.At, w, o.Addr)
		}
		got = append(got, fmt.Sprintf("%#x role %d [%d,%d) tensor %d", o.Addr-base, o.Role, o.Lo, o.Lo+o.Size, o.Tensor))
	}
	want := []string{"0x1000 role 4 [0,512) tensor -1", "0x0 role 1 [0,12) tensor 0", "0x200 role 3 [0,3) tensor 1", "0x400 role 2 [0,1024) tensor 3", "0x800 role 3 [16,36) tensor 4"}
	if !slices.Equal(got, want) {
		t.Errorf("operands %q, want %q", got, want)
	}
	if x.Name != "aclnnAll" || x.Tensors[4].String() != "bfloat16[2,2]" || x.Tensors[2].String() != "none" || !x.Tensors[4].RoleUnknown {
		t.Errorf("%q: %v", x.Name, x.Tensors)
	}
	// A launch may pass more bytes than the block has.
	if y := decode(t, append(slices.Clone(b), 1, 2, 3)); !reflect.DeepEqual(y.Operands(), x.Operands()) {
		t.Errorf("with bytes after the block: %v", y.Operands())
	}
}

// Each lie is refused, and the error says which.
func TestDecodeRefusesLies(t *testing.T) {
	whole := all().Bytes()
	params, tensors := binary.LittleEndian.Uint32(whole[40:]), binary.LittleEndian.Uint32(whole[48:])
	dims := binary.LittleEndian.Uint32(whole[tensors+28:])
	put32 := func(at uint32, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	put64 := func(at uint32, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	put8 := func(at uint32, v byte) func([]byte) { return func(b []byte) { b[at] = v } }
	for _, c := range []struct {
		change func([]byte)
		want   string
	}{
		{put8(0, 0), "begins with 0x6b6c62706f6c6300"},
		{put32(8, 2), "version 2: want 1"},
		{put32(12, uint32(len(whole)+1)), "claims"},
		{put32(12, 55), "claims 55 bytes"},
		{put64(24, math.MaxUint64), "workspace of"},
		{put32(32, 8), "name at offset 8 overlaps the header"},
		{put32(32, math.MaxUint32), "name at offset 4294967295 is not in"},
		{put32(32, tensors+4), "overlaps the tensors"},
		{put32(32, uint32(len(whole)-1)), "does not end after"},
		{func(b []byte) { b[binary.LittleEndian.Uint32(b[32:])] = 27 }, "the byte 0x1b"},
		{func(b []byte) { b[len(b)-1] = 'x' }, "does not end after"},
		{put32(36, math.MaxUint32), "parameters at offset 56, 4294967295 of 16 bytes, are not in"},
		{put32(40, 48), "parameters at offset 48 overlap the header"},
		{put32(40, params+4), "not at a multiple of 8"},
		{put32(40, tensors), "parameters at offset 408 overlap the tensors"},
		{put32(44, math.MaxUint32), "tensors at offset"},
		{put32(44, 4), "1 tensors from tensor 4: want the next ones, from 4 of 4"},
		{put32(48, 0), "tensors at offset 0 overlap the header"},
		{put8(params, 'x'), `parameter 0: unknown type 'x'`},
		{put8(params+1, 1), "parameter 0: it is null, with 1 elements"},
		{put8(params+1, 2), "parameter 0: null is 2"},
		{put32(params+4, 2), "parameter 0: type 'T' with 2 elements"},
		{put32(params+8, 1), "parameter 0: 1 tensors from tensor 1: want the next ones, from 0 of 5"},
		{put32(params+16+4, 4), "parameter 1: tensor 4 has parameter 21, position 0"},
		{put32(params+16+4, math.MaxUint32), "parameter 1: 4294967295 tensors from tensor 1"},
		{put32(params+7*16+4, math.MaxUint32), "parameter 7: values at offset"},
		{put32(params+7*16+8, tensors+8), "overlap the tensors"},
		{put8(params+21*16, 'p'), "tensor 4 belongs to no parameter"},
		{put32(tensors+16, 28), "tensor 0: unknown data type 28"},
		{put32(tensors+16, math.MaxUint32), "tensor 0: unknown data type -1"},
		{put8(tensors+24, 0), "role 0"},
		{put8(tensors+24, 4), "role 4"},
		{put8(tensors+25, 1), "role 1 with flags 0x1"},
		{put8(tensors+25, 4), "unknown flags 0x4"},
		{put8(tensors+25, 2), "tensor 0: it is absent, with 4 dims"},
		{put8(tensors+26, 255), "tensor 0: 512 dims of all tensors so far are more than the block has"},
		{put32(tensors+28, 8), "dims at offset 8 overlap the header"},
		{put32(tensors+28, tensors), "overlap the tensors"},
		{put32(tensors+32, 1), "parameter 0: tensor 0 has parameter 1"},
		{put32(tensors+36, 1), "parameter 0: tensor 0 has parameter 0, position 1"},
		{put64(tensors+8, math.MaxUint64), "offset -1 is negative"},
		{put64(tensors+8, math.MaxInt64), "reach further"},
		{put64(tensors, math.MaxUint64), "reach further"},
		{put64(dims, 1<<63), "dim -9223372036854775808 is negative"},
		{put64(dims, 1<<62), "reach further"},
		{put64(dims+16, math.MaxUint64), "stride -1 is negative"},
		{put64(dims+16, math.MaxInt64), "reach further"},
		{put64(dims+32, math.MaxUint64), "storage dim -1 is negative"},
		{put32(tensors+4*40+20, 99), "reach further|"}, // unknown formats cover their storage
	} {
		b := slices.Clone(whole)
		c.change(b)
		_, err := block.Decode(b)
		if want, optional := strings.CutSuffix(c.want, "|"); (err == nil) != optional || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	for n := range len(whole) {
		if _, err := block.Decode(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are a block", n)
		}
	}
	blocked := testtrace.OnTensors("a", testtrace.OperatorTensor{Base: base, Format: 3, Role: block.In, Dims: []int64{2}, Storage: []int64{}})
	if _, err := block.Decode(blocked.Bytes()); err == nil || !strings.Contains(err.Error(), "format 3 without dims of its storage") {
		t.Errorf("blocks without a storage: %v", err)
	}
}

// walk returns the bytes that the elements of a view are in, by visiting each: the first one, and the one after the last.
func walk(t *testtrace.OperatorTensor) (from, to uint64) {
	width, first := t.DType.Bits(), true
	var visit func(i int, at int64)
	visit = func(i int, at int64) {
		if i < len(t.Dims) {
			for k := range t.Dims[i] {
				visit(i+1, at+k*t.Strides[i])
			}
			return
		}
		lo, hi := uint64(at)*width/8, (uint64(at+1)*width+7)/8
		if first {
			from, to, first = lo, hi, false
		}
		from, to = min(from, lo), max(to, hi)
	}
	visit(0, t.Offset)
	return from, to
}

var dtypes = []block.DType{0, 1, 2, 9, 12, 17, 27, 29, 30, 31, 38, 40}

// An extent has the bytes of all elements that the dims and strides reach, or the whole storage.
func TestExtentsAreWhereElementsAre(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		x := testtrace.OperatorTensor{Base: base, Offset: r.Int64N(9), DType: dtypes[r.IntN(len(dtypes))], Format: []block.Format{2, 0, 1, -1, 29, 3, 4, 200}[r.IntN(8)], Role: block.In}
		size := uint64(1)
		x.Dims, x.Strides, x.Storage = []int64{}, []int64{}, []int64{}
		for range r.IntN(4) {
			x.Dims, x.Strides = append(x.Dims, r.Int64N(5)), append(x.Strides, r.Int64N(12))
		}
		elements := int64(1)
		for _, d := range x.Dims {
			elements *= d
		}
		for range 1 + r.IntN(3) {
			n := r.Int64N(6)
			x.Storage, size = append(x.Storage, n), size*uint64(n)
		}
		o := decode(t, testtrace.OnTensors("a", x).Bytes()).Operands()[0]
		from, to := walk(&x)
		if x.Format.Blocked() {
			from, to = 0, (size*x.DType.Bits()+7)/8
		}
		if elements == 0 || x.Format.Blocked() && size == 0 {
			from, to = o.Lo, o.Lo
		}
		if o.Addr != base || o.Lo != from || o.Lo+o.Size != to {
			t.Fatalf("%+v: extent [%d,%d), want [%d,%d)", x, o.Lo, o.Lo+o.Size, from, to)
		}
		if want := dense(&x); o.Dense != want {
			t.Fatalf("%+v: all bytes of the extent are elements: %v, want %v", x, o.Dense, want)
		}
	}
}

// dense reports whether the elements of a tensor are whole bytes, next to each other, each once.
func dense(t *testtrace.OperatorTensor) bool {
	at := []int64{t.Offset}
	for i, n := range t.Dims {
		var next []int64
		for k := range n {
			for _, a := range at {
				next = append(next, a+k*t.Strides[i])
			}
		}
		at = next
	}
	slices.Sort(at)
	if len(at) == 0 || t.Format.Blocked() || at[len(at)-1]-at[0] != int64(len(at)-1) || len(slices.Compact(slices.Clone(at))) != len(at) {
		return false
	}
	bits := int64(t.DType.Bits())
	return at[0]*bits%8 == 0 && (at[len(at)-1]+1)*bits%8 == 0
}

// Data types have the runtime's numbers, and the names and sizes that their users know.
func TestDTypes(t *testing.T) {
	names := map[string]string{"FLOAT": "float32", "DOUBLE": "float64", "BF16": "bfloat16"}
	size := regexp.MustCompile(`^[a-z]+([0-9]+)`)
	at := slices.IndexFunc(acl.Model.Enums, func(e api.Enum) bool { return e.Type == "aclDataType" })
	for _, v := range acl.Model.Enums[at].Values {
		d, name := block.DType(v.Value), strings.TrimPrefix(v.Name, "ACL_")
		if v.Value < 0 {
			continue
		}
		if want := cmp.Or(names[name], strings.ToLower(name)); d.String() != want {
			t.Errorf("%s is %s, want %s", v.Name, d, want)
		}
		want := map[string]uint64{"bool": 8, "string": 128}[d.String()]
		if m := size.FindStringSubmatch(d.String()); m != nil {
			_, _ = fmt.Sscan(m[1], &want)
		}
		if d.Bits() != want {
			t.Errorf("%s has %d bits, want %d", d, d.Bits(), want)
		}
	}
	for _, none := range []block.DType{-1, 5, 28, 42} {
		if none.Bits() != 0 || none.String() != fmt.Sprintf("dtype %d", none) {
			t.Errorf("%s has %d bits", none, none.Bits())
		}
	}
}

// A view without elements reaches nothing, whatever its strides, offset and storage are: programs compute them from its dims. A view with
// elements and the same numbers lies.
func TestEmptyViewsReachNothing(t *testing.T) {
	for _, format := range []block.Format{2, 29} {
		for _, x := range []testtrace.OperatorTensor{
			{Strides: []int64{128, 1}, Storage: []int64{-127}},
			{Strides: []int64{-1, 1}, Storage: []int64{}},
			{Strides: []int64{math.MaxInt64, 1}, Storage: []int64{math.MaxInt64, math.MaxInt64}},
			{Strides: []int64{8, 1}, Storage: []int64{8}, Offset: -8},
		} {
			x.Base, x.Format, x.Role, x.Dims = base, format, block.In, []int64{0, 128}
			if o := decode(t, testtrace.OnTensors("a", x).Bytes()).Operands()[0]; o.Addr != base || o.Size != 0 {
				t.Errorf("%+v: %+v", x, o)
			}
			x.Dims = []int64{3, 128}
			if _, err := block.Decode(testtrace.OnTensors("a", x).Bytes()); err == nil {
				t.Errorf("%+v is decoded", x)
			}
		}
	}
}

// Decoding needs memory that is linear in the block: tensors may not share dims.
func TestDecodeBoundsMemory(t *testing.T) {
	o := testtrace.OnTensors("a")
	dims := slices.Repeat([]int64{1}, 255)
	for range 100 {
		o.Params = append(o.Params, testtrace.OperatorParam{Type: 'T', Tensors: []testtrace.OperatorTensor{{DType: 1, Format: 2, Role: block.In, Dims: dims}}})
	}
	b := o.Bytes()
	decode(t, b)
	tensors := int(binary.LittleEndian.Uint32(b[48:]))
	end := tensors + 100*block.TensorSize + 3*255*8 // with the first one's dims
	for i := range 100 {
		binary.LittleEndian.PutUint32(b[tensors+i*block.TensorSize+28:], uint32(tensors+100*block.TensorSize))
	}
	copy(b[end:], "a\x00")
	binary.LittleEndian.PutUint32(b[32:], uint32(end))
	binary.LittleEndian.PutUint32(b[12:], uint32(end+2))
	if _, err := block.Decode(b[:end+2]); err == nil || !strings.Contains(err.Error(), "more than the block has") {
		t.Errorf("100 tensors with the same dims: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(all().Bytes())
	f.Add(testtrace.OnTensors("aclnnAdd", testtrace.Contiguous(base, block.In, 0, 4), testtrace.Contiguous(base+64, block.Out, 0, 4)).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

// check checks the properties of every block that can be decoded.
func check(t *testing.T, b []byte) {
	x, err := block.Decode(b)
	if err != nil {
		return
	}
	for _, o := range x.Operands() {
		if o.At+8 > len(b) || binary.LittleEndian.Uint64(b[o.At:]) != o.Addr || o.Addr+o.Lo < o.Addr || o.Addr+o.Lo+o.Size < o.Addr+o.Lo {
			t.Fatalf("operand %+v of a block of %d bytes", o, len(b))
		}
	}
	checkMoves(t, x)
	y, err := block.Decode(again(x).Bytes())
	if err != nil {
		t.Fatalf("encoded again: %v", err)
	}
	if a, b := again(x), again(y); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Fatalf("%+v, encoded again %+v", a, b)
	}
}

// Blocks with random changes are refused or have all properties, and never panic.
func TestDecodeChangedBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	whole := all().Bytes()
	decoded := 0
	for range 30000 {
		b := slices.Clone(whole)
		for range 1 + r.IntN(3) {
			switch at := r.IntN(len(b) - 8); r.IntN(3) {
			case 0:
				b[at] = byte(r.Uint32())
			case 1:
				binary.LittleEndian.PutUint32(b[at&^3:], []uint32{0, 1, math.MaxUint32, 1 << 31, r.Uint32(), r.Uint32N(uint32(len(b)))}[r.IntN(6)])
			case 2:
				binary.LittleEndian.PutUint64(b[at&^7:], []uint64{0, math.MaxUint64, 1 << 63, 1 << 62, r.Uint64()}[r.IntN(5)])
			}
		}
		if _, err := block.Decode(b); err == nil {
			decoded++
		}
		check(t, b)
	}
	if decoded < 300 {
		t.Errorf("only %d of the changed blocks are valid", decoded)
	}
}

// The header in C has the sizes, offsets and numbers of this package.
func TestHeaderHasTheLayout(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	text := fmt.Sprintf(`#include <stddef.h>
#include "aclsim/operator.h"
#define SAME(a, b) _Static_assert((a) == (b), #a)
SAME(sizeof(aclsim_operator_block), %d);
SAME(sizeof(aclsim_operator_param), %d);
SAME(sizeof(aclsim_operator_scalar), %d);
SAME(sizeof(aclsim_operator_tensor), %d);
SAME(offsetof(aclsim_operator_block, workspace), %d);
SAME(ACLSIM_OPERATOR_MAGIC, UINT64_C(%d));
SAME(ACLSIM_OPERATOR_VERSION, %d);
SAME(ACLSIM_OPERATOR_IN, %d);
SAME(ACLSIM_OPERATOR_OUT, %d);
SAME(ACLSIM_OPERATOR_ROLE_UNKNOWN, 1);
SAME(ACLSIM_OPERATOR_ABSENT, 2);
SAME(offsetof(aclsim_operator_block, size), 12);
SAME(offsetof(aclsim_operator_block, workspace_size), 24);
SAME(offsetof(aclsim_operator_block, name), 32);
SAME(offsetof(aclsim_operator_block, params), 40);
SAME(offsetof(aclsim_operator_block, tensors), 48);
SAME(offsetof(aclsim_operator_param, count), 4);
SAME(offsetof(aclsim_operator_param, value), 8);
SAME(offsetof(aclsim_operator_scalar, value), 8);
SAME(offsetof(aclsim_operator_tensor, base), 0);
SAME(offsetof(aclsim_operator_tensor, offset), 8);
SAME(offsetof(aclsim_operator_tensor, dtype), 16);
SAME(offsetof(aclsim_operator_tensor, format), 20);
SAME(offsetof(aclsim_operator_tensor, role), 24);
SAME(offsetof(aclsim_operator_tensor, flags), 25);
SAME(offsetof(aclsim_operator_tensor, num_dims), 26);
SAME(offsetof(aclsim_operator_tensor, num_storage_dims), 27);
SAME(offsetof(aclsim_operator_tensor, dims), 28);
SAME(offsetof(aclsim_operator_tensor, param), 32);
SAME(offsetof(aclsim_operator_tensor, position), 36);
`, block.HeaderSize, block.ParamSize, block.ScalarSize, block.TensorSize, block.WorkspaceAt, uint64(block.Magic), block.Version, block.In, block.Out)
	file := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	include := filepath.Join(testenv.Root(t), "sim/libascendcl/include")
	if b, err := exec.Command(cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"+include, file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
}

// The text of a block has the operator, data types, dims and values.
func TestTextHasOperatorTypesAndValues(t *testing.T) {
	x := decode(t, all().Bytes())
	want := `aclnnAll(float16[2,3], [inout int4[5], none, out float32[4,4]], null, [], null, 1, 0 complex128 0x00000000000000000000000000000001, [-1 2 3], [0.5 -2], [true false true], "BSND", "", null, -7, 7, -1, 2, 3, 1, 0.25, 1e-05, ? bfloat16[2,2])`
	if got := string(x.AppendText(nil)); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	o := testtrace.OnTensors("aclnnMany")
	for range 1000 {
		o.Params = append(o.Params, testtrace.OperatorParam{Type: 'I', Value: make([]int64, 1000)})
	}
	if got := string(decode(t, o.Bytes()).AppendText(nil)); len(got) > 1000 || !strings.HasSuffix(got, ", …)") {
		t.Errorf("a long text: %s", got)
	}
}
