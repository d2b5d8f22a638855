package column

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// An Encoder appends columns and tables to a byte slice, choosing an encoding for each column.
// The zero value is ready.
type Encoder struct {
	diff  []uint64
	index []byte // positions in a dictionary
	dict  [dictSlots]uint64
	slot  [dictSlots]uint16 // 1 + position in values, 0 if free
	value []uint64
	count []uint64
	table []byte

	head [5]uint64 // kind, id, rows, width of the open table
	dst  []byte
}

// dictSlots keeps a dictionary's table at most half full: positions are one byte, so there are at most 256 values.
const (
	dictSlots = 512
	dictMax   = 256
)

// Begin opens a table that will be appended to dst by End. Columns are added between the two.
func (e *Encoder) Begin(dst []byte, kind, id, rows, width uint64) {
	e.dst = dst
	e.head = [5]uint64{kind, id, rows, width}
	e.table = e.table[:0]
}

// End closes the table and returns dst with it.
func (e *Encoder) End() []byte {
	dst := e.dst
	for _, v := range e.head[:4] {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.table)))
	dst = append(dst, e.table...)
	e.dst = nil
	return dst
}

// Table appends a table whose columns have the fields 0, 1 and so on to dst.
func (e *Encoder) Table(dst []byte, kind, id uint64, cols ...[]uint64) []byte {
	e.Begin(dst, kind, id, uint64(len(cols[0])), uint64(len(cols)))
	for field, v := range cols {
		e.Words(uint64(field), v)
	}
	return e.End()
}

// Words adds a word column to the open table; v has one word a row. A column with only zeros is left
// out: a reader reads a missing column as zeros, and most fields of most tables are unused.
func (e *Encoder) Words(field uint64, v []uint64) {
	lo, hi := span(v)
	e.words(field, v, lo, hi)
}

func (e *Encoder) words(field uint64, v []uint64, lo, hi uint64) {
	if lo == 0 && hi == 0 {
		return
	}
	e.table = binary.AppendUvarint(e.table, field)
	e.table = e.appendSpan(e.table, v, lo, hi)
}

// Constant adds a column that has the same word in every row.
func (e *Encoder) Constant(field, x uint64) {
	if x != 0 {
		e.table = appendConst(binary.AppendUvarint(e.table, field), x)
	}
}

// Column adds the words at an index in rows as a column; rows has the table's length.
func (e *Encoder) Column(field uint64, r *Rows, at int) {
	v, lo, hi := r.column(at)
	e.words(field, v, lo, hi)
}

// Sparse adds a column with values only in the listed rows (ascending), for a table with n rows.
func (e *Encoder) Sparse(field uint64, n int, rows []uint32, v []uint64) {
	e.table = binary.AppendUvarint(e.table, field)
	if len(rows) == n {
		e.table = e.Append(e.table, v)
		return
	}
	size := (n + 7) / 8
	e.table = e.nested(e.table, Presence, func(dst []byte) []byte {
		dst = binary.AppendUvarint(dst, uint64(len(rows)))
		at := len(dst)
		dst = append(dst, make([]byte, size)...)
		for _, r := range rows {
			dst[at+int(r/8)] |= 1 << (r % 8)
		}
		return e.Append(dst, v)
	})
}

// Strings adds a byte string column: lens has one length a row, data the strings without gaps.
func (e *Encoder) Strings(field uint64, lens []uint64, data []byte) {
	e.table = binary.AppendUvarint(e.table, field)
	e.table = e.nested(e.table, Bytes, func(dst []byte) []byte {
		return append(e.Append(dst, lens), data...)
	})
}

// Append appends one column without a field number, in the encoding estimated as smallest.
func (e *Encoder) Append(dst []byte, v []uint64) []byte {
	lo, hi := span(v)
	return e.appendSpan(dst, v, lo, hi)
}

