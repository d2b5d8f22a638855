package block

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// A Move is a step of an operator that computes nothing: it copies a view, or fills one with an element. Views have the same dims.
type Move struct {
	Width    uint64 // bytes of an element
	Dims     []int64
	To, From View
	Fill     []byte // the element; nil for a copy
}

// A View is where the elements of a move are.
type View struct {
	Addr    uint64  // first element
	Strides []int64 // in elements, one a dim
}

// movers are the operators that only move and fill, with what they do. A mover returns no moves for arguments that it does not know.
var movers = map[string]func(*Block) []*Move{
	"aclnnCat":                cat,
	"aclnnChunkCat":           chunkCat,
	"aclnnConstantPadNd":      pad,
	"aclnnForeachCopy":        func(x *Block) []*Move { return pairs(x.list(1), x.list(0)) },
	"aclnnForeachZeroInplace": func(x *Block) []*Move { return fills(x.list(0), &Scalar{DType: boolean}) },
	"aclnnInplaceCopy":        func(x *Block) []*Move { return pairs(x.list(0), x.list(1)) },
	"aclnnInplaceFillScalar":  func(x *Block) []*Move { return fills(x.list(0), x.scalar(1)) },
	"aclnnInplaceOne":         func(x *Block) []*Move { return fills(x.list(0), &Scalar{DType: boolean, Value: [16]byte{1}}) },
	"aclnnInplaceZero":        func(x *Block) []*Move { return fills(x.list(0), &Scalar{DType: boolean}) },
}

// Moves reports whether launches of an operator may only move and fill.
func Moves(operator string) bool { return movers[operator] != nil }

// Moves returns what a launch does that only moves bytes and fills memory, in order. Together the moves write all elements of its outputs.
// The result is nil if the operator computes, also for tensors of several types or of a format with blocks. Moves stay in the memory of
// the block's operands, and write at most as many bytes as these have.
func (x *Block) Moves() []*Move {
	mover := movers[x.Name]
	if mover == nil {
		return nil
	}
	all := mover(x)
	if slices.Contains(all, nil) {
		return nil
	}
	return all
}

// list returns the tensors of a parameter.
func (x *Block) list(param int) []*Tensor {
	if param >= len(x.Params) {
		return nil
	}
	p := &x.Params[param]
	if !slices.Contains([]byte("TtLl"), p.Type) {
		return nil
	}
	to := make([]*Tensor, p.Count)
	for i := range to {
		to[i] = &x.Tensors[p.First+i]
	}
	return to
}

// scalar returns a parameter that is a scalar, or nil.
func (x *Block) scalar(param int) *Scalar {
	if param < len(x.Params) && x.Params[param].Type == 'S' && !x.Params[param].Null {
		return &x.Params[param].Scalars()[0]
	}
	return nil
}

// number returns a parameter that is an integer.
func (x *Block) number(param int) (int64, bool) {
	if param >= len(x.Params) || len(x.Params[param].value) < 8 {
		return 0, false
	}
	return x.Params[param].Int(), true
}

// ints returns a parameter that is a list of integers.
func (x *Block) ints(param int) []int64 {
	if param < len(x.Params) && x.Params[param].Type == 'I' {
		return x.Params[param].Ints()
	}
	return nil
}

// A piece is a tensor, or a part of one.
type piece struct {
	*Tensor
	at            int64 // the first element, from the tensor's
	dims, strides []int64
}

func (t *Tensor) whole() piece { return piece{Tensor: t, dims: t.Dims(), strides: t.Strides()} }

// part returns the elements from..from+n of a dim.
func (p piece) part(dim int, from, n int64) piece {
	p.dims = slices.Clone(p.dims)
	p.dims[dim] = n
	p.at += from * p.strides[dim]
	return p
}

// joined returns a piece with the same elements in fewer dims: elements that follow each other or overlap become one run.
func (p piece) joined() piece {
	order := make([]int, len(p.dims))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.strides[a], p.strides[b]) })
	run, dims, strides := int64(1), []int64{1}, []int64{1}
	for _, d := range order {
		n, stride := p.dims[d], p.strides[d]
		over, more := bits.Mul64(uint64(n-1), uint64(stride))
		switch {
		case n == 0:
			return p // it may have any strides
		case n == 1:
		case len(dims) == 1 && stride >= 0 && stride <= run && over == 0 && more < math.MaxInt64/2:
			run += int64(more)
		default:
			dims, strides = append(dims, n), append(strides, stride)
		}
	}
	dims[0] = run
	p.dims, p.strides = dims, strides
	return p
}

