package acl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"github.com/acltrace/acltrace/sim/strict"
)

// prepare checks a launch without its arguments.
func (t *Thread) prepare(fn uint64, sh kernel.Shape, cfg *acl.LaunchKernelCfg, stream acl.Stream) (*kernel.Order, acl.Error) {
	s, e := t.stream(stream)
	if e != 0 {
		return nil, e
	}
	f := t.sim.functions.Get(fn)
	if f == nil {
		return nil, t.badHandle(space.KindFunction, fn)
	}
	if on := f.Bin.Devices.Load(); on != 0 && on>>s.Context.Device.ID&1 == 0 {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q is not loaded on device %d, the stream's: find its function while the device is current", f.Name, s.Context.Device.ID)
	}
	blocks := uint64(1)
	for i := range sh.Grid {
		if blocks *= uint64(sh.Grid[i]); blocks > kernel.MaxBlocks {
			break
		}
	}
	if blocks > kernel.MaxBlocks {
		t.sim.Strict.Single(&t.Strict, strict.BlockDim, &s.Strict, f.Name, fn, "finds the kernel", fmt.Sprintf("launches %d × %d × %d blocks", sh.Grid[0], sh.Grid[1], sh.Grid[2]))
	}
	if (blocks == 0 || blocks > kernel.MaxBlocks) && !mutant.Breaks("number_of_blocks") {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: %d or more blocks: want 1 to %d", f.Name, blocks, kernel.MaxBlocks)
	}
	for _, n := range sh.Block {
		if n == 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: a block dimension is 0: want 1 or more", f.Name)
		}
	}
	if e := t.launchAttrs(cfg); e != 0 {
		return nil, e
	}
	o := &kernel.Order{Limit: &t.sim.settings.opTimeout, Func: f, Stream: s, Grid: sh.Grid, Block: sh.Block, Blocks: uint32(blocks), Doubt: t.doubted()}
	if attached(s).Capture.Load() != nil || attached(s).Bound.Load() != nil {
		o.Attrs = launchAttrsOf(cfg)
	}
	return o, acl.ACL_SUCCESS
}

func (t *Thread) launchAttrs(cfg *acl.LaunchKernelCfg) acl.Error {
	if cfg == nil || cfg.NumAttrs == 0 {
		return acl.ACL_SUCCESS
	}
	if cfg.Attrs == 0 || cfg.NumAttrs > 64 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d launch attributes at %#x: want an address and at most 64", cfg.NumAttrs, cfg.Attrs)
	}
	for _, a := range space.List((*acl.LaunchKernelAttr)(space.Pointer(cfg.Attrs)), cfg.NumAttrs) {
		if (a.Id < acl.ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE || a.Id > acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING) && !mutant.Breaks("unknown_attribute") {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "launch attribute %d is unknown", a.Id)
		}
	}
	return acl.ACL_SUCCESS
}

// fits checks that an argument block is as long as the kernel's parameters.
func (t *Thread) fits(fn *kernel.Function, size uint64) acl.Error {
	if k := fn.Kernel; k != nil && size < k.Offset(len(k.Args)) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q takes %d bytes of arguments, but got %d", fn.Name, k.Offset(len(k.Args)), size)
	}
	return acl.ACL_SUCCESS
}

// launch copies an argument block to the device and submits the kernel. The first size bytes are the parameters;
// patch writes placeholder addresses, given the block's device address.
func (t *Thread) launch(o *kernel.Order, block []byte, size uint64, patch func(block []byte, dev uint64)) acl.Error {
	if e := t.fits(o.Func, size); e != 0 {
		return e
	}
	n := uint64(len(block))
	dev, f := o.Stream.Args.Get(n)
	if f != nil {
		return t.failWith(f)
	}
	if patch != nil {
		patch(block, dev)
	}
	copy(space.Bytes(dev, n), block)
	if mutant.Breaks("host_arguments_are_taken") {
		t.submit(o.Stream, device.Task{Kind: device.TaskKernel, Run: func(*device.Stream) (time.Duration, *fail.Failure) {
			time.Sleep(200 * time.Microsecond) // until the program has gone on
			copy(space.Bytes(dev, n), block)
			return 0, nil
		}})
	}
	return t.enqueue(o, space.Span{Addr: dev, Size: n}, true)
}

