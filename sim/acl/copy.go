package acl

import (
	"bytes"
	"slices"
	"time"

	"github.com/acltrace/acltrace/api/acl"
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
	t.sim.Strict.HostCopies(&t.Strict, x.Copied())
	if err := t.sim.Check(&x); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %d bytes from %#x to %#x: %v", x.Width*x.Height, x.Src, x.Dst, err)
	}
	if t.sim.opts.Virtual {
		t.sim.SpendCall(&t.HostThread, t.sim.Model.Host.Sync+int64(t.sim.TransferCost(&x)))
	}
	planned := t.sim.taskFault(device.TaskCopy, "")
	if planned != nil && !planned.corrupt {
		return t.fail(planned.code, "copy %d fails, by plan", planned.at)
	}
	if err := space.Guard(x.Move); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %d bytes from %#x to %#x: %v", x.Width*x.Height, x.Src, x.Dst, err)
	}
	t.sim.Follow(&x)
	if planned != nil {
		corrupt(space.Span{Addr: x.Dst, Size: x.Width})
	}
	return acl.ACL_SUCCESS
}

// copyLater puts a copy on a stream. Its addresses are looked up when it runs.
func (t *Thread) copyLater(s *device.Stream, x device.Transfer) acl.Error {
	x.Pinned = x.Staged == nil
	var watched *strict.Source
	if attached(s).capture.Load() == nil && attached(s).bound.Load() == nil {
		watched = t.sim.Strict.Watch(x.Copied())
	}
	quick := x.Width*x.Height < 256<<10 // a model's latency is longer
	return t.submit(s, device.Task{Kind: device.TaskCopy, Copy: t.sim.CopyKind(&x), Wrote: space.Span{Addr: x.Dst, Size: x.Width}, Quick: quick, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		sim := s.Context.Device.Machine
		sim.Strict.TaskCopies(&s.Strict, x.Copied(), watched)
		if err := sim.Check(&x); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "copy of %d bytes from %#x to %#x on stream %d: %v", x.Width*x.Height, x.Src, x.Dst, s.ID, err)
		}
		x.Move()
		sim.Follow(&x)
		return sim.TransferCost(&x), nil
	}})
}

// copyPageable does an asynchronous copy with pageable host memory: it waits for the stream and copies.
func (t *Thread) copyPageable(s *device.Stream, x device.Transfer) acl.Error {
	if c := attached(s).capture.Load(); c != nil {
		t.sim.Strict.Pageable(&t.Strict, &s.Strict, x.Copied(), c.call)
	}
	if e := t.unsafeAsync(); e != 0 {
		return e
	}
	if attached(s).bound.Load() != nil {
		return t.fail(acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, "stream %d is bound to a model: a copy with pageable memory, which blocks, can't be part of it", s.ID)
	}
	s.Wait(&t.HostThread, s.SubmittedTasks(), device.Forever)
	if f := s.Observe(); f != nil {
		return t.failWith(f)
	}
	return t.copyNow(x)
}

// Memcpy copies and returns when it is done. It waits for no stream. Where the memory lies says what is copied, not the kind.
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

// copyArgs checks what all copies of bytes have in common, and tells whether there is nothing left to do.
func (t *Thread) copyArgs(dst acl.Addr, destMax uint64, src acl.Addr, count uint64) (bool, acl.Error) {
	switch {
	case count == 0 && !mutant.Breaks("copy_of_nothing"):
		return true, acl.ACL_SUCCESS
	case dst == 0:
		return true, t.null("dst")
	case src == 0:
		return true, t.null("src")
	case count > destMax && !mutant.Breaks("larger_than_destination") && !mutant.Breaks("async_larger_than_destination"):
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is greater than destMax %d", count, destMax)
	case count > memory.MaxAlloc:
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is impossible", count)
	case dst == src && mutant.Breaks("onto_itself"):
		clear(space.Bytes(dst, count))
		return true, acl.ACL_SUCCESS
	case dst == src:
		return true, acl.ACL_SUCCESS
	}
	return false, acl.ACL_SUCCESS
}

