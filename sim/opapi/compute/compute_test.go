//go:build cgo

package compute

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"golang.org/x/sys/unix"
)

const (
	f32, f16, i32, i64, f64, boolean, bf16 = 0, 1, 3, 9, 11, 12, 27

	in, out, both = block.In, block.Out, block.In | block.Out
)

// A memory has the tensors of a test, at addresses that C may use.
type memory struct {
	b    []byte
	used int
}

func newMemory(t testing.TB, size ...int) *memory {
	t.Helper()
	b, err := unix.Mmap(-1, 0, max(1<<20, append(size, 0)[0]), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	latest = b
	return &memory{b: b}
}

// latest is the memory of the running test.
var latest []byte

// put stores elements and returns their address.
func put[T float32 | float64 | int32 | int64 | uint8](m *memory, v ...T) uint64 {
	size := int(unsafe.Sizeof(v[0])) * len(v)
	at := &m.b[m.used]
	copy(unsafe.Slice((*T)(unsafe.Pointer(at)), len(v)), v)
	m.used += (size + 63) &^ 63
	return uint64(uintptr(unsafe.Pointer(at)))
}

func get[T any](at uint64, n int) []T {
	from := &latest[at-uint64(uintptr(unsafe.Pointer(&latest[0])))]
	return slices.Clone(unsafe.Slice((*T)(unsafe.Pointer(from)), n))
}

func tensor(t testtrace.OperatorTensor) testtrace.OperatorParam {
	return testtrace.OperatorParam{Type: 'T', Tensors: []testtrace.OperatorTensor{t}}
}

func list(ts ...testtrace.OperatorTensor) testtrace.OperatorParam {
	return testtrace.OperatorParam{Type: 'L', Tensors: ts}
}

func scalar(v float32) testtrace.OperatorParam {
	s := block.Scalar{DType: f32}
	bits := math.Float32bits(v)
	for i := range 4 {
		s.Value[i] = byte(bits >> (8 * i))
	}
	return testtrace.OperatorParam{Type: 'S', Value: []block.Scalar{s}}
}

// view makes an input with strides.
func view(at uint64, dtype block.DType, dims, strides []int64) testtrace.OperatorTensor {
	size := int64(1)
	for i, d := range dims {
		size += (d - 1) * strides[i]
	}
	return testtrace.OperatorTensor{Base: at, DType: dtype, Format: 2, Role: in, Dims: dims, Strides: strides, Storage: []int64{size}}
}

func flag(v int64) testtrace.OperatorParam { return testtrace.OperatorParam{Type: 'b', Value: v} }

func whole(v int64) testtrace.OperatorParam { return testtrace.OperatorParam{Type: 'i', Value: v} }

func ints(v ...int64) testtrace.OperatorParam { return testtrace.OperatorParam{Type: 'I', Value: v} }

func of(at uint64, role block.Role, dtype block.DType, dims ...int64) testtrace.OperatorParam {
	return tensor(testtrace.Contiguous(at, role, dtype, dims...))
}

// do computes an operator.
func do(t *testing.T, name string, params ...testtrace.OperatorParam) bool {
	t.Helper()
	args := (&testtrace.Operator{Name: name, Params: params}).Bytes()
	if _, err := block.Decode(args); err != nil {
		t.Fatal(err)
	}
	computes := Operators{}.Computes(args)
	done := Operators{}.Compute(args)
	if done && !computes {
		t.Errorf("%s was computed, though Computes is false", name)
	}
	return done
}

// Operators are searched by name.
func TestNamesAreSorted(t *testing.T) {
	names := Names()
	if len(names) == 0 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%q", names)
	}
}

// Elementwise operators repeat operands along missing dims, and follow strides and offsets: against a plain loop, with random shapes.
func TestElementwiseFollowsViews(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := newMemory(t)
		dims := make([]int64, r.IntN(4))
		for i := range dims {
			dims[i] = 1 + r.Int64N(5)
		}
		random := func(keep int) testtrace.OperatorTensor {
			own := slices.Clone(dims[len(dims)-keep:])
			strides, next := make([]int64, keep), int64(1)
			for _, i := range r.Perm(keep) {
				if r.IntN(4) == 0 {
					own[i] = 1
				}
				strides[i] = next
				next *= own[i] + r.Int64N(2)
			}
			v := make([]float32, next+8)
			for i := range v {
				v[i] = float32(r.IntN(1000))
			}
			return testtrace.OperatorTensor{Base: put(m, v...), Offset: r.Int64N(4), DType: f32, Format: 2, Role: in, Dims: own, Strides: strides, Storage: []int64{int64(len(v))}}
		}
		a, b := random(len(dims)), random(r.IntN(len(dims)+1))
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		to := put(m, make([]float32, n)...)
		if !do(t, "aclnnAdd", tensor(a), tensor(b), scalar(2), of(to, out, f32, dims...)) {
			t.Fatalf("seed %d: not computed: %+v %+v", seed, a, b)
		}
		at := func(x *testtrace.OperatorTensor, index []int64) float32 {
			k := x.Offset
			for i, s := range x.Strides {
				if x.Dims[i] > 1 {
					k += s * index[len(index)-len(x.Dims)+i]
				}
			}
			return get[float32](x.Base+4*uint64(k), 1)[0]
		}
		for k, got := range get[float32](to, int(n)) {
			index, rest := make([]int64, len(dims)), int64(k)
			for i := len(dims) - 1; i >= 0; i-- {
				index[i], rest = rest%dims[i], rest/dims[i]
			}
			if want := at(&a, index) + 2*at(&b, index); got != want {
				t.Fatalf("seed %d: element %v is %g, want %g", seed, index, got, want)
			}
		}
	}
}

