package container

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// A Content is a chunk's content, unpacked frame by frame on request. The zero value is empty and ready for
// File.ReadContent, which reuses its memory. It belongs to one goroutine at a time.
type Content struct {
	stored []byte // with the header of the chunk
	raw    []byte
	frames []frame
	codec  Codec
	planes []byte // buffer for a frame's planes
}

// A frame is a part of the content that is packed separately.
type frame struct {
	end    int // in the content
	stored []byte
	shift  uint8
	ready  bool // unpacked
}

// Slack is the spare capacity, in bytes, after a Content's bytes.
const Slack = 8

var errUnpacked = errors.New("unpacked length differs from the header")

// ReadContent reads and verifies the chunk into c, and unpacks nothing. An ErrCorrupt is added to Damage; any other
// error comes from the file system.
func (f *File) ReadContent(e *Entry, c *Content) error {
	c.frames, c.raw = c.frames[:0], c.raw[:0]
	need := HeaderLen + int(e.StoredLen)
	// The entry may come from a hostile index: never allocate more than the file has.
	if e.Offset < 0 || e.end() > f.size {
		return f.Corrupt(e, "lies behind the end of the file")
	}
	if cap(c.stored) < need {
		c.stored = make([]byte, need+need/4)
	}
	b := c.stored[:need]
	if _, err := f.readAt(b, e.Offset); err != nil {
		return err
	}
	stored := b[HeaderLen:]
	if checksum(stored) != e.CRC {
		return f.Corrupt(e, "checksum of the content differs")
	}
	if h, ok := decodeHeader(b); !ok || h != e.Header {
		// The index has the same header and the content is right: nothing is lost, but the file is damaged.
		_ = f.Corrupt(e, "header differs from the index; content is whole")
	}
	if err := c.open(stored, e.Codec, int(e.RawLen)); err != nil {
		return f.Corrupt(e, err.Error())
	}
	return nil
}

// Read reads, verifies and unpacks the chunk into buf's memory if that is large enough. Errors are those of ReadContent.
func (f *File) Read(e *Entry, buf []byte) ([]byte, error) {
	c := contentPool.Get().(*Content)
	defer contentPool.Put(c)
	c.raw = buf
	err := f.ReadContent(e, c)
	if err == nil {
		if err = c.Unpack(0, len(c.raw)); err != nil {
			err = f.Corrupt(e, err.Error())
		}
	}
	raw := c.raw
	c.raw = nil
	if err != nil {
		return nil, err
	}
	return raw, nil
}

var contentPool = sync.Pool{New: func() any { return new(Content) }}

// open finds the frames and verifies that they add up to the header's length, so a forged length costs no allocation.
func (c *Content) open(stored []byte, codec Codec, rawLen int) error {
	c.codec = codec
	switch {
	case codec == None:
		if len(stored) != rawLen {
			return errUnpacked
		}
		c.frames = append(c.frames, frame{end: rawLen, stored: stored})
	case int(codec) < len(codecs):
		end := 0
		for len(stored) > 0 {
			if len(stored) < frameHead {
				return errUnpacked
			}
			raw, n := binary.LittleEndian.Uint32(stored), binary.LittleEndian.Uint32(stored[4:])
			shift := raw >> planesShift
			raw &= 1<<planesShift - 1
			stored = stored[frameHead:]
			// LZ4 reaches at most 255:1; a larger claim is forged.
			if uint64(n) > uint64(len(stored)) || raw > MaxRaw || raw == 0 || n > raw || shift > maxPlanes || codec == LZ4 && uint64(raw) > 255*uint64(n)+64 {
				return errUnpacked
			}
			if end += int(raw); end > rawLen {
				return errUnpacked
			}
			c.frames = append(c.frames, frame{end: end, stored: stored[:n], shift: uint8(shift)})
			stored = stored[n:]
		}
		if end != rawLen {
			return errUnpacked
		}
	default:
		return fmt.Errorf("%s is not known to this version", codec)
	}
	if cap(c.raw) < rawLen+Slack {
		c.raw = make([]byte, 0, rawLen+rawLen/4+Slack)
	}
	c.raw = c.raw[:rawLen]
	return nil
}

