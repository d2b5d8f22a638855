package column

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"testing"
)

// columns are vectors that make the encoder choose each of its encodings.
func columns() map[string][]uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(n int, f func(i int) uint64) []uint64 {
		v := make([]uint64, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	return map[string][]uint64{
		"const":       fill(1000, func(int) uint64 { return 77 }),
		"zero":        fill(10, func(int) uint64 { return 0 }),
		"one":         {1 << 63},
		"for8":        fill(1000, func(int) uint64 { return 1<<40 + uint64(r.IntN(200)) }),
		"for16":       fill(1000, func(int) uint64 { return 5 + uint64(r.IntN(60000)) }),
		"for32":       fill(1000, func(int) uint64 { return 1<<50 + uint64(r.Uint32()) }),
		"fixed64":     fill(1000, func(int) uint64 { return r.Uint64() }),
		"signed":      fill(1000, func(int) uint64 { return uint64(int64(r.IntN(100)) - 50) }),
		"delta":       fill(1000, func(i int) uint64 { return uint64(i)*4096 + uint64(r.IntN(10)) }),
		"run-length":  fill(5000, func(i int) uint64 { return uint64(i/700) * 1e12 }),
		"dict":        fill(1000, func(int) uint64 { return []uint64{3, 1 << 60, 1 << 33, ^uint64(0)}[r.IntN(4)] }),
		"dict-full":   fill(5000, func(int) uint64 { return uint64(r.IntN(256)) << 50 }),
		"dict-over":   fill(5000, func(int) uint64 { return uint64(r.IntN(300)) << 50 }),
		"uvarint":     fill(1000, func(i int) uint64 { return uint64(r.IntN(10000)) + uint64(1)<<(40*uint(b2i(i%50 == 0))) }),
		"extremes":    {0, ^uint64(0), 0, 1, 1 << 63, 1<<63 - 1, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5},
		"down":        fill(300, func(i int) uint64 { return uint64(-i * 1000) }),
		"few":         {9, 1 << 40, 3},
		"long steady": fill(40000, func(i int) uint64 { return uint64(i) * 64 }),
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var expected = map[string]Encoding{
	"const": Const, "for8": For8, "for16": For16, "for32": For32, "fixed64": Fixed64, "signed": For8, "delta": Delta, "run-length": RunLength,
	"dict": Dict, "dict-full": Dict, "uvarint": Uvarint, "long steady": Delta,
}

func TestRoundTrip(t *testing.T) {
	var e Encoder
	var d Decoder
	for name, v := range columns() {
		b := e.Append(nil, v)
		c, rest, err := parse(b)
		if err != nil || len(rest) != 0 {
			t.Fatalf("%s: %v", name, err)
		}
		if want, ok := expected[name]; ok && c.Enc != want {
			t.Errorf("%s is stored as %s, want %s", name, c.Enc, want)
		}
		got := make([]uint64, len(v))
		if err := d.Words(got, len(v), c); err != nil {
			t.Fatalf("%s as %s: %v", name, c.Enc, err)
		}
		if !slices.Equal(got, v) {
			t.Fatalf("%s as %s gives other values", name, c.Enc)
		}
		if len(b) > len(v)*8+12 {
			t.Errorf("%s: %d values take %d bytes", name, len(v), len(b))
		}
		for n := range b {
			if c, rest, err := parse(b[:n]); err == nil && len(rest) == 0 && d.Words(make([]uint64, len(v)), len(v), c) == nil {
				t.Fatalf("%s: %d of %d bytes decode", name, n, len(b))
			}
			if n > 100 {
				break
			}
		}
	}
}

func TestTableReturnsItsColumns(t *testing.T) {
	var e Encoder
	var d Decoder
	words := []uint64{5, 6, 7, 1 << 40, 9, 10, 11, 12, 13}
	rows := []uint32{0, 3, 8}
	values := []uint64{100, 1 << 50, 7}
	lens, text := []uint64{1, 0, 2, 0, 0, 3, 0, 0, 0}, []byte("abbccc")
	e.Begin([]byte("before"), 3, 4, 9, 2)
	e.Words(0, words)
	e.Words(1, make([]uint64, 9))
	e.Sparse(70000, 9, rows, values)
	e.Strings(2, lens, text)
	b := append(e.End(), "after"...)

	table, rest, err := NextTable(b[len("before"):])
	if err != nil || string(rest) != "after" || table.Kind != 3 || table.ID != 4 || table.Rows != 9 || table.Width != 2 {
		t.Fatalf("%+v, %q, %v", table, rest, err)
	}
	got := make([]uint64, 9)
	var fields []uint64
	for {
		c, ok, err := table.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		fields = append(fields, c.Field)
		switch c.Field {
		case 0:
			if err := d.Words(got, 9, c); err != nil || !slices.Equal(got, words) {
				t.Fatal(got, err)
			}
		case 70000:
			if err := d.Words(got, 9, c); err != nil || !slices.Equal(got, []uint64{100, 0, 0, 1 << 50, 0, 0, 0, 0, 7}) {
				t.Fatal(got, err)
			}
			bitmap, inner, n, err := d.Present(c, 9)
			if err != nil || n != 3 || !slices.Equal(bitmap, []byte{9, 1}) {
				t.Fatal(bitmap, n, err)
			}
			if err := d.Words(got, n, inner); err != nil || !slices.Equal(got[:3], values) {
				t.Fatal(got, err)
			}
		case 2:
			data, err := d.Strings(got, 9, c)
			if err != nil || !slices.Equal(got, lens) || string(data) != string(text) {
				t.Fatal(got, data, err)
			}
		}
	}
	if !slices.Equal(fields, []uint64{0, 70000, 2}) {
		t.Fatalf("fields %v: a column of zeros is not stored", fields)
	}
}

// Columns nest up to three times, in any encoding that has columns inside.
func TestNestingUpToThreeTimes(t *testing.T) {
	ones, zeroOne := []byte{byte(Const), 1, 1}, []byte{byte(For8), 3, 0, 0, 1}
	body := map[Encoding]func(inner []byte) []byte{ // for two rows
		Presence:  func(inner []byte) []byte { return append([]byte{2, 3}, inner...) },
		RunLength: func(inner []byte) []byte { return slices.Concat([]byte{2}, inner, ones) },
		Dict:      func(inner []byte) []byte { return slices.Concat([]byte{2}, inner, zeroOne) },
	}
	for enc, body := range body {
		column := []byte{byte(For8), 3, 5, 0, 4} // 5 and 9
		for depth := 1; depth <= maxDepth; depth++ {
			b := body(column)
			column = append([]byte{byte(enc), byte(len(b))}, b...)
			c, rest, err := parse(column)
			if err != nil || len(rest) != 0 {
				t.Fatal(err)
			}
			var d Decoder
			got := make([]uint64, 2)
			if err := d.Words(got, 2, c); (err == nil) != (depth < maxDepth) || err == nil && !slices.Equal(got, []uint64{5, 9}) {
				t.Errorf("%v at depth %d: %v, %v", enc, depth, got, err)
			}
		}
	}
}

func TestUnknownEncoding(t *testing.T) {
	var d Decoder
	c, rest, err := parse([]byte{200, 2, 1, 2, 9})
	if err != nil || len(rest) != 1 {
		t.Fatal(err)
	}
	if err := d.Words(make([]uint64, 1), 1, c); err != ErrUnknown {
		t.Fatal(err)
	}
}

func FuzzColumnDecode(f *testing.F) {
	var e Encoder
	for _, v := range columns() {
		if len(v) <= 1000 {
			f.Add(uint16(len(v)), e.Append(nil, v))
		}
	}
	f.Add(uint16(10), []byte{0, 0}) // a constant without a value
	f.Fuzz(func(t *testing.T, n uint16, b []byte) {
		c, _, err := parse(append(b, make([]byte, Pad)...)[:len(b)])
		if err != nil {
			return
		}
		var d Decoder
		var v Vector
		dst := make([]uint64, n)
		var scratch []uint64
		s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(s)
		before := s[0].Value.Uint64()
		failed := d.Words(dst, int(n), c)
		vector := ErrMalformed
		if n > 0 {
			vector = d.Vector(&v, int(n), c, &scratch)
		}
		metrics.Read(s)
		// Columns nest, and each level has memory for two. The fuzzer's own allocations count too.
		if used := s[0].Value.Uint64() - before; used > 4<<20+3*maxDepth*8*2*uint64(n) {
			t.Fatalf("%d bytes allocated for %d rows", used, n)
		}
		if n > 0 && (failed == nil) != (vector == nil) {
			t.Fatalf("words: %v, vector: %v", failed, vector)
		}
		if failed == nil && n > 0 {
			got := make([]uint64, n)
			Fill(got, &v, 0)
			if !slices.Equal(got, dst) || v.At(int(n)-1) != dst[n-1] || v.At(int(n)/2) != dst[n/2] {
				t.Fatalf("vector %d, words %d", got, dst)
			}
			// Decoded values must be the same after encoding and decoding again.
			again, _, err := parse(e.Append(nil, dst))
			if err != nil || d.Words(got, int(n), again) != nil || !slices.Equal(got, dst) {
				t.Fatal("encoding again gives other values")
			}
		}
		_, _ = d.Strings(make([]uint64, n), int(n), c)
		for rest := b; len(rest) > 0; {
			var table Table
			if table, rest, err = NextTable(rest); err != nil {
				return
			}
			for {
				if _, ok, err := table.Next(); !ok || err != nil {
					break
				}
			}
		}
	})
}

// A Vector returns the values of Words, for every row and range, cut to any size.
func TestVectorReturnsTheValuesOfWords(t *testing.T) {
	var e Encoder
	var d Decoder
	all := columns()
	r := rand.New(rand.NewPCG(3, 4))
	for _, step := range []uint64{1, 300, 70000} {
		v := make([]uint64, 333)
		for i := range v[1:] {
			v[i+1] = v[i] + r.Uint64N(step) + step/2
		}
		all[fmt.Sprintf("ascending by up to %d", step*3/2)] = v
	}
	ids := make([]uint64, 3001)
	for i := range ids {
		ids[i] = []uint64{1, 1, 1, 7}[r.IntN(4)]
		if i > 1000 && i < 2000 {
			ids[i] = 1
		}
	}
	all["ids"] = ids
	for name, n := range map[string]int{"steps of one": 300, "far run-length": 70000} {
		v := make([]uint64, n)
		for i := range v {
			v[i] = uint64(i / (n / 300))
		}
		all[name] = v
	}
	for name, v := range all {
		stored := append(e.Append(nil, v), make([]byte, Pad)...)
		c, _, err := parse(stored[:len(stored)-Pad])
		if err != nil {
			t.Fatal(err)
		}
		var vec Vector
		var scratch []uint64
		if err := d.Vector(&vec, len(v), c, &scratch); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, ok := vec.Constant(); ok != (c.Enc == Const) || ok && got != v[0] {
			t.Errorf("%s: constant %d, %v", name, got, ok)
		}
		for i, x := range v {
			if vec.At(i) != x {
				t.Fatalf("%s as %s: row %d is %d, want %d", name, c.Enc, i, vec.At(i), x)
			}
		}
		most := slices.Max(v)
		var durs Vector
		widths := make([]uint64, len(v))
		for i := range widths {
			widths[i] = r.Uint64N(1 << 40)
		}
		durs.Words(widths)
		if len(v)%2 == 0 {
			durs.Const(3)
		}
		for limit, want := range map[uint64]bool{most: false, most + 1: most != ^uint64(0), v[0]: false, 0: false, ^uint64(0): most != ^uint64(0)} {
			if vec.Below(limit, len(v)) != want {
				t.Errorf("%s as %s: below %d is %v", name, c.Enc, limit, !want)
			}
		}
		if last, ok := vec.Ascending(len(v)); ok && (!slices.IsSorted(v) || last != v[len(v)-1]) {
			t.Errorf("%s as %s: ascending to %d", name, c.Enc, last)
		}
		counts, want := make([]uint32, 1000), make([]uint32, 1000)
		for _, x := range v {
			if most < 1000 {
				want[x]++
			}
		}
		if ok := vec.Count(counts, len(v)); ok != (most < 1000) || !slices.Equal(counts, want) {
			t.Errorf("%s as %s: counts differ, %v", name, c.Enc, ok)
		}
		for range 50 {
			from := r.IntN(len(v))
			begins, ends := make([]int64, len(v)-from), make([]int64, len(v)-from)
			last, want := Times(begins, ends, &vec, &durs, from, 5), int64(5)
			for i, x := range v[from:] {
				want += int64(x)
				if begins[i] != want || ends[i] != want+int64(durs.At(from+i)) {
					t.Fatalf("%s as %s: call %d from %d on is from %d to %d, begins at %d", name, c.Enc, i, from, begins[i], ends[i], want)
				}
				want = ends[i]
			}
			if last != want {
				t.Fatalf("%s: ends at %d, want %d", name, last, want)
			}
			n := 1 + r.IntN(min(len(v)-from, 300))
			part, small, signed := make([]uint64, n), make([]uint8, n), make([]int64, n)
			Fill(part, &vec, from)
			Fill(small, &vec, from)
			Fill(signed, &vec, from)
			stride := 1 + r.IntN(5)
			apart := make([]uint64, (n-1)*stride+1)
			vec.Scatter(apart, stride, from, n)
			for i, x := range v[from : from+n] {
				if part[i] != x || small[i] != uint8(x) || signed[i] != int64(x) || apart[i*stride] != x {
					t.Fatalf("%s as %s: row %d of %d from %d on is %d, %d, %d, %d, want %d", name, c.Enc, i, n, from, part[i], small[i], signed[i], apart[i*stride], x)
				}
			}
		}
	}
}

// Numbers of all lengths are decoded, at the end of a column too, where fewer than eight bytes follow.
func TestNumbersOfAllLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		var want []uint64
		var b []byte
		for range n {
			x := r.Uint64() >> r.UintN(64)
			want = append(want, x+5)
			b = binary.AppendUvarint(b, x)
		}
		got := make([]uint64, n)
		if err := uvarints(got, 5, b); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%x, want %x: %v", got, want, err)
		}
		if n > 0 && uvarints(got, 5, b[:len(b)-1]) == nil {
			t.Fatal("a column that is cut off is decoded")
		}
	}
}

