package timeline

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

// occupy counts memory from the call that made it.
func (m *deviceMemory) occupy(o *Object) {
	o.occupies = true
	m.bytes += o.Size
	m.changes = append(m.changes, memoryChange{o, false})
}

// vacate stops counting memory if its object and all references to it have ended.
func (m *deviceMemory) vacate(o *Object) {
	if !o.occupies || o.references > 0 || o.Ended == NoCall {
		return
	}
	o.occupies = false
	m.bytes -= o.Size
	m.changes = append(m.changes, memoryChange{o, true})
}

// leave ends the reference of an object to physical memory.
func (m *deviceMemory) leave(o *Object) {
	if o.physical != nil {
		o.physical.references--
		m.vacate(o.physical)
	}
}
