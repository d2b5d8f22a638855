package msprof

import "testing"

// Integers may be stored as text or as floating-point numbers that are exact.
func TestIntegersStoredInOtherTypes(t *testing.T) {
	for _, c := range []struct {
		v    any
		want int64
		ok   bool
		text string
	}{
		{int64(-7), -7, true, "-7"}, {2.0, 2, true, "2"}, {2.5, 2, false, "2.5"}, {float64(1<<53 - 1), 1<<53 - 1, true, "9.007199254740991e+15"}, {float64(1 << 53), 1 << 53, false, "9.007199254740992e+15"},
		{-float64(1 << 53), -1 << 53, false, "-9.007199254740992e+15"}, {"10", 10, true, `"10"`}, {"9223372036854775807", 1<<63 - 1, true, `"9223372036854775807"`}, {"x", 0, false, `"x"`}, {nil, 0, false, "nothing"},
	} {
		if n, ok := whole(c.v); ok != c.ok || ok && n != c.want || shown(c.v) != c.text {
			t.Errorf("%v is %d, %v, shown as %s", c.v, n, ok, shown(c.v))
		}
	}
	for _, c := range []struct {
		from, to   any
		start, dur int64
		fails      bool
	}{{int64(0), int64(0), 0, 0, false}, {"5", int64(9), 5, 4, false}, {int64(-1), int64(9), 0, 0, true}, {int64(9), int64(8), 0, 0, true}, {int64(0), int64(1<<62 - 1), 0, 1<<62 - 1, false},
		{int64(0), int64(1 << 62), 0, 0, true}, {nil, int64(1), 0, 0, true}, {int64(1), "x", 0, 0, true}} {
		r := row{}
		if err := r.times(c.from, c.to); (err != nil) != c.fails || r.start != c.start || r.dur != c.dur {
			t.Errorf("%+v: %d for %d, %v", c, r.start, r.dur, err)
		}
	}
	for v, want := range map[any]int64{int64(0): 0, int64(5): 5, int64(-1): -1, "7": 7, int64(none): -1, int64(none - 1): none - 1, 0.5: -1} {
		r := row{}
		if r.connect(v); r.conn != want {
			t.Errorf("connection %v is %d", v, r.conn)
		}
	}
}