func TestOperatorsCompute(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, x := range []struct {
		name   string
		params func(m *memory, to uint64) []testtrace.OperatorParam
		want   []float32
	}{
		{"aclnnMuls", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, -2, inf), in, f32, 3), scalar(3), of(to, out, f32, 3)}
		}, []float32{3, -6, inf}},
		{"aclnnClamp", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, -9, 0.5, 9, nan), in, f32, 4), scalar(-1), {Type: 'S', Null: true}, of(to, out, f32, 4)}
		}, []float32{-1, 0.5, 9, nan}},
		{"aclnnMm", func(m *memory, to uint64) []testtrace.OperatorParam {
			right := testtrace.OperatorTensor{Base: put[float32](m, 1, 2, 3, 4, 5, 6), DType: f32, Format: 2, Role: in, Dims: []int64{3, 2}, Strides: []int64{1, 3}, Storage: []int64{6}} // transposed
			return []testtrace.OperatorParam{of(put[float32](m, 1, 0, 2, 0, 1, 0), in, f32, 2, 3), tensor(right), of(to, out, f32, 2, 2), {Type: 'c', Value: int64(0)}}
		}, []float32{7, 16, 2, 5}},
		{"aclnnAddmm", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 10, 20), in, f32, 2), of(put[float32](m, 1, 2), in, f32, 1, 2), of(put[float32](m, 1, 2, 3, 4), in, f32, 2, 2), scalar(0.5), scalar(2),
				of(to, out, f32, 1, 2), {Type: 'c', Value: int64(0)}}
		}, []float32{19, 30}},
		{"aclnnReduceSum", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4, 5, 6), in, f32, 2, 3), ints(0), {Type: 'b', Value: int64(0)}, {Type: 'j', Value: int64(0)}, of(to, out, f32, 3)}
		}, []float32{5, 7, 9}},
		{"aclnnSoftmax", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 0, 0, 1000, 1000), in, f32, 2, 2), whole(-1), of(to, out, f32, 2, 2)}
		}, []float32{0.5, 0.5, 0.5, 0.5}},
		{"aclnnEmbedding", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4, 5, 6), in, f32, 3, 2), of(put[int64](m, 2, 0), in, i64, 2), of(to, out, f32, 2, 2)}
		}, []float32{5, 6, 1, 2}},
		{"aclnnEmbeddingDenseBackward", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3), in, f32, 3, 1), of(put[int64](m, 1, 1, 2), in, i64, 3), {Type: 'u', Value: int64(3)}, {Type: 'u', Value: int64(-1)},
				{Type: 'b', Value: int64(0)}, of(to, out, f32, 3, 1)}
		}, []float32{0, 3, 3}},
		{"aclnnTril", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4), in, f32, 2, 2), whole(0), of(to, out, f32, 2, 2)}
		}, []float32{1, 0, 3, 4}},
		{"aclnnStack", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{list(testtrace.Contiguous(put[float32](m, 1, 2), in, f32, 2), testtrace.Contiguous(put[float32](m, 3, 4), in, f32, 2)), whole(1), of(to, out, f32, 2, 2)}
		}, []float32{1, 3, 2, 4}},
		{"aclnnNLLLoss", func(m *memory, to uint64) []testtrace.OperatorParam { // the second target is ignored
			return []testtrace.OperatorParam{of(put[float32](m, -1, -2, -3, -4, -5, -6), in, f32, 3, 2), of(put[int64](m, 1, -100, 0), in, i64, 3), of(put[float32](m, 1, 3), in, f32, 2), whole(1), whole(-100),
				of(to, out, f32), of(to+4, out, f32)}
		}, []float32{2.75, 4}},
		{"aclnnLayerNorm", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 3), in, f32, 1, 2), ints(2), of(put[float32](m, 2, 2), in, f32, 2), of(put[float32](m, 1, 1), in, f32, 2), {Type: 'd', Value: 0.0},
				of(to, out, f32, 1, 2), of(to+8, out, f32, 1, 1), of(to+12, out, f32, 1, 1)}
		}, []float32{-1, 3, 2, 1}},
		{"aclnnForeachMulScalarV2", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{list(testtrace.Contiguous(put[float32](m, 1, 2), in, f32, 2), testtrace.Contiguous(put[float32](m, 3), in, f32)), scalar(2),
				list(testtrace.Contiguous(to, out, f32, 2), testtrace.Contiguous(to+8, out, f32))}
		}, []float32{2, 4, 6}},
		{"aclnnConvolution", func(m *memory, to uint64) []testtrace.OperatorParam { // 2 groups, padding on one side of each row
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4, 5, 6), in, f32, 1, 2, 1, 3), of(put[float32](m, 1, 10, 2, 20), in, f32, 2, 1, 1, 2), of(put[float32](m, 0, 100), in, f32, 2),
				ints(2), ints(0, 1), ints(1), flag(0), ints(0), whole(2), of(to, out, f32, 1, 2, 1, 2), {Type: 'c', Value: int64(0)}}
		}, []float32{10, 32, 180, 230}},
		{"aclnnConvolutionBackward", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2), in, f32, 1, 1, 2), of(put[float32](m, 1, 2, 3), in, f32, 1, 1, 3), of(put[float32](m, 10, 100), in, f32, 1, 1, 2), ints(1),
				ints(1), ints(0), ints(1), flag(0), ints(0), {Type: 'j', Value: int64(1)}, {Type: 'B', Value: []bool{true, true, true}}, {Type: 'c', Value: int64(0)},
				of(to, out, f32, 1, 1, 3), of(to+12, out, f32, 1, 1, 2), of(to+20, out, f32, 1)}
		}, []float32{10, 120, 200, 5, 8, 3}},
		{"aclnnMaxPool2dWithIndices", func(m *memory, to uint64) []testtrace.OperatorParam { // the first of equal elements, and a NaN before all
			return []testtrace.OperatorParam{of(put[float32](m, 1, 7, 7, 3, 9, nan), in, f32, 1, 1, 1, 6), ints(1, 3), ints(), ints(0), ints(1), flag(0), of(to, out, f32, 1, 1, 1, 2),
				of(put[int32](m, 0, 0), out, i32, 1, 1, 1, 2)}
		}, []float32{7, nan}},
		{"aclnnAvgPool2d", func(m *memory, to uint64) []testtrace.OperatorParam { // the last window is cut
			return []testtrace.OperatorParam{of(put[float32](m, 2, 4, 6, 8, 10), in, f32, 1, 1, 1, 5), ints(1, 2), ints(1, 2), ints(0), flag(1), flag(1), whole(0), {Type: 'c', Value: int64(0)},
				of(to, out, f32, 1, 1, 1, 3)}
		}, []float32{3, 7, 10}},
		{"aclnnAdaptiveAvgPool2d", func(m *memory, to uint64) []testtrace.OperatorParam { // windows overlap
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 9), in, f32, 1, 1, 1, 3), ints(1, 2), of(to, out, f32, 1, 1, 1, 2)}
		}, []float32{1.5, 5.5}},
		{"aclnnBatchNorm", func(m *memory, to uint64) []testtrace.OperatorParam { // the running deviation is that of a sample
			return []testtrace.OperatorParam{of(put[float32](m, 1, 3), in, f32, 2, 1), of(put[float32](m, 2), in, f32, 1), of(put[float32](m, 1), in, f32, 1), of(to+16, both, f32, 1), of(to+20, both, f32, 1),
				flag(1), {Type: 'd', Value: 0.5}, {Type: 'd', Value: 0.0}, of(to, out, f32, 2, 1), of(to+8, out, f32, 1), of(to+12, out, f32, 1)}
		}, []float32{-1, 3, 2, 1, 1, 1}},
		{"aclnnFlashAttentionScore", func(m *memory, to uint64) []testtrace.OperatorParam { // the first query sees the first key alone, the second one both
			qk, none := put[float32](m, 1, 0, 0, 0), testtrace.OperatorParam{Type: 'T', Null: true}
			return []testtrace.OperatorParam{of(qk, in, f32, 1, 1, 2, 2), of(qk, in, f32, 1, 1, 2, 2), of(put[float32](m, 1, 2, 3, 6), in, f32, 1, 1, 2, 2), none, none, none,
				of(put[uint8](m, 0, 1, 0, 0), in, boolean, 2, 2), ints(), {Type: 'd', Value: 1.0}, {Type: 'd', Value: 1.0}, whole(math.MaxInt32), whole(math.MaxInt32), whole(1), {Type: 's', Value: "BNSD"},
				whole(0), whole(0), of(to+16, out, f32, 1, 1, 2, 1), of(to+24, out, f32, 1, 1, 2, 1), of(to+64, out, f32, 0), of(to, out, f32, 1, 1, 2, 2)}
		}, []float32{1, 2, 2, 4, 1, 0, 1, 2}},
		{"aclnnRotaryPositionEmbedding", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4), in, f32, 1, 4), of(put[float32](m, 1, 1, 1, 1), in, f32, 1, 4), of(put[float32](m, 10, 10, 10, 10), in, f32, 1, 4), whole(0),
				of(to, out, f32, 1, 4)}
		}, []float32{-29, -38, 13, 24}},
		{"aclnnGRU", func(m *memory, to uint64) []testtrace.OperatorParam { // gates are one half, and the state moves half way to 0
			zeros := put(m, make([]float32, 9)...)
			weights := list(testtrace.Contiguous(zeros, in, f32, 3, 1), testtrace.Contiguous(zeros, in, f32, 3, 1))
			none := testtrace.OperatorParam{Type: 'l', Null: true}
			return []testtrace.OperatorParam{of(zeros, in, f32, 2, 1, 1), weights, of(put[float32](m, 8), in, f32, 1, 1, 1), {Type: 'T', Null: true}, flag(0), whole(1), {Type: 'd', Value: 0.0}, flag(0), flag(0),
				flag(0), of(to, out, f32, 2, 1, 1), of(to+8, out, f32, 1, 1, 1), none, none, none, none, none}
		}, []float32{4, 2, 2}},
		{"aclnnMaskedSelect", func(m *memory, to uint64) []testtrace.OperatorParam { // the mask repeats
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4), in, f32, 2, 2), of(put[uint8](m, 0, 1), in, boolean, 2), of(to, out, f32, 4)}
		}, []float32{2, 4}},
		{"aclnnUnique2", func(m *memory, to uint64) []testtrace.OperatorParam { // a NaN is equal to nothing
			none := of(to+64, out, i64, 0)
			return []testtrace.OperatorParam{of(put[float32](m, 3, nan, 1, 3, nan), in, f32, 5), flag(1), flag(0), flag(0), of(to, out, f32, 5), none, none}
		}, []float32{1, 3, nan, nan}},
		{"aclnnFusedInferAttentionScore", func(m *memory, to uint64) []testtrace.OperatorParam { // one query, which a length of queries does not cut; the third key is cut, an addend makes up for the first
			none, number := testtrace.OperatorParam{Type: 'T', Null: true}, whole(0)
			keys := func(v ...float32) testtrace.OperatorParam {
				return list(testtrace.Contiguous(put(m, v...), in, f32, 1, 1, 3, 2))
			}
			params := []testtrace.OperatorParam{of(put[float32](m, 1, 0), in, f32, 1, 1, 1, 2), keys(1, 0, 2, 0, 9, 9), keys(1, 2, 3, 6, 9, 9), of(put[float32](m, 1, 0, 0), in, f32, 1, 1, 1, 3), none, ints(100), ints(2)}
			for range 10 {
				params = append(params, none)
			}
			params = append(params, whole(1), testtrace.OperatorParam{Type: 'd', Value: 1.0}, whole(math.MaxInt32), whole(math.MaxInt32), testtrace.OperatorParam{Type: 's', Value: "BNSD"})
			return append(params, whole(0), number, number, number, number, flag(0), of(to, out, f32, 1, 1, 1, 2))
		}, []float32{2, 4}},
		{"aclnnElu", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put(m, -inf, 0, 3), in, f32, 3), scalar(2), scalar(5), scalar(1), of(to, out, f32, 3)}
		}, []float32{-10, 0, 15}},
		{"aclnnHardswish", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put(m, -4, 0, 1, 6, nan), in, f32, 5), of(to, out, f32, 5)}
		}, []float32{0, 0, 4. / 6, 6, nan}},
		{"aclnnSoftplus", func(m *memory, to uint64) []testtrace.OperatorParam { // the logarithm of a number next to 1, and the part that is a line
			return []testtrace.OperatorParam{of(put[float32](m, -20, 11), in, f32, 2), scalar(2), scalar(20), of(to, out, f32, 2)}
		}, []float32{float32(math.Log1p(math.Exp(-40)) / 2), 11}},
		{"aclnnGeluV2", func(m *memory, to uint64) []testtrace.OperatorParam { // by erf
			return []testtrace.OperatorParam{of(put[float32](m, 1, -2), in, f32, 2), whole(0), of(to, out, f32, 2)}
		}, []float32{float32(0.5 * (1 + math.Erf(math.Sqrt2/2))), float32(-(1 + math.Erf(-math.Sqrt2)))}},
		{"aclnnPowScalarTensor", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{scalar(2), of(put[float32](m, 0, 3, -1), in, f32, 3), of(to, out, f32, 3)}
		}, []float32{1, 8, 0.5}},
		{"aclnnInplaceTriu", func(m *memory, to uint64) []testtrace.OperatorParam {
			copy(unsafe.Slice((*float32)(unsafe.Pointer(&m.b[to-uint64(uintptr(unsafe.Pointer(&m.b[0])))])), 4), []float32{1, 2, 3, 4})
			return []testtrace.OperatorParam{of(to, both, f32, 2, 2), whole(1)}
		}, []float32{0, 2, 0, 0}},
		{"aclnnSwiGlu", func(m *memory, to uint64) []testtrace.OperatorParam { // the gate is the first half
			return []testtrace.OperatorParam{of(put(m, 0, inf, 5, 7), in, f32, 4), whole(0), of(to, out, f32, 2)}
		}, []float32{0, inf}},
		{"aclnnGeGluV3", func(m *memory, to uint64) []testtrace.OperatorParam { // the gate is the second half
			return []testtrace.OperatorParam{of(put[float32](m, 3, 5, 0, 30), in, f32, 4), whole(-1), whole(0), flag(0), of(to, out, f32, 2), of(to+8, out, f32, 2)}
		}, []float32{0, 150, 0, 30}},
		{"aclnnRmsNorm", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 3, -3, 4, 4), in, f32, 2, 2), of(put[float32](m, 1, 10), in, f32, 2), {Type: 'd', Value: 0.0}, of(to, out, f32, 2, 2), of(to+16, out, f32, 2, 1)}
		}, []float32{1, -10, 1, 10, 1. / 3, 0.25}},
		{"aclnnAddRmsNorm", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 0), in, f32, 2), of(put[float32](m, 2, 3), in, f32, 2), of(put[float32](m, 1, 10), in, f32, 2), {Type: 'd', Value: 0.0}, of(to, out, f32, 2),
				of(to+8, out, f32, 1), of(to+12, out, f32, 2)}
		}, []float32{1, 10, 1. / 3, 3, 3}},
		{"aclnnGroupNorm", func(m *memory, to uint64) []testtrace.OperatorParam { // two groups of two channels
			return []testtrace.OperatorParam{of(put[float32](m, 1, 3, 0, 8), in, f32, 1, 4, 1), of(put[float32](m, 1, 2, 3, 4), in, f32, 4), {Type: 'T', Null: true}, whole(1), whole(4), whole(1), whole(2),
				{Type: 'd', Value: 0.0}, of(to, out, f32, 1, 4, 1), of(to+16, out, f32, 1, 2), of(to+24, out, f32, 1, 2)}
		}, []float32{-1, 2, -3, 4, 2, 4, 1, 0.25}},
		{"aclnnSoftmaxCrossEntropyWithLogits", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put(m, 0, -inf, 7, 7), in, f32, 2, 2), of(put[float32](m, 1, 0, 0, 0), in, f32, 2, 2), of(to, out, f32, 2), of(to+8, out, f32, 2, 2)}
		}, []float32{0, 0, 0, 0, 0.5, 0.5}},
		{"aclnnTriangularSolve", func(m *memory, to uint64) []testtrace.OperatorParam { // lower, and the number above the diagonal is not read
			return []testtrace.OperatorParam{of(put[float32](m, 2, 7), in, f32, 2, 1), of(put(m, 2, nan, 3, 4), in, f32, 2, 2), flag(0), flag(0), flag(0), of(to, out, f32, 2, 1), of(to+8, out, f32, 2, 2)}
		}, []float32{1, 1, 2, nan, 3, 4}},
		{"aclnnMaxPool", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, -1, -2, -3, -4), in, f32, 1, 1, 1, 4), ints(1, 2), ints(1, 2), whole(0), ints(0, 1, 0, 1), ints(1, 1), whole(0), of(to, out, f32, 1, 1, 1, 3)}
		}, []float32{-1, -2, -4}},
		{"aclnnIm2col", func(m *memory, to uint64) []testtrace.OperatorParam { // the last window is outside with one element
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3), in, f32, 1, 1, 3), ints(1, 2), ints(1), ints(0, 1), ints(1, 2), of(to, out, f32, 2, 2)}
		}, []float32{0, 2, 1, 3}},
		{"aclnnPermute", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4, 5, 6), in, f32, 1, 2, 3), ints(2, 0, -2), of(to, out, f32, 3, 1, 2)}
		}, []float32{1, 4, 2, 5, 3, 6}},
		{"aclnnRepeat", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2), in, f32, 2), ints(2, 3), of(to, out, f32, 2, 6)}
		}, []float32{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}},
		{"aclnnRepeatInterleaveIntWithDim", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4), in, f32, 2, 2), whole(2), whole(1), whole(4), of(to, out, f32, 2, 4)}
		}, []float32{1, 1, 2, 2, 3, 3, 4, 4}},
		{"aclnnRoll", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4, 5, 6), in, f32, 2, 3), ints(-1, 5), ints(0, 1), of(to, out, f32, 2, 3)}
		}, []float32{5, 6, 4, 2, 3, 1}},
		{"aclnnSlice", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4, 5), in, f32, 5), whole(0), whole(-4), whole(99), whole(2), of(to, out, f32, 2)}
		}, []float32{2, 4}},
		{"aclnnReflectionPad1d", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3), in, f32, 1, 3), ints(2, 1), of(to, out, f32, 1, 6)}
		}, []float32{3, 2, 1, 2, 3, 2}},
		{"aclnnUpsampleNearest2d", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2), in, f32, 1, 1, 1, 2), ints(2, 3), of(to, out, f32, 1, 1, 2, 3)}
		}, []float32{1, 1, 2, 1, 1, 2}},
		{"aclnnGatherV2", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 1, 2, 3, 4), in, f32, 2, 2), whole(0), of(put[int32](m, 1, 0), in, i32, 1, 2), of(to, out, f32, 1, 2, 2)}
		}, []float32{3, 4, 1, 2}},
		{"aclnnInplaceIndexCopy", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(to, both, f32, 3, 2), whole(0), of(put[int64](m, 2, 0), in, i64, 2), of(put[float32](m, 1, 2, 3, 4), in, f32, 2, 2)}
		}, []float32{3, 4, 0, 0, 1, 2}},
		{"aclnnInplaceIndexFillTensor", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(to, both, f32, 2, 3), whole(1), ints(0, -1), scalar(9)}
		}, []float32{9, 0, 9, 9, 0, 9}},
		{"aclnnArange", func(m *memory, to uint64) []testtrace.OperatorParam { // dims of 1 around it
			return []testtrace.OperatorParam{scalar(1), scalar(7), scalar(2), of(to, out, f32, 1, 3, 1)}
		}, []float32{1, 3, 5}},
		{"aclnnSort", func(m *memory, to uint64) []testtrace.OperatorParam { // NaNs are the largest
			return []testtrace.OperatorParam{of(put(m, 2, nan, 1, 3), in, f32, 2, 2), flag(1), whole(0), flag(1), of(to, out, f32, 2, 2), of(put[int32](m, 0, 0, 0, 0), out, i32, 2, 2)}
		}, []float32{2, nan, 1, 3}},
		{"aclnnTopk", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[float32](m, 5, 1, 4, 2), in, f32, 4), whole(2), whole(0), flag(0), flag(1), of(to, out, f32, 2), of(put[int32](m, 0, 0), out, i32, 2)}
		}, []float32{1, 2}},
		{"aclnnCast", func(m *memory, to uint64) []testtrace.OperatorParam {
			return []testtrace.OperatorParam{of(put[int32](m, 7, -7), in, i32, 2), {Type: 'j', Value: int64(0)}, of(to, out, f32, 2)}
		}, []float32{7, -7}},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := newMemory(t)
			guard := put[float32](m, 77)
			to := put(m, make([]float32, 16)...)
			if !do(t, x.name, x.params(m, to)...) {
				t.Fatal("not computed")
			}
			for i, got := range get[float32](to, len(x.want)) {
				if want := x.want[i]; got != want && !(math.IsNaN(float64(got)) && math.IsNaN(float64(want))) {
					t.Errorf("%v, want %v", get[float32](to, len(x.want)), x.want)
					break
				}
			}
			if after := get[float32](to, 16)[len(x.want):]; slices.ContainsFunc(after, func(v float32) bool { return v != 0 }) || get[float32](guard, 1)[0] != 77 {
				t.Errorf("memory beside the result was written: %v", after)
			}
		})
	}
}

