package acl

import (
	"encoding/binary"
	"sync"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

const (
	argBlockSize  = 64 << 10 // largest block of an argument list, data behind placeholders included
	maxParams     = 128
	argHandleSize = 64 // of a list in the program's memory
	// keptLists is how many argument lists in the runtime's memory a thread may use at a time: no function ends one.
	keptLists = 256
)

// argList is a list of arguments, built in a block of host memory: first the parameters, each at its natural alignment,
// then the data behind the placeholders.
type argList struct {
	handle uint64
	fn     *function
	block  uint64 // address
	limit  uint64
	own    bool // the block is the runtime's

	mu     sync.Mutex
	params []param
	sealed bool
	size   uint64 // of the parameters
	total  uint64 // with the data
}

type param struct {
	offset, size uint64
	place        bool   // a placeholder
	data, length uint64 // of the placeholder's buffer in the block
}

func (l *argList) bytes() []byte { return space.Bytes(l.block, l.limit) }

// argList returns the list of a handle: one of the runtime's, or the address of the program's memory.
func (t *Thread) argList(h acl.ArgsHandle) (*argList, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	if l := t.sim.argLists.Get(uint64(h)); l != nil {
		return l, acl.ACL_SUCCESS
	}
	if l, ok := t.sim.program.args.Load(uint64(h)); ok {
		return l.(*argList), acl.ACL_SUCCESS
	}
	return nil, t.badHandle(space.KindArgs, uint64(h))
}

func paramHandle(l *argList, i int) acl.ParamHandle {
	return acl.ParamHandle(space.NewHandle(space.KindParam, l.handle>>4, uint64(i)))
}

// param returns a parameter of a list.
func (t *Thread) param(l *argList, h acl.ParamHandle) (*param, acl.Error) {
	i := int(uint64(h) >> 4 & (space.MaxHandles - 1))
	if space.KindOf(uint64(h)) != space.KindParam || i >= len(l.params) || paramHandle(l, i) != h {
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "%#x is no parameter of the argument list %#x", uint64(h), l.handle)
	}
	return &l.params[i], acl.ACL_SUCCESS
}

func (t *Thread) liveFunction(h acl.FuncHandle) (*function, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	fn := t.sim.functions.Get(uint64(h))
	if fn == nil {
		return nil, t.badHandle(space.KindFunction, uint64(h))
	}
	return fn, acl.ACL_SUCCESS
}

// KernelArgsGetHandleMemSize returns the size of the memory of a handle that the program provides.
func (t *Thread) KernelArgsGetHandleMemSize(funcHandle acl.FuncHandle, memSize *uint64) acl.Error {
	if _, e := t.liveFunction(funcHandle); e != 0 {
		return e
	}
	if memSize == nil {
		return t.null("memSize")
	}
	*memSize = argHandleSize
	return acl.ACL_SUCCESS
}

// KernelArgsGetMemSize returns the size of the block that the program provides. The simulated kernels have no system
// parameters.
func (t *Thread) KernelArgsGetMemSize(funcHandle acl.FuncHandle, userArgsSize uint64, actualArgsSize *uint64) acl.Error {
	if _, e := t.liveFunction(funcHandle); e != 0 {
		return e
	}
	switch {
	case actualArgsSize == nil:
		return t.null("actualArgsSize")
	case userArgsSize > argBlockSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of arguments: the limit is %d", userArgsSize, argBlockSize)
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
	if len(t.lists) == keptLists {
		old := t.lists[0]
		t.lists = append(t.lists[:0], t.lists[1:]...)
		t.sim.argLists.Remove(old.handle)
		t.blocks = append(t.blocks, old.block)
	}
	l := &argList{fn: fn, limit: argBlockSize, own: true}
	if n := len(t.blocks); n > 0 {
		l.block, t.blocks = t.blocks[n-1], t.blocks[:n-1]
	} else {
		l.block = t.sim.text.Get(argBlockSize)
	}
	if l.handle = t.sim.argLists.Add(l); l.handle == 0 {
		t.blocks = append(t.blocks, l.block)
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many argument lists")
	}
	t.lists = append(t.lists, l)
	*argsHandle = acl.ArgsHandle(l.handle)
	return acl.ACL_SUCCESS
}

// KernelArgsInitByUserMem starts an argument list in the program's memory: the handle is the address of one piece, the
// block lies in another.
func (t *Thread) KernelArgsInitByUserMem(funcHandle acl.FuncHandle, argsHandle acl.ArgsHandle, userHostMem acl.Addr, actualArgsSize uint64) acl.Error {
	fn, e := t.liveFunction(funcHandle)
	if e != 0 {
		return e
	}
	switch {
	case argsHandle == 0:
		return t.null("argsHandle")
	case space.KindOf(uint64(argsHandle)) != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "argsHandle %#x is a handle of the runtime's, not memory of the program's", uint64(argsHandle))
	case userHostMem == 0:
		return t.null("userHostMem")
	case actualArgsSize > argBlockSize:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d bytes of arguments: the limit is %d", actualArgsSize, argBlockSize)
	}
	t.sim.program.args.Store(uint64(argsHandle), &argList{handle: uint64(argsHandle), fn: fn, block: userHostMem, limit: actualArgsSize})
	return acl.ACL_SUCCESS
}

