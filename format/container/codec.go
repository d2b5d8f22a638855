package container

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A Codec says how the stored bytes of a chunk were packed.
type Codec uint8

const (
	None Codec = 0
	LZ4  Codec = 1 // one LZ4 block, without frame
	Zstd Codec = 2 // one Zstandard frame
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

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that do not exist
	}
	return d
})

// compress appends raw to dst, packed by c. It returns None with the bytes as they are when packing does not make them fewer.
func compress(dst, raw []byte, c Codec) ([]byte, Codec) {
	at := len(dst)
	switch c {
	case LZ4:
		need := lz4.CompressBlockBound(len(raw))
		if cap(dst)-at < need {
			grown := make([]byte, at, at+need)
			copy(grown, dst)
			dst = grown
		}
		z := lz4Pool.Get().(*lz4.Compressor)
		n, err := z.CompressBlock(raw, dst[at:at+need])
		lz4Pool.Put(z)
		if err == nil && n > 0 && n < len(raw) {
			return dst[:at+n], LZ4
		}
	case Zstd:
		dst = zstdEncoder().EncodeAll(raw, dst)
		if len(dst)-at < len(raw) {
			return dst, Zstd
		}
	}
	return append(dst[:at], raw...), None
}

var errUnpacked = errors.New("unpacked length differs from the header")

// decompress unpacks stored into dst's memory where that is large enough.
func decompress(dst, stored []byte, c Codec, rawLen int) ([]byte, error) {
	if c != None {
		// The best that lz4 can do is 255:1; a claim beyond it is not worth an allocation.
		if c == LZ4 && rawLen > 255*len(stored)+64 {
			return nil, errUnpacked
		}
		if cap(dst) < rawLen {
			dst = make([]byte, rawLen, rawLen+rawLen/4)
		}
	}
	switch c {
	case None:
		if len(stored) != rawLen {
			return nil, errUnpacked
		}
		return append(dst[:0], stored...), nil
	case LZ4:
		n, err := lz4.UncompressBlock(stored, dst[:rawLen])
		if err != nil {
			return nil, err
		}
		if n != rawLen {
			return nil, errUnpacked
		}
		return dst[:rawLen], nil
	case Zstd:
		out, err := zstdDecoder().DecodeAll(stored, dst[:0:rawLen])
		if err != nil {
			return nil, err
		}
		if len(out) != rawLen {
			return nil, errUnpacked
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is not known to this version", c)
}

// Compresses reports whether packing b is worth the time, judged by a sample of it.
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
	packed, c := compress(nil, sample[:], LZ4)
	return c == LZ4 && len(packed)*10 < len(sample)*9
}
