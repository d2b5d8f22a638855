package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// BinaryGetGlobal returns where a variable of a binary lies on the device, and its size.
func (t *Thread) BinaryGetGlobal(binHandle acl.BinHandle, name *byte, dptr *acl.Addr, size *uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	f := t.sim.binaries.Get(uint64(binHandle))
	switch {
	case f == nil:
		return t.badHandle(space.KindBinary, uint64(binHandle))
	case name == nil:
		return t.null("name")
	case dptr == nil && size == nil:
		return t.null("both dptr and size")
	}
	at, e := t.global(f, space.GoString(name))
	if e != 0 {
		return e
	}
	if dptr != nil {
		*dptr = at.Addr
	}
	if size != nil {
		*size = at.Size
	}
	return acl.ACL_SUCCESS
}

// global returns where a variable lies on the device.
func (t *Thread) global(f *kernelBinary, name string) (space.Span, acl.Error) {
	g, ok := f.names.Variables[name]
	if !ok {
		return space.Span{}, t.fail(acl.ACL_ERROR_RT_SYMBOL_NOT_FOUND, "the binary holds no variable %q", name)
	}
	base, e := t.deviceCopy(f)
	return space.Span{Addr: base + g.Offset, Size: g.Size}, e
}

// hostSymbol is what an address of the program's stands for: a variable or a kernel of a binary, each by its name. Code that
// the compiler adds to a program of mixed sources registers them (rtRegisterVariable, rtRegisterFuncSymbol).
type hostSymbol struct {
	bin    *kernelBinary
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
	if _, ok := f.names.Variables[n]; kernel && !f.has(n) || !kernel && !ok {
		return t.fail(acl.ACL_ERROR_RT_SYMBOL_NOT_FOUND, "the binary holds no %q", n)
	}
	t.sim.program.symbols.Store(symbol, &hostSymbol{f, n, kernel})
	return acl.ACL_SUCCESS
}

// symbol returns what an address stands for.
func (t *Thread) symbol(at acl.Addr, kernel bool) (*hostSymbol, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	if at == 0 {
		return nil, t.null("symbol")
	}
	s, ok := t.sim.program.symbols.Load(at)
	if !ok || s.(*hostSymbol).kernel != kernel || t.sim.binaries.Get(s.(*hostSymbol).bin.handle) == nil {
		if kernel {
			return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, "no kernel is registered for %#x", at)
		}
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_SYMBOL, "no variable is registered for %#x", at)
	}
	return s.(*hostSymbol), acl.ACL_SUCCESS
}

// variable returns where the variable of a symbol lies on the device.
func (t *Thread) variable(at acl.Addr) (space.Span, acl.Error) {
	s, e := t.symbol(at, false)
	if e != 0 {
		return space.Span{}, e
	}
	return t.global(s.bin, s.name)
}

// GetSymbolAddress returns where the variable of a symbol lies on the device.
func (t *Thread) GetSymbolAddress(symbol acl.Addr, devPtr *acl.Addr) acl.Error {
	v, e := t.variable(symbol)
	if e != 0 {
		return e
	}
	if devPtr == nil {
		return t.null("devPtr")
	}
	*devPtr = v.Addr
	return acl.ACL_SUCCESS
}

// GetSymbolSize returns the size of the variable of a symbol.
func (t *Thread) GetSymbolSize(symbol acl.Addr, size *uint64) acl.Error {
	v, e := t.variable(symbol)
	if e != 0 {
		return e
	}
	if size == nil {
		return t.null("size")
	}
	*size = v.Size
	return acl.ACL_SUCCESS
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

// part returns the bytes of a variable that a copy is for.
func (t *Thread) part(symbol acl.Addr, count, offset uint64, kind, want acl.MemcpyKind) (acl.Addr, acl.Error) {
	v, e := t.variable(symbol)
	switch {
	case e != 0:
		return 0, e
	case kind != want && kind != acl.ACL_MEMCPY_DEFAULT:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "copy kind %d: the variable's is %d, or ACL_MEMCPY_DEFAULT", kind, want)
	case offset > v.Size || count > v.Size-offset:
		return 0, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes from %d on of a variable of %d bytes", count, offset, v.Size)
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

// MemcpyFromSymbolAsync copies from a variable in the order of a stream.
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

// MemcpyToSymbolAsync copies to a variable in the order of a stream.
func (t *Thread) MemcpyToSymbolAsync(symbol, src acl.Addr, count, offset uint64, kind acl.MemcpyKind, stream acl.Stream) acl.Error {
	dst, e := t.part(symbol, count, offset, kind, acl.ACL_MEMCPY_HOST_TO_DEVICE)
	if e != 0 {
		return e
	}
	return t.MemcpyAsync(dst, count, src, count, acl.ACL_MEMCPY_HOST_TO_DEVICE, stream)
}
