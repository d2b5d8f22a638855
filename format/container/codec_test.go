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
func TestNoisyNumbersAreStoredInPlanes(t *testing.T) {
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
func TestPlanesOfAnyLengthAreJoined(t *testing.T) {
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

// A frame whose lengths or bytes are forged is refused: when its content is opened, or when it is unpacked.
func TestForgedFrames(t *testing.T) {
	raw := bytes.Repeat([]byte("some text, "), 100)
	word := func(b []byte, at int, change func(uint32) uint32) []byte {
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[at:], change(binary.LittleEndian.Uint32(b[at:])))
		return b
	}
	add := func(n int) func(uint32) uint32 { return func(v uint32) uint32 { return v + uint32(n) } }
	for _, codec := range []Codec{LZ4, Zstd} {
		whole := appendFrame(nil, raw, codec)
		twice := append(bytes.Clone(whole), whole...)
		for name, c := range map[string]struct {
			stored []byte
			length int
			fine   bool
		}{
			"as written":            {whole, len(raw), true},
			"two frames":            {twice, 2 * len(raw), true},
			"one byte more":         {word(whole, 0, add(1)), len(raw) + 1, false},
			"one byte less":         {word(whole, 0, add(-1)), len(raw) - 1, false},
			"nothing":               {word(whole, 0, add(-len(raw))), 0, false},
			"longer than the chunk": {whole, len(raw) - 1, false},
			"shorter":               {whole, len(raw) + 1, false},
			"too much":              {word(whole, 0, func(uint32) uint32 { return MaxRaw + 1 }), MaxRaw + 1, false},
			"planes":                {word(whole, 0, add((maxPlanes+1)<<planesShift)), len(raw), false},
			"not stored whole":      {word(whole, 4, add(1)), len(raw), false},
			"stored longer":         {append(word(whole, 4, add(2*len(raw))), make([]byte, 2*len(raw))...), len(raw), false},
			"cut":                   {word(whole[:len(whole)-1], 4, add(-1)), len(raw), false},
			"cut in its head":       {twice[:len(whole)+frameHead-1], 2 * len(raw), false},
			"other bytes":           {word(whole, frameHead, func(v uint32) uint32 { return ^v }), len(raw), false},
		} {
			content := &Content{raw: make([]byte, c.length)}
			err := content.open(c.stored, codec, c.length)
			if err == nil {
				err = content.Unpack(0, c.length)
			}
			if (err == nil) != c.fine {
				t.Errorf("%v, %s: %v", codec, name, err)
			}
			if c.fine && !bytes.Equal(content.raw, bytes.Repeat(raw, c.length/len(raw))) {
				t.Errorf("%v, %s: other bytes", codec, name)
			}
		}
	}
}

func TestParseCodec(t *testing.T) {
	for i, want := range codecs {
		if got, ok := ParseCodec(want.name); !ok || got != Codec(i) || got.String() != want.name {
			t.Errorf("%s: %v %v", want.name, got, ok)
		}
	}
	if c, ok := ParseCodec("zip"); ok {
		t.Errorf("zip is %v", c)
	}
}