// appendSpan chooses by the value range, exact from one pass, and by a sample of 64: runs,
// steady steps and few distinct values are searched only if the sample has them.
func (e *Encoder) appendSpan(dst []byte, v []uint64, lo, hi uint64) []byte {
	if len(v) == 0 {
		return append(dst, byte(Const), 1, 0)
	}
	if lo == hi {
		return appendConst(dst, lo)
	}
	lo, hi = nearest(v, lo, hi)
	width := widthOf(hi - lo)
	const few = 16
	if len(v) < few {
		return appendFor(dst, v, lo, width)
	}

	s := sample(v)
	if s.runs*16 <= s.n {
		if out, ok := e.runLength(dst, v); ok {
			return out
		}
	}
	if width >= 2 && widthOf(s.step) < width {
		if out, ok := e.delta(dst, v, width); ok {
			return out
		}
	}
	if width >= 4 {
		// 256 values show about 57 different ones in a sample of 64.
		if s.distinct()*16 <= s.n*15 {
			if out, ok := e.dictionary(dst, v); ok {
				return out
			}
		}
	}
	return appendPlainSpan(dst, v, lo, hi)
}

// nested appends a column whose body is written by f, which may append other columns.
func (e *Encoder) nested(dst []byte, enc Encoding, f func([]byte) []byte) []byte {
	at := len(dst)
	// The length is known only after the body; five bytes are reserved, and closed up if it is shorter.
	dst = append(dst, byte(enc), 0, 0, 0, 0, 0)
	dst = f(dst)
	size := uint64(len(dst) - at - 6)
	n := binary.PutUvarint(dst[at+1:at+6], size)
	copy(dst[at+1+n:], dst[at+6:])
	return dst[:len(dst)-(5-n)]
}

func (e *Encoder) runLength(dst []byte, v []uint64) ([]byte, bool) {
	values, counts := e.value[:0], e.count[:0]
	limit := len(v) / 8
	start := 0
	for i := 1; i <= len(v); i++ {
		if i < len(v) && v[i] == v[start] {
			continue
		}
		values = append(values, v[start])
		counts = append(counts, uint64(i-start))
		start = i
		if len(values) > limit {
			e.value, e.count = values, counts
			return dst, false
		}
	}
	e.value, e.count = values, counts
	return e.nested(dst, RunLength, func(dst []byte) []byte {
		dst = binary.AppendUvarint(dst, uint64(len(values)))
		return appendPlain(appendPlain(dst, values), counts)
	}), true
}

func (e *Encoder) delta(dst []byte, v []uint64, width int) ([]byte, bool) {
	diff := grow(&e.diff, len(v)-1)
	prev := v[0]
	lo, hi := int64(1<<63-1), int64(-1<<63)
	for i, x := range v[1:] {
		d := x - prev
		prev = x
		diff[i] = d
		lo, hi = min(lo, int64(d)), max(hi, int64(d))
	}
	if widthOf(uint64(hi-lo)) >= width && lo != hi {
		return dst, false
	}
	return e.nested(dst, Delta, func(dst []byte) []byte {
		return appendPlainSpan(binary.AppendUvarint(dst, v[0]), diff, uint64(lo), uint64(hi))
	}), true
}

func (e *Encoder) dictionary(dst []byte, v []uint64) ([]byte, bool) {
	if cap(e.index) < len(v) {
		e.index = make([]byte, len(v)+len(v)/4)
	}
	index := e.index[:len(v)]
	values := e.value[:0]
	clear(e.slot[:])
	for i, x := range v {
		h := (x * 0x9E3779B97F4A7C15) >> (64 - 9)
		s := e.slot[h]
		if s == 0 || e.dict[h] != x {
			if h, s = e.find(x, h); s == 0 {
				if len(values) == dictMax || len(values) == len(v)/4 {
					e.value = values
					return dst, false
				}
				values = append(values, x)
				s = uint16(len(values))
				e.dict[h], e.slot[h] = x, s
			}
		}
		index[i] = byte(s - 1)
	}
	e.value = values
	return e.nested(dst, Dict, func(dst []byte) []byte {
		dst = appendPlain(binary.AppendUvarint(dst, uint64(len(values))), values)
		dst = binary.AppendUvarint(append(dst, byte(For8)), uint64(1+len(index)))
		return append(append(dst, 0), index...)
	}), true
}