// append makes room for a parameter. The caller holds the lock.
func (t *Thread) appendParam(l *argList, size uint64, place bool) (*param, acl.Error) {
	switch {
	case l.sealed:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the argument list %#x is finalized", l.handle)
	case len(l.params) == maxParams && !mutant.Breaks("at_most_128"):
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "more than %d parameters", maxParams)
	case l.total != l.size:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a parameter behind the buffer of a placeholder: append all parameters first")
	}
	align := uint64(8)
	if size < 8 && size&(size-1) == 0 {
		align = size
	}
	p := param{offset: space.RoundUp(l.size, align), size: size, place: place}
	if k := l.fn.kernel; k != nil {
		i := len(l.params)
		if i == len(k.Args) {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "kernel %q has %d parameters", l.fn.name, i)
		}
		if uint64(k.Args[i].Size) != size {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "parameter %d (%s) of kernel %q has %d bytes, not %d", i, k.Args[i].Name, l.fn.name, k.Args[i].Size, size)
		}
		p.offset = k.Offset(i)
	}
	if size > l.limit || p.offset+size > l.limit {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the argument list has room for %d bytes, and %d are wanted", l.limit, p.offset+size)
	}
	clear(l.bytes()[l.size:p.offset])
	l.size = p.offset + size
	l.total = l.size
	l.params = append(l.params, p)
	return &l.params[len(l.params)-1], acl.ACL_SUCCESS
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
		return t.invalid("a parameter of 0 bytes")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, e := t.appendParam(l, paramSize, false)
	if e != 0 {
		return e
	}
	copy(l.bytes()[p.offset:], space.Bytes(param, paramSize))
	*handle = paramHandle(l, len(l.params)-1)
	return acl.ACL_SUCCESS
}

// KernelArgsAppendPlaceHolder appends an argument that will hold the device address of its data.
func (t *Thread) KernelArgsAppendPlaceHolder(argsHandle acl.ArgsHandle, handle *acl.ParamHandle) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	if handle == nil {
		return t.null("paramHandle")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, e := t.appendParam(l, 8, true)
	if e != 0 {
		return e
	}
	clear(l.bytes()[p.offset : p.offset+8])
	*handle = paramHandle(l, len(l.params)-1)
	return acl.ACL_SUCCESS
}

// KernelArgsGetPlaceHolderBuffer returns where the program stores the data of a placeholder.
func (t *Thread) KernelArgsGetPlaceHolderBuffer(argsHandle acl.ArgsHandle, handle acl.ParamHandle, dataSize uint64, bufferAddr *acl.Addr) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	if bufferAddr == nil {
		return t.null("bufferAddr")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, e := t.param(l, handle)
	if e != 0 {
		return e
	}
	switch {
	case !p.place:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the parameter is no placeholder")
	case l.sealed:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the argument list %#x is finalized", l.handle)
	case p.length != 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the placeholder has a buffer already")
	case dataSize == 0:
		return t.invalid("a buffer of 0 bytes")
	}
	at := space.RoundUp(l.total, 8)
	if dataSize > l.limit || at+dataSize > l.limit {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the argument list has room for %d bytes, and %d are wanted", l.limit, at+dataSize)
	}
	clear(l.bytes()[l.total : at+dataSize])
	p.data, p.length = at, dataSize
	l.total = at + dataSize
	*bufferAddr = l.block + at
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
	l.mu.Lock()
	defer l.mu.Unlock()
	p, e := t.param(l, handle)
	if e != 0 {
		return e
	}
	if p.place || p.size != paramSize {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the parameter has %d bytes (placeholder: %t), not %d", p.size, p.place, paramSize)
	}
	copy(l.bytes()[p.offset:], space.Bytes(param, paramSize))
	return acl.ACL_SUCCESS
}

// KernelArgsFinalize ends the appending. The list can be launched from then on. It is called again behind an update.
func (t *Thread) KernelArgsFinalize(argsHandle acl.ArgsHandle) acl.Error {
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.params {
		if p.place && p.length == 0 {
			return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "placeholder %d has no buffer", i)
		}
	}
	l.sealed = true
	return acl.ACL_SUCCESS
}

// LaunchKernelWithConfig launches a kernel with an argument list.
func (t *Thread) LaunchKernelWithConfig(funcHandle acl.FuncHandle, numBlocks uint32, stream acl.Stream, cfg *acl.LaunchKernelCfg, argsHandle acl.ArgsHandle, reserve acl.Addr) acl.Error {
	switch {
	case numBlocks == 0:
		return t.invalid("numBlocks is 0")
	case reserve != 0:
		return t.invalid("reserve is not null")
	}
	o, e := t.prepare(uint64(funcHandle), line(numBlocks), cfg, stream)
	if e != 0 {
		return e
	}
	l, e := t.argList(argsHandle)
	if e != 0 {
		return e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fn != o.fn:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the argument list %#x is for kernel %q, not %q", l.handle, l.fn.name, o.fn.name)
	case !l.sealed:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "the argument list %#x is not finalized", l.handle)
	}
	return t.launch(o, l.bytes()[:l.total], l.size, func(b []byte, dev uint64) {
		for _, p := range l.params {
			if p.place {
				binary.LittleEndian.PutUint64(b[p.offset:], dev+p.data)
			}
		}
	})
}