// enqueue submits a kernel. args is its block in device memory; own returns the block to the pool at the end.
func (t *Thread) enqueue(o *kernel.Order, args space.Span, own bool) acl.Error {
	if n := o.Func.Launches; n != nil && !(own && o.Func.Executes(space.Bytes(args.Addr, args.Size))) && n.Add(1) == 1 {
		t.sim.notExecuted(o.Func)
	}
	k := device.Task{Kind: device.TaskKernel, Name: o.Func.Name, Order: o, Args: args, Demand: t.sim.Model.Demand(o.Func.Rule, o.Blocks), Own: own, Quick: !o.Func.Computes()}
	return t.submit(o.Stream, k)
}

// LaunchKernel launches a kernel with arguments in device memory, which it reads when it runs.
func (t *Thread) LaunchKernel(funcHandle acl.FuncHandle, numBlocks uint32, argsData acl.Addr, argsSize uint64, stream acl.Stream) acl.Error {
	return t.LaunchKernelV2(funcHandle, numBlocks, argsData, argsSize, nil, stream)
}

// LaunchKernelV2 is LaunchKernel with attributes.
func (t *Thread) LaunchKernelV2(funcHandle acl.FuncHandle, numBlocks uint32, argsData acl.Addr, argsSize uint64, cfg *acl.LaunchKernelCfg, stream acl.Stream) acl.Error {
	o, e := t.prepare(uint64(funcHandle), kernel.Line(numBlocks), cfg, stream)
	if e != 0 {
		return e
	}
	if argsData == 0 || argsSize == 0 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: argument block of %d bytes at %#x: want an address and a size", o.Func.Name, argsSize, argsData)
	}
	if t.sim.Locate(argsData).Device != o.Stream.Context.Device {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: the argument block at %#x is not in the memory of device %d", o.Func.Name, argsData, o.Stream.Context.Device.ID)
	}
	if e := t.fits(o.Func, argsSize); e != 0 {
		return e
	}
	if mutant.Breaks("device_arguments_are_read_later") {
		return t.launch(o, bytes.Clone(space.Bytes(argsData, argsSize)), argsSize, nil)
	}
	return t.enqueue(o, space.Span{Addr: argsData, Size: argsSize}, false)
}

// LaunchKernelWithHostArgs launches a kernel with arguments in host memory, and patches the placeholders there.
func (t *Thread) LaunchKernelWithHostArgs(funcHandle acl.FuncHandle, numBlocks uint32, stream acl.Stream, cfg *acl.LaunchKernelCfg, hostArgs acl.Addr, argsSize uint64, placeHolderArray *acl.PlaceHolderInfo, placeHolderNum uint64) acl.Error {
	return t.hostArgs(uint64(funcHandle), kernel.Line(numBlocks), stream, cfg, hostArgs, argsSize, placeHolderArray, placeHolderNum)
}

// LaunchSIMTKernelWithHostArgs is LaunchKernelWithHostArgs with a grid and block dimensions.
func (t *Thread) LaunchSIMTKernelWithHostArgs(func_ acl.Addr, gridDim, blockDim acl.Dim3, dynUbufSize uint64, stream acl.Stream, cfg *acl.LaunchKernelCfg, hostArgs acl.Addr, argsSize uint64, placeHolderArray *acl.PlaceHolderInfo, placeHolderNum uint64) acl.Error {
	return t.hostArgs(func_, kernel.Cube(gridDim, blockDim), stream, cfg, hostArgs, argsSize, placeHolderArray, placeHolderNum)
}

// maxArgs is the largest argument block.
const maxArgs = 16 << 20

func (t *Thread) hostArgs(fn uint64, sh kernel.Shape, stream acl.Stream, cfg *acl.LaunchKernelCfg, args acl.Addr, size uint64, places *acl.PlaceHolderInfo, n uint64) acl.Error {
	o, e := t.prepare(fn, sh, cfg, stream)
	if e != 0 {
		return e
	}
	switch {
	case size > maxArgs || (args == 0) != (size == 0):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: argument block of %d bytes at %#x: want an address and at most %d bytes", o.Func.Name, size, args, maxArgs)
	case n > 0 && places == nil:
		return t.absent("placeHolderArray")
	case n > size:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: %d placeholders do not fit in an argument block of %d bytes", o.Func.Name, n, size)
	}
	holders := space.List(places, n)
	for i, p := range holders {
		if uint64(p.AddrOffset)+8 > size || uint64(p.DataOffset) >= size {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: placeholder %d (address at %d, data at %d) is outside the argument block of %d bytes", o.Func.Name, i, p.AddrOffset, p.DataOffset, size)
		}
	}
	block := space.Bytes(args, size)
	if mutant.Breaks("placeholder_is_patched") {
		block = bytes.Clone(block)
	}
	if n == 0 {
		return t.launch(o, block, size, nil)
	}
	return t.launch(o, block, size, func(b []byte, dev uint64) {
		for _, p := range holders {
			binary.LittleEndian.PutUint64(b[p.AddrOffset:], dev+uint64(p.DataOffset))
		}
	})
}

