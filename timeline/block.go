package timeline

import "github.com/acltrace/acltrace/api"

// A block is a copy that a structure describes.
type block struct {
	from, to             blockSide
	width, height, depth uint64 // bytes, rows, planes
}

type blockSide struct {
	addr uint64 // of the memory that the rows lie in
	host bool   // that is the host's for sure
}

// block returns the copy that a structure of the call describes, false where there is none, or none in the trace.
func (e *Event) block() (block, bool) {
	for i := range e.Fn.Params {
		d := e.Fn.Params[i].Block
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
		side := func(s *api.Side) blockSide {
			if at(s.Kind, 4, 0) == api.HostSide {
				return blockSide{at(s.Host, 8, 0), true}
			}
			return blockSide{at(s.Device, 8, 0), false}
		}
		return block{side(&d.From), side(&d.To), at(d.Width, 8, 0), at(d.Height, 8, 1), at(d.Depth, 8, 1)}, true
	}
	return block{}, false
}

func (s *blockSide) side() side {
	if s.host {
		return pageable
	}
	return device
}