// actualKind is the kind of an asynchronous copy as the runtime sees it, from where the memory lies; false where the
// places forbid the kind.
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
		if mutant.Breaks("kind_against_pageable_memory") {
			return def, true
		}
		return kind, slices.Contains(ok, kind)
	}
	switch [2]acl.MemLocationType{src, dst} {
	case [2]acl.MemLocationType{h, d}:
		if mutant.Breaks("kind_is_corrected") {
			return kind, true
		}
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

// MemcpyAsync copies in the order of a stream; with pageable host memory it waits for the stream and copies at once.
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

// copyAsync is an asynchronous copy whose arguments are checked.
func (t *Thread) copyAsync(s *device.Stream, x device.Transfer, kind acl.MemcpyKind) acl.Error {
	from, to := side(t.sim.Locate(x.Src)), side(t.sim.Locate(x.Dst))
	blocks := from == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED || to == acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED
	if kind == acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && mutant.Breaks("staged_copy") {
		return t.copyLater(s, x)
	}
	if kind == acl.ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE {
		if from == acl.ACL_MEM_LOCATION_TYPE_DEVICE || to != acl.ACL_MEM_LOCATION_TYPE_DEVICE {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy from %#x to %#x is none from the host to the device", x.Src, x.Dst)
		}
		x.Todev = true
		if err := space.Guard(func() { x.Staged = bytes.Clone(space.Bytes(x.Src, x.Width)) }); err != nil {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy of %d bytes from %#x: %v", x.Width, x.Src, err)
		}
		return t.copyLater(s, x)
	}
	actual, ok := actualKind(kind, from, to)
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind %s does not fit: %#x is %s, %#x is %s", acl.Model.EnumName("aclrtMemcpyKind", int64(kind)),
			x.Src, acl.Model.EnumName("aclrtMemLocationType", int64(from)), x.Dst, acl.Model.EnumName("aclrtMemLocationType", int64(to)))
	}
	switch actual {
	case acl.ACL_MEMCPY_HOST_TO_HOST:
		if mutant.Breaks("no_copy_inside_the_host") {
			return t.copyLater(s, x)
		}
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an asynchronous copy from host to host is not supported")
	case acl.ACL_MEMCPY_HOST_TO_DEVICE:
		x.Todev = true
	case acl.ACL_MEMCPY_DEVICE_TO_HOST:
		x.Fromdev = true
	case acl.ACL_MEMCPY_DEVICE_TO_DEVICE:
		x.Todev, x.Fromdev = true, true
		blocks = false
	}
	if blocks && !mutant.Breaks("pageable_copy_waits") && !mutant.Breaks("pageable_copy_back") {
		return t.copyPageable(s, x)
	}
	if mutant.Breaks("pinned_source_is_read_later") && !x.Fromdev {
		x.Staged = bytes.Clone(space.Bytes(x.Src, x.Width))
	}
	return t.copyLater(s, x)
}

// MemcpyAsyncWithCondition is MemcpyAsync: the simulator can always tell where memory lies.
func (t *Thread) MemcpyAsyncWithCondition(dst acl.Addr, destMax uint64, src acl.Addr, count uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	return t.MemcpyAsync(dst, destMax, src, count, kind, stream)
}

// Limits of Memcpy2dAsync.
const (
	maxWidth2d  = 5000000
	maxHeight2d = 5 << 20
)

// rows checks the arguments of a 2-D copy. Inside a device there are only asynchronous ones.
func (t *Thread) rows(dst, dpitch, src, spitch, width, height uint64, kind acl.MemcpyKind, inside bool) (device.Transfer, acl.Error) {
	x := device.Transfer{Dst: dst, Src: src, Width: width, Height: height, Dpitch: dpitch, Spitch: spitch}
	switch {
	case dst == 0:
		return x, t.null("dst")
	case src == 0:
		return x, t.null("src")
	case kind == acl.ACL_MEMCPY_HOST_TO_HOST && mutant.Breaks("rows_inside_the_host"):
	case kind != acl.ACL_MEMCPY_HOST_TO_DEVICE && kind != acl.ACL_MEMCPY_DEVICE_TO_HOST && (kind != acl.ACL_MEMCPY_DEVICE_TO_DEVICE || !inside):
		return x, t.fail(acl.ACL_ERROR_INVALID_PARAM, "copy kind %d: a 2-D copy goes from the host to the device or back, and an asynchronous one inside the device", kind)
	case (width > dpitch || width > spitch) && !mutant.Breaks("row_wider_than_pitch"):
		return x, t.fail(acl.ACL_ERROR_INVALID_PARAM, "width %d is greater than a pitch (%d, %d)", width, dpitch, spitch)
	case max(dpitch, spitch) > memory.MaxAlloc || height > memory.MaxAlloc/max(dpitch, spitch):
		return x, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a copy of %d rows of %d bytes is impossible", height, width)
	}
	from, to := t.sim.Locate(src).Device, t.sim.Locate(dst).Device
	if (from != nil) != (kind != acl.ACL_MEMCPY_HOST_TO_DEVICE) || (to != nil) != (kind != acl.ACL_MEMCPY_DEVICE_TO_HOST) {
		return x, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind %d does not fit where %#x and %#x lie", kind, src, dst)
	}
	x.Todev, x.Fromdev = to != nil, from != nil
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

// Memcpy2dAsync copies rows in the order of a stream; with pageable host memory it waits for the stream and copies at once.
func (t *Thread) Memcpy2dAsync(dst acl.Addr, dpitch uint64, src acl.Addr, spitch, width, height uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	s, e := t.stream(stream)
	if e != 0 {
		return e
	}
	if width == 0 || height == 0 {
		return acl.ACL_SUCCESS
	}
	if (width > maxWidth2d || height > maxHeight2d) && !mutant.Breaks("too_many_rows") {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d rows of %d bytes: the limits are %d and %d", height, width, maxHeight2d, maxWidth2d)
	}
	x, e := t.rows(dst, dpitch, src, spitch, width, height, kind, !mutant.Breaks("rows_inside_the_device"))
	if e != 0 {
		return e
	}
	if t.sim.Locate(src).Kind == device.Pageable || t.sim.Locate(dst).Kind == device.Pageable {
		return t.copyPageable(s, x)
	}
	return t.copyLater(s, x)
}

// fillArgs checks the arguments of a fill, and tells whether there is nothing left to do.
func (t *Thread) fillArgs(p acl.Addr, maxCount, count uint64) (bool, acl.Error) {
	switch {
	case count == 0:
		return true, acl.ACL_SUCCESS
	case p == 0:
		return true, t.null("devPtr")
	case count > maxCount && !mutant.Breaks("fill_larger_than_memory"):
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "count %d is greater than maxCount %d", count, maxCount)
	case t.sim.Locate(p).Kind == device.Pageable || mutant.Breaks("filled_on_the_host") && t.sim.Locate(p).Device == nil:
		return true, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%#x is neither device memory nor host memory of the runtime's", p)
	}
	return false, acl.ACL_SUCCESS
}

