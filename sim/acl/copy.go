package acl

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// copyNow makes a blocking copy.
func (t *Thread) copyNow(x device.Transfer) acl.Error {
	if e := t.unsafe(); e != 0 {
		return e
	}
	x.Doubt = t.doubted()
	t.sim.Strict.HostCopies(&t.Strict, x.Copied())
	if err := t.sim.Check(&x); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %s from %#x to %#x: %v", human.Plural(x.Width*x.Height, "byte"), x.Src, x.Dst, err)
	}
	if t.sim.opts.Virtual {
		t.sim.SpendCall(&t.HostThread, t.sim.Model.Host.Sync+int64(t.sim.TransferCost(&x)))
	}
	planned := t.sim.opts.Faults.Hit(string(device.TaskCopy), "")
	if planned != nil && !planned.Corrupt {
		return t.fail(planned.Code, "injected fault: copy %d fails", planned.At)
	}
	if err := space.Guard(x.Move); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %s from %#x to %#x: %v", human.Plural(x.Width*x.Height, "byte"), x.Src, x.Dst, err)
	}
	t.sim.Follow(&x)
	if planned != nil {
		fault.Corrupt(space.Span{Addr: x.Dst, Size: x.Width})
	}
	return acl.ACL_SUCCESS
}

// copyLater puts a copy on a stream. Its addresses are looked up when it runs.
func (t *Thread) copyLater(s *device.Stream, x device.Transfer) acl.Error {
	x.Pinned, x.Doubt = x.Staged == nil, t.doubted()
	var watched *strict.Source
	if attached(s).Capture.Load() == nil && attached(s).Bound.Load() == nil {
		watched = t.sim.Strict.Watch(x.Copied())
	}
	quick := x.Width*x.Height < 256<<10 // a model's latency is longer
	return t.submit(s, device.Task{Kind: device.TaskCopy, Copy: t.sim.CopyKind(&x), Wrote: space.Span{Addr: x.Dst, Size: x.Width}, Quick: quick, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		sim := s.Context.Device.Machine
		sim.Strict.TaskCopies(&s.Strict, x.Copied(), watched)
		if err := sim.Check(&x); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "copy of %s from %#x to %#x on stream %d: %v", human.Plural(x.Width*x.Height, "byte"), x.Src, x.Dst, s.ID, err)
		}
		x.Move()
		sim.Follow(&x)
		return sim.TransferCost(&x), nil
	}})
}

// copyPageable does an asynchronous copy with pageable host memory: it waits for the stream and copies.
func (t *Thread) copyPageable(s *device.Stream, x device.Transfer) acl.Error {
	if c := attached(s).Capture.Load(); c != nil {
		t.sim.Strict.Pageable(&t.Strict, &s.Strict, x.Copied(), c.Call)
	}
	if e := t.unsafeAsync(); e != 0 {
		return e
	}
	if attached(s).Bound.Load() != nil {
		return t.fail(acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, "stream %d is bound to a model: a copy with pageable memory blocks and can't be part of it", s.ID)
	}
	s.Wait(&t.HostThread, s.SubmittedTasks(), device.Forever)
	if f := s.Observe(); f != nil {
		return t.failWith(f)
	}
	return t.copyNow(x)
}

// Memcpy copies and returns when done. It waits for no stream. The locations of the memory, not the kind, determine
// the copy.
func (t *Thread) Memcpy(dst acl.Addr, destMax uint64, src acl.Addr, count uint64, kind acl.MemcpyKind) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if kind < acl.ACL_MEMCPY_HOST_TO_HOST || kind > acl.ACL_MEMCPY_INTER_DEVICE_TO_DEVICE {
		return t.invalid("copy kind %d is unknown", kind)
	}
	if done, e := t.copyArgs(dst, destMax, src, count); done {
		return e
	}
	if mutant.Breaks("kind_is_reserved") && kind == acl.ACL_MEMCPY_DEVICE_TO_HOST {
		dst, src = src, dst
	}
	return t.copyNow(device.Plain(dst, src, count))
}

