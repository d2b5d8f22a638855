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

// codecs describes each Codec. To add one, add its number above and its row here.
var codecs = [...]struct {
	name string
	// pack appends raw to dst, packed. If packing does not reduce the size, it appends at least len(raw) arbitrary bytes.
	pack func(dst, raw []byte) []byte
	// unpack fills dst from stored and returns the unpacked length, at most len(dst).
	unpack func(dst, stored []byte) (int, error)
}{
	None: {name: "none"}, // no frames
	LZ4:  {"lz4", packLZ4, func(dst, stored []byte) (int, error) { return lz4.UncompressBlock(stored, dst) }},
	Zstd: {"zstd", packZstd, unpackZstd},
}

func (c Codec) String() string {
	if int(c) < len(codecs) {
		return codecs[c].name
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec returns the codec with a name.
func ParseCodec(name string) (c Codec, ok bool) {
	for i := range codecs {
		if codecs[i].name == name {
			return Codec(i), true
		}
	}
	return None, false
}

var lz4Pool = sync.Pool{New: func() any { return new(lz4.Compressor) }}

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // only for options that do not exist
	}
	return e
})

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that do not exist
	}
	return d
})

func packZstd(dst, raw []byte) []byte { return zstdEncoder().EncodeAll(raw, dst) }

func unpackZstd(dst, stored []byte) (int, error) {
	out, err := zstdDecoder().DecodeAll(stored, dst[:0:len(dst)])
	return len(out), err
}

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
	dst = append(dst, make([]byte, frameHead)...)
	shift := 0
	if noisy(raw, dst) {
		shift = 2
		dst = packPlanes(dst, raw, c, shift)
	} else if dst = codecs[c].pack(dst, raw); c == Zstd && len(dst)-at > len(raw)*2/5 {
		// Numbers of two bytes with noise in the lower byte look like noise as a whole. Only entropy coding can use
		// the redundancy of the upper byte.
		shift = lanes(raw)
		end := len(dst)
		if dst = packPlanes(dst, raw, c, shift); len(dst)-end < end-at {
			dst = append(dst[:at], dst[end:]...)
		} else {
			shift, dst = 0, dst[:end]
		}
	}
	if len(dst)-at >= len(raw) {
		shift = 0
		dst = append(dst[:at], raw...)
	}
	binary.LittleEndian.PutUint32(dst[head:], uint32(len(raw))|uint32(shift)<<planesShift)
	binary.LittleEndian.PutUint32(dst[head+4:], uint32(len(dst)-at))
	return dst
}

// packPlanes appends raw to dst in planes, packed by c.
func packPlanes(dst, raw []byte, c Codec, shift int) []byte {
	p := bufPool.Get().(*[]byte)
	*p = planes((*p)[:0], raw, shift)
	dst = codecs[c].pack(dst, *p)
	bufPool.Put(p)
	return dst
}

// The upper bits of a frame's raw length hold the plane count's logarithm.
const (
	planesShift = 28
	maxPlanes   = 3
)

// noisy reports, by samples, if b consists of four-byte numbers with noise in the lower bytes. LZ4 takes ten times as long for
// these as for other content and finds little, but packs their planes well. It uses spare capacity of scratch.
func noisy(b, scratch []byte) bool {
	const sample, samples = 1 << 10, 4
	if len(b) < sample*samples*4 {
		return false
	}
	for i := range samples {
		part := b[(len(b)-sample)/samples*i:][:sample]
		if lanes(part) < 2 || (len(packLZ4(scratch, part))-len(scratch))*3 < len(part)*2 {
			return false
		}
	}
	return true
}

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
	at, k := len(dst), 1<<shift
	dst = slices.Grow(dst, len(b))[:at+len(b)]
	for p := range k {
		for i := p; i < len(b); i += k {
			dst[at] = b[i]
			at++
		}
	}
	return dst
}

func packLZ4(dst, raw []byte) []byte {
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
	return len(packLZ4(nil, sample[:]))*10 < len(sample)*9
}
