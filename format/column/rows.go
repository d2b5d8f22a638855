package column

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// Rows takes rows of words, as calls come, and keeps them as columns, as Encoder.Column writes them. Most words of most
// calls are the same in all rows of a block: such a column takes no memory. Rows become columns a tile at a time, while
// they are in the processor's cache.
type Rows struct {
	width int
	used  int      // words of the tile
	tile  []uint64 // the rows that are not in the columns, one after another, and memory for more
	n     int      // rows in the columns
	first []uint64 // the first row
	fixed []int    // the words that are as in the first row so far
	vary  []varying
	spare [][]uint64 // memory of columns that are not used
	size  int        // rows that a column has memory for
}

type varying struct {
	at     int
	values []uint64
	lo, hi uint64 // extremes of the values
}

const (
	leastTile = 2  // rows that there is memory for at first; much data comes once
	tileRows  = 16 // rows that become columns at once
)

// MakeRows is for rows of width words.
func MakeRows(width int) Rows { return Rows{width: width} }

// Width is the number of words of a row.
func (r *Rows) Width() int { return r.width }

// Next adds a row and returns it to be filled, which is to be done before the next call of anything.
func (r *Rows) Next() []uint64 {
	at := r.used
	r.used = at + r.width
	if r.used > len(r.tile) {
		return r.room()
	}
	return r.tile[at:r.used]
}

// room is Next where the tile is full.
func (r *Rows) room() []uint64 {
	if r.used -= r.width; r.used < tileRows*r.width {
		tile := make([]uint64, max(r.used*4, leastTile*r.width))
		copy(tile, r.tile)
		r.tile = tile
	} else {
		r.turn()
	}
	r.used += r.width
	return r.tile[r.used-r.width : r.used]
}

// turn makes columns of the rows in the tile.
func (r *Rows) turn() {
	tile, n := r.tile[:r.used], r.n
	if len(tile) == 0 {
		return
	}
	r.used = 0
	if n == 0 {
		r.first = append(r.first[:0], tile[:r.width]...)
		r.fixed = r.fixed[:0]
		for at := range r.width {
			r.fixed = append(r.fixed, at)
		}
	}
	r.n += len(tile) / r.width
	if r.n > r.size {
		r.size = 2 * r.n
		r.spare = nil
		for i := range r.vary {
			v := &r.vary[i]
			v.values = append(make([]uint64, 0, r.size), v.values[:n]...)[:r.size]
		}
	}
	r.spread(tile, n)
	for i := range r.vary {
		v := &r.vary[i]
		v.lo, v.hi = gather(v.values[n:r.n], tile, v.at, r.width, v.lo, v.hi)
	}
}

