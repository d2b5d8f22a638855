package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/model"
)

// The simulated device has no cache that could differ from its memory: what is asked about it is checked, and done at once.

func (t *Thread) cached(p acl.Addr, size uint64) acl.Error {
	d, e := t.owner(p)
	if e != 0 {
		return e
	}
	if size == 0 || size > memory.MaxAlloc {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of the cache", size)
	}
	if err := d.Memory.Check(p, size, 0); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%v", err)
	}
	return acl.ACL_SUCCESS
}

// MemFlush writes cached device memory back.
func (t *Thread) MemFlush(devPtr acl.Addr, size uint64) acl.Error { return t.cached(devPtr, size) }

// MemInvalidate drops cached device memory.
func (t *Thread) MemInvalidate(devPtr acl.Addr, size uint64) acl.Error {
	return t.cached(devPtr, size)
}

// CmoAsync does the same in the order of a stream.
func (t *Thread) CmoAsync(src acl.Addr, size uint64, cmoType acl.CmoType, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case src == 0:
		return t.null("src")
	case size == 0:
		return t.invalid("0 bytes of the cache")
	case cmoType != acl.ACL_RT_CMO_TYPE_PREFETCH:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "cache operation %d: the device prefetches only", cmoType)
	}
	return t.submit(s, device.Task{Kind: device.TaskCache, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		if err := s.Context.Device.Check(src, size, 0); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "prefetch on stream %d: %v", s.ID, err)
		}
		return s.Context.Device.Machine.CopyTime(model.Fill, 0), nil
	}})
}