// Places are stored as the program sees them when it knows their number: one after the other.
func TestPlacesOfNonzeroElements(t *testing.T) {
	m := newMemory(t)
	x := put[float32](m, 0, 5, 0, 7)
	for name, want := range map[string][]int64{"aclnnNonzero": {0, 1, 1, 1, 9}, "aclnnNonzeroV2": {0, 1, 1, 1, 9}} {
		to := put[int64](m, 9, 9, 9, 9, 9, 9, 9, 9)
		dims := map[bool][]int64{false: {4, 2}, true: {2, 4}}[name == "aclnnNonzeroV2"]
		if !do(t, name, of(x, in, f32, 2, 2), of(to, out, i64, dims...)) || !slices.Equal(get[int64](to, 5), want) {
			t.Errorf("%s: %v, want %v", name, get[int64](to, 5), want)
		}
	}
	three := put[int64](m, 9, 9, 9, 9, 9, 9, 9, 9)
	if !do(t, "aclnnNonzeroV2", of(put[float32](m, 1, 0, 0, 1, 1, 0), in, f32, 2, 3), of(three, out, i64, 2, 6)) || !slices.Equal(get[int64](three, 7), []int64{0, 1, 1, 0, 0, 1, 9}) {
		t.Errorf("%v", get[int64](three, 7))
	}
}

