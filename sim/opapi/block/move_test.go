package block_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

const (
	float32s, float16s, int8s, int32s = block.DType(0), block.DType(1), block.DType(2), block.DType(3)
	in, out                           = block.In, block.Out
)

// onto returns a tensor of bytes at an offset of the test's memory.
func onto(at int64, role block.Role, dims ...int64) testtrace.OperatorTensor {
	return testtrace.Contiguous(base+uint64(at), role, int8s, dims...)
}

func strided(at int64, role block.Role, dims, strides []int64) testtrace.OperatorTensor {
	t := onto(at, role, dims...)
	t.Strides, t.Storage = strides, []int64{64}
	return t
}

func one(t testtrace.OperatorTensor) testtrace.OperatorParam {
	return testtrace.OperatorParam{Type: 'T', Tensors: []testtrace.OperatorTensor{t}}
}

func tensors(t ...testtrace.OperatorTensor) testtrace.OperatorParam {
	return testtrace.OperatorParam{Type: 'L', Tensors: t}
}

func number(v int64) testtrace.OperatorParam { return testtrace.OperatorParam{Type: 'i', Value: v} }

func scalar(v int64) testtrace.OperatorParam {
	s := block.Scalar{DType: 9}
	binary.LittleEndian.PutUint64(s.Value[:], uint64(v))
	return testtrace.OperatorParam{Type: 'S', Value: []block.Scalar{s}}
}

func ints(v ...int64) testtrace.OperatorParam { return testtrace.OperatorParam{Type: 'I', Value: v} }

// do does the moves of an operator on memory with the bytes 0, 1, 2 …, and returns the bytes from 32 on.
func do(t *testing.T, name string, params ...testtrace.OperatorParam) (after []byte, ok bool) {
	t.Helper()
	mem := make([]byte, 64)
	for i := range mem {
		mem[i] = byte(i)
	}
	x := decode(t, (&testtrace.Operator{Name: name, Params: params}).Bytes())
	checkMoves(t, x)
	moves := x.Moves()
	for _, m := range moves {
		m.Rows(func(to, from, size uint64) {
			for i := range size {
				if m.Fill != nil {
					mem[to-base+i] = m.Fill[i%m.Width]
				} else {
					mem[to-base+i] = mem[from-base+i]
				}
			}
		})
	}
	return mem[32:], moves != nil
}

