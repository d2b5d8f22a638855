package acl

import (
	"bytes"
	"cmp"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// byEntry finds a kernel by tiling key, in the file or in the kernel libraries.
func (s *Sim) byEntry(f *kernel.Binary, entry uint64) (string, bool) {
	if n, ok := f.Names.ByEntry(entry); ok {
		return n, true
	}
	if entry == 0 {
		return "", false
	}
	for _, k := range []device.Kernels{s.opts.Kernels, f.Beside} {
		if k == nil {
			continue
		}
		for _, n := range f.Names.Kernels {
			if e := k.Lookup(n, entry); e != nil && e.Entry == entry {
				return n, true
			}
		}
	}
	return "", false
}

// kernel looks up a kernel in the named libraries, then in the one beside the binary.
func (s *Sim) kernel(f *kernel.Binary, name string, entry uint64) *device.Kernel {
	for _, k := range []device.Kernels{s.opts.Kernels, f.Beside} {
		if k == nil {
			continue
		}
		if found := k.Lookup(name, entry); found != nil {
			return found
		}
	}
	return nil
}

// loadBinary loads a binary for the current device. path is "" for data in memory.
func (t *Thread) loadBinary(b []byte, path string, lazy bool, h *acl.BinHandle) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	return t.addBinary(c.Device, b, path, lazy, h)
}

// addBinary creates a binary handle for one device; nil for all devices. path is "" for data in memory. Operators are on all devices: the
// toolkit loads its kernels where they are launched, without a call of the runtime.
func (t *Thread) addBinary(d *device.Device, b []byte, path string, lazy bool, h *acl.BinHandle) acl.Error {
	if h == nil {
		return t.null("binHandle")
	}
	f, err := kernel.ParseBinary(b)
	if err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%s is not a kernel binary: %v", cmp.Or(path, "the data"), err)
	}
	f.Lazy, f.Beside = lazy, t.sim.beside(path, b)
	if d != nil && !f.Names.Operators {
		f.Devices.Store(1 << d.ID)
	}
	if f.Handle = t.sim.binaries.Add(f); f.Handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "load a binary: the limit is reached")
	}
	*h = acl.BinHandle(f.Handle)
	return acl.ACL_SUCCESS
}

func (t *Thread) binaryArgs(data, size uint64) acl.Error {
	if data == 0 || size == 0 || size > kernel.MaxBinary {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "binary of %d bytes at %#x: want an address and 1 to %d bytes", size, data, uint64(kernel.MaxBinary))
	}
	return acl.ACL_SUCCESS
}

// CreateBinary wraps a binary in program memory, which is read when it is loaded. It returns 0 for invalid sizes.
func (t *Thread) CreateBinary(data acl.Addr, dataLen uint64) acl.Binary {
	if e := t.ready(); e != 0 {
		return 0
	}
	if e := t.binaryArgs(data, dataLen); e != 0 {
		return 0
	}
	i := &kernel.Image{Addr: data, Size: dataLen}
	i.Handle = t.sim.images.Add(i)
	return acl.Binary(i.Handle)
}

// DestroyBinary ends a wrapper of CreateBinary.
func (t *Thread) DestroyBinary(binary acl.Binary) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if t.sim.images.Remove(uint64(binary)) == nil {
		return t.badHandle(space.KindImage, uint64(binary))
	}
	return acl.ACL_SUCCESS
}

// BinaryLoad loads a wrapped binary.
func (t *Thread) BinaryLoad(binary acl.Binary, binHandle *acl.BinHandle) acl.Error {
	i, e := find(t, &t.sim.images, uint64(binary))
	if e != 0 {
		return e
	}
	return t.loadBinary(bytes.Clone(space.Bytes(i.Addr, i.Size)), "", false, binHandle)
}