// Equal elements keep their order in both directions, and wide whole numbers are not taken for equal.
func TestEqualElementsKeepTheirOrder(t *testing.T) {
	m := newMemory(t)
	for descending, want := range map[int64][]int64{0: {2, 0, 3, 1}, 1: {1, 0, 3, 2}} {
		to := put[int64](m, 9, 9, 9, 9)
		if !do(t, "aclnnArgsort", of(put[int64](m, 1<<60, 1<<60+1, 1, 1<<60), in, i64, 4), whole(-1), flag(descending), of(to, out, i64, 4)) || !slices.Equal(get[int64](to, 4), want) {
			t.Errorf("descending %d: %v, want %v", descending, get[int64](to, 4), want)
		}
	}
}

// Comparisons of whole numbers with a real one are those of real numbers, and whole numbers wrap around.
func TestWholeNumbers(t *testing.T) {
	m := newMemory(t)
	to := put[uint8](m, 9, 9, 9)
	if !do(t, "aclnnGtScalar", of(put[int64](m, 0, 1, -1), in, i64, 3), scalar(0.5), of(to, out, boolean, 3)) || !bytes.Equal(get[uint8](to, 3), []byte{0, 1, 0}) {
		t.Errorf("%v", get[uint8](to, 3))
	}
	sum := put[int64](m, 0)
	if !do(t, "aclnnAdd", of(put[int64](m, math.MaxInt64), in, i64), of(put[int64](m, 1), in, i64), scalar(1), of(sum, out, i64)) || get[int64](sum, 1)[0] != math.MinInt64 {
		t.Errorf("%v", get[int64](sum, 1))
	}
}

