package block

import "math"

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
