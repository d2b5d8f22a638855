package column

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// A Vector is a column of words with random access. It stays in its file form if rows can be found
// without decoding earlier ones: a few bytes a row, one value for all, a run, a position in a
// dictionary. A block of such columns fits the processor's cache, and unused columns are never decoded. The
// zero value has no rows; see Const.
type Vector struct {
	form   form
	width  int    // bytes of a row
	bytes  []byte // plain and dictionary: at least 8 readable bytes from the start of every row
	base   uint64 // added to the value of a row
	mask   uint64 // the bits of a row
	values []uint64
	ends   []uint64 // runs: the row after each
	last   int      // the run that was found last
}

type form uint8

const (
	plain   form = iota // base + row
	steps               // base + i·mask, which is 0 for a constant
	indexed             // values[base + row]
	runs                // values[k] for the rows below ends[k]
	sums                // values[i/sumRows] + base + rows from i/sumRows·sumRows up to i-1
)

// sumRows is the number of rows between two stored sums.
const sumRows = 32

// Pad is the number of bytes that must follow a table in its slice's capacity before a Vector can use it.
const Pad = 8

// At returns row i, which must exist. Fill is much faster for many rows.
func (v *Vector) At(i int) uint64 {
	if v.form > plain {
		return v.at(i)
	}
	return binary.LittleEndian.Uint64(v.bytes[i*v.width:])&v.mask + v.base
}

func (v *Vector) at(i int) uint64 {
	switch v.form {
	case steps:
		return v.base + uint64(i)*v.mask
	case indexed:
		return v.values[binary.LittleEndian.Uint64(v.bytes[i*v.width:])&v.mask+v.base]
	case sums:
		x := v.values[i/sumRows]
		for k := i / sumRows * sumRows; k < i; k++ {
			x += binary.LittleEndian.Uint64(v.bytes[k*v.width:])&v.mask + v.base
		}
		return x
	}
	return v.values[v.run(i)]
}

// run finds the run of row i, usually the one that was found last.
func (v *Vector) run(i int) int {
	if k := v.last; uint64(i) >= v.ends[k] || k > 0 && uint64(i) < v.ends[k-1] {
		v.last, _ = slices.BinarySearch(v.ends, uint64(i)+1)
	}
	return v.last
}

// Const makes all rows of v the same.
func (v *Vector) Const(x uint64) { *v = Vector{form: steps, base: x} }

// Constant reports if the column is stored as a constant.
func (v *Vector) Constant() (uint64, bool) { return v.base, v.form == steps && v.mask == 0 }

// Words makes v a vector of the given words, which it shares.
func (v *Vector) Words(w []uint64) { *v = Vector{bytes: WordBytes(w), mask: ^uint64(0), width: 8} }

// Below reports if all n rows are less than limit.
func (v *Vector) Below(limit uint64, n int) bool {
	if x, ok := v.Constant(); ok {
		return n == 0 || x < limit
	}
	if v.form == plain && v.base+v.mask >= v.base && v.base+v.mask < limit {
		return true
	}
	if v.form == plain && v.width == 1 && v.base < limit && limit-v.base <= 256 {
		return bytesBelow(v.bytes[:n], limit-v.base)
	}
	if v.form == runs || v.form == indexed {
		if _, most := span(v.values); most < limit {
			return true
		}
	}
	var part [256]uint64
	for from := 0; from < n; from += len(part) {
		p := part[:min(len(part), n-from)]
		Fill(p, v, from)
		if _, most := span(p); most >= limit {
			return false
		}
	}
	return true
}

// bytesBelow reports if all bytes are less than limit, 1 to 256, eight at a time: the addition sets the
// highest bit of a byte that is not, or of its lower seven bits if the limit is above 128.
func bytesBelow(b []byte, limit uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	add, over := -limit%128*ones, uint64(0)
	for ; len(b) >= 32; b = b[32:] {
		w, x := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		y, z := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		if limit <= 128 {
			over |= w | (w + add) | x | (x + add) | y | (y + add) | z | (z + add)
		} else {
			over |= w&(w&^tops+add) | x&(x&^tops+add) | y&(y&^tops+add) | z&(z&^tops+add)
		}
	}
	for _, x := range b {
		if uint64(x) >= limit {
			return false
		}
	}
	return over&tops == 0
}

