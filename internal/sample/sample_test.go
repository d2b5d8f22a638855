package sample

import "testing"

// Samples stay evenly spaced and bounded, and Zeros keeps the same places.
func TestSpacingStaysEvenAndBounded(t *testing.T) {
	var s, late Even[int]
	for i := range 10*Max + 1 {
		if i == 3*Max {
			late = s.Zeros()
		}
		s.Add(i)
		if i >= 3*Max {
			late.Add(i)
		}
	}
	if n := len(s.Values); n > Max || n < Max/2 || len(late.Values) != n {
		t.Fatalf("%d and %d samples", n, len(late.Values))
	}
	step := s.Values[1]
	for i, v := range s.Values {
		if v != i*step {
			t.Fatalf("sample %d is %d, the second is %d", i, v, step)
		}
		if w := late.Values[i]; w != v && (w != 0 || v >= 3*Max) {
			t.Errorf("sample %d is %d after Zeros, want %d", i, w, v)
		}
	}
}

// All samples are kept until there are too many.
func TestFewSamples(t *testing.T) {
	var s Even[int]
	for i := range Max {
		s.Add(i)
	}
	if len(s.Values) != Max || s.Values[1] != 1 || s.Values[Max-1] != Max-1 {
		t.Errorf("%d samples, the second is %d", len(s.Values), s.Values[1])
	}
	if s.Add(Max); len(s.Values) != Max/2+1 || s.Values[1] != 2 || s.Values[Max/2] != Max {
		t.Errorf("%d samples after one more, the second is %d", len(s.Values), s.Values[1])
	}
}