// An operator that only moves and fills does what its arguments say. Memory beside its output keeps its bytes.
func TestMovesAndFillsFollowTheirArguments(t *testing.T) {
	for _, c := range []struct {
		name   string
		params []testtrace.OperatorParam
		want   []byte
	}{
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 2, 3)), one(onto(0, in, 2, 3))}, []byte{0, 1, 2, 3, 4, 5, 38}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 2, 3)), one(strided(0, in, []int64{2, 3}, []int64{1, 2}))}, []byte{0, 2, 4, 1, 3, 5, 38}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(strided(32, out, []int64{2, 2}, []int64{1, 3})), one(onto(0, in, 2, 2))}, []byte{0, 2, 34, 1, 3, 37}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 2, 3)), one(onto(4, in, 3))}, []byte{4, 5, 6, 4, 5, 6, 38}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 2, 3)), one(onto(4, in, 2, 1))}, []byte{4, 4, 4, 5, 5, 5, 38}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out)), one(onto(4, in))}, []byte{4, 33}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 0, 3)), one(onto(4, in, 0, 3))}, []byte{32, 33}},
		{"aclnnInplaceZero", []testtrace.OperatorParam{one(strided(33, out, []int64{2, 2}, []int64{4, 1}))}, []byte{32, 0, 0, 35, 36, 0, 0, 39}},
		{"aclnnInplaceZero", []testtrace.OperatorParam{one(strided(33, out, []int64{3, 4}, []int64{1, 2}))}, []byte{32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 42}}, // elements share bytes
		{"aclnnInplaceZero", []testtrace.OperatorParam{one(strided(33, out, []int64{2, 5, 2}, []int64{4, 0, 1}))}, []byte{32, 0, 0, 35, 36, 0, 0, 39}},
		{"aclnnInplaceOne", []testtrace.OperatorParam{one(testtrace.Contiguous(base+32, out, float32s, 1))}, []byte{0, 0, 0x80, 0x3f, 36}},
		{"aclnnInplaceFillScalar", []testtrace.OperatorParam{one(testtrace.Contiguous(base+32, out, int32s, 2)), scalar(-2)}, []byte{254, 255, 255, 255, 254, 255, 255, 255, 40}},
		{"aclnnForeachCopy", []testtrace.OperatorParam{tensors(onto(3, in, 2), onto(9, in, 1)), tensors(onto(36, out, 2), onto(32, out, 1))}, []byte{9, 33, 34, 35, 3, 4, 38}},
		{"aclnnForeachZeroInplace", []testtrace.OperatorParam{tensors(onto(33, out, 1), onto(35, out, 2))}, []byte{32, 0, 34, 0, 0, 37}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 2, 2)), ints(1, 0, 0, 1), scalar(7), one(onto(32, out, 3, 3))}, []byte{7, 0, 1, 7, 2, 3, 7, 7, 7, 41}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 2, 4)), ints(-1, 1), scalar(7), one(onto(32, out, 2, 4))}, []byte{1, 2, 3, 7, 5, 6, 7, 7, 40}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 0)), ints(0, 3), scalar(0), one(onto(32, out, 3))}, []byte{0, 0, 0, 35}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2), onto(8, in, 3)), number(0), one(onto(32, out, 5))}, []byte{0, 1, 8, 9, 10, 37}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2, 1), onto(9, in, 0), onto(8, in, 2, 2)), number(-1), one(onto(32, out, 2, 3))}, []byte{0, 8, 9, 1, 10, 11, 38}},
		// 3 rows in 2 chunks: the last one has a row and zeros.
		{"aclnnChunkCat", []testtrace.OperatorParam{tensors(onto(0, in, 3, 2), onto(8, in, 1)), number(0), number(2), one(onto(32, out, 2, 5))}, []byte{0, 1, 2, 3, 8, 4, 5, 0, 0, 0, 42}},
	} {
		got, ok := do(t, c.name, c.params...)
		if !ok || !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%s %+v: %v %v, want %v", c.name, c.params, ok, got[:len(c.want)], c.want)
		}
	}
}