// copyArgs checks the arguments of a copy, and reports whether nothing is left to do.
func (t *Thread) copyArgs(dst acl.Addr, destMax uint64, src acl.Addr, count uint64) (bool, acl.Error) {
	switch {
	case count == 0:
		return true, acl.ACL_SUCCESS
	case dst == 0:
		return true, t.null("dst")
	case src == 0:
		return true, t.null("src")
	case count > destMax:
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is greater than destMax %d", count, destMax)
	case count > memory.MaxAlloc:
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is too large", count)
	case dst == src && mutant.Breaks("onto_itself"):
		clear(space.Bytes(dst, count))
		return true, acl.ACL_SUCCESS
	case dst == src:
		return true, acl.ACL_SUCCESS
	}
	return false, acl.ACL_SUCCESS
}

// actualKind derives the kind of an asynchronous copy from the locations of the memory. It returns false if they
// forbid the given kind.
func actualKind(kind acl.MemcpyKind, src, dst acl.MemLocationType) (acl.MemcpyKind, bool) {
	const (
		d = acl.ACL_MEM_LOCATION_TYPE_DEVICE
		h = acl.ACL_MEM_LOCATION_TYPE_HOST
		u = acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
	)
	one := func(def acl.MemcpyKind, ok ...acl.MemcpyKind) (acl.MemcpyKind, bool) {
		if kind == acl.ACL_MEMCPY_DEFAULT && !mutant.Breaks("default_kind") {
			return def, true
		}
		return kind, slices.Contains(ok, kind)
	}
	switch [2]acl.MemLocationType{src, dst} {
	case [2]acl.MemLocationType{h, d}:
		return acl.ACL_MEMCPY_HOST_TO_DEVICE, true
	case [2]acl.MemLocationType{d, h}:
		return acl.ACL_MEMCPY_DEVICE_TO_HOST, true
	case [2]acl.MemLocationType{h, h}:
		return acl.ACL_MEMCPY_HOST_TO_HOST, true
	case [2]acl.MemLocationType{d, d}:
		return acl.ACL_MEMCPY_DEVICE_TO_DEVICE, true
	case [2]acl.MemLocationType{u, d}:
		return one(acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_DEVICE)
	case [2]acl.MemLocationType{d, u}:
		return one(acl.ACL_MEMCPY_DEVICE_TO_HOST, acl.ACL_MEMCPY_DEVICE_TO_HOST, acl.ACL_MEMCPY_DEVICE_TO_DEVICE)
	case [2]acl.MemLocationType{h, u}:
		return one(acl.ACL_MEMCPY_HOST_TO_HOST, acl.ACL_MEMCPY_HOST_TO_HOST, acl.ACL_MEMCPY_HOST_TO_DEVICE)
	case [2]acl.MemLocationType{u, h}:
		return one(acl.ACL_MEMCPY_HOST_TO_HOST, acl.ACL_MEMCPY_HOST_TO_HOST, acl.ACL_MEMCPY_DEVICE_TO_HOST)
	}
	if kind == acl.ACL_MEMCPY_DEFAULT {
		return acl.ACL_MEMCPY_HOST_TO_HOST, true
	}
	return kind, true
}

// MemcpyAsync copies in stream order. With pageable host memory it waits for the stream and copies at once.
func (t *Thread) MemcpyAsync(dst acl.Addr, destMax uint64, src acl.Addr, count uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if kind < acl.ACL_MEMCPY_HOST_TO_HOST || kind > acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE {
		return t.invalid("copy kind %d can't be asynchronous", kind)
	}
	if done, e := t.copyArgs(dst, destMax, src, count); done {
		return e
	}
	return t.copyAsync(s, device.Plain(dst, src, count), kind)
}