// LaunchKernelWithArgsArray launches a kernel with pointers to its arguments.
func (t *Thread) LaunchKernelWithArgsArray(func_ acl.Addr, numBlocks uint32, stream acl.Stream, cfg *acl.LaunchKernelCfg, args *acl.Addr) acl.Error {
	if numBlocks == 0 {
		return t.invalid("numBlocks is 0: want 1 or more")
	}
	return t.argsArray(func_, kernel.Line(numBlocks), stream, cfg, args)
}

// LaunchSIMTKernelWithArgsArray is LaunchKernelWithArgsArray with a grid and block dimensions.
func (t *Thread) LaunchSIMTKernelWithArgsArray(func_ acl.Addr, gridDim, blockDim acl.Dim3, dynUbufSize uint64, stream acl.Stream, cfg *acl.LaunchKernelCfg, args *acl.Addr) acl.Error {
	return t.argsArray(func_, kernel.Cube(gridDim, blockDim), stream, cfg, args)
}

func (t *Thread) argsArray(h uint64, sh kernel.Shape, stream acl.Stream, cfg *acl.LaunchKernelCfg, args *acl.Addr) acl.Error {
	fn, e := t.layout(h)
	if e != 0 {
		return e
	}
	o, e := t.prepare(h, sh, cfg, stream)
	if e != 0 {
		return e
	}
	k := fn.Kernel
	if args == nil && len(k.Args) > 0 {
		return t.absent("args")
	}
	block := make([]byte, k.Offset(len(k.Args)))
	for i, p := range space.List(args, uint64(len(k.Args))) {
		if p == 0 {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q: the pointer to argument %d (%s) is null", fn.Name, i, k.Args[i].Name)
		}
		copy(block[k.Offset(i):], space.Bytes(p, uint64(k.Args[i].Size)))
	}
	return t.launch(o, block, uint64(len(block)), nil)
}

// argList returns the list of a handle, or of an address in program memory.
func (t *Thread) argList(h acl.ArgsHandle) (*kernel.ArgList, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	if l := t.sim.argLists.Get(uint64(h)); l != nil {
		return l, acl.ACL_SUCCESS
	}
	if l, ok := t.sim.program.args.Load(uint64(h)); ok {
		return l.(*kernel.ArgList), acl.ACL_SUCCESS
	}
	return nil, t.badHandle(space.KindArgs, uint64(h))
}

// param returns a parameter of a list.
func (t *Thread) param(l *kernel.ArgList, h acl.ParamHandle) (*kernel.Param, acl.Error) {
	i := int(uint64(h) >> 4 & (space.MaxHandles - 1))
	if space.KindOf(uint64(h)) != space.KindParam || i >= len(l.Params) || kernel.ParamHandle(l, i) != h {
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%#x is not a parameter of argument list %#x", uint64(h), l.Handle)
	}
	return &l.Params[i], acl.ACL_SUCCESS
}

func (t *Thread) liveFunction(h acl.FuncHandle) (*kernel.Function, acl.Error) {
	return find(t, &t.sim.functions, uint64(h))
}

// KernelArgsGetHandleMemSize returns the size of a program-provided handle.
func (t *Thread) KernelArgsGetHandleMemSize(funcHandle acl.FuncHandle, memSize *uint64) acl.Error {
	if _, e := t.liveFunction(funcHandle); e != 0 {
		return e
	}
	return put(t, "memSize", memSize, kernel.ArgHandleSize)
}

// KernelArgsGetMemSize returns the size of a program-provided block. Simulated kernels have no system parameters.
func (t *Thread) KernelArgsGetMemSize(funcHandle acl.FuncHandle, userArgsSize uint64, actualArgsSize *uint64) acl.Error {
	if _, e := t.liveFunction(funcHandle); e != 0 {
		return e
	}
	switch {
	case actualArgsSize == nil:
		return t.null("actualArgsSize")
	case userArgsSize > kernel.ArgBlockSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of arguments: want at most %d", userArgsSize, kernel.ArgBlockSize)
	}
	*actualArgsSize = space.RoundUp(userArgsSize, 8)
	return acl.ACL_SUCCESS
}