// What is not computed writes nothing: other types, formats and shapes, and numbers out of range.
func TestRefusalsWriteNothing(t *testing.T) {
	m := newMemory(t)
	to, x := put[float32](m, 5, 5, 5, 5), put[float32](m, 1, 2, 3, 4)
	blocked := testtrace.Contiguous(x, in, f32, 4)
	blocked.Format, blocked.Storage = 29, []int64{4}
	for name, done := range map[string]bool{
		"unknown operator": do(t, "aclnnNoSuchOperator", of(x, in, f32, 4), of(to, out, f32, 4)),
		"dims":             do(t, "aclnnAdd", of(x, in, f32, 3), of(x, in, f32, 4), scalar(1), of(to, out, f32, 4)),
		"complex numbers":  do(t, "aclnnMuls", of(x, in, 16, 2), scalar(1), of(to, out, 16, 2)),
		"blocks":           do(t, "aclnnMuls", tensor(blocked), scalar(1), of(to, out, f32, 4)),
		"no scalar":        do(t, "aclnnMuls", of(x, in, f32, 4), testtrace.OperatorParam{Type: 'S', Null: true}, of(to, out, f32, 4)),
		"index":            do(t, "aclnnEmbedding", of(x, in, f32, 2, 2), of(put[int64](m, 0, 2), in, i64, 2), of(to, out, f32, 2, 2)),
		"negative index":   do(t, "aclnnIndexSelect", of(x, in, f32, 4), whole(0), of(put[int64](m, -1), in, i64, 1), of(to, out, f32, 1)),
		"target":           do(t, "aclnnNLLLoss", of(x, in, f32, 2, 2), of(put[int64](m, 0, 7), in, i64, 2), of(x, in, f32, 2), whole(1), whole(-100), of(to, out, f32), of(to+4, out, f32)),
		"common dim":       do(t, "aclnnMm", of(x, in, f32, 2, 2), of(x, in, f32, 1, 4), of(to, out, f32, 1, 4), testtrace.OperatorParam{Type: 'c', Value: int64(0)}),
		"list":             do(t, "aclnnForeachSqrt", list(testtrace.Contiguous(x, in, f32, 2), testtrace.Absent), list(testtrace.Contiguous(to, out, f32, 2), testtrace.Contiguous(to+8, out, f32, 2))),
		"row":              do(t, "aclnnInplaceIndexCopy", of(to, both, f32, 4), whole(0), of(put[int64](m, 0, 4), in, i64, 2), of(x, in, f32, 2)),
		"dims of a view":   do(t, "aclnnPermute", of(x, in, f32, 2, 2), ints(0, 0), of(to, out, f32, 2, 2)),
		"odd half":         do(t, "aclnnSwiGlu", of(x, in, f32, 3), whole(0), of(to, out, f32, 1)),
		"fill":             do(t, "aclnnInplaceIndexFillTensor", of(to, both, f32, 4), whole(0), ints(0, 4), scalar(1)),
		"shift":            do(t, "aclnnRoll", of(x, in, f32, 4), ints(1), ints(), of(to, out, f32, 4)),
		"reflection":       do(t, "aclnnReflectionPad1d", of(x, in, f32, 1), ints(1, 0), of(to, out, f32, 2)),
		"dim":              do(t, "aclnnSoftmax", of(x, in, f32, 4), whole(1), of(to, out, f32, 4)),
	} {
		if done {
			t.Errorf("%s: computed", name)
		}
	}
	if got := get[float32](to, 4); !slices.Equal(got, []float32{5, 5, 5, 5}) {
		t.Errorf("memory was written: %v", got)
	}
	if (Operators{}).Computes((&testtrace.Operator{Name: "aclnnNoSuchOperator"}).Bytes()) {
		t.Error("an unknown operator would be computed")
	}
}

