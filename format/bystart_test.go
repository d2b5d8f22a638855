package format

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// Calls come in the order of their start whether the calls of a chunk do or not, and whether chunks overlap or not.
func TestCallsByStart(t *testing.T) {
	inOrder := func(i int) int { return i }
	for _, shape := range []struct {
		name    string
		order   func(i int) int // order of the calls in every other chunk
		back    int64           // time between a chunk's start and the end of the previous chunk, if they overlap
		ordered int             // chunks with calls in order
	}{
		{"in order", inOrder, 0, 8},
		{"disorder", func(i int) int { return i/8*8 + i*5%8 }, 0, 4},
		{"two threads", func(i int) int { return i%320*2 + i/320 }, 0, 4},
		{"backwards", func(i int) int { return 639 - i }, 0, 4},
		{"turns", func(i int) int { return (i/20^1)*20 + i%20 }, 0, 4},
		{"overlap", inOrder, 55, 8},
		{"chunks of one time", inOrder, 6400, 8},
		{"turns and overlap", func(i int) int { return (i/20^1)*20 + i%20 }, 55, 4},
	} {
		t.Run(shape.name, func(t *testing.T) {
			path := tempFile(t)
			w := create(t, path, nil)
			const chunks, calls = 8, 640
			now := 10_000 + shape.back
			for chunk := range chunks {
				now -= shape.back
				for i := range calls {
					if chunk%2 == 1 {
						i = shape.order(i)
					}
					start := now + int64(i)*10
					c := &Call{Func: 10, Start: start, End: start + 10, Args: []uint64{uint64(i%10 + 1)}}
					if i%2 == 0 {
						c.Outs = []Out{{Param: 0, Value: uint64(start)}}
					}
					if i%3 == 0 {
						c.Data = []Data{{Len: 8, Time: start, Bytes: binary.LittleEndian.AppendUint64(nil, uint64(start))}}
					}
					if _, err := w.Call(c); err != nil {
						t.Fatal(err)
					}
				}
				now += calls * 10
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			r := open(t, path)
			ordered := 0
			for i := range r.events {
				b := r.block()
				if ok, err := r.load(b, &r.events[i], want{columns: AllColumns}); !ok || err != nil {
					t.Fatal(err)
				}
				if b.ordered() {
					ordered++
				}
				release(b)
			}
			if len(r.events) != chunks || ordered != shape.ordered {
				t.Errorf("%d of %d chunks are in order, want %d of %d", ordered, len(r.events), shape.ordered, chunks)
			}
			for _, f := range []*Filter{nil, {From: 12_345, To: 30_003}, {NoData: true}, {NoArgs: true, NoData: true}, {Handles: []Handle{{Kind: 1, Value: 1}, {Kind: 1, Value: 4}}}} {
				want := sortedByStart(collect(t, r, f))
				n := 0
				for c, err := range r.CallsByStart(f) {
					if err != nil || n == len(want) || !reflect.DeepEqual(c.Clone(), want[n]) {
						t.Fatalf("filter %+v: call %d is %+v, want one of %d, %v", f, n, c, len(want), err)
					}
					if n++; n == 2000 && f == nil {
						break
					}
				}
				if f != nil && n != len(want) || n == 0 {
					t.Errorf("filter %+v: %d calls, want %d", f, n, len(want))
				}
			}
		})
	}
}
