package order

import (
	"testing"

	"github.com/acltrace/acltrace/api"
)

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

// A record that touches the wait of another thread at one nanosecond may have come after it.
func TestRecordsThatTouchAWait(t *testing.T) {
	record, wait := &api.Func{Meaning: api.Meaning{Task: api.Record}}, &api.Func{Meaning: api.Meaning{Task: api.Wait}}
	for _, c := range []struct {
		thread uint32
		start  int64
		want   bool
	}{{2, 11, true}, {2, 10, false}, {2, 9, false}, {1, 10, true}} {
		o := New[int, int]()
		o.Lane(Lane{})
		o.Lane(Lane{})
		o.Apply(&Call[int]{Fn: record, Task: 0, Thread: 1, Start: 1, End: 10, Key: 7, Kind: api.Event})
		seen := false
		for _, e := range o.Apply(&Call[int]{Fn: wait, Task: 1, Lane: 1, Thread: c.thread, Start: c.start, End: 20, Key: 7, Kind: api.Event}) {
			if e.Why == Event {
				if seen = true; e.Certain != c.want {
					t.Errorf("%+v: certain %v", c, e.Certain)
				}
			}
		}
		if !seen {
			t.Errorf("%+v: the wait follows nothing", c)
		}
	}
}

// Words of memory are forgotten before there are too many, whatever writes them or waits for them.
func TestWordsAreBounded(t *testing.T) {
	write, wait := &api.Func{Meaning: api.Meaning{Task: api.Record}}, &api.Func{Meaning: api.Meaning{Task: api.Wait}}
	for name, c := range map[string]Call[int]{
		"writes": {Fn: write}, "waits": {Fn: wait}, "waits of a condition": {Fn: wait, Word: Word{Until: AtLeast}},
	} {
		o := New[int, int]()
		o.Lane(Lane{})
		for i := range 2*maxWords + 10 {
			c.Task, c.Start, c.End = i, int64(10*i), int64(10*i+1)
			c.Word.Addr, c.Word.Value = uint64(4096+8*i), 1
			o.Apply(&c)
		}
		if n := max(len(o.words), len(o.awaits), len(o.open)); n > maxWords+2 || n == 0 {
			t.Errorf("%s: %d words are kept", name, n)
		}
	}
}

// A wait for a word ends with the first value that meets its condition.
func TestWaitEndsWithItsValue(t *testing.T) {
	write, wait := &api.Func{Meaning: api.Meaning{Task: api.Record}}, &api.Func{Meaning: api.Meaning{Task: api.Wait}}
	for _, c := range []struct {
		until  Condition
		value  uint64
		writes []uint64
		want   int // the write that ends it, -1 for none
	}{
		{AtLeast, 5, []uint64{1, 4, 5, 6}, 2}, {AtLeast, 5, []uint64{7}, 0}, {Equal, 5, []uint64{6, 5}, 1}, {Equal, 5, []uint64{6, 4}, -1},
		{AnyBit, 6, []uint64{1, 9, 4}, 2}, {NorBit, 1, []uint64{^uint64(0), 3}, 1},
	} {
		o := New[int, int]()
		o.Lane(Lane{})
		o.Lane(Lane{})
		met := -1
		apply := func(c *Call[int]) {
			for _, e := range o.Apply(c) {
				if e.After.Task == 100 && e.Why == Value {
					met = e.Before.Task
				}
			}
		}
		apply(&Call[int]{Fn: wait, Task: 100, Lane: 1, Start: 1, End: 2, Word: Word{Addr: 8, Value: c.value, Until: c.until}})
		for i, v := range c.writes {
			apply(&Call[int]{Fn: write, Task: i, Start: int64(10 + 10*i), End: int64(11 + 10*i), Word: Word{Addr: 8, Value: v}})
		}
		if met != c.want {
			t.Errorf("a wait for %d (%d) and writes of %d: write %d ends it, want %d", c.value, c.until, c.writes, met, c.want)
		}
	}
}

// A clock has no number for a lane beyond its pages.
func TestClockBeyondItsPages(t *testing.T) {
	for _, c := range []Clock{nil, {nil}, {new(page)}, {new(page), nil}} {
		for id := range int32(3 * pageSize) {
			if c.At(id) != 0 {
				t.Errorf("%d pages have %d for lane %d", len(c), c.At(id), id)
			}
		}
	}
	c := Clock{nil, new(page)}
	c[1][3] = 7
	if c.At(pageSize+3) != 7 {
		t.Error(c.At(pageSize + 3))
	}
}