// Empty tensors have no elements, and their sum is 0.
func TestEmptyTensors(t *testing.T) {
	m := newMemory(t)
	to := put[float32](m, 5)
	if !do(t, "aclnnReduceSum", of(to+64, in, f32, 0, 3), ints(0, 1), testtrace.OperatorParam{Type: 'b', Value: int64(0)}, testtrace.OperatorParam{Type: 'j', Value: int64(0)}, of(to, out, f32)) || get[float32](to, 1)[0] != 0 {
		t.Errorf("the sum of nothing is %v", get[float32](to, 1))
	}
	if !do(t, "aclnnMm", of(to, in, f32, 0, 2), of(to, in, f32, 2, 0), of(to, out, f32, 0, 0), testtrace.OperatorParam{Type: 'c', Value: int64(0)}) {
		t.Error("an empty product is not computed")
	}
}

// The same block has the same bits each time, and results in 16 bits are rounded once.
func TestHalfPrecision(t *testing.T) {
	m := newMemory(t)
	x, to := put[uint8](m, 0x01, 0x3c, 0x00, 0x3c), put[uint8](m, 0, 0, 0, 0) // 1.0009765625, 1
	if !do(t, "aclnnMul", of(x, in, f16, 2), of(x, in, f16, 2), of(to, out, f16, 2)) || !bytes.Equal(get[uint8](to, 4), []byte{0x02, 0x3c, 0x00, 0x3c}) {
		t.Errorf("%x", get[uint8](to, 4))
	}
}

