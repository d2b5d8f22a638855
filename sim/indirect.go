package sim

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/model"
)

// copyDescSize is the size of a copy descriptor: three words without a meaning here, the length, source and destination.
const copyDescSize = 32

// copyResolved moves bytes between addresses that a task has just read from device memory.
func (s *stream) copyResolved(dst, src, n uint64) (time.Duration, *failure) {
	d := s.ctx.dev
	for _, side := range []struct {
		addr   uint64
		access uint32
	}{{src, device.Read}, {dst, device.Write}} {
		if n == 0 {
			break
		}
		d.sim.strict.TaskTouches(&s.strict, side.addr, n, side.access)
		if err := d.check(side.addr, n, side.access); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "copy of %d bytes from %#x to %#x on stream %d: %v", n, src, dst, s.id, err)
		}
	}
	x := plain(dst, src, n)
	x.move()
	d.sim.follow(&x)
	return d.sim.copyTime(model.DeviceToDevice, n), nil
}

// word reads 8 bytes of device memory for a task.
func (s *stream) word(addr uint64, what string) (uint64, *failure) {
	s.ctx.dev.sim.strict.TaskTouches(&s.strict, addr, 8, device.Read)
	if err := s.ctx.dev.check(addr, 8, device.Read); err != nil {
		return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "%s on stream %d: %v", what, s.id, err)
	}
	return binary.LittleEndian.Uint64(device.Bytes(addr, 8)), nil
}

func (t *Thread) innerCopy(kind acl.MemcpyKind) acl.Error {
	if kind != acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE && !broken("descriptor_inside_the_device") {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind %d: only a copy inside a device can be indirect", kind)
	}
	return acl.ACL_SUCCESS
}

// MemcpyAsyncWithOffset copies on the device between addresses that lie in device memory, and offsets behind them. The
// addresses are read when the copy runs.
func (t *Thread) MemcpyAsyncWithOffset(dst *acl.Addr, destMax, dstDataOffset uint64, src *acl.Addr, count, srcDataOffset uint64, kind acl.MemcpyKind, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if e := t.innerCopy(kind); e != 0 {
		return e
	}
	from, to := device.AddressOf(src), device.AddressOf(dst)
	if done, e := t.copyArgs(to, destMax, from, count); done && (e != 0 || count == 0) {
		return e
	}
	return t.submit(s, task{kind: taskCopy, copy: model.DeviceToDevice, run: func(s *stream) (time.Duration, *failure) {
		d, f := s.word(to, "the address of a copy's destination")
		if f != nil {
			return 0, f
		}
		a, f := s.word(from, "the address of a copy's source")
		if f != nil {
			return 0, f
		}
		return s.copyResolved(d+dstDataOffset, a+srcDataOffset, count)
	}})
}

// GetMemcpyDescSize returns the size of a copy descriptor.
func (t *Thread) GetMemcpyDescSize(kind acl.MemcpyKind, descSize *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if descSize == nil {
		return t.null("descSize")
	}
	if e := t.innerCopy(kind); e != 0 {
		return e
	}
	*descSize = copyDescSize
	return acl.ACL_SUCCESS
}

// SetMemcpyDesc stores a copy's addresses and length in a descriptor in device memory.
func (t *Thread) SetMemcpyDesc(desc acl.Addr, kind acl.MemcpyKind, srcAddr, dstAddr acl.Addr, count uint64, config acl.Addr) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if e := t.innerCopy(kind); e != 0 {
		return e
	}
	switch {
	case desc == 0 || srcAddr == 0 || dstAddr == 0:
		return t.null("desc, srcAddr or dstAddr")
	case config != 0:
		return t.invalid("config is not null")
	case count == 0:
		return t.invalid("a descriptor of 0 bytes")
	case count > math.MaxUint32:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a descriptor of %d bytes: 1 to %d", count, uint32(math.MaxUint32))
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	t.sim.strict.HostTouches(&t.strict, desc, copyDescSize, device.Write)
	if err := c.dev.mem.check(desc, copyDescSize, device.Write); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy descriptor: %v", err)
	}
	b := device.Bytes(desc, copyDescSize)
	clear(b)
	binary.LittleEndian.PutUint32(b[12:], uint32(count))
	binary.LittleEndian.PutUint64(b[16:], srcAddr)
	binary.LittleEndian.PutUint64(b[24:], dstAddr)
	return acl.ACL_SUCCESS
}

// MemcpyAsyncWithDesc makes the copy that a descriptor in device memory says when the task runs.
func (t *Thread) MemcpyAsyncWithDesc(desc acl.Addr, kind acl.MemcpyKind, on acl.Stream) acl.Error {
	if on == 0 {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.null("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if e := t.innerCopy(kind); e != 0 {
		return e
	}
	if desc == 0 {
		return t.null("desc")
	}
	return t.submit(s, task{kind: taskCopy, copy: model.DeviceToDevice, run: func(s *stream) (time.Duration, *failure) {
		s.ctx.dev.sim.strict.TaskTouches(&s.strict, desc, copyDescSize, device.Read)
		if err := s.ctx.dev.check(desc, copyDescSize, device.Read); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "copy descriptor on stream %d: %v", s.id, err)
		}
		b := device.Bytes(desc, copyDescSize)
		return s.copyResolved(binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[16:]), uint64(binary.LittleEndian.Uint32(b[12:])))
	}})
}

// fill32Args checks the arguments of a fill with words, and tells whether there is nothing left to do.
func (t *Thread) fill32Args(p acl.Addr, memSize, n uint64) (bool, acl.Error) {
	if n > maxAlloc {
		return true, t.invalid("%d elements are impossible", n)
	}
	switch {
	case n == 0 || p == 0: // as for all fills
	case p%4 != 0:
		return true, t.invalid("%#x is no multiple of 4", p)
	case 4*n > memSize && !broken("fewer_bytes_than_words"):
		return true, t.invalid("%d words are more than the %d bytes of memSize", n, memSize)
	case t.sim.locate(p).typ == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED:
		return true, t.invalid("%#x is neither device memory nor host memory of the runtime's", p)
	}
	return t.fillArgs(p, memSize, 4*n)
}

// MemsetD32 fills memory with a word and returns when it is done.
func (t *Thread) MemsetD32(ptr acl.Addr, memSize uint64, value uint32, n uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if done, e := t.fill32Args(ptr, memSize, n); done {
		return e
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	t.sim.strict.HostTouches(&t.strict, ptr, 4*n, device.Write)
	if err := t.sim.fill(ptr, binary.LittleEndian.AppendUint32(nil, value), 4*n); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "fill: %v", err)
	}
	return acl.ACL_SUCCESS
}

// MemsetD32Async fills device memory with a word in the order of a stream, and host memory at once.
func (t *Thread) MemsetD32Async(ptr acl.Addr, memSize uint64, value uint32, n uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if done, e := t.fill32Args(ptr, memSize, n); done {
		return e
	}
	if t.sim.locate(ptr).dev == nil {
		return t.MemsetD32(ptr, memSize, value, n)
	}
	return t.fillLater(s, ptr, binary.LittleEndian.AppendUint32(nil, value), 4*n)
}
