package acl

import (
	"encoding/binary"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// markUnknown marks what a launch of an unknown kernel may have written: the allocations that its arguments point into.
func (o *order) markUnknown(d *device.Device, args space.Span) {
	if d.Memory.Check(args.Addr, args.Size, space.Read) != nil && !d.Memory.IsArgs(args.Addr) {
		return
	}
	block := space.Bytes(args.Addr, args.Size)
	for ; len(block) >= 8; block = block[8:] {
		p := binary.LittleEndian.Uint64(block)
		at := d.Machine.Locate(p).Device
		if at == nil {
			continue
		}
		if r, ok := at.Memory.Live.Find(p); ok && r.V.Access&space.Write != 0 {
			d.Machine.Taint(r.Span, &o.fn.name)
		}
	}
}