// copyAsync is an asynchronous copy with checked arguments.
func (t *Thread) copyAsync(s *device.Stream, x device.Transfer, kind acl.MemcpyKind) acl.Error {
	from, to := side(t.sim.Locate(x.Src)), side(t.sim.Locate(x.Dst))
	blocks := from == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED || to == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
	if kind == acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE {
		if from == acl.ACL_MEM_LOCATION_TYPE_DEVICE || to != acl.ACL_MEM_LOCATION_TYPE_DEVICE {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy from %#x to %#x: want host memory as source and device memory as destination", x.Src, x.Dst)
		}
		x.ToDevice = true
		if err := space.Guard(func() { x.Staged = bytes.Clone(space.Bytes(x.Src, x.Width)) }); err != nil {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %s from %#x: %v", human.Plural(x.Width, "byte"), x.Src, err)
		}
		return t.copyLater(s, x)
	}
	actual, ok := actualKind(kind, from, to)
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind %s does not match the memory: source %#x is %s, destination %#x is %s", acl.Model.EnumName("aclrtMemcpyKind", int64(kind)),
			x.Src, acl.Model.EnumName("aclrtMemLocationType", int64(from)), x.Dst, acl.Model.EnumName("aclrtMemLocationType", int64(to)))
	}
	switch actual {
	case acl.ACL_MEMCPY_HOST_TO_HOST:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an asynchronous copy from host to host is not supported")
	case acl.ACL_MEMCPY_HOST_TO_DEVICE:
		x.ToDevice = true
	case acl.ACL_MEMCPY_DEVICE_TO_HOST:
		x.FromDevice = true
	case acl.ACL_MEMCPY_DEVICE_TO_DEVICE:
		x.ToDevice, x.FromDevice = true, true
		blocks = false
	}
	if blocks && !mutant.Breaks("pageable_copy_waits") {
		return t.copyPageable(s, x)
	}
	return t.copyLater(s, x)
}

// Limits of Memcpy2dAsync.
const (
	maxWidth2d  = 5000000
	maxHeight2d = 5 << 20
)

// rows checks the arguments of a 2-D copy. Copies inside a device are asynchronous only.
func (t *Thread) rows(dst, dpitch, src, spitch, width, height uint64, kind acl.MemcpyKind, inside bool) (device.Transfer, acl.Error) {
	x := device.Transfer{Dst: dst, Src: src, Width: width, Height: height, DstPitch: dpitch, SrcPitch: spitch}
	switch {
	case dst == 0:
		return x, t.null("dst")
	case src == 0:
		return x, t.null("src")
	case kind != acl.ACL_MEMCPY_HOST_TO_DEVICE && kind != acl.ACL_MEMCPY_DEVICE_TO_HOST && (kind != acl.ACL_MEMCPY_DEVICE_TO_DEVICE || !inside):
		return x, t.fail(acl.ACL_ERROR_INVALID_PARAM, "copy kind is %d: want a 2-D copy from host to device or back, or an asynchronous one inside the device", kind)
	case (width > dpitch || width > spitch):
		return x, t.fail(acl.ACL_ERROR_INVALID_PARAM, "width %d is greater than a pitch (%d, %d)", width, dpitch, spitch)
	case max(dpitch, spitch) > memory.MaxAlloc || height > memory.MaxAlloc/max(dpitch, spitch):
		return x, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %d rows of %s is too large", height, human.Plural(width, "byte"))
	}
	from, to := t.sim.Locate(src).Device, t.sim.Locate(dst).Device
	if (from != nil) != (kind != acl.ACL_MEMCPY_HOST_TO_DEVICE) || (to != nil) != (kind != acl.ACL_MEMCPY_DEVICE_TO_HOST) {
		return x, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind %d does not match the memory at %#x and %#x", kind, src, dst)
	}
	x.ToDevice, x.FromDevice = to != nil, from != nil
	return x, acl.ACL_SUCCESS
}

// Memcpy2d copies rows and returns when it is done.
func (t *Thread) Memcpy2d(dst acl.Addr, dpitch uint64, src acl.Addr, spitch, width, height uint64, kind acl.MemcpyKind) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if (width == 0 || height == 0) && !mutant.Breaks("no_rows") {
		return acl.ACL_SUCCESS
	}
	x, e := t.rows(dst, dpitch, src, spitch, width, height, kind, false)
	if e != 0 {
		return e
	}
	return t.copyNow(x)
}

// Memcpy2dAsync copies rows in stream order. With pageable host memory it waits for the stream and copies at once.
func (t *Thread) Memcpy2dAsync(dst acl.Addr, dpitch uint64, src acl.Addr, spitch, width, height uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if width == 0 || height == 0 {
		return acl.ACL_SUCCESS
	}
	if width > maxWidth2d || height > maxHeight2d {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %d rows of %s: want at most %d rows and %s", height, human.Plural(width, "byte"), maxHeight2d, human.Plural(maxWidth2d, "byte"))
	}
	x, e := t.rows(dst, dpitch, src, spitch, width, height, kind, true)
	if e != 0 {
		return e
	}
	if t.sim.Locate(src).Kind == device.Pageable || t.sim.Locate(dst).Kind == device.Pageable {
		return t.copyPageable(s, x)
	}
	return t.copyLater(s, x)
}