// find returns the slot of x, searched from h on, or a free one and 0.
func (e *Encoder) find(x, h uint64) (uint64, uint16) {
	for ; ; h = (h + 1) % dictSlots {
		if s := e.slot[h]; s == 0 || e.dict[h] == x {
			return h, s
		}
	}
}

// appendPlain appends a column inside a column: only encodings without nested columns.
func appendPlain(dst []byte, v []uint64) []byte {
	lo, hi := span(v)
	lo, hi = nearest(v, lo, hi)
	return appendPlainSpan(dst, v, lo, hi)
}

// nearest returns the extremes of v, lo and hi, as signed numbers if these are nearer to each other. Values around zero, such
// as differences, have a small range only then.
func nearest(v []uint64, lo, hi uint64) (uint64, uint64) {
	if hi-lo > 1<<63 {
		if l, h := signedSpan(v); uint64(h-l) < hi-lo {
			return uint64(l), uint64(h)
		}
	}
	return lo, hi
}

// appendPlainSpan is appendPlain for values from lo to hi, modulo 2^64.
func appendPlainSpan(dst []byte, v []uint64, lo, hi uint64) []byte {
	if lo == hi {
		return appendConst(dst, lo)
	}
	width := widthOf(hi - lo)
	if width >= 4 {
		// A few far values among many near ones: a length for each value is then shorter than the farthest one's width.
		if size := uvarintSize(v, lo); size*5 < len(v)*width*3 {
			return appendUvarints(dst, v, lo, size)
		}
	}
	return appendFor(dst, v, lo, width)
}

func appendConst(dst []byte, x uint64) []byte {
	dst = append(dst, byte(Const), byte(uvarintLen(x)))
	return binary.AppendUvarint(dst, x)
}

func appendUvarints(dst []byte, v []uint64, base uint64, size int) []byte {
	dst = append(dst, byte(Uvarint))
	dst = binary.AppendUvarint(dst, uint64(uvarintLen(base)+size))
	dst = binary.AppendUvarint(dst, base)
	for _, x := range v {
		dst = binary.AppendUvarint(dst, x-base)
	}
	return dst
}

func appendFor(dst []byte, v []uint64, base uint64, width int) []byte {
	if width == 8 {
		dst = append(dst, byte(Fixed64))
		dst = binary.AppendUvarint(dst, uint64(len(v)*8))
		dst, b := extend(dst, len(v)*8)
		for i, x := range v {
			binary.LittleEndian.PutUint64(b[i*8:], x)
		}
		return dst
	}
	enc := [...]Encoding{1: For8, 2: For16, 4: For32}[width]
	dst = append(dst, byte(enc))
	dst = binary.AppendUvarint(dst, uint64(uvarintLen(base)+len(v)*width))
	dst = binary.AppendUvarint(dst, base)
	dst, b := extend(dst, len(v)*width)
	switch width {
	case 1:
		for len(v) >= 8 && len(b) >= 8 {
			b[0], b[1], b[2], b[3] = byte(v[0]-base), byte(v[1]-base), byte(v[2]-base), byte(v[3]-base)
			b[4], b[5], b[6], b[7] = byte(v[4]-base), byte(v[5]-base), byte(v[6]-base), byte(v[7]-base)
			v, b = v[8:], b[8:]
		}
		for i, x := range v {
			b[i] = byte(x - base)
		}
	case 2:
		for len(v) >= 4 && len(b) >= 8 {
			w, x, y, z := uint16(v[0]-base), uint16(v[1]-base), uint16(v[2]-base), uint16(v[3]-base)
			binary.LittleEndian.PutUint64(b, uint64(w)|uint64(x)<<16|uint64(y)<<32|uint64(z)<<48)
			v, b = v[4:], b[8:]
		}
		for i, x := range v {
			binary.LittleEndian.PutUint16(b[i*2:], uint16(x-base))
		}
	case 4:
		for len(v) >= 2 && len(b) >= 8 {
			x, y := uint32(v[0]-base), uint32(v[1]-base)
			binary.LittleEndian.PutUint64(b, uint64(x)|uint64(y)<<32)
			v, b = v[2:], b[8:]
		}
		for i, x := range v {
			binary.LittleEndian.PutUint32(b[i*4:], uint32(x-base))
		}
	}
	return dst
}