func (t *Thread) BinaryLoadFromFile(binPath *byte, options *acl.BinaryLoadOptions, binHandle *acl.BinHandle) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	path := space.GoString(binPath)
	if path == "" {
		return t.null("binPath")
	}
	lazy, e := t.loadOptions(options)
	if e != 0 {
		return e
	}
	if filepath.Ext(path) == ".json" {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: kernels of the AI CPU are not simulated", path)
	}
	if st, err := os.Stat(path); err != nil || st.Size() > kernel.MaxBinary {
		return t.fail(acl.ACL_ERROR_RT_FILE_OPEN, "read binary: %v", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return t.fail(acl.ACL_ERROR_RT_FILE_OPEN, "read binary: %v", err)
	}
	return t.loadBinary(b, path, lazy, binHandle)
}

// BinaryLoadFromData loads a binary from the program's memory.
func (t *Thread) BinaryLoadFromData(data acl.Addr, length uint64, options *acl.BinaryLoadOptions, binHandle *acl.BinHandle) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if e := t.binaryArgs(data, length); e != 0 {
		return e
	}
	lazy, e := t.loadOptions(options)
	if e != 0 {
		return e
	}
	b := bytes.Clone(space.Bytes(data, length))
	if mutant.Breaks("from_memory") {
		b = space.Bytes(data, length)
	}
	return t.loadBinary(b, "", lazy, binHandle)
}

// loadOptions checks load options, and reports whether to load at first use.
func (t *Thread) loadOptions(o *acl.BinaryLoadOptions) (lazy bool, e acl.Error) {
	if o == nil || o.NumOpt == 0 {
		return false, acl.ACL_SUCCESS
	}
	if o.Options == 0 || o.NumOpt > 16 {
		return false, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "list of %d load options at %#x: want an address and at most 16", o.NumOpt, o.Options)
	}
	for _, opt := range space.List((*acl.BinaryLoadOption)(space.Pointer(o.Options)), o.NumOpt) {
		switch opt.Type {
		case acl.ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD:
			lazy = opt.Value[0] != 0
		case acl.ACL_RT_BINARY_LOAD_OPT_MAGIC:
		case acl.ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE:
			return false, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "kernels of the AI CPU are not simulated")
		default:
			return false, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "load option %d is unknown", opt.Type)
		}
	}
	return lazy, acl.ACL_SUCCESS
}

// BinaryUnLoad ends a loaded binary and its functions. Launches under way are not disturbed.
func (t *Thread) BinaryUnLoad(binHandle acl.BinHandle) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	f := t.sim.binaries.Remove(uint64(binHandle))
	if f == nil {
		return t.badHandle(space.KindBinary, uint64(binHandle))
	}
	f.Lock()
	defer f.Unlock()
	for _, fn := range f.Found {
		t.sim.functions.Remove(fn.Handle)
	}
	f.Found = nil
	return acl.ACL_SUCCESS
}

// BinaryGetFunction finds a kernel by name.
func (t *Thread) BinaryGetFunction(binHandle acl.BinHandle, kernelName *byte, funcHandle *acl.FuncHandle) acl.Error {
	f, e := t.binary(binHandle, funcHandle)
	if e != 0 {
		return e
	}
	if kernelName == nil {
		return t.null("kernelName")
	}
	name := space.GoString(kernelName)
	if !f.Has(name) {
		return t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "the binary has no kernel %q", name)
	}
	return t.function(f, name, 0, funcHandle)
}

// BinaryGetFunctionByEntry finds a kernel by tiling key.
func (t *Thread) BinaryGetFunctionByEntry(binHandle acl.BinHandle, funcEntry uint64, funcHandle *acl.FuncHandle) acl.Error {
	f, e := t.binary(binHandle, funcHandle)
	if e != 0 {
		return e
	}
	name, ok := t.sim.byEntry(f, funcEntry)
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "the binary has no kernel with entry %d", funcEntry)
	}
	return t.function(f, name, funcEntry, funcHandle)
}