// Word is a type to which rows can be cut.
type Word interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int64
}

// Fill sets dst to rows of v, starting at a row, each cut to the size of T.
func Fill[T Word](dst []T, v *Vector, from int) {
	switch v.form {
	case plain:
		fillPlain(dst, v, from)
	case steps:
		x := T(v.base + uint64(from)*v.mask)
		for i := range dst {
			dst[i] = x
			x += T(v.mask)
		}
	case indexed:
		fillIndexed(dst, v, from)
	case sums:
		fillSums(dst, v, from)
	case runs:
		k := v.run(from)
		for len(dst) > 0 {
			n := min(int(v.ends[k])-from, len(dst))
			x := T(v.values[k])
			for i := range dst[:n] {
				dst[i] = x
			}
			dst, from, k = dst[n:], from+n, k+1
		}
	}
}

// fillPlain reads eight bytes at a time.
func fillPlain[T Word](dst []T, v *Vector, from int) {
	b, base, i := v.bytes[from*v.width:], T(v.base), 0
	switch v.width {
	case 1:
		for ; i+8 <= len(dst); i += 8 {
			x, d := binary.LittleEndian.Uint64(b[i:]), dst[i:i+8:i+8]
			d[0], d[1], d[2], d[3] = base+T(uint8(x)), base+T(uint8(x>>8)), base+T(uint8(x>>16)), base+T(uint8(x>>24))
			d[4], d[5], d[6], d[7] = base+T(uint8(x>>32)), base+T(uint8(x>>40)), base+T(uint8(x>>48)), base+T(x>>56)
		}
	case 2:
		for ; i+4 <= len(dst); i += 4 {
			x, d := binary.LittleEndian.Uint64(b[i*2:]), dst[i:i+4:i+4]
			d[0], d[1], d[2], d[3] = base+T(uint16(x)), base+T(uint16(x>>16)), base+T(uint16(x>>32)), base+T(x>>48)
		}
	case 4:
		for ; i+2 <= len(dst); i += 2 {
			x, d := binary.LittleEndian.Uint64(b[i*4:]), dst[i:i+2:i+2]
			d[0], d[1] = base+T(uint32(x)), base+T(x>>32)
		}
	case 8:
		for ; i < len(dst); i++ {
			dst[i] = base + T(binary.LittleEndian.Uint64(b[i*8:]))
		}
	}
	for ; i < len(dst); i++ {
		dst[i] = T(binary.LittleEndian.Uint64(b[i*v.width:])&v.mask) + base
	}
}

// Times turns rows of two columns into times: start has the time from the previous end to a call's beginning, dur the call's
// duration. It fills begins and ends, of equal length, for the rows from a given one on. last is the end before them; Times
// returns the last end.
func Times(begins, ends []int64, start, dur *Vector, from int, last int64) int64 {
	begins = begins[:len(ends)]
	if start.form != plain || dur.form != plain || len(ends) == 0 || !littleEndian {
		Fill(begins, start, from)
		Fill(ends, dur, from)
		for i, d := range ends {
			begins[i] += last
			last = begins[i] + d
			ends[i] = last
		}
		return last
	}
	s, d := start.rows(from, len(ends)), dur.rows(from, len(ends))
	atS, atD := uintptr(0), uintptr(0)
	for i := range ends {
		begin := last + int64(start.base+*(*uint64)(unsafe.Add(s, atS))&start.mask)
		last = begin + int64(dur.base+*(*uint64)(unsafe.Add(d, atD))&dur.mask)
		begins[i], ends[i] = begin, last
		atS, atD = atS+uintptr(start.width), atD+uintptr(dur.width)
	}
	return last
}