// Operands of a product may be real numbers of different types.
func TestProductOfTypes(t *testing.T) {
	m := newMemory(t)
	x, to := put[uint8](m, 0x00, 0x3c, 0x00, 0xc0), put[float32](m, 0) // 1, -2
	cube := testtrace.OperatorParam{Type: 'c', Value: int64(0)}
	if !do(t, "aclnnMm", of(x, in, f16, 1, 2), of(put[float32](m, 3, 0.125), in, f32, 2, 1), of(to, out, f32, 1, 1), cube) || get[float32](to, 1)[0] != 2.75 {
		t.Errorf("%v", get[float32](to, 1))
	}
	if do(t, "aclnnMm", of(x, in, f16, 1, 2), of(put[int32](m, 3, 1), in, i32, 2, 1), of(to, out, f32, 1, 1), cube) {
		t.Error("a product of real and whole numbers is computed")
	}
}

// A convolution of several threads has the bits of one.
func TestConvolutionsInParts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	m := newMemory(t, 4<<20)
	random := func(n int) uint64 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return put(m, v...)
	}
	image, filters, bias, grad := random(8*8*16*16), random(16*8*3*3), random(16), random(8*16*14*14)
	results := func(threads int) []float32 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
		to := put(m, make([]float32, 8*16*14*14+8*8*16*16+16*8*3*3+16)...)
		x, w, pair, none := of(image, in, f32, 8, 8, 16, 16), of(filters, in, f32, 16, 8, 3, 3), ints(1, 1), ints(0, 0)
		second := to + 4*8*16*14*14
		third := second + 4*8*8*16*16
		fourth := third + 4*16*8*3*3
		if !do(t, "aclnnConvolution", x, w, of(bias, in, f32, 16), pair, none, pair, flag(0), none, whole(1), of(to, out, f32, 8, 16, 14, 14), testtrace.OperatorParam{Type: 'c', Value: int64(0)}) ||
			!do(t, "aclnnConvolutionBackward", of(grad, in, f32, 8, 16, 14, 14), x, w, ints(16), pair, none, pair, flag(0), none, testtrace.OperatorParam{Type: 'j', Value: int64(1)},
				testtrace.OperatorParam{Type: 'B', Value: []bool{true, true, true}}, testtrace.OperatorParam{Type: 'c', Value: int64(0)}, of(second, out, f32, 8, 8, 16, 16), of(third, out, f32, 16, 8, 3, 3),
				of(fourth, out, f32, 16)) {
			t.Fatal("not computed")
		}
		return get[float32](to, 8*16*14*14+8*8*16*16+16*8*3*3+16)
	}
	one := results(1)
	if slices.Contains(one, 0) {
		t.Error("a result was not written")
	}
	for _, threads := range []int{2, 3, 7} {
		if !slices.Equal(results(threads), one) {
			t.Errorf("%d threads differ", threads)
		}
	}
}

// Products of matrices of 32-bit numbers, as Gflop/s of the processor time.
func BenchmarkMatmul(b *testing.B) {
	const n = 768
	m := newMemory(b, 16<<20)
	left, right, to := put(m, make([]float32, n*n)...), put(m, make([]float32, n*n)...), put(m, make([]float32, n*n)...)
	args := (&testtrace.Operator{Name: "aclnnMm", Params: []testtrace.OperatorParam{of(left, in, f32, n, n), of(right, in, f32, n, n), of(to, out, f32, n, n), {Type: 'c', Value: int64(0)}}}).Bytes()
	before := processorTime(b)
	for b.Loop() {
		if !(Operators{}).Compute(args) {
			b.Fatal("not computed")
		}
	}
	b.ReportMetric(2*n*n*n*float64(b.N)/(processorTime(b)-before).Seconds()/1e9, "Gflop/s")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