func (t *Thread) binary(h acl.BinHandle, funcHandle *acl.FuncHandle) (*kernel.Binary, acl.Error) {
	f, e := find(t, &t.sim.binaries, uint64(h))
	if e == 0 && funcHandle == nil {
		return nil, t.null("funcHandle")
	}
	return f, e
}

// function returns the handle of a kernel, and loads the binary on the current device. Repeated calls return the same
// handle.
func (t *Thread) function(f *kernel.Binary, name string, entry uint64, h *acl.FuncHandle) acl.Error {
	if c := t.current; c != nil && f.Devices.Load() != 0 {
		f.Devices.Or(1 << c.Device.ID)
	}
	f.Lock()
	defer f.Unlock()
	key := name
	if entry != 0 {
		key += "\x00" + strconv.FormatUint(entry, 10)
	}
	fn := f.Found[key]
	if fn == nil {
		if f.Found == nil {
			return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "binary %#x was unloaded", f.Handle)
		}
		fn = &kernel.Function{Name: name, Bin: f, Kernel: t.sim.kernel(f, name, entry), Rule: t.sim.Model.Rule(name)}
		if f.Names.Operators && !fn.Computes() {
			fn.Kernel, fn.Operator, fn.Computer = nil, true, t.sim.opts.Operators // its block says more than a library that does not compute it
		}
		switch {
		case fn.Computes():
		case fn.Declares():
			fn.Launches = t.sim.Unknowns.Declared.Of(name)
		default:
			fn.Launches = t.sim.Unknowns.Launches.Of(name)
		}
		if fn.Handle = t.sim.functions.Add(fn); fn.Handle == 0 {
			return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "find a function: the limit is reached")
		}
		f.Found[key] = fn
	}
	*h = acl.FuncHandle(fn.Handle)
	return acl.ACL_SUCCESS
}

// GetFunctionName stores a kernel's name.
func (t *Thread) GetFunctionName(funcHandle acl.FuncHandle, maxLen uint32, name *byte) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	fn := t.sim.functions.Get(uint64(funcHandle))
	switch {
	case fn == nil:
		return t.badHandle(space.KindFunction, uint64(funcHandle))
	case name == nil:
		return t.null("name")
	case uint64(maxLen) <= uint64(len(fn.Name)):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxLen is %d, too small for the name with %d bytes and a NUL", maxLen, len(fn.Name))
	}
	space.PutText(space.List(name, uint64(maxLen)), fn.Name)
	return acl.ACL_SUCCESS
}

// layout returns a kernel with known arguments.
func (t *Thread) layout(h uint64) (*kernel.Function, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	fn := t.sim.functions.Get(h)
	if fn == nil {
		if space.KindOf(h) == 0 && h != 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, "%#x is not a function handle; functions of host symbols are not simulated", h)
		}
		return nil, t.badHandle(space.KindFunction, h)
	}
	if fn.Kernel == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "kernel %q is in no kernel library: its parameters are unknown", fn.Name)
	}
	return fn, acl.ACL_SUCCESS
}

// FunctionGetParamCount returns a kernel's number of parameters.
func (t *Thread) FunctionGetParamCount(func_ acl.Addr, paramCount *uint64) acl.Error {
	fn, e := t.layout(func_)
	if e != 0 {
		return e
	}
	return put(t, "paramCount", paramCount, uint64(len(fn.Kernel.Args)))
}

// FunctionGetParamInfo returns the offset and size of a parameter in the argument block.
func (t *Thread) FunctionGetParamInfo(func_ acl.Addr, paramIndex uint64, paramOffset, paramSize *uint64) acl.Error {
	fn, e := t.layout(func_)
	if e != 0 {
		return e
	}
	if paramIndex >= uint64(len(fn.Kernel.Args)) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "parameter %d is out of range: kernel %q has %d parameters", paramIndex, fn.Name, len(fn.Kernel.Args))
	}
	offer(paramOffset, fn.Kernel.Offset(int(paramIndex)))
	offer(paramSize, uint64(fn.Kernel.Args[paramIndex].Size))
	return acl.ACL_SUCCESS
}

