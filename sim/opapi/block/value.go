package block

import (
	"fmt"
	"math"
	"strconv"
)

// Int returns a number of the types i, u, j, h, c and b.
func (p *Param) Int() int64 { return int64(p.word()) }

// Float returns a number of the types d and f.
func (p *Param) Float() float64 { return math.Float64frombits(p.word()) }

func (p *Param) word() uint64 {
	if len(p.value) < 8 {
		return 0
	}
	return le.Uint64(p.value)
}

// Ints returns the elements of type I.
func (p *Param) Ints() []int64 { return words(p.value) }

// Floats returns the elements of type F.
func (p *Param) Floats() []float32 {
	to := make([]float32, len(p.value)/4)
	for i := range to {
		to[i] = math.Float32frombits(le.Uint32(p.value[4*i:]))
	}
	return to
}

// Bools returns the elements of type B.
func (p *Param) Bools() []bool {
	to := make([]bool, len(p.value))
	for i, v := range p.value {
		to[i] = v != 0
	}
	return to
}

// Text returns the text of type s.
func (p *Param) Text() string { return string(p.value) }

// Scalars returns the elements of type S and A.
func (p *Param) Scalars() []Scalar {
	to := make([]Scalar, len(p.value)/ScalarSize)
	for i := range to {
		r := p.value[i*ScalarSize:]
		to[i] = Scalar{DType: DType(le.Uint32(r)), Value: [16]byte(r[8:ScalarSize])}
	}
	return to
}

// Value returns the value of a parameter that is no tensor: int64, float64, string or a slice; nil if it has none.
func (p *Param) Value() any {
	if p.Null {
		return nil
	}
	switch p.Type {
	case 'S', 'A':
		return p.Scalars()
	case 'I':
		return p.Ints()
	case 'F':
		return p.Floats()
	case 'B':
		return p.Bools()
	case 's':
		return p.Text()
	case 'd', 'f':
		return p.Float()
	case 'i', 'u', 'j', 'h', 'c', 'b':
		return p.Int()
	}
	return nil
}

// String returns the number of a scalar of a common type, or its bytes.
func (s *Scalar) String() string {
	w := le.Uint64(s.Value[:])
	switch s.DType {
	case 0:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(w))), 'g', -1, 32)
	case 11:
		return strconv.FormatFloat(math.Float64frombits(w), 'g', -1, 64)
	case 2:
		return strconv.Itoa(int(int8(w)))
	case 6:
		return strconv.Itoa(int(int16(w)))
	case 3:
		return strconv.Itoa(int(int32(w)))
	case 9:
		return strconv.FormatInt(int64(w), 10)
	case 4, 7, 8, 10:
		return strconv.FormatUint(w&(1<<s.DType.Bits()-1), 10)
	case 12:
		return strconv.FormatBool(w&1 != 0)
	}
	return fmt.Sprintf("%s %#x", s.DType, s.Value[:max(1, s.DType.Bits()/8)])
}
