//go:build cgo

package compute

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
)

// A region is memory of testdata/play.c: the bytes before a multiple of the page size.
type region struct {
	at    uint64
	bytes []byte
}

// blocks makes blocks of all operators, with random types, dims, strides, offsets and numbers. All tensors are in regions, and most touch an end of one.
type blocks struct {
	*rand.Rand
	regions []region
	types   map[string][2]string // types and roles of parameters, from operators.tsv
	dims    []int64              // that most tensors of an operator have
	dtype   block.DType
}

func newBlocks(t *testing.T, seed uint64) *blocks {
	b := &blocks{Rand: rand.New(rand.NewPCG(seed, 7)), types: map[string][2]string{}}
	for i := range uint64(8) {
		size := 4096 - 8*b.Uint64N(64)
		r := region{0x200000000000 + i*0x10000 + 4096 - size, make([]byte, size)}
		for k := 0; k < len(r.bytes); k += 4 {
			v := float32(b.NormFloat64())
			switch b.IntN(24) {
			case 0:
				v = float32(math.NaN())
			case 1:
				v = float32(math.Inf(1))
			case 2:
				v = 1e-40
			case 3, 4, 5, 6:
				v = math.Float32frombits(b.Uint32N(4)) // indices
			}
			binary.LittleEndian.PutUint32(r.bytes[k:], math.Float32bits(v))
		}
		b.regions = append(b.regions, r)
	}
	table, err := os.ReadFile("../operators.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if words := strings.Split(line, "\t"); len(words) == 6 {
			b.types[words[0]] = [2]string{words[3], words[4]}
		}
	}
	return b
}

var dtypes = []block.DType{f32, f32, f32, f16, bf16, f64, i32, i64, boolean, 2, 4, 6, 16}

func (b *blocks) size() int64 {
	switch b.IntN(12) {
	case 0:
		return 0
	case 1, 2:
		return 1
	}
	return b.Int64N(6)
}

// tensor makes one that is in a region.
func (b *blocks) tensor(role block.Role) testtrace.OperatorTensor {
	t := testtrace.OperatorTensor{Format: 2, Role: role, DType: b.dtype, Dims: slices.Clone(b.dims)}
	switch b.IntN(8) {
	case 0:
		t.DType = dtypes[b.IntN(len(dtypes))]
	case 1:
		t.DType = i64
	case 2:
		t.Format = block.Format(b.IntN(4)) - 1
	}
	switch b.IntN(8) {
	case 0:
		t.Dims = nil
	case 1:
		t.Dims = t.Dims[b.IntN(len(t.Dims)+1):]
	case 2:
		for i := range t.Dims {
			t.Dims[i] = b.size()
		}
	case 3:
		if len(t.Dims) > 0 {
			t.Dims[b.IntN(len(t.Dims))] = 1
		}
	}
	t.Strides = make([]int64, len(t.Dims))
	next, last, wild := int64(1), int64(0), b.IntN(4) == 0
	for i := len(t.Dims) - 1; i >= 0; i-- {
		t.Strides[i] = next
		if wild {
			t.Strides[i] = b.Int64N(9)
		}
		next *= max(t.Dims[i], 1)
		last += max(t.Dims[i]-1, 0) * t.Strides[i]
	}
	if b.IntN(40) == 0 && len(t.Dims) > 0 { // larger than all memory
		t.Dims[0], t.Strides[0] = []int64{1 << 9, 1 << 33, 1 << 62}[b.IntN(3)], 0
	}
	width := max(int64(t.DType.Bits()/8), 1)
	r := &b.regions[b.IntN(len(b.regions))]
	room := int64(len(r.bytes)) - (last+1)*width
	if room < 0 {
		room = 0
	}
	t.Offset = []int64{0, room / width, b.Int64N(room/width + 1)}[b.IntN(3)]
	t.Base = r.at
	if b.IntN(2) == 0 { // the last byte of the region is that of the last element
		t.Base += uint64(room - room/width*width)
	}
	t.Storage = []int64{t.Offset + last + 1}
	return t
}

