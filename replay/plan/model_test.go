package plan

import (
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// modelled is a spool with the list that it should have.
type modelled[T comparable] struct {
	spool[T]
	want []T
	some func(uint32) T
}

// step does something with the spool and with the list.
func (m *modelled[T]) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	n := r.IntN([]int{3, 200, 40_000}[r.IntN(3)])
	values := make([]T, n)
	for i := range values {
		values[i] = m.some(r.Uint32())
	}
	switch r.IntN(5) {
	case 0:
		if first := m.add(values...); first != len(m.want) {
			t.Fatalf("the first element is %d, want %d", first, len(m.want))
		}
		m.want = append(m.want, values...)
	case 1:
		for _, v := range values[:n/100] {
			m.push(v)
			m.want = append(m.want, v)
		}
	case 2:
		if n == 0 {
			return
		}
		part := m.next(n)
		if len(part) == 0 || len(part) > n {
			t.Fatalf("%d of %d elements", len(part), n)
		}
		m.want = append(m.want, values[:copy(part, values)]...)
	case 3:
		fits := n <= min(m.full, cap(m.tail))-len(m.tail)
		if part := m.room(n); (part != nil) != fits && n > 0 {
			t.Fatalf("room for %d elements: %v, want %v", n, !fits, fits)
		} else if part != nil {
			m.want = append(m.want, values[:copy(part, values)]...)
			if len(part) != n {
				t.Fatalf("room for %d of %d elements", len(part), n)
			}
		}
	case 4:
		for _, v := range values[:min(n, 5)] {
			if len(m.want) > 0 {
				i := r.IntN(len(m.want))
				m.set(i, v)
				m.want[i] = v
			}
		}
	}
	if m.count() != len(m.want) {
		t.Fatalf("%d elements, want %d", m.count(), len(m.want))
	}
	if len(m.want) > 0 {
		places := []int{0, len(m.want) - 1, r.IntN(len(m.want)), min(m.start, len(m.want)-1)}
		for _, first := range m.firsts {
			places = append(places, first, max(first-1, 0))
		}
		for _, i := range places {
			if got := m.at(i); got != m.want[i] {
				t.Fatalf("element %d of %d is %v, want %v", i, len(m.want), got, m.want[i])
			}
		}
	}
}

// check compares the finished spool's bytes in the file with the list.
func (m *modelled[T]) check(t *testing.T, used map[uint64]bool) {
	t.Helper()
	var all []byte
	for i, e := range m.finish() {
		b := make([]byte, e.Size)
		m.in.read(b, int64(e.Offset))
		if crc32.Checksum(b, castagnoli) != e.Checksum {
			t.Errorf("extent %d has a wrong checksum", i)
		}
		for at := e.Offset; at < e.Offset+e.Size; at += pageSize {
			if used[at] {
				t.Fatalf("two extents have the page at %d", at)
			}
			used[at] = true
		}
		full := 1 << (10 + min(i/8, 6)) * elemSize[T]()
		if elemSize[T]() == 1 {
			full *= 64
		}
		if last := i == len(m.extents)-1; !last && e.Size != uint64(full) || last && e.Size > uint64(full) {
			t.Errorf("extent %d of %d has %d bytes, want %d", i, len(m.extents), e.Size, full)
		}
		all = append(all, b...)
	}
	want := Bytes(m.want)
	want = append(slices.Clip(want), make([]byte, -len(want)&(pageSize-1))...)
	if !slices.Equal(all, want) {
		t.Errorf("%d bytes in the file differ from %d of %d elements", len(all), len(want), len(m.want))
	}
	if m.in.err != nil {
		t.Error(m.in.err)
	}
}

// Spools that share a file keep their elements, whatever the order in which they are added and replaced.
func TestSpoolsAreLists(t *testing.T) {
	for seed := range uint64(4) {
		file, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		f := &spoolFile{file: file}
		r := rand.New(rand.NewPCG(seed, 0))
		chars := modelled[byte]{spool[byte]{in: f}, nil, func(n uint32) byte { return byte(n) }}
		words := modelled[uint32]{spool[uint32]{in: f}, nil, func(n uint32) uint32 { return n }}
		ops := modelled[packedOperand]{spool[packedOperand]{in: f}, nil, func(n uint32) packedOperand { return packedOperand{n, n + 1, n + 2} }}
		for range 60 {
			chars.step(t, r)
			words.step(t, r)
			ops.step(t, r)
		}
		used := map[uint64]bool{}
		chars.check(t, used)
		words.check(t, used)
		ops.check(t, used)
		if int64(len(used))*pageSize > f.size {
			t.Errorf("%d pages in %d bytes", len(used), f.size)
		}
	}
}