// fillArgs checks the arguments of a fill, and reports whether nothing is left to do.
func (t *Thread) fillArgs(p acl.Addr, maxCount, count uint64) (bool, acl.Error) {
	switch {
	case count == 0:
		return true, acl.ACL_SUCCESS
	case p == 0:
		return true, t.null("devPtr")
	case count > maxCount:
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is greater than maxCount %d", count, maxCount)
	case t.sim.Locate(p).Kind == device.Pageable && t.sim.Locate(p).Device == nil:
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is neither in device memory nor in host memory of the runtime", p)
	}
	return false, acl.ACL_SUCCESS
}

// fillNow makes a blocking fill.
func (t *Thread) fillNow(p acl.Addr, pattern []byte, n uint64) acl.Error {
	if e := t.unsafe(); e != 0 {
		return e
	}
	t.sim.Strict.HostTouches(&t.Strict, p, n, space.Write)
	if err := t.sim.Fill(p, pattern, n); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "fill: %v", err)
	}
	return acl.ACL_SUCCESS
}

// fillLater puts a fill on a stream.
func (t *Thread) fillLater(s *device.Stream, p acl.Addr, pattern []byte, n uint64) acl.Error {
	return t.submit(s, device.Task{Kind: device.TaskFill, Copy: model.Fill, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		sim := s.Context.Device.Machine
		sim.Strict.TaskTouches(&s.Strict, p, n, space.Write)
		if err := sim.Fill(p, pattern, n); err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "fill on stream %d: %v", s.ID, err)
		}
		return sim.CopyTime(model.Fill, n), nil
	}})
}

// Memset fills memory and returns when it is done.
func (t *Thread) Memset(devPtr acl.Addr, maxCount uint64, value int32, count uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if done, e := t.fillArgs(devPtr, maxCount, count); done {
		return e
	}
	return t.fillNow(devPtr, []byte{byte(value)}, count)
}

// MemsetAsync fills memory in stream order.
func (t *Thread) MemsetAsync(devPtr acl.Addr, maxCount uint64, value int32, count uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if done, e := t.fillArgs(devPtr, maxCount, count); done {
		return e
	}
	return t.fillLater(s, devPtr, []byte{byte(value)}, count)
}

// batch holds the arrays of a copy batch.
type batch struct {
	dsts, destMaxs, srcs, sizes *uint64
	n                           uint64
	attrs                       *acl.MemcpyBatchAttr
	indexes                     *uint64
	numAttrs                    uint64
	failIndex                   *uint64
}

// maxBatch is the largest number of copies in a batch.
const maxBatch = 1 << 20

// batch checks all copies, then calls do for each. If one copy fails, failIndex is set to its number.
func (t *Thread) batch(b batch, do func(x device.Transfer, kind acl.MemcpyKind) acl.Error) acl.Error {
	setFail := func(i uint64) {
		if b.failIndex != nil {
			*b.failIndex = i
		}
	}
	setFail(^uint64(0))
	switch {
	case b.sizes == nil:
		return t.null("sizes")
	case b.n == 0:
		return t.invalid("the batch has 0 copies: want 1 or more")
	case b.n <= maxBatch && !slices.ContainsFunc(space.List(b.sizes, b.n), func(n uint64) bool { return n > 0 }):
		return acl.ACL_SUCCESS
	case b.dsts == nil || b.destMaxs == nil || b.srcs == nil || b.attrs == nil || b.indexes == nil:
		return t.null("an array of the batch")
	case b.n > maxBatch || b.numAttrs == 0 || b.numAttrs > b.n:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "batch of %d copies has %d attributes: want 1 to the number of copies", b.n, b.numAttrs)
	}
	dsts, maxs, srcs, sizes := space.List(b.dsts, b.n), space.List(b.destMaxs, b.n), space.List(b.srcs, b.n), space.List(b.sizes, b.n)
	attrs, indexes := space.List(b.attrs, b.numAttrs), space.List(b.indexes, b.numAttrs)
	for i, at := range indexes {
		if i == 0 && at != 0 || i > 0 && at <= indexes[i-1] || at >= b.n {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "attrsIndexes[%d] is %d: want ascending indexes from 0, below %d", i, at, b.n)
		}
		if attrs[i].Rsv != [16]uint8{} {
			return t.invalid("the reserved bytes of attribute %d are not 0", i)
		}
	}
	kinds := make([]acl.MemcpyKind, b.n)
	a := 0
	for i := range b.n {
		if a+1 < len(indexes) && indexes[a+1] == i {
			a++
		}
		kind, e := t.batchItem(dsts[i], maxs[i], srcs[i], sizes[i], &attrs[a])
		if e != 0 {
			setFail(i)
			return e
		}
		kinds[i] = kind
	}
	for i := range b.n {
		x := device.Plain(dsts[i], srcs[i], sizes[i])
		if x.Width == 0 {
			continue
		}
		x.ToDevice, x.FromDevice = kinds[i] == acl.ACL_MEMCPY_HOST_TO_DEVICE, kinds[i] == acl.ACL_MEMCPY_DEVICE_TO_HOST
		if e := do(x, kinds[i]); e != 0 {
			setFail(i)
			return e
		}
	}
	return acl.ACL_SUCCESS
}

