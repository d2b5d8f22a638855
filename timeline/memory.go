package timeline

import "github.com/acltrace/acltrace/api"

// deviceMemory is the device memory in use: live allocations, and physical memory until its handle and its mappings have ended. It excludes
// the mappings themselves, imported memory, and memory that was allocated before the trace began.
type deviceMemory struct {
	bytes   uint64
	changes []memoryChange // by the latest call, in this order
}

type memoryChange struct {
	o     *Object
	freed bool
}

// DeviceMemory returns the device memory in use, in bytes.
func (s *State) DeviceMemory() uint64 { return s.memory.bytes }

// occupy counts memory from the call that made it.
func (s *State) occupy(o *Object) {
	o.occupies = true
	s.memory.bytes += o.Size
	s.memory.changes = append(s.memory.changes, memoryChange{o, false})
}

// vacate stops counting memory if its object and all references to it have ended.
func (s *State) vacate(o *Object) {
	if !o.occupies || o.references > 0 || o.Ended == NoCall {
		return
	}
	o.occupies = false
	s.memory.bytes -= o.Size
	s.memory.changes = append(s.memory.changes, memoryChange{o, true})
}

// refer makes an object a reference to the physical memory that a call names by its handle or by the address of a mapping.
func (s *State) refer(e *Event, o *Object) {
	for _, u := range e.Uses {
		if m := u.Object; m.Kind == api.Physical {
			o.physical = m
		} else if m.physical != nil {
			o.physical = m.physical
		}
	}
	if o.physical != nil {
		o.physical.references++
	}
}

// leave ends the reference of an object to physical memory.
func (s *State) leave(o *Object) {
	if o.physical != nil {
		o.physical.references--
		s.vacate(o.physical)
	}
}

// physical sets the size and the device of physical memory that a call has made or found.
func (s *State) physical(e *Event, p *api.Param, o *Object) {
	if p.Role == api.Find {
		s.refer(e, o) // a new handle, since the program has released the first one
		return
	}
	o.Size = size(e, p)
	onDevice := true
	if l := e.Fn.Location; l != nil {
		if b, ok := e.text(int(l.Param)); ok && len(b) >= int(max(l.Type.Offset+l.Type.Size, l.ID.Offset+l.ID.Size)) {
			number := func(m api.Member) uint64 { return word(b[m.Offset : m.Offset+m.Size]) }
			if onDevice = number(l.Type) == uint64(l.OnDevice); onDevice {
				o.Device = int(int32(number(l.ID)))
			}
		}
	}
	if onDevice && e.Fn.Shares == api.NoShare {
		s.occupy(o)
	}
}
