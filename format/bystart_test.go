package format

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"
)

// Calls come in the order of their start whether the calls of a chunk do or not, and whether chunks overlap or not.
func TestCallsByStart(t *testing.T) {
	for _, shape := range []struct {
		name    string
		jumble  int   // calls among which starts are exchanged, in every other chunk
		back    int64 // time between a chunk's start and the end of the previous chunk, if they overlap
		ordered int   // chunks with calls in order
	}{
		{"in order", 1, 0, 8}, {"disorder", 7, 0, 4}, {"overlap", 1, 55, 8}, {"chunks of one time", 1, 6000, 8}, {"disorder and overlap", 7, 55, 4},
	} {
		t.Run(shape.name, func(t *testing.T) {
			path := tempFile(t)
			w := create(t, path, nil)
			rng := rand.New(rand.NewPCG(1, 2))
			const chunks, calls = 8, 600
			now := 10_000 + shape.back
			for chunk := range chunks {
				now -= shape.back
				order := make([]int, calls)
				for i := range order {
					order[i] = i
				}
				if chunk%2 == 1 {
					for i := 0; i+shape.jumble <= calls; i += shape.jumble {
						rng.Shuffle(shape.jumble, func(a, b int) { order[i+a], order[i+b] = order[i+b], order[i+a] })
					}
				}
				for _, i := range order {
					start := now + int64(i)*10
					c := &Call{Func: 10, Start: start, End: start + 10, Args: []uint64{uint64(start)}}
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
			for _, f := range []*Filter{nil, {From: 12_345, To: 30_003}, {NoData: true}, {NoArgs: true, NoData: true}} {
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
