package container

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A Codec is the packing of a chunk's stored bytes.
type Codec uint8

const (
	None Codec = 0
	LZ4  Codec = 1 // frames that are LZ4 blocks
	Zstd Codec = 2 // frames that are Zstandard frames
)

func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

var lz4Pool = sync.Pool{New: func() any { return new(lz4.Compressor) }}

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // only for options that do not exist
	}
	return e
})

// frameHead is the length of a frame's head: its raw and its stored length.
const frameHead = 8

// compress appends raw to dst, packed by c in frames that end at ends; the last frame ends with raw. If packing does not
// reduce the size, it appends the raw bytes and returns None.
func compress(dst, raw []byte, ends []int, c Codec) ([]byte, Codec) {
	at := len(dst)
	if c != None {
		from := 0
		for i := 0; from < len(raw); i++ {
			end := len(raw)
			if i < len(ends) {
				end = ends[i]
			}
			if end > from {
				dst = appendFrame(dst, raw[from:end], c)
				from = end
			}
		}
		if len(dst)-at < len(raw) {
			return dst, c
		}
	}
	return append(dst[:at], raw...), None
}

func appendFrame(dst, raw []byte, c Codec) []byte {
	head := len(dst)
	at := head + frameHead
	dst = pack(append(dst, make([]byte, frameHead)...), raw, c)
	shift := 0
	// Numbers of two or four bytes with noise in the lower bytes look like noise as a whole. Only entropy coding can use
	// the redundancy of the upper bytes.
	if c == Zstd && len(dst)-at > len(raw)*2/5 {
		p := bufPool.Get().(*[]byte)
		shift = lanes(raw)
		*p = planes((*p)[:0], raw, shift)
		end := len(dst)
		if dst = pack(dst, *p, c); len(dst)-end < end-at {
			dst = append(dst[:at], dst[end:]...)
		} else {
			shift, dst = 0, dst[:end]
		}
		bufPool.Put(p)
	}
	if len(dst)-at >= len(raw) {
		shift = 0
		dst = append(dst[:at], raw...)
	}
	binary.LittleEndian.PutUint32(dst[head:], uint32(len(raw))|uint32(shift)<<planesShift)
	binary.LittleEndian.PutUint32(dst[head+4:], uint32(len(dst)-at))
	return dst
}

// The upper bits of a frame's raw length hold the plane count's logarithm.
const (
	planesShift = 28
	maxPlanes   = 3
)

// lanes returns the logarithm of the best plane count for numbers with noisy lower bytes: 2 if one byte in four
// is nearly constant in a sample, else 1.
func lanes(b []byte) int {
	const sample = 1 << 10
	if len(b) > sample {
		b = b[(len(b)-sample)/2:][:sample]
	}
	var same [4]int
	for i, x := range b[min(4, len(b)):] {
		if x == b[i] {
			same[i%4]++
		}
	}
	if slices.Max(same[:])*4*10 > len(b)*9 {
		return 2
	}
	return 1
}

// planes appends b with bytes 0, k, 2k … first, then bytes 1, k+1 … and so on, for k = 1<<shift.
func planes(dst, b []byte, shift int) []byte {
	k := 1 << shift
	for p := range k {
		for i := p; i < len(b); i += k {
			dst = append(dst, b[i])
		}
	}
	return dst
}

// pack appends raw to dst, packed by c. If packing does not reduce the size, it appends at least len(raw) arbitrary bytes.
func pack(dst, raw []byte, c Codec) []byte {
	if c == Zstd {
		return zstdEncoder().EncodeAll(raw, dst)
	}
	at := len(dst)
	need := lz4.CompressBlockBound(len(raw))
	dst = slices.Grow(dst, need)
	z := lz4Pool.Get().(*lz4.Compressor)
	n, err := z.CompressBlock(raw, dst[at:at+need])
	lz4Pool.Put(z)
	if err != nil || n == 0 {
		n = len(raw)
	}
	return dst[:at+n]
}

// Compresses reports if packing b is worth the time, judged by a sample.
func Compresses(b []byte) bool {
	const part, parts = 4 << 10, 4
	if len(b) <= part*parts {
		return true
	}
	var sample [part * parts]byte
	for i := range parts {
		at := (len(b) - part) * i / (parts - 1)
		copy(sample[i*part:], b[at:at+part])
	}
	return len(pack(nil, sample[:], LZ4))*10 < len(sample)*9
}
