package acl

import (
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// register records program memory that devices may use, at its host address.
func (t *Thread) register(ptr acl.Addr, size uint64, r memory.Registration) acl.Error {
	switch {
	case ptr == 0:
		return t.null("ptr")
	case size == 0:
		return t.invalid("size of the registration is 0: want 1 byte or more")
	case size > memory.MaxAlloc:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "size of the registration is %d: too large", size)
	case r.Access != 0 && ptr%space.PageSize != 0: // memory that is only pinned may begin anywhere
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is not a multiple of %d", ptr, space.PageSize)
	case t.sim.Locate(ptr).Device != nil:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "address %#x is in device memory: want host memory", ptr)
	}
	var sum byte
	if err := space.Guard(func() {
		b := space.Bytes(ptr, size)
		sum += b[0] + b[size-1]
	}); err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of host memory at %#x: %v", size, ptr, err)
	}
	h := &t.sim.Host
	h.Lock()
	defer h.Unlock()
	if c := h.Registered.At(ptr); c.OK() && c.Get().Addr < ptr+size {
		return t.fail(acl.ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%d bytes of host memory at %#x are registered already", c.Get().Size, c.Get().Addr)
	}
	h.Registered.Insert(space.Region[memory.Registration]{Span: space.Span{Addr: ptr, Size: size}, Value: r})
	t.sim.Strict.Gets(&t.Strict, ptr, size, strict.RegisteredMemory)
	return acl.ACL_SUCCESS
}

// HostRegister pins host memory and lets devices use it.
func (t *Thread) HostRegister(ptr acl.Addr, size uint64, type_ acl.HostRegisterType, devPtr *acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	r := memory.Registration{Pinned: true, Access: space.Read | space.Write}
	switch type_ {
	case acl.ACL_HOST_REGISTER_MAPPED:
	case acl.ACL_HOST_REGISTER_READONLY:
		r.Access = space.Read
	case acl.ACL_HOST_REGISTER_IOMEMORY:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "memory of other devices can't be registered")
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "registration type %d is unknown", type_)
	}
	if devPtr == nil {
		return t.null("devPtr")
	}
	if e := t.register(ptr, size, r); e != 0 {
		return e
	}
	*devPtr = ptr
	return acl.ACL_SUCCESS
}

// HostRegisterV2 registers host memory as the flags say.
func (t *Thread) HostRegisterV2(ptr acl.Addr, size uint64, flag uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	const known = acl.ACL_HOST_REG_MAPPED | acl.ACL_HOST_REG_PINNED
	switch {
	case flag&(acl.ACL_HOST_REG_IOMEMORY|acl.ACL_HOST_REG_READONLY) != 0:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "registration flags %#x are not supported", flag)
	case flag == 0 || flag&^known != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "registration flags %#x are unknown", flag)
	}
	r := memory.Registration{Pinned: flag&acl.ACL_HOST_REG_PINNED != 0}
	if flag&acl.ACL_HOST_REG_MAPPED != 0 {
		r.Access = space.Read | space.Write
	}
	return t.register(ptr, size, r)
}

// HostGetDevicePointer returns the address by which devices reach registered host memory.
func (t *Thread) HostGetDevicePointer(pHost acl.Addr, pDevice *acl.Addr, flag uint32) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch r, ok := t.sim.Host.Registered.Find(pHost); {
	case pHost == 0:
		return t.null("pHost")
	case pDevice == nil:
		return t.null("pDevice")
	case flag != 0:
		return t.invalid("flag is %d: want 0", flag)
	case !ok || r.Value.Access == 0:
		return t.fail(acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "host memory %#x is not registered as mapped", pHost)
	}
	*pDevice = pHost
	return acl.ACL_SUCCESS
}

// HostUnregister ends the registration that begins at an address.
func (t *Thread) HostUnregister(ptr acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if ptr == 0 {
		return t.null("ptr")
	}
	h := &t.sim.Host
	h.Lock()
	defer h.Unlock()
	if _, ok := h.Registered.Remove(ptr); !ok {
		return t.fail(acl.ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "no registration begins at %#x", ptr)
	}
	t.sim.Strict.Gone(&t.Strict, ptr, strict.RegisteredMemory)
	return acl.ACL_SUCCESS
}