// KernelArgsInit starts an argument list in the runtime's memory. It lives until the thread has started keptLists more.
func (t *Thread) KernelArgsInit(funcHandle acl.FuncHandle, argsHandle *acl.ArgsHandle) acl.Error {
	fn, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if argsHandle == nil {
		return t.null("argsHandle")
	}
	if len(t.lists) == kernel.KeptLists {
		old := t.lists[0]
		t.lists = append(t.lists[:0], t.lists[1:]...)
		t.sim.argLists.Remove(old.Handle)
		t.blocks = append(t.blocks, old.Block)
	}
	l := &kernel.ArgList{Func: fn, Limit: kernel.ArgBlockSize, Own: true}
	if n := len(t.blocks); n > 0 {
		l.Block, t.blocks = t.blocks[n-1], t.blocks[:n-1]
	} else {
		l.Block = t.sim.text.Get(kernel.ArgBlockSize)
	}
	if l.Handle = t.sim.argLists.Add(l); l.Handle == 0 {
		t.blocks = append(t.blocks, l.Block)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "create an argument list: the limit is reached")
	}
	t.lists = append(t.lists, l)
	*argsHandle = acl.ArgsHandle(l.Handle)
	return acl.ACL_SUCCESS
}

// KernelArgsInitByUserMem starts an argument list in program memory, with separate memory for handle and block.
func (t *Thread) KernelArgsInitByUserMem(funcHandle acl.FuncHandle, argsHandle acl.ArgsHandle, userHostMem acl.Addr, actualArgsSize uint64) acl.Error {
	fn, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	switch {
	case argsHandle == 0:
		return t.null("argsHandle")
	case space.KindOf(uint64(argsHandle)) != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argsHandle %#x is a handle of the runtime: want an address in memory of the program", uint64(argsHandle))
	case userHostMem == 0:
		return t.null("userHostMem")
	case actualArgsSize > kernel.ArgBlockSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of arguments: want at most %d", actualArgsSize, kernel.ArgBlockSize)
	}
	t.sim.program.args.Store(uint64(argsHandle), &kernel.ArgList{Handle: uint64(argsHandle), Func: fn, Block: userHostMem, Limit: actualArgsSize})
	return acl.ACL_SUCCESS
}

// append makes room for a parameter. The caller holds the lock.
func (t *Thread) appendParam(l *kernel.ArgList, size uint64, place bool) (*kernel.Param, acl.Error) {
	switch {
	case l.Sealed:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x is finalized already", l.Handle)
	case len(l.Params) == kernel.MaxParams && !mutant.Breaks("at_most_128"):
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x has %d parameters already, the limit", l.Handle, kernel.MaxParams)
	case l.Total != l.Size:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x has the buffer of a placeholder already: append all parameters before buffers", l.Handle)
	}
	align := uint64(8)
	if size < 8 && size&(size-1) == 0 {
		align = size
	}
	p := kernel.Param{Offset: space.RoundUp(l.Size, align), Size: size, Place: place}
	if k := l.Func.Kernel; k != nil {
		i := len(l.Params)
		if i == len(k.Args) {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q has only %d parameters", l.Func.Name, i)
		}
		if uint64(k.Args[i].Size) != size {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "parameter %d (%s) of kernel %q has %d bytes, but got %d", i, k.Args[i].Name, l.Func.Name, k.Args[i].Size, size)
		}
		p.Offset = k.Offset(i)
	}
	if size > l.Limit || p.Offset+size > l.Limit {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x has room for %d bytes, but needs %d", l.Handle, l.Limit, p.Offset+size)
	}
	clear(l.Bytes()[l.Size:p.Offset])
	l.Size = p.Offset + size
	l.Total = l.Size
	l.Params = append(l.Params, p)
	return &l.Params[len(l.Params)-1], acl.ACL_SUCCESS
}

// KernelArgsAppend appends an argument.
func (t *Thread) KernelArgsAppend(argsHandle acl.ArgsHandle, param acl.Addr, paramSize uint64, handle *acl.ParamHandle) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	switch {
	case param == 0:
		return t.null("param")
	case handle == nil:
		return t.null("paramHandle")
	case paramSize == 0:
		return t.invalid("size of the parameter is 0: want 1 byte or more")
	}
	l.Lock()
	defer l.Unlock()
	p, e := t.appendParam(l, paramSize, false)
	if e != 0 {
		return e
	}
	copy(l.Bytes()[p.Offset:], space.Bytes(param, paramSize))
	*handle = kernel.ParamHandle(l, len(l.Params)-1)
	return acl.ACL_SUCCESS
}

