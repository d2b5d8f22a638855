package container

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Numbers with noise in their lower bytes are stored in the right number of planes, and are read back.
func TestPlanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	two := []byte{7, 7, 7} // bytes before the numbers need not keep them aligned
	four := bytes.Clone(two)
	for range 30_000 {
		two = binary.LittleEndian.AppendUint16(two, uint16(rng.Uint32N(3<<8)))
		four = binary.LittleEndian.AppendUint32(four, rng.Uint32N(3<<8)+rng.Uint32N(1<<24)>>23<<20)
	}
	noise := randomBytes(rng, 1<<16)
	for name, c := range map[string]struct {
		raw    []byte
		codec  Codec
		planes int
		most   int // bytes
	}{
		"two bytes":       {two, Zstd, 2, 40_000},
		"four bytes":      {four, Zstd, 4, 46_000},
		"noise":           {noise, Zstd, 1, 1<<16 + frameHead},
		"two bytes, LZ4":  {two, LZ4, 1, 60_003 + frameHead},
		"four bytes, LZ4": {four, LZ4, 4, 66_000},
		"noise, LZ4":      {noise, LZ4, 1, 1<<16 + frameHead},
		"numbers, LZ4":    {bytes.Repeat(four[3:403], 300), LZ4, 1, 2000}, // LZ4 finds the repetition
	} {
		packed := appendFrame(nil, c.raw, c.codec)
		if got := 1 << (binary.LittleEndian.Uint32(packed) >> planesShift); got != c.planes || len(packed) > c.most {
			t.Errorf("%s: %d planes in %d bytes, want %d planes", name, got, len(packed), c.planes)
		}
		path := filepath.Join(t.TempDir(), "f")
		w, err := Create(path, &FileHeader{Major: Major}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(&Chunk{Type: Blob, Codec: c.codec, Raw: c.raw}); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Read(&f.Entries()[0], nil)
		if err != nil || !bytes.Equal(got, c.raw) {
			t.Errorf("%s: %d bytes came back, %v", name, len(got), err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path)
	}
}

// Planes are joined again for any length, also if the last number is cut off.
func TestUnplanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for shift := 1; shift <= maxPlanes; shift++ {
		for n := 1; n < 70; n++ {
			raw, got := randomBytes(rng, n), make([]byte, n)
			if unplanes(got, planes(nil, raw, shift), shift); !bytes.Equal(got, raw) {
				t.Errorf("%d bytes in %d planes: %x, want %x", n, 1<<shift, got, raw)
			}
		}
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