// rows returns the bytes of n rows in plain form, each with 8 readable bytes.
func (v *Vector) rows(from, n int) unsafe.Pointer {
	b := v.bytes[from*v.width:]
	_ = b[(n-1)*v.width+7]
	return unsafe.Pointer(unsafe.SliceData(b))
}

func fillIndexed[T Word](dst []T, v *Vector, from int) {
	b, values := v.bytes[from*v.width:], v.values
	if v.width == 1 && v.base == 0 {
		for i, x := range b[:len(dst)] {
			dst[i] = T(values[x])
		}
		return
	}
	for i := range dst {
		dst[i] = T(values[binary.LittleEndian.Uint64(b[i*v.width:])&v.mask+v.base])
	}
}

func fillSums[T Word](dst []T, v *Vector, from int) {
	if len(dst) == 0 {
		return
	}
	x, base, b := v.at(from), v.base, v.bytes[from*v.width:]
	if v.width == 1 {
		for i, step := range b[:len(dst)] {
			dst[i] = T(x)
			x += base + uint64(step)
		}
		return
	}
	for i := range dst {
		dst[i] = T(x)
		x += binary.LittleEndian.Uint64(b[i*v.width:])&v.mask + base
	}
}

// Ascending reports if the n rows are known to be in ascending order, and returns the last one if so.
func (v *Vector) Ascending(n int) (last uint64, ok bool) {
	if n == 0 {
		return 0, true
	}
	first, step := v.base, uint64(0)
	switch v.form {
	case steps:
		step = v.mask
	case sums:
		first, step = v.values[0], v.base+v.mask
		if step < v.base {
			return 0, false
		}
	default:
		return 0, false
	}
	if high, low := bits.Mul64(step, uint64(n-1)); high != 0 || first+low < first {
		return 0, false
	}
	return v.At(n - 1), true
}

// Scatter sets dst[0], dst[stride], dst[2·stride] and so on to n rows of v, starting at a row.
func (v *Vector) Scatter(dst []uint64, stride, from, n int) {
	if n <= 0 {
		return
	}
	// One bounds check here replaces one at each row, which would be a third of the work.
	dst = dst[:(n-1)*stride+1]
	to, step := unsafe.Pointer(unsafe.SliceData(dst)), uintptr(stride)*8
	at := uintptr(0)
	switch {
	case v.form == plain && v.width == 1:
		scatterBytes(to, step, v.bytes[from:from+n], v.base)
	case v.form == plain && v.width == 2:
		b := v.bytes[from*2:][:n*2]
		for ; len(b) >= 8; b = b[8:] {
			x := binary.LittleEndian.Uint64(b)
			at = put4(to, at, step, v.base+x&0xffff, v.base+x>>16&0xffff, v.base+x>>32&0xffff, v.base+x>>48)
		}
		for ; len(b) >= 2; b = b[2:] {
			at = put(to, at, step, v.base+uint64(binary.LittleEndian.Uint16(b)))
		}
	case v.form == plain && v.width == 8:
		for b := v.bytes[from*8:][:n*8]; len(b) >= 8; b = b[8:] {
			at = put(to, at, step, v.base+binary.LittleEndian.Uint64(b))
		}
	case v.form == indexed && v.width == 1 && v.base == 0:
		scatterIndexed(to, step, v.bytes[from:from+n], v.values)
	case v.form == runs:
		k := v.run(from)
		for end := from + n; from < end; k++ {
			x, left := v.values[k], min(int(v.ends[k]), end)-from
			for from += left; left > 0; left-- {
				at = put(to, at, step, x)
			}
		}
	default:
		var part [64]uint64
		for n > 0 {
			p := part[:min(n, len(part))]
			Fill(p, v, from)
			for _, x := range p {
				at = put(to, at, step, x)
			}
			n, from = n-len(p), from+len(p)
		}
	}
}

