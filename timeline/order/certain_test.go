package order

import "testing"

// Two calls of different threads that touch at one nanosecond may have overlapped.
func TestCertainOrder(t *testing.T) {
	for _, c := range []struct {
		thread      uint32
		end, others int64
		want        bool
	}{
		{1, 50, 9, true}, {1, 10, 9, true}, {1, 5, 10, false}, {1, 5, 11, false}, // the same thread
		{2, 9, 9, true}, {2, 10, 9, false}, {2, 11, 9, false}, {2, 9, 10, false},
	} {
		x := &track[int]{thread: 1, end: c.end, others: c.others}
		if got := x.certain(c.thread, 10); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