// deviceCopy writes a binary and its variables to the current device, or to the first one that has the binary, and
// returns the address. After a device reset it writes them again from the file.
func (t *Thread) deviceCopy(f *kernel.Binary) (uint64, acl.Error) {
	c, e := t.context()
	if e != 0 {
		return 0, e
	}
	d := c.Device
	if on := f.Devices.Load(); on != 0 && on>>d.ID&1 == 0 {
		d = t.sim.Devices[bits.TrailingZeros32(on)]
	}
	f.Lock()
	defer f.Unlock()
	at, ends := f.Copies[d], d.Memory.Ends.Load()
	if at.Addr == 0 || at.Ends != ends {
		a, fail := t.sim.allocOwn(d, uint64(len(f.Data))+f.Names.Empty)
		if fail != nil {
			return 0, t.failWith(fail)
		}
		copy(space.Bytes(a, uint64(len(f.Data))), f.Data)
		if f.Copies == nil {
			f.Copies = map[*device.Device]kernel.DeviceCopy{}
		}
		at = kernel.DeviceCopy{Addr: a, Ends: ends}
		f.Copies[d] = at
	}
	return at.Addr, acl.ACL_SUCCESS
}

// allocOwn allocates device memory for the runtime. It is freed with the device's last context.
func (s *Sim) allocOwn(d *device.Device, size uint64) (uint64, *fail.Failure) {
	return d.Memory.Alloc(space.RoundUp(max(size, 1), memory.AllocUnit), 0, memory.Block{Origin: memory.ByRuntime, Access: space.Read | space.Write}, s.Log)
}

// BinaryGetDevAddress returns the device address of a binary; null if it is loaded lazily.
func (t *Thread) BinaryGetDevAddress(binHandle acl.BinHandle, binAddr *acl.Addr, binSize *uint64) acl.Error {
	f, e := find(t, &t.sim.binaries, uint64(binHandle))
	switch {
	case e != 0:
		return e
	case binAddr == nil || binSize == nil:
		return t.absent("binAddr or binSize")
	}
	*binAddr, *binSize = 0, uint64(len(f.Data))
	if f.Lazy {
		return acl.ACL_SUCCESS
	}
	a, e := t.deviceCopy(f)
	if e != 0 {
		return e
	}
	*binAddr = a
	return acl.ACL_SUCCESS
}

// GetFunctionAddr returns the device addresses of a kernel's cube and vector code; 0 for a missing part.
func (t *Thread) GetFunctionAddr(funcHandle acl.FuncHandle, aicAddr, aivAddr *acl.Addr) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if aicAddr == nil || aivAddr == nil {
		return t.null("aicAddr or aivAddr")
	}
	base, e := t.deviceCopy(f.Bin)
	if e != 0 {
		return e
	}
	cube, vector := f.Parts()
	*aicAddr, *aivAddr = 0, 0
	if cube != nil {
		*aicAddr = base + cube.Offset
	}
	if vector != nil {
		*aivAddr = base + vector.Offset
	}
	return acl.ACL_SUCCESS
}

// GetFunctionSize returns the size of a kernel's code.
func (t *Thread) GetFunctionSize(funcHandle acl.FuncHandle, aicSize, aivSize *uint64) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if aicSize == nil || aivSize == nil {
		return t.absent("aicSize or aivSize")
	}
	cube, vector := f.Parts()
	*aicSize, *aivSize = 0, 0
	if cube != nil {
		*aicSize = cube.Size
	}
	if vector != nil {
		*aivSize = vector.Size
	}
	return acl.ACL_SUCCESS
}

// GetFunctionAttribute returns a kernel attribute.
func (t *Thread) GetFunctionAttribute(funcHandle acl.FuncHandle, attrType acl.FuncAttribute, attrValue *int64) acl.Error {
	f, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	if attrValue == nil {
		return t.null("attrValue")
	}
	_, cube := f.Bin.Names.Symbols[f.Name+"_mix_aic"]
	_, vector := f.Bin.Names.Symbols[f.Name+"_mix_aiv"]
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
	*binHandle = acl.BinHandle(f.Bin.Handle)
	return acl.ACL_SUCCESS
}