// Constants takes the constant columns of words, and leaves all others to Next.
func TestConstantsLeaveOthersToNext(t *testing.T) {
	var e Encoder
	e.Begin(nil, 1, 2, 3, 300)
	for _, field := range []uint64{0, 130, 299} {
		e.Constant(field, field<<40+1)
	}
	e.Words(4, []uint64{1, 2, 3})
	e.Constant(5, 7)
	e.Constant(3, 9)      // below least
	e.Constant(1<<16, 11) // not a word
	table, _, err := NextTable(e.End())
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, 300)
	var left []uint64
	for least := 0; ; least = 5 {
		table.Constants(words, least)
		c, ok, err := table.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		left = append(left, c.Field)
	}
	if !slices.Equal(left, []uint64{4, 3, 1 << 16}) {
		t.Errorf("left %v", left)
	}
	for i, x := range words {
		want := map[int]uint64{0: 1, 130: 130<<40 + 1, 299: 299<<40 + 1, 5: 7}[i]
		if x != want {
			t.Errorf("word %d is %x, want %x", i, x, want)
		}
	}
}

func TestBytesBelow(t *testing.T) {
	for limit := 1; limit <= 256; limit++ {
		for x := range 256 {
			for _, at := range []int{0, 17, 31, 33} { // in words, and after them
				b := make([]byte, 35)
				b[at] = byte(x)
				if bytesBelow(b, uint64(limit)) != (x < limit) {
					t.Fatalf("byte %d at %d below %d: %v", x, at, limit, x >= limit)
				}
			}
		}
	}
}
