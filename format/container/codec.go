package container

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A Codec says how the stored bytes of a chunk were packed.
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

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxRaw), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // only for options that do not exist
	}
	return d
})

// frameHead is the length of what precedes a frame: its raw and its stored length.
const frameHead = 8

// compress appends raw to dst, packed by c in frames that end at ends, the last one at the end of raw. It returns None with the bytes as they
// are when packing does not make them fewer.
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
	// Numbers of two bytes whose lower ones are noise look like noise as a whole. Only entropy coding makes use of what the upper ones have.
	if c == Zstd && len(dst)-at > len(raw)*3/4 {
		p := bufPool.Get().(*[]byte)
		*p = planes((*p)[:0], raw, 1)
		end := len(dst)
		if dst = pack(dst, *p, c); len(dst)-end < end-at {
			shift = 1
			dst = append(dst[:at], dst[end:]...)
		} else {
			dst = dst[:end]
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

// In the upper bits of a frame's raw length is the logarithm of the number of planes.
const (
	planesShift = 28
	maxPlanes   = 3
)

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

// unplanes is the reverse, into b.
func unplanes(b, from []byte, shift int) {
	k := 1 << shift
	for p := range k {
		n := (len(b) - p + k - 1) / k
		if n <= 0 {
			return
		}
		plane := from[:n]
		from = from[n:]
		for i, x := range plane {
			b[i<<shift+p] = x
		}
	}
}

// pack appends raw to dst, packed by c, or at least as many bytes of anything when that makes no fewer.
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

// Slack is the number of bytes that Read leaves behind the content, in the capacity of what it returns.
const Slack = 8

var errUnpacked = errors.New("unpacked length differs from the header")

// checkFrames verifies that the frames add up to the lengths in the header, so that a forged length costs no allocation.
func checkFrames(stored []byte, c Codec, rawLen int) error {
	total := 0
	for len(stored) > 0 {
		if len(stored) < frameHead {
			return errUnpacked
		}
		raw, n := binary.LittleEndian.Uint32(stored), binary.LittleEndian.Uint32(stored[4:])
		shift := raw >> planesShift
		raw &= 1<<planesShift - 1
		stored = stored[frameHead:]
		// The best that lz4 can do is 255:1; a claim beyond it is not worth an allocation.
		if uint64(n) > uint64(len(stored)) || raw > MaxRaw || raw == 0 || n > raw || shift > maxPlanes || c == LZ4 && uint64(raw) > 255*uint64(n)+64 {
			return errUnpacked
		}
		total += int(raw)
		if total > rawLen {
			return errUnpacked
		}
		stored = stored[n:]
	}
	if total != rawLen {
		return errUnpacked
	}
	return nil
}

// decompress unpacks stored into dst's memory where that is large enough. It stops after the frame with which enough is satisfied; nil asks for all.
func decompress(dst, stored []byte, c Codec, rawLen int, enough func(raw []byte) bool) ([]byte, error) {
	switch c {
	case None:
		if len(stored) != rawLen {
			return nil, errUnpacked
		}
		return append(slices.Grow(dst[:0], rawLen+Slack), stored...), nil
	case LZ4, Zstd:
	default:
		return nil, fmt.Errorf("%s is not known to this version", c)
	}
	if err := checkFrames(stored, c, rawLen); err != nil {
		return nil, err
	}
	if cap(dst) < rawLen+Slack {
		dst = make([]byte, 0, rawLen+rawLen/4+Slack)
	}
	dst = dst[:0]
	for len(stored) > 0 && (enough == nil || !enough(dst)) {
		head, n := binary.LittleEndian.Uint32(stored), int(binary.LittleEndian.Uint32(stored[4:]))
		raw, shift := int(head&(1<<planesShift-1)), int(head>>planesShift)
		frame := stored[frameHead : frameHead+n]
		stored = stored[frameHead+n:]
		at := len(dst)
		dst = dst[:at+raw]
		if n == raw {
			copy(dst[at:], frame)
			continue
		}
		if shift == 0 {
			if err := unpack(dst[at:at+raw:at+raw], frame, c); err != nil {
				return nil, err
			}
			continue
		}
		p := bufPool.Get().(*[]byte)
		*p = slices.Grow((*p)[:0], raw)[:raw]
		err := unpack(*p, frame, c)
		unplanes(dst[at:], *p, shift)
		bufPool.Put(p)
		if err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// unpack fills dst.
func unpack(dst, frame []byte, c Codec) (err error) {
	n := 0
	if c == LZ4 {
		n, err = lz4.UncompressBlock(frame, dst)
	} else {
		var out []byte
		out, err = zstdDecoder().DecodeAll(frame, dst[:0])
		n = len(out)
	}
	if err == nil && n != len(dst) {
		err = errUnpacked
	}
	return err
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
	return len(pack(nil, sample[:], LZ4))*10 < len(sample)*9
}