// view returns the memory of a piece.
func (p piece) view() View {
	return View{Addr: p.Base + (uint64(p.Offset)+uint64(p.at))*p.DType.Bits()/8, Strides: p.strides}
}

// moves reports whether elements can be moved.
func (p piece) moves(role Role) bool {
	if p.Absent || p.Role&role == 0 || p.DType.Bits()%8 != 0 || p.Format.Blocked() {
		return false
	}
	_, err := product(p.Tensor.dims[:8*p.numDims], "dim")
	return err == nil
}

// apart reports whether the memory of a tensor has room for as many elements as these dims: then no two of them share bytes.
func (t *Tensor) apart(dims []int64) bool {
	size := t.DType.Bits() / 8
	for _, n := range dims {
		if n == 0 {
			return true
		}
	}
	for _, n := range dims {
		over, next := bits.Mul64(size, uint64(n))
		if size = next; over != 0 || size > t.size {
			return false
		}
	}
	return true
}

// copyPiece copies a piece to another. It repeats elements along dims that the source lacks or of which it has one element.
func copyPiece(to, from piece) *Move {
	missing := len(to.dims) - len(from.dims)
	if missing < 0 || to.DType != from.DType || !to.moves(Out) || !to.apart(to.Tensor.Dims()) || !from.moves(In) {
		return nil
	}
	strides := make([]int64, len(to.dims))
	for i, n := range from.dims {
		switch to.dims[missing+i] {
		case n:
			strides[missing+i] = from.strides[i]
		default:
			if n != 1 {
				return nil
			}
		}
	}
	return &Move{Width: to.DType.Bits() / 8, Dims: to.dims, To: to.view(), From: View{from.view().Addr, strides}}
}

// pairs copies each tensor of a list to one of another.
func pairs(to, from []*Tensor) []*Move {
	if len(to) != len(from) {
		return nil
	}
	all := make([]*Move, len(to))
	for i := range to {
		all[i] = copyPiece(to[i].whole(), from[i].whole())
	}
	return all
}

// fills fills each tensor of a list.
func fills(to []*Tensor, value *Scalar) []*Move {
	all := make([]*Move, len(to))
	for i, t := range to {
		if p := t.whole().joined(); value != nil && p.moves(Out) && p.apart(p.dims) {
			if element := value.Element(t.DType); element != nil {
				all[i] = &Move{Width: t.DType.Bits() / 8, Dims: p.dims, To: p.view(), Fill: element}
			}
		}
	}
	return all
}

// pad (self, pairs of numbers from the last dim to the first, value, out) surrounds a tensor with a value. A negative number cuts.
func pad(x *Block) []*Move {
	in, out, widths := x.list(0), x.list(3), x.ints(1)
	if len(in) != 1 || len(out) != 1 || len(widths) > 2*in[0].numDims || in[0].numDims != out[0].numDims {
		return nil
	}
	from, to := in[0].whole(), out[0].whole()
	for i := 0; i+1 < len(widths); i += 2 {
		dim, before, after := len(to.dims)-1-i/2, widths[i], widths[i+1]
		n := from.dims[dim]
		if max(before, after, -before, -after) > math.MaxInt64/4 || n > math.MaxInt64/4 || n+before+after != to.dims[dim] {
			return nil
		}
		kept := n + min(before, 0) + min(after, 0)
		if kept < 0 {
			return nil
		}
		from, to = from.part(dim, max(-before, 0), kept), to.part(dim, max(before, 0), kept)
	}
	return append(fills(out, x.scalar(2)), copyPiece(to, from))
}

// cat (tensors, dim, out) joins tensors along a dim. It ignores empty tensors with one dim.
func cat(x *Block) []*Move {
	out := x.list(2)
	dim, ok := x.number(1)
	if !ok || len(out) != 1 {
		return nil
	}
	to := out[0].whole()
	if dim < 0 {
		dim += int64(len(to.dims))
	}
	if dim < 0 || dim >= int64(len(to.dims)) {
		return nil
	}
	d, at := int(dim), int64(0)
	all := []*Move{}
	for _, t := range x.list(0) {
		from := t.whole()
		if slices.Equal(from.dims, []int64{0}) {
			continue
		}
		if len(from.dims) != len(to.dims) || from.dims[d] > to.dims[d]-at {
			return nil
		}
		part := to.part(d, at, from.dims[d])
		if !slices.Equal(part.dims, from.dims) {
			return nil
		}
		at += from.dims[d]
		all = append(all, copyPiece(part, from))
	}
	if at != to.dims[d] {
		return nil
	}
	return all
}

