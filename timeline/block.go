package timeline

import (
	"strconv"

	"github.com/acltrace/acltrace/api"
)

// A block is a copy that a structure describes.
type block struct {
	from, to             blockSide
	width, height, depth uint64 // bytes, rows, planes
}

type blockSide struct {
	addr   uint64 // of the memory that the rows lie in
	host   bool   // that is the host's for sure
	memory bool   // it has addresses: it is no array
	first  uint64 // address of the first byte that is copied
	// pitch is the distance of two rows, plane that of two planes, bytes.
	pitch, plane uint64
	field        uint32 // offset of the address in the structure
}

// block returns the copy that a structure of the call describes, false where there is none, or none in the trace.
func (e *Event) block() (block, bool) {
	for i := range e.Fn.Params {
		d := e.Fn.Params[i].CopyDesc
		if d == nil {
			continue
		}
		b, ok := e.text(i)
		if !ok {
			return block{}, false
		}
		at := func(off uint32, size int, none uint64) uint64 {
			if off == api.NoField || int(off)+size > len(b) {
				return none
			}
			return word(b[off : int(off)+size])
		}
		width, height := at(d.Width, 8, 0), at(d.Height, 8, 1)
		side := func(s *api.CopyEnd) blockSide {
			kind := at(s.Kind, 4, 0)
			out := blockSide{host: kind == api.HostSide, field: s.Device, memory: kind == api.HostSide || kind == api.DeviceSide || kind == api.UnifiedSide}
			if out.host {
				out.field = s.Host
			}
			out.addr = at(out.field, 8, 0)
			out.pitch = max(at(s.Pitch, 8, 0), width)
			out.plane = out.pitch * max(at(s.Rows, 8, 0), height)
			out.first = out.addr + at(s.X, 8, 0) + out.pitch*at(s.Y, 8, 0) + out.plane*at(s.Z, 8, 0)
			return out
		}
		return block{side(&d.From), side(&d.To), width, height, at(d.Depth, 8, 1)}, true
	}
	return block{}, false
}

// AppendCopy appends what a structure of the call says of a copy, as "48 rows of 64 B from 0x7f5c00001000 to device#3+0x200"; nothing where
// none is in the trace.
func (s *State) AppendCopy(dst []byte, process uint32, e *Event) []byte {
	if e.Fn == nil || e.Fn.Task != api.Copy {
		return dst
	}
	b, ok := e.block()
	if !ok {
		return dst
	}
	if b.depth != 1 {
		dst = append(strconv.AppendUint(dst, b.depth, 10), " planes of "...)
	}
	dst = append(strconv.AppendUint(dst, b.height, 10), " rows of "...)
	dst = append(strconv.AppendUint(dst, b.width, 10), " B"...)
	for i, side := range []*blockSide{&b.from, &b.to} {
		dst = append(dst, []string{" from ", " to "}[i]...)
		if !side.memory {
			dst = append(dst, "an array"...)
		} else if o, off, ok := s.Find(process, side.first); ok {
			dst = AppendPlace(dst, Use{Object: o, Offset: off})
		} else {
			dst = appendHex(dst, side.first)
		}
	}
	return dst
}

func (s *blockSide) side() side {
	if s.host {
		return pageable
	}
	return device
}

// pieces are the ranges of one side that are copied: one where its rows follow each other without gaps. False where
// there are more than so many.
func (b *block) pieces(s *blockSide, most int, piece func(addr, size uint64)) bool {
	switch {
	case b.width == 0 || b.height == 0 || b.depth == 0:
	case s.pitch == b.width && (b.depth == 1 || s.plane == b.width*b.height):
		piece(s.first, b.width*b.height*b.depth)
	case b.depth > uint64(most) || b.height > uint64(most) || b.depth*b.height > uint64(most):
		return false
	default:
		for z := range b.depth {
			for y := range b.height {
				piece(s.first+z*s.plane+y*s.pitch, b.width)
			}
		}
	}
	return true
}
