package block

import "math"

// Data types with elements of their own kind: truth values, texts, and numbers without a zero.
const (
	boolean    DType = 12
	text       DType = 13
	float8e8m0 DType = 37
)

// Element returns the scalar as an element of a tensor with a data type; nil if a conversion is not known or the type lacks the number.
func (s *Scalar) Element(d DType) []byte {
	width := d.Bits() / 8
	whole, real, ok := s.number()
	if !ok || d.Bits()%8 != 0 {
		return nil
	}
	var w uint64
	switch {
	case real == 0 && !math.Signbit(real) && d != text && d != float8e8m0:
		return make([]byte, width)
	case width > 8:
		return nil
	}
	switch d {
	case 0:
		w = uint64(math.Float32bits(float32(real)))
	case 1:
		w = uint64(half(float32(real)))
	case 27:
		w = uint64(bfloat(float32(real)))
	case 11:
		w = math.Float64bits(real)
	case 16: // its imaginary part is 0
		w = uint64(math.Float32bits(float32(real)))
	case boolean:
		if real != 0 {
			w = 1
		}
	case 2, 3, 4, 6, 7, 8, 9, 10:
		if w = uint64(whole); float64(whole) != math.Trunc(real) || !holds(d, whole) {
			return nil
		}
	default:
		return nil
	}
	return le.AppendUint64(nil, w)[:width:width]
}

// number returns a scalar's number, as an integer without its fraction and as a float.
func (s *Scalar) number() (whole int64, real float64, ok bool) {
	w := le.Uint64(s.Value[:])
	bits := s.DType.Bits()
	switch s.DType {
	case 0:
		real = float64(math.Float32frombits(uint32(w)))
	case 11:
		real = math.Float64frombits(w)
	case 27:
		real = float64(math.Float32frombits(uint32(w) << 16))
	case 2, 3, 6, 9:
		whole = int64(w<<(64-bits)) >> (64 - bits)
		return whole, float64(whole), true
	case 4, 7, 8, 10, boolean:
		whole = int64(w << (64 - bits) >> (64 - bits))
		return whole, float64(whole), whole >= 0
	default:
		return 0, 0, false
	}
	if math.Abs(real) < 1<<63 {
		whole = int64(real)
	}
	return whole, real, true
}

// holds reports whether an integer type has a number.
func holds(d DType, v int64) bool {
	bits := d.Bits()
	switch d {
	case 2, 3, 6, 9:
		return v<<(64-bits)>>(64-bits) == v
	}
	return v >= 0 && (bits == 64 || v < 1<<bits)
}

// bfloat rounds to bfloat16, to the nearest and ties to even.
func bfloat(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// half rounds to float16, to the nearest and ties to even.
func half(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	abs := math.Float32frombits(b &^ (1 << 31))
	switch {
	case f != f:
		return sign | 0x7e00
	case abs >= 65520:
		return sign | 0x7c00
	case abs < 1.0/(1<<14): // subnormal: units of 2^-24
		return sign | uint16(math.RoundToEven(float64(abs)*(1<<24)))
	}
	b &^= 1 << 31
	b += 0xfff + b>>13&1
	return sign | uint16(b>>13-112<<10)
}
