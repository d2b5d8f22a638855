package device

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/sim/device/space"
)

// Every word that may be an address is found at each offset of memory of any length, also if it extends into the bytes that follow.
func TestScanFindsAllAddresses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	ranges := windows{{Addr: 1 << 40, Size: 1 << 20}, {Addr: 1 << 44, Size: 1}, {}, {Addr: 5, Size: 3}}
	for range 3000 {
		b := make([]byte, 40+r.IntN(60)+8)
		if r.IntN(2) == 0 {
			for i := range b {
				b[i] = byte(r.Uint32()) | 1
			}
		}
		for range r.IntN(4) {
			w := []uint64{1 << 40, 1<<40 + r.Uint64N(1<<20), 1<<40 + 1<<20 - 1, 1<<40 + 1<<20, 1<<40 - 1, 1 << 44, 1<<44 + 1, 5, 7, 8, 4, 0}[r.IntN(12)]
			binary.LittleEndian.PutUint64(b[r.IntN(len(b)-7):], w)
		}
		size := len(b) - r.IntN(8)
		at := space.AddressOf(&b[0])
		var got, want []uint64
		var gotAligned, wantAligned []bool
		for i := 0; i+8 <= len(b); i++ {
			if w := binary.LittleEndian.Uint64(b[i:]); w >= 1<<40 && w < 1<<40+1<<20 || w == 1<<44 || w >= 5 && w < 8 {
				want, wantAligned = append(want, w), append(wantAligned, (at+uint64(i))%4 == 0)
			}
		}
		f := &search{windows: ranges}
		f.scan(space.Span{Addr: at, Size: uint64(size)}, uint64(len(b)-size), func(w uint64, aligned bool) { got, gotAligned = append(got, w), append(gotAligned, aligned) })
		if !slices.Equal(got, want) || !slices.Equal(gotAligned, wantAligned) {
			t.Fatalf("%x: %x %v, want %x %v", b, got, gotAligned, want, wantAligned)
		}
	}
}

// A piece without a word that ends with two zeros, or with zeros only, is passed over.
func TestPiecesWithoutAddresses(t *testing.T) {
	full := slices.Repeat([]byte{1}, 16)
	if mayHoldAddress(full) || mayHoldAddress(make([]byte, 16)) {
		t.Error("a piece without an address may hold one")
	}
	for i := range full {
		b := slices.Clone(full)
		b[i] = 0
		if got := mayHoldAddress(b); got != (i >= 6 && i < 14) {
			t.Errorf("with a zero at %d: %v", i, got)
		}
		clear(b)
		b[i] = 0x80
		if !mayHoldAddress(b) {
			t.Errorf("only byte %d is not zero", i)
		}
	}
}

func TestPieceKeepsAddresses(t *testing.T) {
	p := &piece{}
	p.add(1, true)
	p.add(2, false)
	p.add(3, true)
	if !slices.Equal(p.aligned, []uint64{1, 3}) || !slices.Equal(p.odd, []uint64{2}) {
		t.Errorf("%v, %v", p.aligned, p.odd)
	}
}