// BinaryGetGlobal returns the device address and the size of a variable.
func (t *Thread) BinaryGetGlobal(binHandle acl.BinHandle, name *byte, dptr *acl.Addr, size *uint64) acl.Error {
	f, e := find(t, &t.sim.binaries, uint64(binHandle))
	switch {
	case e != 0:
		return e
	case name == nil:
		return t.null("name")
	case dptr == nil && size == nil:
		return t.null("both dptr and size")
	}
	at, e := t.global(f, space.GoString(name))
	if e != 0 {
		return e
	}
	offer(dptr, at.Addr)
	offer(size, at.Size)
	return acl.ACL_SUCCESS
}

// global returns the device memory of a variable.
func (t *Thread) global(f *kernel.Binary, name string) (space.Span, acl.Error) {
	g, ok := f.Names.Variables[name]
	if !ok {
		return space.Span{}, t.fail(acl.ACL_ERROR_RT_SYMBOL_NOT_FOUND, "the binary has no variable %q", name)
	}
	base, e := t.deviceCopy(f)
	return space.Span{Addr: base + g.Offset, Size: g.Size}, e
}

// hostSymbol is a variable or kernel that a host address names. Compiler-generated code registers symbols by
// rtRegisterVariable and rtRegisterFuncSymbol.
type hostSymbol struct {
	bin    *kernel.Binary
	name   string
	kernel bool
}

// registerSymbol lets an address stand for a variable or a kernel.
func (t *Thread) registerSymbol(bin, symbol acl.Addr, name *byte, kernel bool) acl.Error {
	f := t.sim.binaries.Get(bin)
	switch {
	case f == nil:
		return t.badHandle(space.KindBinary, bin)
	case symbol == 0 || name == nil:
		return t.null("the symbol or its name")
	}
	n := space.GoString(name)
	if _, ok := f.Names.Variables[n]; kernel && !f.Has(n) || !kernel && !ok {
		return t.fail(acl.ACL_ERROR_RT_SYMBOL_NOT_FOUND, "the binary has no kernel or variable %q", n)
	}
	t.sim.program.symbols.Store(symbol, &hostSymbol{f, n, kernel})
	return acl.ACL_SUCCESS
}

// symbol returns the symbol at a host address.
func (t *Thread) symbol(at acl.Addr, kernel bool) (*hostSymbol, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	if at == 0 {
		return nil, t.null("symbol")
	}
	s, ok := t.sim.program.symbols.Load(at)
	if !ok || s.(*hostSymbol).kernel != kernel || t.sim.binaries.Get(s.(*hostSymbol).bin.Handle) == nil {
		if kernel {
			return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, "no kernel is registered for %#x", at)
		}
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_SYMBOL, "no variable is registered for %#x", at)
	}
	return s.(*hostSymbol), acl.ACL_SUCCESS
}

// variable returns the device memory of a variable symbol.
func (t *Thread) variable(at acl.Addr) (space.Span, acl.Error) {
	s, e := t.symbol(at, false)
	if e != 0 {
		return space.Span{}, e
	}
	return t.global(s.bin, s.name)
}

// GetSymbolAddress returns the device address of a variable symbol.
func (t *Thread) GetSymbolAddress(symbol acl.Addr, devPtr *acl.Addr) acl.Error {
	v, e := t.variable(symbol)
	if e != 0 {
		return e
	}
	return put(t, "devPtr", devPtr, v.Addr)
}

// GetSymbolSize returns the size of a variable symbol.
func (t *Thread) GetSymbolSize(symbol acl.Addr, size *uint64) acl.Error {
	v, e := t.variable(symbol)
	if e != 0 {
		return e
	}
	return put(t, "size", size, v.Size)
}