// An operator computes if its tensors have several types or blocks, if its arguments contradict each other, or if elements of its output share bytes.
func TestOperatorsThatCompute(t *testing.T) {
	half, blocks, unknown := onto(0, in, 2), onto(0, in, 1, 1, 16, 16), onto(0, in, 2)
	half.DType, blocks.Format, unknown.Role, unknown.Flags = float16s, 29, in|out, 1
	for _, c := range []struct {
		name   string
		params []testtrace.OperatorParam
	}{
		{"aclnnAdd", []testtrace.OperatorParam{one(onto(0, in, 2)), one(onto(32, out, 2))}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 2)), one(half)}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 1, 1, 16, 16)), one(blocks)}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 3)), one(onto(0, in, 2))}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(onto(32, out, 3)), one(onto(0, in, 1, 3))}},
		{"aclnnInplaceCopy", []testtrace.OperatorParam{one(strided(32, out, []int64{1 << 40}, []int64{0})), one(onto(0, in, 1))}},
		{"aclnnInplaceFillScalar", []testtrace.OperatorParam{one(onto(32, out, 3)), scalar(128)}},
		{"aclnnInplaceFillScalar", []testtrace.OperatorParam{one(onto(32, out, 3)), {Type: 'S', Null: true}}},
		{"aclnnInplaceFillScalar", []testtrace.OperatorParam{one(onto(32, out, 3))}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 2)), ints(1, 1), scalar(7), one(onto(32, out, 5))}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 2)), ints(-3, 1), scalar(7), one(onto(32, out, 0))}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 2)), ints(1, 1, 1, 1), scalar(7), one(onto(32, out, 4))}},
		{"aclnnConstantPadNd", []testtrace.OperatorParam{one(onto(0, in, 2)), ints(math.MinInt64, math.MaxInt64), scalar(7), one(onto(32, out, 1))}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2), onto(8, in, 3)), number(0), one(onto(32, out, 6))}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2), onto(8, in, 3)), number(0), one(onto(32, out, 4))}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2)), number(1), one(onto(32, out, 2))}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2, 1), onto(8, in, 1, 2)), number(1), one(onto(32, out, 2, 3))}},
		{"aclnnCat", []testtrace.OperatorParam{tensors(onto(0, in, 2), testtrace.Absent), number(0), one(onto(32, out, 2))}},
		{"aclnnChunkCat", []testtrace.OperatorParam{tensors(onto(0, in, 3, 2)), number(0), number(2), one(onto(32, out, 2, 3))}},
		{"aclnnChunkCat", []testtrace.OperatorParam{tensors(onto(0, in, 3, 2)), number(1), number(2), one(onto(32, out, 2, 4))}},
		{"aclnnForeachZeroInplace", []testtrace.OperatorParam{tensors(unknown, onto(0, in, 1))}},
	} {
		if got, ok := do(t, c.name, c.params...); ok {
			t.Errorf("%s %+v moves: %v", c.name, c.params, got)
		}
	}
}

// checkMoves checks that the moves of a block stay in its operands and end.
func checkMoves(t *testing.T, x *block.Block) {
	t.Helper()
	room := uint64(0)
	for _, o := range x.Operands() {
		if o.Size > 1<<16 {
			return
		}
		room += o.Size
	}
	holds := func(role block.Role, at, size uint64) bool {
		return slices.ContainsFunc(x.Operands(), func(o block.Operand) bool {
			return o.Role&role != 0 && at >= o.Addr+o.Lo && at+size <= o.Addr+o.Lo+o.Size
		})
	}
	moved := uint64(0)
	for _, m := range x.Moves() {
		m.Rows(func(to, from, size uint64) {
			if moved += size; moved > 2*room || !holds(out, to, size) || m.Fill == nil && !holds(in, from, size) || size%m.Width != 0 {
				t.Fatalf("%s: %d bytes to %#x from %#x", x.AppendText(nil), size, to, from)
			}
		})
	}
}

// Blocks of these operators with random changes stay in their memory.
func TestMovesOfChangedBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	moved := 0
	for _, o := range []testtrace.Operator{
		{Name: "aclnnInplaceCopy", Params: []testtrace.OperatorParam{one(onto(32, out, 2, 3)), one(strided(0, in, []int64{2, 3}, []int64{1, 2}))}},
		{Name: "aclnnConstantPadNd", Params: []testtrace.OperatorParam{one(onto(0, in, 2, 2)), ints(1, 0, 0, 1), scalar(7), one(onto(32, out, 3, 3))}},
		{Name: "aclnnCat", Params: []testtrace.OperatorParam{tensors(onto(0, in, 2, 1), onto(8, in, 2, 2)), number(-1), one(onto(32, out, 2, 3))}},
		{Name: "aclnnChunkCat", Params: []testtrace.OperatorParam{tensors(onto(0, in, 3, 2), onto(8, in, 1)), number(0), number(2), one(onto(32, out, 2, 5))}},
	} {
		whole := o.Bytes()
		for range 4000 {
			b := slices.Clone(whole)
			for range 1 + r.IntN(3) {
				at := block.HeaderSize/8 + r.IntN((len(b)-block.HeaderSize)/8)
				binary.LittleEndian.PutUint64(b[8*at:], []uint64{0, 1, 2, 3, 5, math.MaxUint64, math.MaxInt64, 1 << 62, uint64(r.IntN(64)), r.Uint64()}[r.IntN(10)])
			}
			if x, err := block.Decode(b); err == nil {
				checkMoves(t, x)
				if x.Moves() != nil {
					moved++
				}
			}
		}
	}
	if moved < 300 {
		t.Errorf("only %d of the changed blocks move", moved)
	}
}

