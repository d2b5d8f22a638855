package perfetto

import "encoding/binary"

// adler32 is the checksum of RFC 1950, eight bytes at a time: byte by byte it takes an eighth as long as the
// compression. For up to 256 MiB no sum overflows.
func adler32(p []byte) uint32 {
	const bytes = 0x00ff_00ff_00ff_00ff
	a, b := uint64(1), uint64(0)
	for ; len(p) >= 8; p = p[8:] {
		x := binary.LittleEndian.Uint64(p)
		even, odd := x&bytes, x>>8&bytes
		// The highest of the four sums in a product is that of all four bytes, each times its weight.
		b += 8*a + (even*0x0008_0006_0004_0002+odd*0x0007_0005_0003_0001)>>48
		a += (even + odd) * 0x0001_0001_0001_0001 >> 48
	}
	for _, x := range p {
		a += uint64(x)
		b += a
	}
	const prime = 65521
	return uint32(b%prime<<16 | a%prime)
}
