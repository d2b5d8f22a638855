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

// overflowSize is the size of a float status: words of which the first is not 0 behind an overflow. The simulated kernels
// never report one.
const overflowSize = 64

// readOverflow stores the float status in device memory in the order of a stream.
func (t *Thread) readOverflow(out acl.Addr, size uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case out == 0:
		return t.null("outputAddr")
	case size < overflowSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "outputSize is %d: the status has %d bytes", size, overflowSize)
	}
	return t.submit(s, device.Task{Kind: device.TaskOverflow, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		if err := s.Context.Device.Check(out, overflowSize, space.Write); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "float status on stream %d: %v", s.ID, err)
		}
		clear(space.Bytes(out, overflowSize))
		s.Context.Device.Machine.Known(out, overflowSize)
		return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
	}})
}

// resetOverflow clears the float status in the order of a stream.
func (t *Thread) resetOverflow(on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	return t.submit(s, device.Task{Kind: device.TaskOverflow, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
	}})
}

// GetOverflowStatus stores the float status of the device.
func (t *Thread) GetOverflowStatus(outputAddr acl.Addr, outputSize uint64, stream acl.Stream) acl.Error {
	return t.readOverflow(outputAddr, outputSize, stream)
}

// ResetOverflowStatus clears the float status of the device.
func (t *Thread) ResetOverflowStatus(stream acl.Stream) acl.Error { return t.resetOverflow(stream) }

// GetFloatOverflowStatus is GetOverflowStatus by its former name.
func (t *Thread) GetFloatOverflowStatus(outputAddr acl.Addr, outputSize uint64, stream acl.Stream) acl.Error {
	return t.readOverflow(outputAddr, outputSize, stream)
}

// ResetFloatOverflowStatus is ResetOverflowStatus by its former name.
func (t *Thread) ResetFloatOverflowStatus(stream acl.Stream) acl.Error {
	return t.resetOverflow(stream)
}

// NpuGetFloatOverFlowStatus stores the float status as operators see it.
func (t *Thread) NpuGetFloatOverFlowStatus(outputAddr acl.Addr, outputSize uint64, checkMode uint32, stream acl.Stream) acl.Error {
	return t.readOverflow(outputAddr, outputSize, stream)
}

// NpuClearFloatOverFlowStatus clears the float status as operators see it.
func (t *Thread) NpuClearFloatOverFlowStatus(checkMode uint32, stream acl.Stream) acl.Error {
	return t.resetOverflow(stream)
}

// CtxGetFloatOverflowAddr returns where the device keeps the float status of the context.
func (t *Thread) CtxGetFloatOverflowAddr(overflowAddr *acl.Addr) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if overflowAddr == nil {
		return t.absent("overflowAddr")
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	x := contextStateOf(c)
	if x.overflow == 0 {
		a, f := t.sim.allocOwn(c.Device, overflowSize)
		if f != nil {
			return t.failWith(f)
		}
		x.overflow = a
	}
	*overflowAddr = x.overflow
	return acl.ACL_SUCCESS
}

// SetDeviceSatMode says what an overflow gives: the largest number, or infinity. It changes nothing here.
func (t *Thread) SetDeviceSatMode(mode acl.FloatOverflowMode) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if mode != acl.ACL_RT_OVERFLOW_MODE_SATURATION && mode != acl.ACL_RT_OVERFLOW_MODE_INFNAN {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "overflow mode %d is unknown", mode)
	}
	t.sim.of(c.Device).satMode.Store(int32(mode))
	return acl.ACL_SUCCESS
}

// GetDeviceSatMode tells what an overflow gives.
func (t *Thread) GetDeviceSatMode(mode *acl.FloatOverflowMode) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if mode == nil {
		return t.null("mode")
	}
	*mode = acl.FloatOverflowMode(t.sim.of(c.Device).satMode.Load())
	return acl.ACL_SUCCESS
}