// GetFuncBySymbol returns the kernel of a symbol.
func (t *Thread) GetFuncBySymbol(symbol acl.Addr, funcHandle *acl.FuncHandle) acl.Error {
	s, e := t.symbol(symbol, true)
	if e != 0 {
		return e
	}
	if funcHandle == nil {
		return t.null("funcHandle")
	}
	return t.function(s.bin, s.name, 0, funcHandle)
}

// part returns the address for a copy from or to a variable.
func (t *Thread) part(symbol acl.Addr, count, offset uint64, kind, want acl.MemcpyKind) (acl.Addr, acl.Error) {
	v, e := t.variable(symbol)
	switch {
	case e != 0:
		return 0, e
	case kind != want && kind != acl.ACL_MEMCPY_DEFAULT:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind is %d: want %d or ACL_MEMCPY_DEFAULT", kind, want)
	case offset > v.Size || count > v.Size-offset:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes at offset %d are outside the variable of %d bytes", count, offset, v.Size)
	}
	return v.Addr + offset, acl.ACL_SUCCESS
}

// MemcpyFromSymbol copies from a variable and returns when it is done.
func (t *Thread) MemcpyFromSymbol(dst acl.Addr, dstMax uint64, symbol acl.Addr, count, offset uint64, kind acl.MemcpyKind) acl.Error {
	src, e := t.part(symbol, count, offset, kind, acl.ACL_MEMCPY_DEVICE_TO_HOST)
	if e != 0 {
		return e
	}
	return t.Memcpy(dst, dstMax, src, count, acl.ACL_MEMCPY_DEVICE_TO_HOST)
}

// MemcpyFromSymbolAsync copies from a variable in stream order.
func (t *Thread) MemcpyFromSymbolAsync(dst acl.Addr, dstMax uint64, symbol acl.Addr, count, offset uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	src, e := t.part(symbol, count, offset, kind, acl.ACL_MEMCPY_DEVICE_TO_HOST)
	if e != 0 {
		return e
	}
	return t.MemcpyAsync(dst, dstMax, src, count, acl.ACL_MEMCPY_DEVICE_TO_HOST, stream)
}

// MemcpyToSymbol copies to a variable and returns when it is done.
func (t *Thread) MemcpyToSymbol(symbol, src acl.Addr, count, offset uint64, kind acl.MemcpyKind) acl.Error {
	dst, e := t.part(symbol, count, offset, kind, acl.ACL_MEMCPY_HOST_TO_DEVICE)
	if e != 0 {
		return e
	}
	return t.Memcpy(dst, count, src, count, acl.ACL_MEMCPY_HOST_TO_DEVICE)
}

// MemcpyToSymbolAsync copies to a variable in stream order.
func (t *Thread) MemcpyToSymbolAsync(symbol, src acl.Addr, count, offset uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	dst, e := t.part(symbol, count, offset, kind, acl.ACL_MEMCPY_HOST_TO_DEVICE)
	if e != 0 {
		return e
	}
	return t.MemcpyAsync(dst, count, src, count, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream)
}

// beside returns the kernel library stored beside a binary; nil for none. path is "" for data in memory.
func (s *Sim) beside(path string, data []byte) device.Kernels {
	if s.opts.Beside == nil {
		return nil
	}
	if path == "" {
		path = objectOf(data)
	}
	if path == "" {
		return nil
	}
	return s.opts.Beside(path)
}

// objectOf returns the object file with the given content; "" for none. It searches the program's folder and the
// current one.
func objectOf(data []byte) string {
	program, _ := os.Executable()
	for _, dir := range []string{filepath.Dir(program), "."} {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range files {
			if filepath.Ext(f.Name()) != ".o" {
				continue
			}
			path := filepath.Join(dir, f.Name())
			if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Size() != int64(len(data)) {
				continue
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Equal(b, data) {
				return path
			}
		}
	}
	return ""
}