// shape describes a column's sample.
type shape struct {
	seen [64]uint64
	n    int
	runs int
	step uint64 // range of signed differences between neighbours
}

// sample reads eight runs of eight neighbours, evenly spread.
func sample(v []uint64) shape {
	const stretches, length = 8, 8
	s := shape{}
	lo, hi := int64(1<<63-1), int64(-1<<63)
	for k := range stretches {
		at := (len(v) - length) * k / (stretches - 1)
		s.runs++
		for i := range length {
			x := v[at+i]
			s.seen[s.n] = x
			s.n++
			if i == 0 {
				continue
			}
			d := int64(x - v[at+i-1])
			lo, hi = min(lo, d), max(hi, d)
			if d != 0 {
				s.runs++
			}
		}
	}
	s.step = uint64(hi - lo)
	// Each run begins a run of its own; a constant column shows eight, so subtract these.
	s.runs -= stretches - 1
	return s
}

// distinct is the sample's number of different values.
func (s *shape) distinct() int {
	n := 0
	for i, x := range s.seen[:s.n] {
		if !slices.Contains(s.seen[:i], x) {
			n++
		}
	}
	return n
}

// span returns v's extremes, with four independent chains, because each comparison waits for the previous one.
func span(v []uint64) (lo, hi uint64) {
	if len(v) == 0 {
		return 0, 0
	}
	lo, hi = v[0], v[0]
	lo1, lo2, lo3, hi1, hi2, hi3 := lo, lo, lo, hi, hi, hi
	for len(v) >= 4 {
		a, b, c, d := v[0], v[1], v[2], v[3]
		v = v[4:]
		lo, lo1, lo2, lo3 = min(lo, a), min(lo1, b), min(lo2, c), min(lo3, d)
		hi, hi1, hi2, hi3 = max(hi, a), max(hi1, b), max(hi2, c), max(hi3, d)
	}
	for _, x := range v {
		lo, hi = min(lo, x), max(hi, x)
	}
	return min(lo, lo1, lo2, lo3), max(hi, hi1, hi2, hi3)
}

func signedSpan(v []uint64) (lo, hi int64) {
	lo, hi = int64(v[0]), int64(v[0])
	lo1, lo2, lo3, hi1, hi2, hi3 := lo, lo, lo, hi, hi, hi
	for len(v) >= 4 {
		a, b, c, d := int64(v[0]), int64(v[1]), int64(v[2]), int64(v[3])
		v = v[4:]
		lo, lo1, lo2, lo3 = min(lo, a), min(lo1, b), min(lo2, c), min(lo3, d)
		hi, hi1, hi2, hi3 = max(hi, a), max(hi1, b), max(hi2, c), max(hi3, d)
	}
	for _, x := range v {
		lo, hi = min(lo, int64(x)), max(hi, int64(x))
	}
	return min(lo, lo1, lo2, lo3), max(hi, hi1, hi2, hi3)
}

func widthOf(span uint64) int {
	switch {
	case span < 1<<8:
		return 1
	case span < 1<<16:
		return 2
	case span < 1<<32:
		return 4
	}
	return 8
}

func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

func uvarintSize(v []uint64, base uint64) int {
	n := 0
	for _, x := range v {
		n += uvarintLen(x - base)
	}
	return n
}

// extend lengthens dst by n bytes, which the caller sets, and also returns these.
func extend(dst []byte, n int) (all, added []byte) {
	at := len(dst)
	if cap(dst)-at < n {
		grown := make([]byte, at, (at+n)*3/2)
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:at+n]
	return dst, dst[at:]
}

func grow(s *[]uint64, n int) []uint64 {
	if cap(*s) < n {
		*s = make([]uint64, n+n/4)
	}
	return (*s)[:n]
}