// batchItem checks one copy and returns its kind.
func (t *Thread) batchItem(dst, destMax, src, size uint64, a *acl.MemcpyBatchAttr) (acl.MemcpyKind, acl.Error) {
	switch {
	case dst == 0 || src == 0:
		return 0, t.absent("an address of the batch")
	case size > destMax:
		return 0, t.invalid("size %d is greater than destMax %d", size, destMax)
	case size > memory.MaxAlloc:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size %d is too large", size)
	}
	from, to := t.sim.Locate(src), t.sim.Locate(dst)
	if !matches(from, a.SrcLoc) {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "source %#x is not at the location of its attribute", src)
	}
	if !matches(to, a.DstLoc) {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "destination %#x is not at the location of its attribute", dst)
	}
	switch {
	case from.Device == nil && to.Device != nil:
		return acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_SUCCESS
	case from.Device != nil && to.Device == nil:
		return acl.ACL_MEMCPY_DEVICE_TO_HOST, acl.ACL_SUCCESS
	}
	return 0, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "copy from %#x to %#x: want copies from host to device or back in a batch", src, dst)
}

// matches reports whether a location agrees with an attribute.
func matches(l device.Location, a acl.MemLocation) bool {
	switch a.Type {
	case acl.ACL_MEM_LOCATION_TYPE_DEVICE:
		return l.Device != nil && uint32(l.Device.ID) == a.Id
	case acl.ACL_MEM_LOCATION_TYPE_HOST:
		return l.Device == nil
	case acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED:
		return l.Kind == device.Pageable
	}
	return false
}

// MemcpyBatch makes several copies, in no order, and returns when they are done.
func (t *Thread) MemcpyBatch(dsts *acl.Addr, destMaxs *uint64, srcs *acl.Addr, sizes *uint64, numBatches uint64, attrs *acl.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if failIndex == nil {
		return t.null("failIndex")
	}
	return t.batch(batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex}, t.copyItem)
}

// MemcpyBatchV2 is MemcpyBatch without failIndex.
func (t *Thread) MemcpyBatchV2(dsts *acl.Addr, destMaxs *uint64, srcs *acl.Addr, sizes *uint64, numBatches uint64, attrs *acl.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return t.batch(batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nil}, t.copyItem)
}

func (t *Thread) copyItem(x device.Transfer, _ acl.MemcpyKind) acl.Error { return t.copyNow(x) }

// MemcpyBatchAsync submits several copies to a stream, in no order among them.
func (t *Thread) MemcpyBatchAsync(dsts *acl.Addr, destMaxs *uint64, srcs *acl.Addr, sizes *uint64, numBatches uint64, attrs *acl.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64, stream acl.Stream) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if failIndex == nil {
		return t.null("failIndex")
	}
	return t.batchAsync(batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex}, stream)
}

// MemcpyBatchAsyncV2 is MemcpyBatchAsync without failIndex.
func (t *Thread) MemcpyBatchAsyncV2(dsts *acl.Addr, destMaxs *uint64, srcs *acl.Addr, sizes *uint64, numBatches uint64, attrs *acl.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, stream acl.Stream) acl.Error {
	return t.batchAsync(batch{dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, nil}, stream)
}

func (t *Thread) batchAsync(b batch, stream acl.Stream) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	return t.batch(b, func(x device.Transfer, kind acl.MemcpyKind) acl.Error { return t.copyAsync(s, x, kind) })
}

