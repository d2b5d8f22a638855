package sim

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/model"
)

// valueArgs checks what writing a value and waiting for one have in common.
func (t *Thread) valueArgs(addr acl.Addr, on acl.Stream) (*stream, acl.Error) {
	s, e := t.stream(on)
	if e != 0 {
		return nil, e
	}
	switch {
	case addr == 0:
		return nil, t.null("devAddr")
	case addr%8 != 0:
		return nil, t.fail(acl.ACL_ERROR_RT_ADDR_UNALIGNED, "%#x is no multiple of 8", addr)
	case t.sim.locate(addr).dev == nil:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no device memory", addr)
	}
	return s, acl.ACL_SUCCESS
}

// cell is a word of device memory that streams of any device use at the same time.
func (s *stream) cell(addr uint64, access uint32) (*uint64, *failure) {
	if err := s.ctx.dev.check(addr, 8, access); err != nil {
		return nil, failed(acl.ACL_ERROR_RT_SYS_DMA, "value on stream %d: %v", s.id, err)
	}
	return (*uint64)(device.Pointer(addr)), nil
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
func (t *Thread) valueTask(v *valueTask) (task, acl.Error) {
	switch {
	case v.addr == 0 || v.addr%8 != 0 || t.sim.locate(v.addr).dev == nil:
		return task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is no place of a word in device memory", v.addr)
	case v.flag > acl.ACL_STREAM_WAIT_VALUE_NOR:
		return task{}, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "wait flag %d is unknown", v.flag)
	case !v.waits:
		return task{kind: taskValue, detail: v, run: func(s *stream) (time.Duration, *failure) {
			p, f := s.cell(v.addr, device.Write)
			if f != nil {
				return 0, f
			}
			s.ctx.dev.sim.strict.WritesWord(&s.strict, v.addr)
			atomic.StoreUint64(p, v.value)
			s.ctx.dev.sim.known(v.addr, 8)
			return s.ctx.dev.sim.copyTime(model.Fill, 0), nil
		}}, acl.ACL_SUCCESS
	}
	return task{kind: taskValue, detail: v,
		begin: func(s *stream) *waiting {
			return &waiting{met: func() (bool, <-chan struct{}) {
				p, f := s.cell(v.addr, device.Read)
				return f != nil || valueMet(atomic.LoadUint64(p), v.value, v.flag), nil // run tells of the failure
			}}
		},
		run: func(s *stream) (time.Duration, *failure) {
			_, f := s.cell(v.addr, device.Read)
			s.ctx.dev.sim.strict.ReadsWord(&s.strict, v.addr)
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