func scatterBytes(to unsafe.Pointer, step uintptr, b []byte, base uint64) {
	i, at := 0, uintptr(0)
	for ; i+4 <= len(b); i += 4 {
		x := b[i : i+4 : i+4]
		at = put4(to, at, step, base+uint64(x[0]), base+uint64(x[1]), base+uint64(x[2]), base+uint64(x[3]))
	}
	for _, x := range b[i:] {
		at = put(to, at, step, base+uint64(x))
	}
}

func scatterIndexed(to unsafe.Pointer, step uintptr, b []byte, values []uint64) {
	i, at := 0, uintptr(0)
	if cap(values) < 256 {
		for _, x := range b {
			at = put(to, at, step, values[x])
		}
		return
	}
	// Positions are below the number of values, so spare capacity is never read.
	table := (*[256]uint64)(values[:256])
	for ; i+4 <= len(b); i += 4 {
		x := b[i : i+4 : i+4]
		at = put4(to, at, step, table[x[0]], table[x[1]], table[x[2]], table[x[3]])
	}
	for _, x := range b[i:] {
		at = put(to, at, step, table[x])
	}
}

// put and put4 store words at a stride, starting at an offset, and return the next offset. A pointer there might be out of bounds.
func put(to unsafe.Pointer, at, step uintptr, x uint64) uintptr {
	*(*uint64)(unsafe.Add(to, at)) = x
	return at + step
}

func put4(to unsafe.Pointer, at, step uintptr, a, b, c, d uint64) uintptr {
	*(*uint64)(unsafe.Add(to, at)) = a
	*(*uint64)(unsafe.Add(to, at+step)) = b
	*(*uint64)(unsafe.Add(to, at+2*step)) = c
	*(*uint64)(unsafe.Add(to, at+3*step)) = d
	return at + 4*step
}

// Count increments counts[row] for each of the n rows, and reports if all rows are within counts.
func (v *Vector) Count(counts []uint32, n int) bool {
	if n == 0 {
		return true
	}
	if v.form == plain && v.width == 1 && v.base < uint64(len(counts)) {
		return countBytes(counts[v.base:], v.bytes[:n])
	}
	if !v.Below(uint64(len(counts)), n) {
		return false
	}
	if x, ok := v.Constant(); ok {
		counts[x] += uint32(n)
		return true
	}
	var part [256]uint32
	for from := 0; from < n; from += len(part) {
		p := part[:min(len(part), n-from)]
		Fill(p, v, from)
		for _, x := range p {
			counts[x]++
		}
	}
	return true
}

// countBytes is Count for bytes, eight at once if they are equal. Otherwise neighbours are counted in different arrays:
// an increment waits for the previous one of the same counter.
func countBytes(counts []uint32, b []byte) bool {
	const ones = 0x0101010101010101
	var all, p, q, r [256]uint32
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		if x == uint64(uint8(x))*ones {
			all[uint8(x)] += 8
			continue
		}
		all[uint8(x)]++
		p[uint8(x>>8)]++
		q[uint8(x>>16)]++
		r[uint8(x>>24)]++
		all[uint8(x>>32)]++
		p[uint8(x>>40)]++
		q[uint8(x>>48)]++
		r[uint8(x>>56)]++
	}
	for _, x := range b {
		all[x]++
	}
	for x, n := range all {
		n += p[x] + q[x] + r[x]
		if x < len(counts) {
			counts[x] += n
		} else if n > 0 {
			return false
		}
	}
	return true
}