func (b *blocks) param(kind, role byte) testtrace.OperatorParam {
	p := testtrace.OperatorParam{Type: kind}
	whole := b.Int64N(5) - 1
	if b.IntN(20) == 0 {
		whole = int64(b.Uint64())
	}
	n := b.IntN(5)
	roles := map[byte]block.Role{'i': in, 'o': out, 'd': out, 'b': both}
	r, known := roles[role|0x20]
	if !known {
		r = both
	}
	switch kind {
	case 'T', 't':
		p.Tensors = []testtrace.OperatorTensor{b.tensor(r)}
	case 'L', 'l':
		for range 1 + n {
			p.Tensors = append(p.Tensors, b.tensor(r))
		}
	case 'S', 'A':
		list := make([]block.Scalar, 1)
		if kind == 'A' {
			list = make([]block.Scalar, n)
		}
		for i := range list {
			list[i].DType = dtypes[b.IntN(len(dtypes))]
			binary.LittleEndian.PutUint64(list[i].Value[:], uint64(b.Int64N(4)))
		}
		p.Value = list
	case 'I':
		list := make([]int64, n)
		for i := range list {
			list[i] = b.Int64N(5) - 1
		}
		if b.IntN(2) == 0 && len(b.dims) > 0 {
			list = b.dims[len(b.dims)-1:]
		}
		p.Value = list
	case 'F':
		p.Value = []float32{1, 2}
	case 'B':
		p.Value = []bool{true, true, true}[:min(n, 3)]
	case 's':
		p.Value = "tanh"
	case 'd', 'f':
		p.Value = b.NormFloat64()
	case 'p':
	default:
		p.Value = whole
	}
	if b.IntN(24) == 0 {
		return testtrace.OperatorParam{Type: kind, Null: true}
	}
	return p
}

type (
	dims  []int64 // of a tensor
	lists []dims
)

// fit sets a parameter to a value, and a tensor to dims, with its last dims in another order at times.
func (b *blocks) fit(p *testtrace.OperatorParam, value any) {
	var all lists
	switch v := value.(type) {
	case nil:
		*p = testtrace.OperatorParam{Type: p.Type, Null: true}
		return
	case dims:
		all = lists{v}
	case lists:
		all = v
	default:
		*p = testtrace.OperatorParam{Type: p.Type, Value: v}
		return
	}
	role := in
	if len(p.Tensors) > 0 {
		role = p.Tensors[0].Role
	}
	*p = testtrace.OperatorParam{Type: p.Type}
	for _, d := range all {
		t := testtrace.Contiguous(b.regions[b.IntN(len(b.regions))].at, role, b.dtype, d...)
		if n := len(d); n >= 2 && b.IntN(3) == 0 {
			t.Strides = make([]int64, n)
			t.Strides[n-1], t.Strides[n-2] = d[n-2], 1
			for i, next := n-3, d[n-1]*d[n-2]; i >= 0; i-- {
				t.Strides[i] = next
				next *= d[i]
			}
		}
		p.Tensors = append(p.Tensors, t)
	}
}

