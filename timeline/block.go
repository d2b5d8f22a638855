package timeline

import (
	"strconv"

	"github.com/acltrace/acltrace/api"
)

// A CopyBlock is a copy that a structure describes: Depth planes of Height rows of Width bytes.
type CopyBlock struct {
	From, To             CopySide
	Width, Height, Depth uint64
}

// A CopySide is the source or the destination of a CopyBlock.
type CopySide struct {
	Memory bool   // it has addresses: it is not an array
	Host   bool   // it is host memory for certain
	Base   uint64 // address in the structure
	First  uint64 // address of the first byte that is copied
	// Pitch is the distance between two rows, Plane between two planes, in bytes.
	Pitch, Plane uint64
	Field        uint32 // offset of the address in the structure
}

// CopyBlock returns the copy that a structure of the call describes. It returns false if there is none, or if the trace lacks it.
func (e *Event) CopyBlock() (CopyBlock, bool) {
	for i := range e.Fn.Params {
		d := e.Fn.Params[i].CopyDesc
		if d == nil {
			continue
		}
		b, ok := e.text(i)
		if !ok {
			return CopyBlock{}, false
		}
		at := func(off uint32, size int, none uint64) uint64 {
			if off == api.NoField || int(off)+size > len(b) {
				return none
			}
			return word(b[off : int(off)+size])
		}
		width, height := at(d.Width, 8, 0), at(d.Height, 8, 1)
		side := func(s *api.CopyEnd) CopySide {
			kind := at(s.Kind, 4, 0)
			out := CopySide{Host: kind == api.HostEnd, Field: s.Device, Memory: kind == api.HostEnd || kind == api.DeviceEnd || kind == api.UnifiedEnd}
			if out.Host {
				out.Field = s.Host
			}
			out.Pitch = max(at(s.Pitch, 8, 0), width)
			out.Plane = out.Pitch * max(at(s.Rows, 8, 0), height)
			out.Base = at(out.Field, 8, 0)
			out.First = out.Base + at(s.X, 8, 0) + out.Pitch*at(s.Y, 8, 0) + out.Plane*at(s.Z, 8, 0)
			return out
		}
		return CopyBlock{side(&d.From), side(&d.To), width, height, at(d.Depth, 8, 1)}, true
	}
	return CopyBlock{}, false
}

// AppendCopy appends the CopyBlock of a call, as "48 rows of 64 B from 0x7f5c00001000 to device#3+0x200". It appends nothing if there is none.
func (s *State) AppendCopy(dst []byte, e *Event) []byte {
	if e.Fn == nil || e.Fn.Task != api.Copy {
		return dst
	}
	b, ok := e.CopyBlock()
	if !ok {
		return dst
	}
	if b.Depth != 1 {
		dst = append(strconv.AppendUint(dst, b.Depth, 10), " planes of "...)
	}
	dst = append(strconv.AppendUint(dst, b.Height, 10), " rows of "...)
	dst = append(strconv.AppendUint(dst, b.Width, 10), " B"...)
	for i, side := range []*CopySide{&b.From, &b.To} {
		dst = append(dst, []string{" from ", " to "}[i]...)
		if !side.Memory {
			dst = append(dst, "an array"...)
		} else if o, off, ok := s.Find(e.Process, side.First); ok {
			dst = AppendPlace(dst, Use{Object: o, Offset: off})
		} else {
			dst = appendHex(dst, side.First)
		}
	}
	return dst
}

func (s *CopySide) side() side {
	if s.Host {
		return pageable
	}
	return device
}

// Ranges calls visit for the ranges of one side that are copied: for one range if its rows follow each other without gaps, otherwise for each
// row. It returns false, without a visit, if there are more than most rows.
func (b *CopyBlock) Ranges(s *CopySide, most int, visit func(addr, size uint64)) bool {
	switch {
	case b.Width == 0 || b.Height == 0 || b.Depth == 0:
	case s.Pitch == b.Width && (b.Depth == 1 || s.Plane == b.Width*b.Height):
		visit(s.First, b.Width*b.Height*b.Depth)
	case b.Depth > uint64(most) || b.Height > uint64(most) || b.Depth*b.Height > uint64(most):
		return false
	default:
		for z := range b.Depth {
			for y := range b.Height {
				visit(s.First+z*s.Plane+y*s.Pitch, b.Width)
			}
		}
	}
	return true
}