// maxChunks limits the chunks of a tensor, one a rank.
const maxChunks = 1 << 16

// chunkCat (tensors, dim, chunks, out) cuts each tensor into chunks of equal numbers of rows, of which the last ones have fewer or none. Row c
// of the output has the chunks c of all tensors, each as long as the first, with zeros at its end. Other dims than the first are not known.
func chunkCat(x *Block) []*Move {
	out := x.list(3)
	dim, ok := x.number(1)
	chunks, ok2 := x.number(2)
	if !ok || !ok2 || dim != 0 || chunks < 1 || chunks > maxChunks || len(out) != 1 || out[0].numDims != 2 || out[0].Dims()[0] != chunks {
		return nil
	}
	all := fills(out, &Scalar{DType: boolean})
	to := out[0].whole()
	at := int64(0)
	for _, t := range x.list(0) {
		from := t.whole()
		elements, err := product(t.dims[:8*t.numDims], "dim")
		if err != nil || elements == 0 || elements > uint64(to.dims[1])*uint64(chunks) || t.numDims == 0 {
			return nil
		}
		row := int64(elements) / from.dims[0]
		most := (from.dims[0]-1)/chunks + 1
		if most*row > to.dims[1]-at {
			return nil
		}
		for c := range min(chunks, (from.dims[0]+most-1)/most) {
			chunk := from.part(0, c*most, min(most, from.dims[0]-c*most))
			all = append(all, copyPiece(to.part(0, c, 1).part(1, at, row*chunk.dims[0]).as(chunk.dims), chunk))
		}
		at += most * row
	}
	if at != to.dims[1] {
		return nil
	}
	return all
}

// as returns a row of a matrix, with other dims.
func (p piece) as(dims []int64) piece {
	next := p.strides[1]
	p.dims, p.strides = dims, make([]int64, len(dims))
	for i, n := range slices.Backward(dims) {
		p.strides[i] = next
		next *= n
	}
	return p
}

// rows merges dims, so that as many elements as possible are next to each other. The last dim of its result is one such row.
func (m *Move) rows() *Move {
	type dim struct{ n, to, from int64 }
	var all []dim
	for i, n := range m.Dims {
		if n != 1 {
			d := dim{n: n, to: m.To.Strides[i]}
			if m.Fill == nil {
				d.from = m.From.Strides[i]
			}
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b dim) int { return cmp.Compare(b.to, a.to) })
	var merged []dim
	for _, d := range all {
		if k := len(merged) - 1; k >= 0 && merged[k].to == d.n*d.to && (m.Fill != nil || merged[k].from == d.n*d.from) {
			merged[k] = dim{merged[k].n * d.n, d.to, d.from}
		} else {
			merged = append(merged, d)
		}
	}
	if k := len(merged) - 1; k < 0 || merged[k].to != 1 || m.Fill == nil && merged[k].from != 1 {
		merged = append(merged, dim{1, 1, 1})
	}
	r := &Move{Width: m.Width, To: View{Addr: m.To.Addr}, From: View{Addr: m.From.Addr}, Fill: m.Fill}
	for _, d := range merged {
		r.Dims = append(r.Dims, d.n)
		r.To.Strides, r.From.Strides = append(r.To.Strides, d.to), append(r.From.Strides, d.from)
	}
	return r
}

// Rows calls visit for each row: size bytes that are next to each other at both addresses. from is of no use if the move fills.
func (m *Move) Rows(visit func(to, from, size uint64)) {
	if slices.Contains(m.Dims, 0) {
		return
	}
	r := m.rows()
	outer := len(r.Dims) - 1
	size := uint64(r.Dims[outer]) * r.Width
	at := make([]int64, outer)
	to, from := r.To.Addr, r.From.Addr
	for {
		visit(to, from, size)
		i := outer - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < r.Dims[i] {
				to += uint64(r.To.Strides[i]) * r.Width
				from += uint64(r.From.Strides[i]) * r.Width
				break
			}
			back := uint64(at[i] - 1)
			at[i] = 0
			to -= back * uint64(r.To.Strides[i]) * r.Width
			from -= back * uint64(r.From.Strides[i]) * r.Width
		}
		if i < 0 {
			return
		}
	}
}

// Row reports whether the move has one row.
func (m *Move) Row() bool { return len(m.rows().Dims) == 1 }