// fitting returns arguments of an operator whose shapes depend on each other, nil for others: dims for tensors, nil for none.
func (b *blocks) fitting(name string) []any {
	if b.dtype = []block.DType{f32, f16, bf16}[b.IntN(3)]; b.IntN(3) == 0 {
		return nil
	}
	small := func(n int64) int64 { return 1 + b.Int64N(n) }
	n, c, h, w, k, s, p := small(2), small(3), 2+small(4), 2+small(4), small(2), small(2), b.Int64N(2)
	oh, ow := (h+2*p-k)/s+1, (w+2*p-k)/s+1
	ks, ss, ps, ones, z := []int64{k, k}, []int64{s, s}, []int64{p, p}, []int64{1, 1}, []int64{0, 0}
	image, map_, filters := dims{n, c, h, w}, dims{n, 2, oh, ow}, dims{2, c, k, k}
	switch pooled := (dims{n, c, oh, ow}); name {
	case "aclnnConvolution":
		return []any{image, filters, dims{2}, ss, ps, ones, int64(0), z, int64(1), map_, int64(0)}
	case "aclnnConvolutionBackward":
		return []any{map_, image, filters, []int64{2}, ss, ps, ones, int64(0), z, int64(1), []bool{true, true, true}, int64(0), image, filters, dims{2}}
	case "aclnnAvgPool2d":
		if k < 2*p {
			return nil
		}
		return []any{image, ks, ss, ps, int64(0), b.Int64N(2), b.Int64N(3), int64(0), pooled}
	case "aclnnAvgPool2dBackward":
		return []any{pooled, image, ks, ss, ps, int64(0), b.Int64N(2), b.Int64N(3), int64(0), image}
	case "aclnnAdaptiveAvgPool2d":
		return []any{image, []int64{2, 3}, dims{n, c, 2, 3}}
	case "aclnnBatchNorm":
		return []any{image, dims{c}, dims{c}, dims{c}, dims{c}, b.Int64N(2), 0.5, 1e-3, image, dims{c}, dims{c}}
	case "aclnnBatchNormBackward":
		return []any{image, image, dims{c}, dims{c}, dims{c}, dims{c}, dims{c}, b.Int64N(2), 1e-3, []bool{true, true, true}, image, dims{c}, dims{c}}
	case "aclnnGRU":
		state, gate := dims{1, n, w}, lists{{h, n, w}}
		return []any{dims{h, n, c}, lists{{3 * w, c}, {3 * w, w}}, state, nil, int64(0), int64(1), 0.0, int64(1), int64(0), int64(0), dims{h, n, w}, state, gate, gate, gate, gate, gate}
	case "aclnnGRUBackward": // in both directions
		x, state, gate, params := dims{h, n, c}, dims{2, n, w}, lists{{h, n, w}, {h, n, w}}, lists{{3 * w, c}, {3 * w, w}, {3 * w, c}, {3 * w, w}}
		return []any{x, params, state, dims{h, n, 2 * w}, nil, gate, gate, gate, gate, gate, nil, int64(0), int64(1), int64(1), int64(0), x, state, params}
	case "aclnnLSTM":
		state, gate := dims{1, n, w}, lists{{h, n, w}}
		return []any{dims{n, h, c}, lists{{4 * w, c}, {4 * w, w}, {4 * w}, {4 * w}}, lists{state, state}, nil, int64(1), int64(1), 0.0, int64(1), int64(0), int64(1), dims{n, h, w}, state, state,
			gate, gate, gate, gate, gate, gate, gate}
	case "aclnnMaxPool":
		return []any{image, ks, ss, int64(0), ps, ones, b.Int64N(2), pooled}
	case "aclnnIm2col":
		return []any{image, ks, ones, ps, ss, dims{n, c * k * k, oh * ow}}
	case "aclnnGroupNorm":
		return []any{image, dims{c}, dims{c}, n, c, h * w, int64(1), 1e-3, image, dims{n, 1}, dims{n, 1}}
	case "aclnnAddRmsNorm":
		return []any{image, image, dims{h, w}, 1e-3, image, dims{n, c}, image}
	case "aclnnGeGluV3":
		return []any{dims{n, 2 * h, w}, int64(1), b.Int64N(2), b.Int64N(2), dims{n, h, w}, dims{n, h, w}}
	case "aclnnSoftmaxCrossEntropyWithLogits":
		return []any{dims{h, w}, dims{h, w}, dims{h}, dims{h, w}}
	case "aclnnTriangularSolve":
		return []any{dims{n, h, w}, dims{n, h, h}, b.Int64N(2), b.Int64N(2), b.Int64N(2), dims{n, h, w}, dims{n, h, h}}
	case "aclnnPermute":
		return []any{dims{n, c, h}, []int64{2, 0, 1}, dims{h, n, c}}
	case "aclnnRepeat":
		return []any{dims{h, w}, []int64{n, k, s}, dims{n, k * h, s * w}}
	case "aclnnRepeatInterleaveIntWithDim":
		return []any{dims{h, w}, k, int64(0), k * h, dims{k * h, w}}
	case "aclnnRoll":
		return []any{image, []int64{k, -s}, []int64{1, 3}, image}
	case "aclnnSlice":
		return []any{dims{h, w}, int64(1), int64(1), w, k, dims{h, (w - 1 + k - 1) / k}}
	case "aclnnReflectionPad1d":
		return []any{dims{h, w}, []int64{p, 1}, dims{h, w + p + 1}}
	case "aclnnUpsampleNearest2d":
		return []any{image, []int64{oh, ow}, dims{n, c, oh, ow}}
	case "aclnnFlashAttentionScore":
		q, kv, number := dims{n, 2 * c, h, k}, dims{n, c, w, k}, dims{n, 2 * c, h, 8}
		return []any{q, kv, kv, nil, nil, nil, nil, []int64{}, 0.5, 1.0, int64(9), int64(9), 2 * c, "BNSD", int64(0), int64(0), number, number, dims{0}, q}
	case "aclnnFlashAttentionScoreGrad":
		q, kv, number := dims{n, h, 2 * c * k}, dims{n, w, c * k}, dims{n, 2 * c, h, 8}
		return []any{q, kv, kv, q, nil, nil, nil, nil, number, number, dims{0}, q, []int64{}, 0.5, 1.0, int64(9), int64(9), 2 * c, "BSH", int64(0), int64(0), q, kv, kv, nil}
	}
	return nil
}

// next makes a block of an operator that the simulator would launch: its tensors are in regions.
func (b *blocks) next(name string) []byte {
	for {
		b.dims = make([]int64, b.IntN(5))
		square := 1 + b.Int64N(4)
		for i := range b.dims {
			if b.dims[i] = square; b.IntN(3) == 0 {
				b.dims[i] = b.size()
			}
		}
		b.dtype = dtypes[b.IntN(len(dtypes))]
		o := &testtrace.Operator{Name: name}
		values := b.fitting(name)
		for i := range b.types[name][0] {
			o.Params = append(o.Params, b.param(b.types[name][0][i], b.types[name][1][i]))
			if values != nil && b.IntN(64) > 0 {
				b.fit(&o.Params[i], values[i])
			}
		}
		args := o.Bytes()
		if x, err := block.Decode(args); err == nil && !slices.ContainsFunc(x.Operands(), func(x block.Operand) bool { return !b.holds(x.Addr+x.Lo, x.Size) }) {
			return args
		}
	}
}

