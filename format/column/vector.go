package column

import (
	"encoding/binary"
	"unsafe"
)

// A Vector is a column of words that can be asked for any row. Columns of fixed width stay as they are in the file, which is a few bytes a row, instead of eight:
// a block of them stays in the processor's cache, and what nobody asks for is never decoded. The zero value is zero in every row.
type Vector struct {
	bytes []byte // with 8 bytes from the beginning of every row on
	base  uint64
	mask  uint64
	width int // bytes of a row, 0 for the same in every row
}

// Pad is the number of bytes that must follow a table in its memory, within the capacity of the slice, for Vector to be able to use it.
const Pad = 8

var zeros [Pad]byte

// At returns row i, which must be one of the rows of the column.
func (v *Vector) At(i int) uint64 {
	return binary.LittleEndian.Uint64(v.bytes[i*v.width:])&v.mask + v.base
}

// Const makes all rows of v the same.
func (v *Vector) Const(x uint64) { *v = Vector{bytes: zeros[:], base: x} }

// Constant reports whether all rows are the same because the column is stored so.
func (v *Vector) Constant() (uint64, bool) { return v.base, v.width == 0 }

// Words makes v consist of words, which it shares.
func (v *Vector) Words(w []uint64) { *v = Vector{bytes: bytesOf(w), mask: ^uint64(0), width: 8} }

// Vector makes v the n rows of c. Where they have to be decoded, that is done into scratch, which is grown as needed and belongs to v from then on. Errors are those of Words.
func (d *Decoder) Vector(v *Vector, n int, c Column, scratch *[]uint64) error {
	if x, ok := c.Const(); ok {
		v.Const(x)
		return nil
	}
	width := 0
	switch c.Enc {
	case For8:
		width = 1
	case For16:
		width = 2
	case For32:
		width = 4
	}
	if width > 0 {
		base, body, ok := uvarint(c.Body)
		if !ok || len(body) != n*width {
			return ErrMalformed
		}
		if cap(body) >= len(body)+Pad {
			*v = Vector{bytes: body[:len(body)+Pad], base: base, mask: 1<<(8*width) - 1, width: width}
			return nil
		}
	}
	w := grow(scratch, n)
	if err := d.Words(w, n, c); err != nil {
		return err
	}
	v.Words(w)
	return nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf views words as the bytes that they are in a file.
func bytesOf(w []uint64) []byte {
	if !littleEndian {
		b := make([]byte, 0, len(w)*8)
		for _, x := range w {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)
}
