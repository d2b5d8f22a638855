//go:build cgo

package compute

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/acltrace/acltrace/sim/opapi/block"
)

// precision is that of the references, which also reduces the largest arguments of sine and cosine.
const precision = 1300

func number(v float64) *big.Float     { return new(big.Float).SetPrec(precision).SetFloat64(v) }
func add(x, y *big.Float) *big.Float  { return new(big.Float).Add(x, y) }
func sub(x, y *big.Float) *big.Float  { return new(big.Float).Sub(x, y) }
func mul(x, y *big.Float) *big.Float  { return new(big.Float).Mul(x, y) }
func quot(x, y *big.Float) *big.Float { return new(big.Float).Quo(x, y) }

// series adds terms, from the first, each the last one times factor(k), until they are too small to count.
func series(first *big.Float, factor func(k int) *big.Float) *big.Float {
	sum, term := number(0), first
	for k := 1; term.Sign() != 0 && (sum.Sign() == 0 || term.MantExp(nil) > sum.MantExp(nil)-300); k++ {
		sum, term = add(sum, term), mul(term, factor(k))
	}
	return sum
}

func expBig(x *big.Float) *big.Float {
	small := new(big.Float).SetMantExp(x, -12)
	v := series(number(1), func(k int) *big.Float { return quot(small, number(float64(k))) })
	for range 12 {
		v = mul(v, v)
	}
	return v
}

// logBig solves exp(y) = x by Newton's method.
func logBig(x *big.Float) *big.Float {
	v, _ := x.Float64()
	y := number(math.Log(v))
	for range 4 {
		y = sub(add(y, quot(x, expBig(y))), number(1))
	}
	return y
}

func atanOfInverse(n float64) *big.Float {
	sum, power := number(0), quot(number(1), number(n))
	for k := 0; k < precision; k++ {
		term := quot(power, number(float64(2*k+1)))
		if k%2 == 1 {
			term.Neg(term)
		}
		sum, power = add(sum, term), quot(power, number(n*n))
	}
	return sum
}

var pi = mul(number(4), sub(mul(number(4), atanOfInverse(5)), atanOfInverse(239)))

func sinBig(x *big.Float) *big.Float {
	turns, _ := quot(x, mul(number(2), pi)).Int(nil)
	x = sub(x, mul(new(big.Float).SetPrec(precision).SetInt(turns), mul(number(2), pi)))
	square := mul(x, x)
	square.Neg(square)
	return series(x, func(k int) *big.Float { return quot(square, number(float64(2*k*(2*k+1)))) })
}

func erfBig(x *big.Float) *big.Float {
	square := mul(x, x)
	square.Neg(square)
	// x^(2k+1) (-1)^k / (k! (2k+1))
	sum, term := number(0), x
	for k := 1; k < 400; k++ {
		sum, term = add(sum, quot(term, number(float64(2*k-1)))), mul(term, quot(square, number(float64(k))))
	}
	return mul(sum, quot(number(2), new(big.Float).Sqrt(pi)))
}

func tanhBig(x *big.Float) *big.Float {
	e := expBig(mul(number(2), x))
	return quot(sub(e, number(1)), add(e, number(1)))
}