func (b *blocks) holds(at, size uint64) bool {
	return size == 0 || slices.ContainsFunc(b.regions, func(r region) bool { return at >= r.at && at+size <= r.at+uint64(len(r.bytes)) })
}

// script is the input of testdata/play.c: n blocks of each operator.
func (b *blocks) script(n int) []byte {
	to := binary.LittleEndian.AppendUint64(nil, uint64(len(b.regions)))
	for _, r := range b.regions {
		to = binary.LittleEndian.AppendUint64(to, r.at)
		to = binary.LittleEndian.AppendUint64(to, uint64(len(r.bytes)))
		to = append(to, r.bytes...)
	}
	for range n {
		for _, name := range Names() {
			args := b.next(name)
			to = append(binary.LittleEndian.AppendUint64(to, uint64(len(args))), args...)
		}
	}
	return to
}

// play compiles testdata/play.c and returns a function that runs it. It is nil if the machine can't.
func play(t *testing.T, runner []string, compiler string, flags ...string) func(script []byte, args ...string) (string, error) {
	t.Helper()
	for _, name := range append(slices.Clone(runner), compiler) {
		if _, err := exec.LookPath(name); err != nil {
			return nil
		}
	}
	sources, err := filepath.Glob("*.c")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "play")
	args := append([]string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-I../../libascendcl/include", "-o", program, "testdata/play.c"}, sources...)
	if text, err := exec.Command(compiler, append(append(args, flags...), "-lm")...).CombinedOutput(); err != nil {
		if len(runner) > 0 { // a compiler without its C library
			return nil
		}
		t.Fatalf("%s %q: %v\n%s", compiler, flags, err, text)
	}
	return func(script []byte, args ...string) (string, error) {
		command := append(append(slices.Clone(runner), program), args...)
		c := exec.Command(command[0], command[1:]...)
		var errs bytes.Buffer
		c.Stdin, c.Stderr = bytes.NewReader(script), &errs
		text, err := c.Output()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, errs.String())
		}
		return string(text), err
	}
}

// soak is how often tests repeat at night.
func soak(often int) int {
	if os.Getenv("ACLTRACE_SOAK") != "" {
		return 50 * often
	}
	return often
}

// Each operator has the same bits without vectors, in another processor, and for callers with other modes of rounding and small numbers.
func TestSameBitsEverywhere(t *testing.T) {
	script := newBlocks(t, 1).script(soak(8))
	plain := play(t, nil, "cc", "-O0", "-DCOMPUTE_BASELINE")
	if plain == nil {
		t.Skip("no C compiler")
	}
	want, err := plain(script)
	if err != nil {
		t.Fatal(err)
	}
	computed := map[string]bool{}
	for line := range strings.Lines(want) {
		if name, rest, _ := strings.Cut(line, " "); rest[0] == '1' {
			computed[name] = true
		}
	}
	if len(computed) < 150 {
		t.Errorf("%d operators were computed", len(computed))
	}
	for _, name := range Names() {
		if fits := newBlocks(t, 1); !computed[name] && slices.ContainsFunc(make([]int, 40), func(int) bool { return fits.fitting(name) != nil }) {
			t.Errorf("%s was never computed", name)
		}
	}
	for _, x := range []struct {
		name   string
		play   func([]byte, ...string) (string, error)
		change []string
	}{
		{"vectors", play(t, nil, "cc", "-O3"), nil},
		{"modes", plain, []string{"modes"}},
		{"arm64", play(t, []string{"qemu-aarch64"}, "aarch64-linux-gnu-gcc", "-O1", "-static"), nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.play == nil {
				t.Skip("no compiler or emulator for it")
			}
			got, err := x.play(script, x.change...)
			if err != nil {
				t.Fatal(err)
			}
			a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
			for i := range a {
				if i >= len(b) || a[i] != b[i] {
					t.Fatalf("block %d of %d: %q, want %q", i, len(a), b[min(i, len(b)-1)], a[i])
				}
			}
		})
	}
}

// Blocks that lie about dims, strides, offsets and types touch only the memory that they name.
func TestBlocksThatLie(t *testing.T) {
	checked := play(t, nil, "cc", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	if checked == nil {
		t.Skip("no C compiler")
	}
	seed, err := strconv.ParseUint(os.Getenv("ACLTRACE_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	if text, err := checked(newBlocks(t, seed).script(soak(12))); err != nil {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		t.Fatalf("seed %d, after block %d, %s: %v", seed, len(lines), lines[len(lines)-1], err)
	}
}
