package column

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Rows give back what was put in, by column and by row, however many there are and whenever a word begins to vary, and again after Reset.
func TestRowsGiveBackTheirWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for width := 1; width < 12; width++ {
		r := MakeRows(width)
		for range 20 {
			n := rng.IntN([]int{3, 40, 3000}[rng.IntN(3)])
			from := make([]int, width) // the row from which a word varies
			for k := range from {
				from[k] = rng.IntN(2*n + 1)
			}
			want := make([][]uint64, width)
			for i := range n {
				row := r.Next()
				for k := range row {
					row[k] = uint64(k)
					if i >= from[k] {
						row[k] = rng.Uint64N(3) << 40
					}
					want[k] = append(want[k], row[k])
				}
				if rng.IntN(1000) == 0 {
					r.Column(0) // in the midst of a tile
				}
			}
			for k, w := range want {
				got := r.Column(k)
				if len(got) == 1 && n > 1 {
					got = slices.Repeat(got, n)
				}
				if !slices.Equal(got, w) {
					t.Fatalf("%d rows of %d words: word %d is %v, want %v", n, width, k, got, w)
				}
			}
			row := make([]uint64, width)
			for i := range min(n, 100) {
				r.Row(row, i)
				for k := range row {
					if row[k] != want[k][i] {
						t.Fatalf("row %d of %d words is %v", i, width, row)
					}
				}
			}
			r.Reset()
		}
	}
}

// A word decides others where each of its values comes with one value of theirs.
func TestWordDecidesOthers(t *testing.T) {
	r := MakeRows(7)
	fill := func(n int, noise uint64) {
		r.Reset()
		for i := range n {
			shape := uint64(i*7) % 3
			copy(r.Next(), []uint64{uint64(i), 5, 100 + shape, shape * shape, noise * uint64(i%11%5), shape * 9, uint64(i % 50)})
		}
	}
	fill(1000, 1)
	if at, values, decided := r.Decider(1, 7, 8); at != 2 || values != 3 || decided != 2 {
		t.Errorf("word %d with %d values decides %d", at, values, decided)
	}
	if _, _, decided := r.Decider(1, 7, 2); decided != 0 {
		t.Errorf("with at most two values %d are decided", decided)
	}
	if _, _, decided := r.Decider(3, 5, 8); decided != 0 {
		t.Errorf("%d of two that have nothing to do with each other are decided", decided)
	}
	r.Reset()
	if _, _, decided := r.Decider(0, 7, 8); decided != 0 {
		t.Errorf("%d words are decided without rows", decided)
	}
}

func TestPutBytes(t *testing.T) {
	words := []uint64{^uint64(0), ^uint64(0)}
	PutBytes(words, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	if !slices.Equal(words, []uint64{0x0807060504030201, 9}) {
		t.Fatalf("%x", words)
	}
	PutBytes(nil, nil)
}
