package acl

import (
	"bytes"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Launches of the lower library name a kernel by an address of the program's that stands for it (a stub), or by a binary and a
// tiling key. Binaries may be registered before any device is set, and then serve all.

// devBinary is rtDevBinary_t.
type devBinary struct {
	_, _         uint32 // magic and version
	data, length uint64
}

// argsEx is rtArgsEx_t: arguments with placeholders, one of its own for the tiling data.
type argsEx struct {
	args, hostInputs       uint64
	size                   uint32
	tilingAddr, tilingData uint32
	numHostInputs          uint16
	hasTiling, onDevice    uint8
	_                      uint32
}

// rtBinary registers the binary that a description names.
func (t *Thread) rtBinary(bin, handle uint64) acl.Error {
	b := at[devBinary](bin)
	if b == nil {
		return t.absent("bin")
	}
	return t.rtLoad(b.data, b.length, handle)
}

func (t *Thread) rtLoad(data, length, handle uint64) acl.Error {
	if data == 0 || length == 0 || length > maxBinary {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a binary of %d bytes at %#x", length, data)
	}
	return t.addBinary(nil, bytes.Clone(space.Bytes(data, length)), "", false, at[acl.BinHandle](handle))
}

// stubFunc is a kernel that an address of the program's stands for.
type stubFunc struct {
	fn   *function
	name string // of the stub
}

// rtRegister lets an address stand for a kernel. The kernel's name in its binary may differ from the stub's.
func (t *Thread) rtRegister(bin, stub uint64, stubName, kernelName *byte) acl.Error {
	f := t.sim.binaries.Get(bin)
	switch {
	case f == nil:
		return t.badHandle(space.KindBinary, bin)
	case stub == 0 || stubName == nil:
		return t.absent("stubFunc or stubName")
	}
	name := space.GoString(stubName)
	kernel := name
	if kernelName != nil {
		kernel = space.GoString(kernelName)
	}
	if !f.has(kernel) {
		return t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "the binary holds no kernel %q", kernel)
	}
	var h acl.FuncHandle
	if e := t.function(f, kernel, 0, &h); e != 0 {
		return e
	}
	if old, there := t.sim.program.stubs.LoadOrStore(stub, &stubFunc{t.sim.functions.Get(uint64(h)), name}); there {
		if t.sim.functions.Get(old.(*stubFunc).fn.handle) != nil {
			return t.fail(acl.ACL_ERROR_RT_KERNEL_DUPLICATE, "%#x stands for kernel %q already", stub, old.(*stubFunc).fn.name)
		}
		t.sim.program.stubs.Store(stub, &stubFunc{t.sim.functions.Get(uint64(h)), name}) // its binary is gone
	}
	return acl.ACL_SUCCESS
}

// stub returns the handle of the kernel that an address stands for.
func (t *Thread) stub(at uint64) (uint64, acl.Error) {
	s, ok := t.sim.program.stubs.Load(at)
	if at == 0 {
		return 0, t.absent("stubFunc")
	}
	if !ok {
		return 0, t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "no kernel is registered for %#x", at)
	}
	return s.(*stubFunc).fn.handle, acl.ACL_SUCCESS
}

// stubByName returns the address that stands for a kernel under a name.
func (t *Thread) stubByName(name *byte) (addr uint64, e acl.Error) {
	if name == nil {
		return 0, t.absent("stubName")
	}
	want := space.GoString(name)
	t.sim.program.stubs.Range(func(at, s any) bool {
		if x := s.(*stubFunc); x.name == want && t.sim.functions.Get(x.fn.handle) == x.fn {
			addr = at.(uint64)
		}
		return addr == 0
	})
	if addr == 0 {
		return 0, t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "no kernel is registered as %q", want)
	}
	return addr, acl.ACL_SUCCESS
}

// rtLaunch launches a kernel with arguments in host memory, whose placeholders are patched, or in device memory.
func (t *Thread) rtLaunch(fn uint64, blocks uint32, a *argsEx, stream acl.Stream) acl.Error {
	switch {
	case a == nil:
		return t.absent("argsInfo")
	case a.onDevice != 0:
		return t.LaunchKernelV2(acl.FuncHandle(fn), blocks, a.args, uint64(a.size), nil, stream)
	case a.numHostInputs > 0 && a.hostInputs == 0:
		return t.absent("argsInfo->hostInputInfoPtr")
	}
	holders := make([]acl.PlaceHolderInfo, 0, 8)
	holders = append(holders, space.List(at[acl.PlaceHolderInfo](a.hostInputs), uint64(a.numHostInputs))...)
	if a.hasTiling != 0 {
		holders = append(holders, acl.PlaceHolderInfo{AddrOffset: a.tilingAddr, DataOffset: a.tilingData})
	}
	if len(holders) == 0 {
		return t.hostArgs(fn, line(blocks), stream, nil, a.args, uint64(a.size), nil, 0)
	}
	return t.hostArgs(fn, line(blocks), stream, nil, a.args, uint64(a.size), &holders[0], uint64(len(holders)))
}

// launchStubRT launches a kernel by its stub.
func launchStubRT(t *Thread, w []uint64) acl.Error {
	fn, e := t.stub(w[0])
	if e != 0 {
		return e
	}
	return t.rtLaunch(fn, uint32(w[1]), at[argsEx](w[2]), acl.Stream(w[4]))
}

// launchHandleRT launches the kernel of a binary that has a tiling key.
func launchHandleRT(t *Thread, w []uint64) acl.Error {
	var h acl.FuncHandle
	if e := t.BinaryGetFunctionByEntry(acl.BinHandle(w[0]), w[1], &h); e != 0 {
		return e
	}
	return t.rtLaunch(uint64(h), uint32(w[2]), at[argsEx](w[3]), acl.Stream(w[5]))
}
