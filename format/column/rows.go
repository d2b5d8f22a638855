package column

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// Rows takes word rows, one a call, and stores them as columns for Encoder.Column. Most words are
// equal in all rows of a block: such a column takes no memory. Rows become columns a tile at a time, while
// they are in the processor's cache.
type Rows struct {
	width int
	used  int      // words in the tile
	tile  []uint64 // rows that are not in the columns yet, one after another, with spare capacity
	n     int      // rows in the columns
	first []uint64 // the first row
	fixed []int    // words that equal the first row's so far
	vary  []varying
	spare [][]uint64 // memory of unused columns
	size  int        // row capacity of a column
}

type varying struct {
	at     int
	values []uint64
	lo, hi uint64 // extremes of the values
}

const (
	leastTile = 2  // initial row capacity; much data comes only once
	tileRows  = 16 // rows that become columns at once
)

// MakeRows returns Rows with width words a row.
func MakeRows(width int) Rows { return Rows{width: width} }

// Width is the number of words in a row.
func (r *Rows) Width() int { return r.width }

// Next adds a row and returns it. The caller fills it before any other call.
func (r *Rows) Next() []uint64 {
	at := r.used
	r.used = at + r.width
	if r.used > len(r.tile) {
		return r.room()
	}
	return r.tile[at:r.used]
}

// room is Next for a full tile.
func (r *Rows) room() []uint64 {
	if r.used -= r.width; r.used < tileRows*r.width {
		tile := make([]uint64, max(r.used*4, leastTile*r.width))
		copy(tile, r.tile)
		r.tile = tile
	} else {
		r.refill()
	}
	r.used += r.width
	return r.tile[r.used-r.width : r.used]
}

// refill moves the tile's rows into the columns.
func (r *Rows) refill() {
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

// gather sets dst to word k of each row in a tile with the given width, one row for each element of dst, and returns the
// extremes of these values, lo and hi.
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

// spread gives a column to each word that no longer equals the first row's. That is rare, so the check decides a call's
// cost: it compares four words at a time.
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

// alike reports if four words equal the first row's in all rows of a tile.
func alike(tile, first []uint64, at [4]int) bool {
	a, b, c, d := at[0], at[1], at[2], at[3]
	fa, fb, fc, fd := first[a], first[b], first[c], first[d]
	// One bounds check serves first and the rows, which have the same length.
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

// begin gives a word a column, with n rows equal to the first.
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

// column returns the words at an index, and their extremes: one word if all rows are equal, none
// without rows. They are valid until Reset.
func (r *Rows) column(at int) (values []uint64, lo, hi uint64) {
	r.refill()
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

// Column returns the words at an index: one if all rows are equal, none without rows. They
// are valid until Reset.
func (r *Rows) Column(at int) []uint64 {
	values, _, _ := r.column(at)
	return values
}

// Decider finds, in a range of words, the word that decides most others: it has few values,
// and rows with an equal value also agree in the others. It returns its index, its number of values, and the
// number of decided words; 0 decided words if there is none. It reads at most 512 rows and tries at most eight words.
func (r *Rows) Decider(from, to, most int) (at, values, decided int) {
	const rows, candidates = 512, 8
	r.refill()
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

// classes numbers a column's values by first appearance. There must be at most most of them, which is at most 8.
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

// decides reports if equal classes have equal values.
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
	r.refill()
	copy(dst, r.first)
	for k := range r.vary {
		dst[r.vary[k].at] = r.vary[k].values[i]
	}
}

// Reset removes all rows and keeps their memory.
func (r *Rows) Reset() {
	r.n, r.used = 0, 0
	for i := range r.vary {
		r.spare = append(r.spare, r.vary[i].values)
		r.vary[i].values = nil
	}
	r.vary = r.vary[:0]
}

// PutBytes sets words to the bytes of b, little-endian, the last word filled up with zeros. words has the needed length.
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
