package acl

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
)

// valueArgs checks what writing a value and waiting for one have in common.
func (t *Thread) valueArgs(addr acl.Addr, on acl.Stream) (*device.Stream, acl.Error) {
	s, e := t.stream(on)
	if e != 0 {
		return nil, e
	}
	switch {
	case addr == 0:
		return nil, t.null("devAddr")
	case addr%8 != 0:
		return nil, t.fail(acl.ACL_ERROR_RT_ADDR_UNALIGNED, "%#x is no multiple of 8", addr)
	case t.sim.Locate(addr).Device == nil:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no device memory", addr)
	}
	return s, acl.ACL_SUCCESS
}

// cell is a word of device memory that streams of any device use at the same time.
func cell(s *device.Stream, addr uint64, access uint32) (*uint64, *fail.Failure) {
	if err := s.Context.Device.Check(addr, 8, access); err != nil {
		return nil, failed(acl.ACL_ERROR_RT_SYS_DMA, "value on stream %d: %v", s.ID, err)
	}
	return (*uint64)(space.Pointer(addr)), nil
}

// ValueWrite stores a word in device memory in the order of a stream.
func (t *Thread) ValueWrite(devAddr acl.Addr, value uint64, flag uint32, on acl.Stream) acl.Error {
	s, e := t.valueArgs(devAddr, on)
	if e != 0 {
		return e
	}
	if flag != 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "flag is %d and has to be 0", flag)
	}
	k, _ := t.valueTask(&valueTask{addr: devAddr, value: value})
	return t.submit(s, k)
}

// valueTask is the task that writes a word, or waits for one. Its address is checked.
func (t *Thread) valueTask(v *valueTask) (device.Task, acl.Error) {
	switch {
	case v.addr == 0 || v.addr%8 != 0 || t.sim.Locate(v.addr).Device == nil:
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no place of a word in device memory", v.addr)
	case v.flag > acl.ACL_STREAM_WAIT_VALUE_NOR:
		return device.Task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "wait flag %d is unknown", v.flag)
	case !v.waits:
		return device.Task{Kind: device.TaskValue, Detail: v, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			p, f := cell(s, v.addr, space.Write)
			if f != nil {
				return 0, f
			}
			s.Context.Device.Machine.Strict.WritesWord(&s.Strict, v.addr)
			atomic.StoreUint64(p, v.value)
			s.Context.Device.Machine.Known(v.addr, 8)
			return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
		}}, acl.ACL_SUCCESS
	}
	return device.Task{Kind: device.TaskValue, Detail: v,
		Begin: func(s *device.Stream) *device.Waiting {
			return &device.Waiting{Met: func() (bool, <-chan struct{}) {
				p, f := cell(s, v.addr, space.Read)
				return f != nil || valueMet(atomic.LoadUint64(p), v.value, v.flag), nil // run tells of the failure
			}}
		},
		Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
			_, f := cell(s, v.addr, space.Read)
			s.Context.Device.Machine.Strict.ReadsWord(&s.Strict, v.addr)
			return 0, f
		}}, acl.ACL_SUCCESS
}

// valueMet tells whether a word is what a stream waits for.
func valueMet(have, want uint64, flag uint32) bool {
	switch flag {
	case acl.ACL_STREAM_WAIT_VALUE_GEQ:
		return int64(have-want) >= 0
	case acl.ACL_STREAM_WAIT_VALUE_EQ:
		return have == want
	case acl.ACL_STREAM_WAIT_VALUE_AND:
		return have&want != 0
	}
	return have|want != math.MaxUint64
}

// ValueWait lets the later work of a stream wait for a word of device memory.
func (t *Thread) ValueWait(devAddr acl.Addr, value uint64, flag uint32, on acl.Stream) acl.Error {
	s, e := t.valueArgs(devAddr, on)
	if e != 0 {
		return e
	}
	if flag > acl.ACL_STREAM_WAIT_VALUE_NOR {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "wait flag %d is unknown", flag)
	}
	k, _ := t.valueTask(&valueTask{addr: devAddr, value: value, flag: flag, waits: true})
	return t.submit(s, k)
}
