package acl

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/mutant"
)

// copyDescSize is the size of a copy descriptor: three words without a meaning here, the length, source and destination.
const copyDescSize = 32

// copyResolved moves bytes between addresses that a task has just read from device memory.
func copyResolved(s *device.Stream, dst, src, n uint64) (time.Duration, *fail.Failure) {
	d := s.Context.Device
	for _, side := range []struct {
		addr   uint64
		access uint32
	}{{src, space.Read}, {dst, space.Write}} {
		if n == 0 {
			break
		}
		d.Machine.Strict.TaskTouches(&s.Strict, side.addr, n, side.access)
		if err := d.Check(side.addr, n, side.access); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "copy of %d bytes from %#x to %#x on stream %d: %v", n, src, dst, s.ID, err)
		}
	}
	x := device.Plain(dst, src, n)
	x.Move()
	d.Machine.Follow(&x)
	return d.Machine.CopyTime(model.DeviceToDevice, n), nil
}

// word reads 8 bytes of device memory for a task.
func word(s *device.Stream, addr uint64, what string) (uint64, *fail.Failure) {
	s.Context.Device.Machine.Strict.TaskTouches(&s.Strict, addr, 8, space.Read)
	if err := s.Context.Device.Check(addr, 8, space.Read); err != nil {
		return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "%s on stream %d: %v", what, s.ID, err)
	}
	return binary.LittleEndian.Uint64(space.Bytes(addr, 8)), nil
}

func (t *Thread) innerCopy(kind acl.MemcpyKind) acl.Error {
	if kind != acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE && !mutant.Breaks("descriptor_inside_the_device") {
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
	from, to := space.AddressOf(src), space.AddressOf(dst)
	if done, e := t.copyArgs(to, destMax, from, count); done && (e != 0 || count == 0) {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskCopy, Copy: model.DeviceToDevice, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		d, f := word(s, to, "the address of a copy's destination")
		if f != nil {
			return 0, f
		}
		a, f := word(s, from, "the address of a copy's source")
		if f != nil {
			return 0, f
		}
		return copyResolved(s, d+dstDataOffset, a+srcDataOffset, count)
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
	t.sim.Strict.HostTouches(&t.Strict, desc, copyDescSize, space.Write)
	if err := c.Device.Memory.Check(desc, copyDescSize, space.Write); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy descriptor: %v", err)
	}
	b := space.Bytes(desc, copyDescSize)
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
	return t.submit(s, device.Task{Kind: device.TaskCopy, Copy: model.DeviceToDevice, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		s.Context.Device.Machine.Strict.TaskTouches(&s.Strict, desc, copyDescSize, space.Read)
		if err := s.Context.Device.Check(desc, copyDescSize, space.Read); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "copy descriptor on stream %d: %v", s.ID, err)
		}
		b := space.Bytes(desc, copyDescSize)
		return copyResolved(s, binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[16:]), uint64(binary.LittleEndian.Uint32(b[12:])))
	}})
}

// fill32Args checks the arguments of a fill with words, and tells whether there is nothing left to do.
func (t *Thread) fill32Args(p acl.Addr, memSize, n uint64) (bool, acl.Error) {
	if n > memory.MaxAlloc {
		return true, t.invalid("%d elements are impossible", n)
	}
	switch {
	case n == 0 || p == 0: // as for all fills
	case p%4 != 0:
		return true, t.invalid("%#x is no multiple of 4", p)
	case 4*n > memSize && !mutant.Breaks("fewer_bytes_than_words"):
		return true, t.invalid("%d words are more than the %d bytes of memSize", n, memSize)
	case t.sim.Locate(p).Kind == device.Pageable:
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
	t.sim.Strict.HostTouches(&t.Strict, ptr, 4*n, space.Write)
	if err := t.sim.Fill(ptr, binary.LittleEndian.AppendUint32(nil, value), 4*n); err != nil {
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
	if t.sim.Locate(ptr).Device == nil {
		return t.MemsetD32(ptr, memSize, value, n)
	}
	return t.fillLater(s, ptr, binary.LittleEndian.AppendUint32(nil, value), 4*n)
}