// A scalar becomes the element that the framework's CPU stores for it.
func TestScalarsConvertAsOnCPUs(t *testing.T) {
	float := func(v float64) block.Scalar {
		s := block.Scalar{DType: 11}
		binary.LittleEndian.PutUint64(s.Value[:], math.Float64bits(v))
		return s
	}
	integer := func(d block.DType, v uint64) block.Scalar {
		s := block.Scalar{DType: d}
		binary.LittleEndian.PutUint64(s.Value[:], v)
		return s
	}
	const bfloat16s, bools, uint8s, int64s, uint64s = 27, 12, 4, 9, 10
	for _, c := range []struct {
		s    block.Scalar
		to   block.DType
		want []byte // nil: not known
	}{
		{float(1), float16s, []byte{0, 0x3c}}, {float(-2.5), float16s, []byte{0, 0xc1}}, {float(65504), float16s, []byte{0xff, 0x7b}}, {float(65520), float16s, []byte{0, 0x7c}},
		{float(math.Inf(-1)), float16s, []byte{0, 0xfc}}, {float(math.NaN()), float16s, []byte{0, 0x7e}}, {float(0x1p-24), float16s, []byte{1, 0}},
		{float(0x1p-25), float16s, []byte{0, 0}}, {float(0x1p-14 - 0x1p-26), float16s, []byte{0, 4}}, {float(1 + 0x1p-11), float16s, []byte{0, 0x3c}}, {float(1 + 0x3p-11), float16s, []byte{2, 0x3c}},
		{float(math.Copysign(0, -1)), float16s, []byte{0, 0x80}}, {float(math.Copysign(0, -1)), float32s, []byte{0, 0, 0, 0x80}},
		{float(1), bfloat16s, []byte{0x80, 0x3f}}, {float(1 + 0x1p-8), bfloat16s, []byte{0x80, 0x3f}}, {float(1 + 0x3p-8), bfloat16s, []byte{0x82, 0x3f}}, {float(math.Inf(1)), bfloat16s, []byte{0x80, 0x7f}},
		{float(0.1), float32s, []byte{0xcd, 0xcc, 0xcc, 0x3d}}, {float(2.9), int32s, []byte{2, 0, 0, 0}}, {float(-2.9), int8s, []byte{0xfe}}, {float(math.NaN()), int32s, nil}, {float(1e20), int64s, nil},
		{float(0.5), bools, []byte{1}}, {float(0), bools, []byte{0}}, {integer(bools, 1), float16s, []byte{0, 0x3c}}, {integer(int8s, 0xff), int32s, []byte{255, 255, 255, 255}}, {integer(uint8s, 0xff), int32s, []byte{255, 0, 0, 0}},
		{integer(int64s, 256), uint8s, nil}, {integer(uint64s, 1<<63), uint64s, nil}, {integer(int64s, 0), 17, make([]byte, 16)}, {integer(int64s, 0), 35, []byte{0}}, {integer(int64s, 1), 35, nil},
		{integer(int64s, 0), 37, nil}, {integer(int64s, 1), 29, nil}, {integer(16, 1), float32s, nil}, {integer(int64s, 3), 16, []byte{0, 0, 0x40, 0x40, 0, 0, 0, 0}},
	} {
		if got := c.s.Element(c.to); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s %v to %s: %x, want %x", c.s.DType, c.s.String(), c.to, got, c.want)
		}
	}
}