// copyDescSize is the size of a copy descriptor: three unused words, the length, source and destination.
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
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "copy of %s from %#x to %#x on stream %d: %v", human.Plural(n, "byte"), src, dst, s.ID, err)
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
		return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "%s on stream %d: %v", what, s.ID, err)
	}
	return binary.LittleEndian.Uint64(space.Bytes(addr, 8)), nil
}

func (t *Thread) innerCopy(kind acl.MemcpyKind) acl.Error {
	if kind != acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE && !mutant.Breaks("descriptor_inside_the_device") {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind is %d: want ACL_MEMCPY_DEVICE_TO_DEVICE for an indirect copy", kind)
	}
	return acl.ACL_SUCCESS
}

// MemcpyAsyncWithOffset copies on the device. The task reads both addresses from device memory and adds offsets.
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
		return t.invalid("config is not null: want null")
	case count == 0:
		return t.invalid("size of the copy is 0: want 1 byte or more")
	case count > math.MaxUint32:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the copy is %d: want 1 to %d bytes", count, uint32(math.MaxUint32))
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
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "copy descriptor on stream %d: %v", s.ID, err)
		}
		b := space.Bytes(desc, copyDescSize)
		return copyResolved(s, binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[16:]), uint64(binary.LittleEndian.Uint32(b[12:])))
	}})
}

// fill32Args checks the arguments of a fill with words, and reports whether nothing is left to do.
func (t *Thread) fill32Args(p acl.Addr, memSize, n uint64) (bool, acl.Error) {
	if n > memory.MaxAlloc {
		return true, t.invalid("count %d is too large", n)
	}
	switch {
	case n == 0 || p == 0: // as for all fills
	case p%4 != 0:
		return true, t.invalid("address %#x is not a multiple of 4", p)
	case 4*n > memSize && !mutant.Breaks("fewer_bytes_than_words"):
		return true, t.invalid("%d words do not fit in %d bytes (memSize)", n, memSize)
	case t.sim.Locate(p).Kind == device.Pageable:
		return true, t.invalid("address %#x is neither in device memory nor in host memory of the runtime", p)
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
	return t.fillNow(ptr, binary.LittleEndian.AppendUint32(nil, value), 4*n)
}

// MemsetD32Async fills device memory with a word in stream order, and host memory at once.
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

// ReduceAsync reduces src into dst on the device, in stream order.
func (t *Thread) ReduceAsync(dst, src acl.Addr, count uint64, kind acl.ReduceKind, type_ acl.DataType, on acl.Stream, reserve acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	size := dataTypeSize(type_)
	switch {
	case reserve != 0:
		return t.invalid("reserve is not null: want null")
	case kind < acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "reduction %d is unknown", kind)
	case reducers[type_] == nil && mutant.Breaks("reduction_of_unknown_type"):
		return acl.ACL_SUCCESS
	case reducers[type_] == nil || kind == acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "reduction %d is not supported for data type %d", kind, type_)
	case dst == 0 || src == 0:
		return t.null("dst or src")
	case count == 0 || count%size != 0 || count > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d: want a multiple of the element size %d, above 0", count, size)
	case t.sim.Locate(dst).Device != s.Context.Device || t.sim.Locate(src).Device != s.Context.Device:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "destination %#x and source %#x are not both on the device of the stream", dst, src)
	}
	return t.submit(s, device.Task{Kind: device.TaskReduce, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		d := s.Context.Device
		d.Machine.Strict.KernelTouches(&s.Strict, []space.Extent{{Addr: src, Size: count, Access: space.Read}, {Addr: dst, Size: count, Access: space.Read | space.Write}})
		err := d.Check(src, count, space.Read)
		if err == nil {
			err = d.Check(dst, count, space.Read|space.Write)
		}
		if err != nil {
			return 0, status.Failed(acl.ACL_ERROR_RT_SYS_DMA, "reduction on stream %d: %v", s.ID, err)
		}
		to, from := space.Bytes(dst, count), space.Bytes(src, count)
		for i := uint64(0); i < count; i += size {
			reducers[type_](to[i:i+size], from[i:i+size], kind)
		}
		d.Machine.Spread([]space.Extent{{Addr: src, Size: count, Access: space.Read}, {Addr: dst, Size: count, Access: space.Read | space.Write}}, nil, 0)
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