// KernelArgsAppendPlaceHolder appends an argument for the device address of its data.
func (t *Thread) KernelArgsAppendPlaceHolder(argsHandle acl.ArgsHandle, handle *acl.ParamHandle) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	if handle == nil {
		return t.null("paramHandle")
	}
	l.Lock()
	defer l.Unlock()
	p, e := t.appendParam(l, 8, true)
	if e != 0 {
		return e
	}
	clear(l.Bytes()[p.Offset : p.Offset+8])
	*handle = kernel.ParamHandle(l, len(l.Params)-1)
	return acl.ACL_SUCCESS
}

func (t *Thread) KernelArgsGetPlaceHolderBuffer(argsHandle acl.ArgsHandle, handle acl.ParamHandle, dataSize uint64, bufferAddr *acl.Addr) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	if bufferAddr == nil {
		return t.null("bufferAddr")
	}
	l.Lock()
	defer l.Unlock()
	p, e := t.param(l, handle)
	if e != 0 {
		return e
	}
	switch {
	case !p.Place:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the parameter is not a placeholder")
	case l.Sealed:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x is finalized already", l.Handle)
	case p.Length != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the placeholder has a buffer already")
	case dataSize == 0:
		return t.invalid("size of the buffer is 0: want 1 byte or more")
	}
	at := space.RoundUp(l.Total, 8)
	if dataSize > l.Limit || at+dataSize > l.Limit {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x has room for %d bytes, but needs %d", l.Handle, l.Limit, at+dataSize)
	}
	clear(l.Bytes()[l.Total : at+dataSize])
	p.Data, p.Length = at, dataSize
	l.Total = at + dataSize
	*bufferAddr = l.Block + at
	return acl.ACL_SUCCESS
}

// KernelArgsParaUpdate overwrites an argument.
func (t *Thread) KernelArgsParaUpdate(argsHandle acl.ArgsHandle, handle acl.ParamHandle, param acl.Addr, paramSize uint64) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	if param == 0 {
		return t.null("param")
	}
	l.Lock()
	defer l.Unlock()
	p, e := t.param(l, handle)
	if e != 0 {
		return e
	}
	if p.Place || p.Size != paramSize {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the parameter has %d bytes (placeholder: %t), but got %d", p.Size, p.Place, paramSize)
	}
	copy(l.Bytes()[p.Offset:], space.Bytes(param, paramSize))
	return acl.ACL_SUCCESS
}

// KernelArgsFinalize completes the list for launches. It is called again after an update.
func (t *Thread) KernelArgsFinalize(argsHandle acl.ArgsHandle) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	l.Lock()
	defer l.Unlock()
	for i, p := range l.Params {
		if p.Place && p.Length == 0 {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "placeholder %d has no buffer", i)
		}
	}
	l.Sealed = true
	return acl.ACL_SUCCESS
}

// LaunchKernelWithConfig launches a kernel with an argument list.
func (t *Thread) LaunchKernelWithConfig(funcHandle acl.FuncHandle, numBlocks uint32, stream acl.Stream, cfg *acl.LaunchKernelCfg, argsHandle acl.ArgsHandle, reserve acl.Addr) acl.Error {
	switch {
	case numBlocks == 0:
		return t.invalid("numBlocks is 0: want 1 or more")
	case reserve != 0:
		return t.invalid("reserve is not null: want null")
	}
	o, e := t.prepare(uint64(funcHandle), kernel.Line(numBlocks), cfg, stream)
	if e != 0 {
		return e
	}
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	l.Lock()
	defer l.Unlock()
	switch {
	case l.Func != o.Func:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x is for kernel %q, not %q", l.Handle, l.Func.Name, o.Func.Name)
	case !l.Sealed:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argument list %#x is not finalized: call aclrtKernelArgsFinalize first", l.Handle)
	}
	return t.launch(o, l.Bytes()[:l.Total], l.Size, func(b []byte, dev uint64) {
		for _, p := range l.Params {
			if p.Place {
				binary.LittleEndian.PutUint64(b[p.Offset:], dev+p.Data)
			}
		}
	})
}