// gather sets dst to word k of each row of a tile of rows of some width, of which there are as many, and returns the
// extremes of these and of lo and hi.
func gather(dst, tile []uint64, k, width int, lo, hi uint64) (uint64, uint64) {
	_ = tile[k+(len(dst)-1)*width]
	from, at, step := unsafe.Pointer(unsafe.SliceData(tile)), uintptr(k)*8, uintptr(width)*8
	for j := range dst {
		x := *(*uint64)(unsafe.Add(from, at))
		at += step
		dst[j] = x
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// spread gives a column to each word that is the same no longer. That is rare, and what decides a call's cost is to see
// that nothing is new: four words are looked at in one go.
func (r *Rows) spread(tile []uint64, n int) {
	left := r.fixed[:0]
	for rest := r.fixed; len(rest) > 0; {
		k := min(len(rest), 4)
		at := [4]int{rest[0], rest[0], rest[0], rest[0]}
		copy(at[:], rest[:k])
		rest = rest[k:]
		if alike(tile, r.first, at) {
			left = append(left, at[:k]...)
			continue
		}
		for _, at := range at[:k] {
			if alike(tile, r.first, [4]int{at, at, at, at}) {
				left = append(left, at)
			} else {
				r.begin(at, n)
			}
		}
	}
	r.fixed = left
}

// alike reports whether four words are in all rows of a tile as in the first row.
func alike(tile, first []uint64, at [4]int) bool {
	a, b, c, d := at[0], at[1], at[2], at[3]
	fa, fb, fc, fd := first[a], first[b], first[c], first[d]
	// The look at the bounds of first is one for the rows too, which are as long.
	size, end := uintptr(len(first))*8, uintptr(len(tile))*8
	rows := unsafe.Pointer(unsafe.SliceData(tile))
	for row := uintptr(0); row < end; row += size {
		words := unsafe.Add(rows, row)
		if *(*uint64)(unsafe.Add(words, a*8)) != fa || *(*uint64)(unsafe.Add(words, b*8)) != fb ||
			*(*uint64)(unsafe.Add(words, c*8)) != fc || *(*uint64)(unsafe.Add(words, d*8)) != fd {
			return false
		}
	}
	return true
}

// begin gives a word a column, in which n rows are as the first.
func (r *Rows) begin(at, n int) {
	var values []uint64
	if k := len(r.spare); k > 0 {
		values, r.spare = r.spare[k-1], r.spare[:k-1]
	} else {
		values = make([]uint64, r.size)
	}
	was := r.first[at]
	for i := range values[:n] {
		values[i] = was
	}
	r.vary = append(r.vary, varying{at, values, was, was})
}

// column returns the words at a place in the rows, and their extremes: one word for all where they are alike, none
// where there is no row. They are valid until Reset.
func (r *Rows) column(at int) (values []uint64, lo, hi uint64) {
	r.turn()
	if r.n == 0 {
		return nil, 0, 0
	}
	for i := range r.vary {
		if v := &r.vary[i]; v.at == at {
			return v.values[:r.n], v.lo, v.hi
		}
	}
	return r.first[at : at+1], r.first[at], r.first[at]
}

// Column returns the words at a place in the rows: one for all where they are alike, none where there is no row. They
// are valid until Reset.
func (r *Rows) Column(at int) []uint64 {
	values, _, _ := r.column(at)
	return values
}

// Decider finds the word, from one place up to another, that decides most of the others: it has few values in the rows,
// and in those that have the same there the others are alike. It returns its place, the number of its values, and how
// many words it decides; no words where there is none. It looks at some hundred rows.
func (r *Rows) Decider(from, to, most int) (at, values, decided int) {
	const rows, candidates = 512, 8
	r.turn()
	n, tried := min(r.n, rows), 0
	var class [rows]uint8
	for i := range r.vary {
		v := &r.vary[i]
		if v.at < from || v.at >= to || tried == candidates {
			continue
		}
		k, ok := classes(class[:n], v.values, most)
		if !ok {
			continue
		}
		tried++
		others := 0
		for j := range r.vary {
			if o := &r.vary[j]; j != i && o.at >= from && o.at < to && decides(class[:n], o.values) {
				others++
			}
		}
		if others > decided {
			at, values, decided = v.at, k, others
		}
	}
	return at, values, decided
}

// classes numbers the values of a column by their first appearance, of which there must be at most most, which is at most 8.
func classes(class []uint8, values []uint64, most int) (n int, ok bool) {
	var known [8]uint64
	for i := range class {
		k := slices.Index(known[:n], values[i])
		if k < 0 {
			if n == most {
				return 0, false
			}
			k = n
			known[k] = values[i]
			n++
		}
		class[i] = uint8(k)
	}
	return n, true
}

// decides reports whether rows of one class have one value.
func decides(class []uint8, values []uint64) bool {
	var value [8]uint64
	var known [8]bool
	for i, c := range class {
		if !known[c%8] {
			known[c%8], value[c%8] = true, values[i]
		} else if value[c%8] != values[i] {
			return false
		}
	}
	return true
}

// Row copies row i to dst.
func (r *Rows) Row(dst []uint64, i int) {
	r.turn()
	copy(dst, r.first)
	for k := range r.vary {
		dst[r.vary[k].at] = r.vary[k].values[i]
	}
}

// Reset takes all rows away. Their memory stays.
func (r *Rows) Reset() {
	r.n, r.used = 0, 0
	for i := range r.vary {
		r.spare = append(r.spare, r.vary[i].values)
		r.vary[i].values = nil
	}
	r.vary = r.vary[:0]
}

// PutBytes sets words to the bytes of b, little-endian, the last word filled up with zeros. There are as many words as b needs.
func PutBytes(words []uint64, b []byte) {
	if len(words) == 0 {
		return
	}
	words[len(words)-1] = 0
	if littleEndian {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8), b)
		return
	}
	for i := range words {
		var word [8]byte
		copy(word[:], b[i*8:])
		words[i] = binary.LittleEndian.Uint64(word[:])
	}
}