// Vector makes v the n rows of c, at least one. Decoded values are stored in scratch, which
// is grown as needed and belongs to v from then on. Errors are those of Words.
func (d *Decoder) Vector(v *Vector, n int, c Column, scratch *[]uint64) error {
	if x, ok := c.Const(); ok {
		v.Const(x)
		return nil
	}
	if inPlace(v, n, c) {
		return nil
	}
	switch c.Enc {
	case Delta:
		if base, b, ok := uvarint(c.Body); ok {
			if inner, rest, err := parse(b); err == nil && len(rest) == 0 {
				if step, ok := inner.Const(); ok {
					*v = Vector{form: steps, base: base, mask: step}
					return nil
				}
				if n > 1 && inPlace(v, n-1, inner) && v.width < Pad {
					v.sum(n, base, scratch)
					return nil
				}
			}
		}
	case RunLength:
		return d.runsVector(v, n, c, scratch)
	case Dict:
		if ok, err := d.dictVector(v, n, c, scratch); ok || err != nil {
			return err
		}
	}
	w := grow(scratch, n)
	if err := d.Words(w, n, c); err != nil {
		return err
	}
	v.Words(w)
	return nil
}

// sum turns the n-1 steps in v into n rows, of which x is the first.
func (v *Vector) sum(n int, x uint64, scratch *[]uint64) {
	v.form, v.values = sums, grow(scratch, (n+sumRows-1)/sumRows)
	for k := range v.values {
		v.values[k] = x
		from := k * sumRows
		to := min(from+sumRows, n-1)
		if v.width == 1 {
			for _, step := range v.bytes[from:to] {
				x += v.base + uint64(step)
			}
			continue
		}
		for ; from < to; from++ {
			x += binary.LittleEndian.Uint64(v.bytes[from*v.width:])&v.mask + v.base
		}
	}
}

// inPlace makes v the n rows of c if they are contiguous in c.
func inPlace(v *Vector, n int, c Column) bool {
	width := 0
	switch c.Enc {
	case For8:
		width = 1
	case For16:
		width = 2
	case For32:
		width = 4
	case Fixed64:
		if len(c.Body) != n*8 {
			return false
		}
		*v = Vector{bytes: c.Body, mask: ^uint64(0), width: 8}
		return true
	default:
		return false
	}
	base, body, ok := uvarint(c.Body)
	if !ok || len(body) != n*width || cap(body) < len(body)+Pad {
		return false
	}
	*v = Vector{bytes: body[:len(body)+Pad], base: base, mask: 1<<(8*width) - 1, width: width}
	return true
}

// dictVector returns false for a dictionary whose positions are not contiguous.
func (d *Decoder) dictVector(v *Vector, n int, c Column, scratch *[]uint64) (bool, error) {
	size, b, ok := uvarint(c.Body)
	if !ok || size == 0 || size > uint64(n) {
		return false, ErrMalformed
	}
	first, b, err := parse(b)
	if err != nil {
		return false, err
	}
	second, b, err := parse(b)
	if err != nil || len(b) != 0 {
		return false, ErrMalformed
	}
	if !inPlace(v, n, second) {
		return false, nil
	}
	if !v.Below(size, n) {
		return false, ErrMalformed
	}
	values := grow(scratch, max(int(size), 256))[:size]
	if err := d.words(values, first, 1); err != nil {
		return false, err
	}
	v.form, v.values = indexed, values
	return true, nil
}

func (d *Decoder) runsVector(v *Vector, n int, c Column, scratch *[]uint64) error {
	count, b, ok := uvarint(c.Body)
	if !ok || count == 0 || count > uint64(n) {
		return ErrMalformed
	}
	w := grow(scratch, 2*int(count))
	values, ends := w[:count], w[count:]
	if err := d.pair(values, ends, b, 0); err != nil {
		return err
	}
	end := uint64(0)
	for i, l := range ends {
		if l > uint64(n)-end {
			return ErrMalformed
		}
		end += l
		ends[i] = end
	}
	if end != uint64(n) {
		return ErrMalformed
	}
	*v = Vector{form: runs, values: values, ends: ends}
	return nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// WordBytes returns words as bytes in file order: the words' own memory if the processor
// is little-endian, as nearly all are. Content is decoded into words because columns are words; another copy for
// every call would cost as much as decoding.
func WordBytes(w []uint64) []byte {
	if !littleEndian {
		b := make([]byte, 0, len(w)*8)
		for _, x := range w {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)
}