// Set makes c hold unpacked bytes, as if they had been read from a chunk.
func (c *Content) Set(raw []byte) {
	c.frames = c.frames[:0]
	c.raw = append(append(c.raw[:0], raw...), make([]byte, Slack)...)[:len(raw)]
}

// Bytes returns the content. Only ranges requested with Unpack are set. It is valid until the next ReadContent.
func (c *Content) Bytes() []byte { return c.raw }

// Unpack sets the bytes in [from, to), and others in the same frames. An error means that the
// content is invalid.
func (c *Content) Unpack(from, to int) error {
	begin := 0
	for i := range c.frames {
		f := &c.frames[i]
		if begin >= to {
			break
		}
		if f.end > from && !f.ready {
			if err := c.unpack(c.raw[begin:f.end:f.end], f); err != nil {
				return err
			}
			f.ready = true
		}
		begin = f.end
	}
	return nil
}

// Frame unpacks the frame at offset at, and returns the frame's end.
func (c *Content) Frame(at int) (end int, err error) {
	for i := range c.frames {
		if f := &c.frames[i]; f.end > at {
			return f.end, c.Unpack(at, at+1)
		}
	}
	return len(c.raw), nil
}

// unpack fills dst with the frame.
func (c *Content) unpack(dst []byte, f *frame) error {
	if len(f.stored) == len(dst) {
		copy(dst, f.stored)
		return nil
	}
	to := dst
	if f.shift > 0 {
		if cap(c.planes) < len(dst) {
			c.planes = make([]byte, len(dst)+len(dst)/4)
		}
		to = c.planes[:len(dst)]
	}
	n, err := codecs[c.codec].unpack(to, f.stored)
	if err != nil || n != len(dst) {
		return cmp.Or(err, errUnpacked)
	}
	if f.shift > 0 {
		unplanes(dst, to, int(f.shift))
	}
	return nil
}

// unplanes is the reverse of planes, into b.
func unplanes(b, from []byte, shift int) {
	var plane [1 << maxPlanes][]byte
	k := 1 << shift
	for p := range k {
		n := (len(b) - p + k - 1) / k
		plane[p], from = from[:n], from[n:]
	}
	done := 0 // whole numbers
	switch shift {
	case 1:
		done = unplanes2(b, plane[0], plane[1])
	case 2:
		done = unplanes4(b, plane[0], plane[1], plane[2], plane[3])
	}
	for p := range k {
		for i, x := range plane[p][done:] {
			b[(done+i)<<shift+p] = x
		}
	}
}

// unplanes2 joins two planes, four bytes of each at a time, and returns the number of joined ones.
func unplanes2(b, even, odd []byte) (done int) {
	for ; len(b) >= 8 && len(even) >= 4 && len(odd) >= 4; done += 4 {
		binary.LittleEndian.PutUint64(b, spread(binary.LittleEndian.Uint32(even))|spread(binary.LittleEndian.Uint32(odd))<<8)
		b, even, odd = b[8:], even[4:], odd[4:]
	}
	return done
}

// unplanes4 is unplanes2 for four planes, a byte of each at a time.
func unplanes4(b, p, q, r, s []byte) (done int) {
	p, q, r = p[:len(s)], q[:len(s)], r[:len(s)] // s is the shortest
	for ; done < len(s) && len(b) >= 4; done++ {
		binary.LittleEndian.PutUint32(b, uint32(p[done])|uint32(q[done])<<8|uint32(r[done])<<16|uint32(s[done])<<24)
		b = b[4:]
	}
	return done
}

// spread moves the four bytes of x to the even bytes of the result.
func spread(x uint32) uint64 {
	y := uint64(x)
	y = (y | y<<16) & 0x0000ffff0000ffff
	return (y | y<<8) & 0x00ff00ff00ff00ff
}