// fillLater puts a fill on a stream.
func (t *Thread) fillLater(s *device.Stream, p acl.Addr, pattern []byte, n uint64) acl.Error {
	return t.submit(s, device.Task{Kind: device.TaskFill, Copy: model.Fill, Run: func(s *device.Stream) (time.Duration, *fail.Failure) {
		sim := s.Context.Device.Machine
		sim.Strict.TaskTouches(&s.Strict, p, n, space.Write)
		if err := sim.Fill(p, pattern, n); err != nil {
			return 0, failed(acl.ACL_ERROR_RT_SYS_DMA, "fill on stream %d: %v", s.ID, err)
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
	if e := t.unsafe(); e != 0 {
		return e
	}
	t.sim.Strict.HostTouches(&t.Strict, devPtr, count, space.Write)
	if err := t.sim.Fill(devPtr, []byte{byte(value)}, count); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "fill: %v", err)
	}
	return acl.ACL_SUCCESS
}

// MemsetAsync fills memory in the order of a stream.
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

// batch is the arrays of a batch of copies.
type batch struct {
	dsts, destMaxs, srcs, sizes *uint64
	n                           uint64
	attrs                       *acl.MemcpyBatchAttr
	indexes                     *uint64
	numAttrs                    uint64
	failIndex                   *uint64
}

// maxBatch bounds the number of copies in a batch.
const maxBatch = 1 << 20

// batch checks all copies of a batch and hands them to do, one by one. A failure that belongs to one copy sets failIndex to its number.
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
		return t.invalid("a batch of 0 copies")
	case b.n <= maxBatch && !slices.ContainsFunc(space.List(b.sizes, b.n), func(n uint64) bool { return n > 0 }):
		return acl.ACL_SUCCESS
	case b.dsts == nil || b.destMaxs == nil || b.srcs == nil || b.attrs == nil || b.indexes == nil:
		return t.null("an array of the batch")
	case b.n > maxBatch || b.numAttrs == 0 || b.numAttrs > b.n:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a batch of %d copies with %d attributes", b.n, b.numAttrs)
	}
	dsts, maxs, srcs, sizes := space.List(b.dsts, b.n), space.List(b.destMaxs, b.n), space.List(b.srcs, b.n), space.List(b.sizes, b.n)
	attrs, indexes := space.List(b.attrs, b.numAttrs), space.List(b.indexes, b.numAttrs)
	for i, at := range indexes {
		if i == 0 && at != 0 || i > 0 && at <= indexes[i-1] || at >= b.n {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "attrsIndexes[%d] is %d: they begin with 0, ascend and stay below %d", i, at, b.n)
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
		x.Todev, x.Fromdev = kinds[i] == acl.ACL_MEMCPY_HOST_TO_DEVICE, kinds[i] == acl.ACL_MEMCPY_DEVICE_TO_HOST
		if e := do(x, kinds[i]); e != 0 {
			setFail(i)
			return e
		}
	}
	return acl.ACL_SUCCESS
}

// batchItem checks one copy of a batch and returns its kind.
func (t *Thread) batchItem(dst, destMax, src, size uint64, a *acl.MemcpyBatchAttr) (acl.MemcpyKind, acl.Error) {
	switch {
	case dst == 0 || src == 0:
		return 0, t.absent("an address of the batch")
	case size > destMax:
		return 0, t.invalid("size %d is greater than destMax %d", size, destMax)
	case size > memory.MaxAlloc:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size %d is impossible", size)
	}
	from, to := t.sim.Locate(src), t.sim.Locate(dst)
	if !matches(from, a.SrcLoc) {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the source %#x does not lie where its attribute says", src)
	}
	if !matches(to, a.DstLoc) {
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the destination %#x does not lie where its attribute says", dst)
	}
	switch {
	case from.Device == nil && to.Device != nil:
		return acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_SUCCESS
	case from.Device != nil && to.Device == nil:
		return acl.ACL_MEMCPY_DEVICE_TO_HOST, acl.ACL_SUCCESS
	}
	return 0, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a copy of a batch goes from the host to the device or back: from %#x to %#x it does not", src, dst)
}

// matches tells whether memory lies where an attribute says.
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

// MemcpyBatchAsync makes several copies in the order of a stream, with no order among them.
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