// Functions differ from the exact results by less than functions.h says, in units in the last place.
func TestFunctions(t *testing.T) {
	for _, f := range []struct {
		name      string
		exact     func(*big.Float) *big.Float
		ulps      float64
		low, high float64
		special   map[float64]float64
	}{
		{"aclnnExp", expBig, 2, -700, 709, map[float64]float64{math.Inf(1): math.Inf(1), math.Inf(-1): 0, 0: 1, 710: math.Inf(1), -746: 0}},
		{"aclnnLog", logBig, 2, 0, 100, map[float64]float64{0: math.Inf(-1), 1: 0, -1: math.NaN(), math.Inf(1): math.Inf(1)}},
		{"aclnnTanh", tanhBig, 3, -20, 20, map[float64]float64{math.Inf(1): 1, math.Inf(-1): -1, 0: 0}},
		{"aclnnErf", erfBig, 3, -6, 6, map[float64]float64{math.Inf(1): 1, -7: -1, 0: 0}},
		{"aclnnSin", sinBig, 3, -1e5, 1e5, map[float64]float64{math.Inf(1): math.NaN(), 0: 0}},
		{"aclnnCos", func(x *big.Float) *big.Float { return sinBig(add(x, quot(pi, number(2)))) }, 3, -1e300, 1e300, map[float64]float64{math.Inf(-1): math.NaN(), 0: 1}},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			x := []float64{math.NaN()}
			for v := range f.special {
				x = append(x, v)
			}
			for i := range 300 {
				v := f.low + r.Float64()*(f.high-f.low)
				if i%3 == 0 { // small ones, and all exponents
					v *= math.Pow(2, -float64(r.IntN(40)))
				}
				x = append(x, v)
			}
			m := newMemory(t)
			to := put(m, make([]float64, len(x))...)
			if !do(t, f.name, of(put(m, x...), in, f64, int64(len(x))), of(to, out, f64, int64(len(x)))) {
				t.Fatal("not computed")
			}
			for i, got := range get[float64](to, len(x)) {
				if want, ok := f.special[x[i]]; ok || x[i] != x[i] {
					if x[i] != x[i] {
						want = math.NaN()
					}
					if got != want && !(got != got && want != want) {
						t.Errorf("%g: %g, want %g", x[i], got, want)
					}
					continue
				}
				want := f.exact(number(x[i]))
				unit := math.Ldexp(1, max(want.MantExp(nil)-53, -1074))
				if off, _ := quot(sub(number(got), want), number(unit)).Float64(); math.Abs(off) > f.ulps {
					t.Errorf("%g: %g, want %g: %.2f units in the last place", x[i], got, want, off)
				}
			}
		})
	}
}

// Sums of many elements are exact as far as the type of the result is, and do not depend on how rows are stored.
func TestSumsHaveOneOrder(t *testing.T) {
	m := newMemory(t)
	to, one := put[float32](m, 0), put[float32](m, 1)
	ones := tensor(view(one, f32, []int64{1 << 25}, []int64{0}))
	if !do(t, "aclnnReduceSum", ones, ints(), flag(0), flag(0), of(to, out, f32)) || get[float32](to, 1)[0] != 1<<25 {
		t.Errorf("2^25 ones have the sum %v", get[float32](to, 1))
	}
	r := rand.New(rand.NewPCG(3, 4))
	const rows, columns = 37, 53
	v, turned := make([]float64, rows*columns), make([]float64, rows*columns)
	for i := range v {
		v[i] = r.NormFloat64()
		turned[i%columns*rows+i/columns] = v[i]
	}
	sums := put(m, 0.0, 0.0)
	by := view(put(m, turned...), f64, []int64{rows, columns}, []int64{1, rows})
	if !do(t, "aclnnReduceSum", of(put(m, v...), in, f64, rows, columns), ints(), flag(0), flag(0), of(sums, out, f64)) ||
		!do(t, "aclnnReduceSum", tensor(by), ints(), flag(0), flag(0), of(sums+8, out, f64)) {
		t.Fatal("not computed")
	}
	if got := get[float64](sums, 2); got[0] != got[1] || got[0] == 0 {
		t.Errorf("sums of equal tensors: %v", got)
	}
}

// Processors make NaNs with different signs. Results have one.
func TestNaNsAreCanonical(t *testing.T) {
	for dtype, want := range map[block.DType]uint64{f32: 0x7fc00000, f16: 0x7e00, bf16: 0x7fc0, f64: 0x7ff8000000000000} {
		m := newMemory(t)
		x, to := put(m, math.Inf(1)), put[int64](m, 0)
		y := put(m, math.Inf(1))
		if !do(t, "aclnnSub", of(x, in, f64), of(y, in, f64), scalar(1), of(to, out, dtype)) || uint64(get[int64](to, 1)[0]) != want {
			t.Errorf("dtype %d: %#x, want %#x", dtype, get[int64](to, 1)[0], want)
		}
		if !do(t, "aclnnNeg", of(put(m, math.NaN()), in, f64), of(to, out, dtype)) || uint64(get[int64](to, 1)[0]) != want {
			t.Errorf("dtype %d: %#x, want %#x", dtype, get[int64](to, 1)[0], want)
		}
	}
}