// ReduceAsync joins the elements of src to those of dst, on the device and in the order of a stream.
func (t *Thread) ReduceAsync(dst, src acl.Addr, count uint64, kind acl.ReduceKind, type_ acl.DataType, on acl.Stream, reserve acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	size := dataTypeSize(type_)
	switch {
	case reserve != 0:
		return t.invalid("reserve is not null")
	case kind < acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "reduction %d is unknown", kind)
	case reducers[type_] == nil && mutant.Breaks("reduction_of_unknown_type"):
		return acl.ACL_SUCCESS
	case reducers[type_] == nil || kind == acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "reduction %d of data type %d", kind, type_)
	case dst == 0 || src == 0:
		return t.null("dst or src")
	case count == 0 || count%size != 0 || count > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of elements of %d", count, size)
	case t.sim.Locate(dst).Device != s.Context.Device || t.sim.Locate(src).Device != s.Context.Device:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x and %#x do not both lie on the stream's device", dst, src)
	}
	return t.submit(s, device.Task{Kind: device.TaskReduce, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		d := s.Context.Device
		d.Machine.Strict.KernelTouches(&s.Strict, []space.Extent{{Addr: src, Size: count, Access: space.Read}, {Addr: dst, Size: count, Access: space.Read | space.Write}})
		err := d.Check(src, count, space.Read)
		if err == nil {
			err = d.Check(dst, count, space.Read|space.Write)
		}
		if err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "reduction on stream %d: %v", s.ID, err)
		}
		to, from := space.Bytes(dst, count), space.Bytes(src, count)
		for i := uint64(0); i < count; i += size {
			reducers[type_](to[i:i+size], from[i:i+size], kind)
		}
		d.Machine.Spread([]space.Extent{{Addr: src, Size: count, Access: space.Read}, {Addr: dst, Size: count, Access: space.Read | space.Write}}, nil)
		return d.Machine.CopyTime(model.DeviceToDevice, 2*count), nil
	}})
}

// pick reduces two values.
func pick[T int8 | int16 | int32 | float32](a, b T, kind acl.ReduceKind) T {
	switch kind {
	case acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX:
		return max(a, b)
	case acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN:
		return min(a, b)
	}
	return a + b
}

func float(b uint32) float32 { return math.Float32frombits(b) }

func bits32(f float32) uint32 { return math.Float32bits(f) }

// reducers join an element to another one, by data type.
var reducers = map[acl.DataType]func(to, from []byte, kind acl.ReduceKind){
	acl.ACL_INT8: func(to, from []byte, kind acl.ReduceKind) { to[0] = byte(pick(int8(to[0]), int8(from[0]), kind)) },
	acl.ACL_INT16: func(to, from []byte, kind acl.ReduceKind) {
		le := binary.LittleEndian
		le.PutUint16(to, uint16(pick(int16(le.Uint16(to)), int16(le.Uint16(from)), kind)))
	},
	acl.ACL_INT32: func(to, from []byte, kind acl.ReduceKind) {
		le := binary.LittleEndian
		le.PutUint32(to, uint32(pick(int32(le.Uint32(to)), int32(le.Uint32(from)), kind)))
	},
	acl.ACL_FLOAT: func(to, from []byte, kind acl.ReduceKind) {
		le := binary.LittleEndian
		le.PutUint32(to, bits32(pick(float(le.Uint32(to)), float(le.Uint32(from)), kind)))
	},
	acl.ACL_FLOAT16: func(to, from []byte, kind acl.ReduceKind) {
		le := binary.LittleEndian
		le.PutUint16(to, toHalf(pick(fromHalf(le.Uint16(to)), fromHalf(le.Uint16(from)), kind)))
	},
	acl.ACL_BF16: func(to, from []byte, kind acl.ReduceKind) {
		le := binary.LittleEndian
		sum := bits32(pick(float(uint32(le.Uint16(to))<<16), float(uint32(le.Uint16(from))<<16), kind))
		le.PutUint16(to, uint16((sum+0x7fff+sum>>16&1)>>16))
	},
}
