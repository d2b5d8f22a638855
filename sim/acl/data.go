package acl

import (
	"math"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device/space"
)

// CreateDataBuffer wraps an address and a size; 0 if they are invalid.
func (t *Thread) CreateDataBuffer(data acl.Addr, size uint64) acl.DataBuffer {
	if data == 0 && size != 0 {
		t.fail(acl.ACL_ERROR_INVALID_PARAM, "data is null, but its size is %d bytes", size)
		return 0
	}
	b := &dataBuffer{at: space.Span{Addr: data, Size: size}}
	b.handle = t.sim.buffers.Add(b)
	return acl.DataBuffer(b.handle)
}

// dataObject returns a data buffer or a dataset. Its functions need no context and have an error code of their own.
func dataObject[T any](t *Thread, of *space.Table[T], h uint64) (*T, acl.Error) {
	x := of.Get(h)
	if x == nil {
		t.badHandle(of.Kind, h)
		return nil, t.failWith(status.Failed(acl.ACL_ERROR_INVALID_PARAM, "%s", t.message))
	}
	return x, acl.ACL_SUCCESS
}

func (t *Thread) dataBuffer(h acl.DataBuffer) (*dataBuffer, acl.Error) {
	return dataObject(t, &t.sim.buffers, uint64(h))
}

func (t *Thread) dataset(h acl.MdlDataset) (*dataset, acl.Error) {
	return dataObject(t, &t.sim.datasets, uint64(h))
}

// DestroyDataBuffer ends a wrapper. The memory is the program's.
func (t *Thread) DestroyDataBuffer(dataBuffer acl.DataBuffer) acl.Error {
	if _, e := t.dataBuffer(dataBuffer); e != 0 {
		return e
	}
	t.sim.buffers.Remove(uint64(dataBuffer))
	return acl.ACL_SUCCESS
}

// UpdateDataBuffer changes the wrapped memory.
func (t *Thread) UpdateDataBuffer(dataBuffer acl.DataBuffer, data acl.Addr, size uint64) acl.Error {
	b, e := t.dataBuffer(dataBuffer)
	if e != 0 {
		return e
	}
	if data == 0 && size != 0 {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "data is null, but its size is %d bytes", size)
	}
	b.mu.Lock()
	b.at = space.Span{Addr: data, Size: size}
	b.mu.Unlock()
	return acl.ACL_SUCCESS
}

func (t *Thread) wrapped(h acl.DataBuffer) space.Span {
	b, e := t.dataBuffer(h)
	if e != 0 {
		return space.Span{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// GetDataBufferAddr returns the wrapped address.
func (t *Thread) GetDataBufferAddr(dataBuffer acl.DataBuffer) acl.Addr {
	return t.wrapped(dataBuffer).Addr
}

// GetDataBufferSize returns the low 32 bits of the wrapped size.
func (t *Thread) GetDataBufferSize(dataBuffer acl.DataBuffer) uint32 {
	return uint32(t.wrapped(dataBuffer).Size)
}

// GetDataBufferSizeV2 returns the wrapped size.
func (t *Thread) GetDataBufferSizeV2(dataBuffer acl.DataBuffer) uint64 {
	return t.wrapped(dataBuffer).Size
}

// MdlCreateDataset creates an empty dataset.
func (t *Thread) MdlCreateDataset() acl.MdlDataset {
	d := &dataset{}
	d.handle = t.sim.datasets.Add(d)
	return acl.MdlDataset(d.handle)
}

// MdlDestroyDataset ends a dataset. Its buffers stay.
func (t *Thread) MdlDestroyDataset(dataset acl.MdlDataset) acl.Error {
	if _, e := t.dataset(dataset); e != 0 {
		return e
	}
	t.sim.datasets.Remove(uint64(dataset))
	return acl.ACL_SUCCESS
}

// MdlAddDatasetBuffer appends a buffer to a list.
func (t *Thread) MdlAddDatasetBuffer(dataset acl.MdlDataset, dataBuffer acl.DataBuffer) acl.Error {
	d, e := t.dataset(dataset)
	if e != 0 {
		return e
	}
	if _, e := t.dataBuffer(dataBuffer); e != 0 {
		return e
	}
	d.mu.Lock()
	d.items = append(d.items, datasetItem{buffer: dataBuffer})
	d.mu.Unlock()
	return acl.ACL_SUCCESS
}

// MdlGetDatasetNumBuffers returns the number of buffers.
func (t *Thread) MdlGetDatasetNumBuffers(dataset acl.MdlDataset) uint64 {
	d, e := t.dataset(dataset)
	if e != 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return uint64(len(d.items))
}

// datasetItem calls use with an item of a dataset. The error is that of an invalid dataset or index.
func (t *Thread) datasetItem(h acl.MdlDataset, index uint64, use func(*datasetItem)) acl.Error {
	d, e := t.dataset(h)
	if e != 0 {
		return e
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if index >= uint64(len(d.items)) {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "index %d is out of range: the dataset has %d buffers", index, len(d.items))
	}
	use(&d.items[index])
	return acl.ACL_SUCCESS
}

// MdlGetDatasetBuffer returns a buffer; 0 for an invalid index.
func (t *Thread) MdlGetDatasetBuffer(dataset acl.MdlDataset, index uint64) (b acl.DataBuffer) {
	t.datasetItem(dataset, index, func(x *datasetItem) { b = x.buffer })
	return b
}

// MdlSetDatasetTensorDesc sets the shape of a buffer's tensor. The description stays the program's.
func (t *Thread) MdlSetDatasetTensorDesc(dataset acl.MdlDataset, tensorDesc acl.TensorDesc, index uint64) acl.Error {
	if tensorDesc == 0 {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "tensorDesc is null")
	}
	return t.datasetItem(dataset, index, func(x *datasetItem) { x.desc = tensorDesc })
}

// MdlGetDatasetTensorDesc returns the shape of a buffer's tensor; 0 for an invalid index and if no shape was set: no model runs that could.
func (t *Thread) MdlGetDatasetTensorDesc(dataset acl.MdlDataset, index uint64) (desc acl.TensorDesc) {
	t.datasetItem(dataset, index, func(x *datasetItem) { desc = x.desc })
	return desc
}

// maxHalf is the largest fp16 number. It replaces larger numbers, infinity and NaN.
const maxHalf = 0x7bff

// FloatToFloat16 rounds to fp16 and saturates: infinity and NaN become the largest number (documented).
func (t *Thread) FloatToFloat16(value float32) uint16 {
	h := toHalf(value)
	switch {
	case value != value:
		return maxHalf
	case h&0x7c00 == 0x7c00:
		return h&0x8000 | maxHalf
	}
	return h
}

// Float16ToFloat widens fp16. Bits that would be infinity or NaN are numbers (documented).
func (t *Thread) Float16ToFloat(value uint16) float32 {
	if value&0x7c00 != 0x7c00 {
		return fromHalf(value)
	}
	return math.Float32frombits(uint32(value&0x8000)<<16 | (31+127-15)<<23 | uint32(value&0x3ff)<<13)
}
