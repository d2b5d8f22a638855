package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
)

// deviceCopy is where a binary lies on a device.
type deviceCopy struct {
	addr uint64
	ends uint32 // of the device's memory, when it was put there
}

// deviceCopy gives a binary an address on its device, or on the current one, where its bytes lie and its variables behind them. A device
// that was reset has lost them: they are put there again, as they are in the file.
func (t *Thread) deviceCopy(f *kernelBinary) (uint64, acl.Error) {
	d := f.dev
	if d == nil {
		c, e := t.context()
		if e != 0 {
			return 0, e
		}
		d = c.Device
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ends := f.copies[d], d.Memory.Ends.Load()
	if at.addr == 0 || at.ends != ends {
		a, fail := t.sim.allocOwn(d, uint64(len(f.data))+f.names.Empty)
		if fail != nil {
			return 0, t.failWith(fail)
		}
		copy(space.Bytes(a, uint64(len(f.data))), f.data)
		if f.copies == nil {
			f.copies = map[*device.Device]deviceCopy{}
		}
		at = deviceCopy{a, ends}
		f.copies[d] = at
	}
	return at.addr, acl.ACL_SUCCESS
}

// allocOwn allocates device memory of the runtime's. It ends with the device's last context.
func (s *Sim) allocOwn(d *device.Device, size uint64) (uint64, *fail.Failure) {
	return d.Memory.Alloc(space.RoundUp(max(size, 1), memory.AllocUnit), 0, memory.Block{How: memory.ByRuntime, Access: space.Read | space.Write}, s.Log)
}

// BinaryGetDevAddress returns where a binary lies on the device, null where it is loaded lazily.
func (t *Thread) BinaryGetDevAddress(binHandle acl.BinHandle, binAddr *acl.Addr, binSize *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	f := t.sim.binaries.Get(uint64(binHandle))
	switch {
	case f == nil:
		return t.badHandle(space.KindBinary, uint64(binHandle))
	case binAddr == nil || binSize == nil:
		return t.absent("binAddr or binSize")
	}
	*binAddr, *binSize = 0, uint64(len(f.data))
	if f.lazy {
		return acl.ACL_SUCCESS
	}
	a, e := t.deviceCopy(f)
	if e != 0 {
		return e
	}
	*binAddr = a
	return acl.ACL_SUCCESS
}

// parts says where the code of a kernel lies for each kind of cores, by the suffixes of its symbols; nil where there is none. Without a
// suffix it is for cube cores.
func (f *function) parts() (cube, vector *kernelbin.Symbol) {
	part := func(suffix string) *kernelbin.Symbol {
		if s, ok := f.bin.names.Symbols[f.name+suffix]; ok {
			return &s
		}
		return nil
	}
	cube, vector = part("_mix_aic"), part("_mix_aiv")
	if cube == nil && vector == nil {
		cube = part("")
	}
	return cube, vector
}

// GetFunctionAddr returns where a kernel begins on the device: for cube cores and for vector cores, 0 where it has no such part.
func (t *Thread) GetFunctionAddr(funcHandle acl.FuncHandle, aicAddr, aivAddr *acl.Addr) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if aicAddr == nil || aivAddr == nil {
		return t.null("aicAddr or aivAddr")
	}
	base, e := t.deviceCopy(f.bin)
	if e != 0 {
		return e
	}
	cube, vector := f.parts()
	*aicAddr, *aivAddr = 0, 0
	if cube != nil {
		*aicAddr = base + cube.Offset
	}
	if vector != nil {
		*aivAddr = base + vector.Offset
	}
	return acl.ACL_SUCCESS
}

// GetFunctionSize returns the length of a kernel's code.
func (t *Thread) GetFunctionSize(funcHandle acl.FuncHandle, aicSize, aivSize *uint64) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if aicSize == nil || aivSize == nil {
		return t.absent("aicSize or aivSize")
	}
	cube, vector := f.parts()
	*aicSize, *aivSize = 0, 0
	if cube != nil {
		*aicSize = cube.Size
	}
	if vector != nil {
		*aivSize = vector.Size
	}
	return acl.ACL_SUCCESS
}

// GetFunctionAttribute reads an attribute of a kernel.
func (t *Thread) GetFunctionAttribute(funcHandle acl.FuncHandle, attrType acl.FuncAttribute, attrValue *int64) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if attrValue == nil {
		return t.null("attrValue")
	}
	_, cube := f.bin.names.Symbols[f.name+"_mix_aic"]
	_, vector := f.bin.names.Symbols[f.name+"_mix_aiv"]
	switch attrType {
	case acl.ACL_FUNC_ATTR_KERNEL_TYPE:
		switch {
		case cube && vector:
			*attrValue = int64(acl.ACL_KERNEL_TYPE_MIX)
		case cube:
			*attrValue = int64(acl.ACL_KERNEL_TYPE_CUBE)
		case vector:
			*attrValue = int64(acl.ACL_KERNEL_TYPE_VECTOR)
		default:
			*attrValue = int64(acl.ACL_KERNEL_TYPE_AICORE)
		}
	case acl.ACL_FUNC_ATTR_KERNEL_RATIO, acl.ACL_FUNC_ATTR_KERNEL_SCHED_MODE:
		*attrValue = 0
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "function attribute %d is unknown", attrType)
	}
	return acl.ACL_SUCCESS
}

// FunctionGetBinary returns the binary that holds a kernel.
func (t *Thread) FunctionGetBinary(funcHandle acl.FuncHandle, binHandle *acl.BinHandle) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if binHandle == nil {
		return t.absent("binHandle")
	}
	*binHandle = acl.BinHandle(f.bin.handle)
	return acl.ACL_SUCCESS
}
