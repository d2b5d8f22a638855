package column

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A Decoder turns columns back into words. The zero value is ready to use.
type Decoder struct {
	scratch [maxDepth][2][]uint64
}

// Words decodes c's n rows into dst, which has at least as many. Absent rows in a Presence column are set to zero.
// The error is ErrMalformed, or ErrUnknown for an encoding of a later version; dst is then undefined.
func (d *Decoder) Words(dst []uint64, n int, c Column) error {
	if n == 0 {
		return nil
	}
	if n > len(dst) {
		return ErrMalformed
	}
	return d.words(dst[:n], c, 0)
}

// Present returns the bitmap of rows with a value, and the column with these values; a nil bitmap means all n.
func (d *Decoder) Present(c Column, n int) (bitmap []byte, inner Column, count int, err error) {
	if c.Enc != Presence {
		return nil, c, n, nil
	}
	k, b, ok := uvarint(c.Body)
	size := (n + 7) / 8
	if !ok || k > uint64(n) || size > len(b) {
		return nil, c, 0, ErrMalformed
	}
	bitmap = b[:size]
	set := 0
	for i, x := range bitmap {
		if i == size-1 && n%8 != 0 && x>>(n%8) != 0 {
			return nil, c, 0, ErrMalformed
		}
		set += bits.OnesCount8(x)
	}
	inner, rest, err := parse(b[size:])
	if err != nil || len(rest) != 0 || set != int(k) {
		return nil, c, 0, ErrMalformed
	}
	return bitmap, inner, int(k), nil
}

// Strings decodes a Bytes column of n rows: it stores the lengths in lens, which must have room for n, and returns the
// concatenated strings, which share memory with the column.
func (d *Decoder) Strings(lens []uint64, n int, c Column) (data []byte, err error) {
	if c.Enc != Bytes {
		if c.Enc > Dict {
			return nil, ErrUnknown
		}
		return nil, ErrMalformed
	}
	inner, data, err := parse(c.Body)
	if err != nil {
		return nil, err
	}
	if err := d.Words(lens, n, inner); err != nil {
		return nil, err
	}
	left := uint64(len(data))
	for _, l := range lens[:n] {
		if l > left {
			return nil, ErrMalformed
		}
		left -= l
	}
	if left != 0 {
		return nil, ErrMalformed
	}
	return data, nil
}

// words decodes len(dst) rows, at least one.
func (d *Decoder) words(dst []uint64, c Column, depth int) error {
	switch {
	case depth >= maxDepth || c.Enc == Bytes:
		return ErrMalformed
	case c.Enc > Dict:
		return ErrUnknown
	case c.Enc == Fixed64 || c.Enc >= For8 && c.Enc <= For32:
		var v Vector
		if !inPlace(&v, len(dst), c) {
			c.Body = slices.Concat(c.Body, make([]byte, Pad))[:len(c.Body)]
			if !inPlace(&v, len(dst), c) {
				return ErrMalformed
			}
		}
		fillPlain(dst, &v, 0)
		return nil
	case c.Enc == Presence:
		return d.sparse(dst, c, depth)
	}
	base, b, ok := uvarint(c.Body)
	if !ok {
		return ErrMalformed
	}
	switch c.Enc {
	case Const:
		if len(b) != 0 {
			return ErrMalformed
		}
		for i := range dst {
			dst[i] = base
		}
	case Uvarint:
		return uvarints(dst, base, b)
	case Delta:
		return d.delta(dst, base, b, depth)
	case RunLength:
		return d.runs(dst, base, b, depth)
	case Dict:
		return d.dict(dst, base, b, depth)
	}
	return nil
}

// uvarints decodes numbers of up to eight bytes without a branch for each byte, which the processor would often predict wrong.
func uvarints(dst []uint64, base uint64, b []byte) error {
	const tops = 0x8080808080808080
	for i := range dst {
		if len(b) >= 8 {
			x := binary.LittleEndian.Uint64(b)
			if last := ^x & tops; last != 0 {
				x &= last ^ (last - 1) // up to the first byte without a top bit
				x &^= tops
				x = x&0x007f007f007f007f | x>>1&0x3f803f803f803f80
				x = x&0x00003fff00003fff | x>>2&0x0fffc0000fffc000
				x = x&0x000000000fffffff | x>>4&0x00fffffff0000000
				dst[i] = base + x
				b = b[bits.TrailingZeros64(last)/8+1:]
				continue
			}
		}
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return ErrMalformed
		}
		dst[i] = base + v
		b = b[k:]
	}
	if len(b) != 0 {
		return ErrMalformed
	}
	return nil
}

func (d *Decoder) delta(dst []uint64, first uint64, b []byte, depth int) error {
	inner, rest, err := parse(b)
	if err != nil || len(rest) != 0 {
		return ErrMalformed
	}
	dst[0] = first
	if len(dst) == 1 {
		return nil
	}
	if err := d.words(dst[1:], inner, depth+1); err != nil {
		return err
	}
	x := first
	for i, step := range dst[1:] {
		x += step
		dst[i+1] = x
	}
	return nil
}

func (d *Decoder) runs(dst []uint64, runs uint64, b []byte, depth int) error {
	if runs == 0 || runs > uint64(len(dst)) {
		return ErrMalformed
	}
	values, counts := grow(&d.scratch[depth][0], int(runs)), grow(&d.scratch[depth][1], int(runs))
	if err := d.pair(values, counts, b, depth); err != nil {
		return err
	}
	for i, n := range counts {
		if n > uint64(len(dst)) {
			return ErrMalformed
		}
		x := values[i]
		for k := range dst[:n] {
			dst[k] = x
		}
		dst = dst[n:]
	}
	if len(dst) != 0 {
		return ErrMalformed
	}
	return nil
}

func (d *Decoder) dict(dst []uint64, size uint64, b []byte, depth int) error {
	if size == 0 || size > uint64(len(dst)) {
		return ErrMalformed
	}
	values := grow(&d.scratch[depth][0], int(size))
	if err := d.pair(values, dst, b, depth); err != nil {
		return err
	}
	for i, at := range dst {
		if at >= uint64(len(values)) {
			return ErrMalformed
		}
		dst[i] = values[at]
	}
	return nil
}

func (d *Decoder) sparse(dst []uint64, c Column, depth int) error {
	bitmap, inner, k, err := d.Present(c, len(dst))
	if err != nil {
		return err
	}
	values := grow(&d.scratch[depth][0], k)
	if k > 0 {
		if err := d.words(values, inner, depth+1); err != nil {
			return err
		}
	}
	for i := range dst {
		if bitmap[i/8]>>(i%8)&1 == 0 {
			dst[i] = 0
			continue
		}
		dst[i] = values[0]
		values = values[1:]
	}
	return nil
}

// pair decodes the two columns in b.
func (d *Decoder) pair(x, y []uint64, b []byte, depth int) error {
	c, b, err := parse(b)
	if err != nil {
		return err
	}
	if err := d.words(x, c, depth+1); err != nil {
		return err
	}
	c, b, err = parse(b)
	if err != nil || len(b) != 0 {
		return ErrMalformed
	}
	return d.words(y, c, depth+1)
}
