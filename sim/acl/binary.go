package acl

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/kernelbin"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/mutant"
)

// image is what aclrtCreateBinary wraps: the address of a binary in the program's memory.
type image struct {
	handle     uint64
	addr, size uint64
}

// kernelBinary holds the kernels that an ELF file names.
type kernelBinary struct {
	handle uint64
	dev    *device.Device // nil where it serves all
	names  *kernelbin.File
	beside device.Kernels // of the library beside its file; nil for none
	data   []byte
	lazy   bool // has no place on the device

	mu          sync.Mutex
	found       map[string]*function
	copies      map[*device.Device]deviceCopy // on devices, where anybody asked
	onException callback
}

// function is a kernel of a binary.
type function struct {
	handle uint64
	name   string
	bin    *kernelBinary
	kernel *device.Kernel // nil where no library knows it
	rule   *model.Kernel  // of the cost model
	// launches counts those of a kernel that no library knows, under this name in all binaries.
	launches *atomic.Int64
	took     atomic.Int64 // nanoseconds of the host's work for the launch before, 0 for none
}

// maxBinary bounds the size of a binary.
const maxBinary = kernelbin.MaxSize

// parseBinary reads what an ELF file tells of its kernels.
func parseBinary(b []byte) (*kernelBinary, error) {
	names, err := kernelbin.Parse(b)
	if err != nil {
		return nil, err
	}
	return &kernelBinary{names: names, found: map[string]*function{}, data: b}, nil
}

func (f *kernelBinary) has(name string) bool { return f.names.Has(name) }

// byEntry finds the kernel with a tiling key: by what the file says, or by the kernel libraries.
func (s *Sim) byEntry(f *kernelBinary, entry uint64) (string, bool) {
	if n, ok := f.names.ByEntry(entry); ok {
		return n, true
	}
	if entry == 0 {
		return "", false
	}
	for _, k := range []device.Kernels{s.opts.Kernels, f.beside} {
		if k == nil {
			continue
		}
		for _, n := range f.names.Kernels {
			if e := k.Lookup(n, entry); e != nil && e.Entry == entry {
				return n, true
			}
		}
	}
	return "", false
}

// kernel looks a kernel of a binary up: in the named libraries, then in the one beside the binary.
func (s *Sim) kernel(f *kernelBinary, name string, entry uint64) *device.Kernel {
	for _, k := range []device.Kernels{s.opts.Kernels, f.beside} {
		if k == nil {
			continue
		}
		if found := k.Lookup(name, entry); found != nil {
			return found
		}
	}
	return nil
}

// loadBinary loads a binary for the device of the thread. path is "" for one in memory.
func (t *Thread) loadBinary(b []byte, path string, lazy bool, h *acl.BinHandle) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	return t.addBinary(c.Device, b, path, lazy, h)
}

// addBinary makes a handle for a binary of one device, or of all where it is nil. path is "" for a binary in memory.
func (t *Thread) addBinary(d *device.Device, b []byte, path string, lazy bool, h *acl.BinHandle) acl.Error {
	if h == nil {
		return t.null("binHandle")
	}
	f, err := parseBinary(b)
	if err != nil {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%s is no kernel binary: %v", cmp.Or(path, "the data"), err)
	}
	f.dev, f.lazy, f.beside = d, lazy, t.sim.beside(path, b)
	if f.handle = t.sim.binaries.Add(f); f.handle == 0 {
		return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many binaries")
	}
	*h = acl.BinHandle(f.handle)
	return acl.ACL_SUCCESS
}

// CreateBinary wraps a binary in the program's memory; 0 where it can't be one. It is read when it is loaded.
func (t *Thread) CreateBinary(data acl.Addr, dataLen uint64) acl.Binary {
	if e := t.ready(); e != 0 {
		return 0
	}
	if data == 0 || dataLen == 0 || dataLen > maxBinary {
		t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a binary of %d bytes at %#x", dataLen, data)
		return 0
	}
	i := &image{addr: data, size: dataLen}
	i.handle = t.sim.images.Add(i)
	return acl.Binary(i.handle)
}

// DestroyBinary ends the wrapper of CreateBinary.
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
	i := t.sim.images.Get(uint64(binary))
	if i == nil {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.badHandle(space.KindImage, uint64(binary))
	}
	return t.loadBinary(bytes.Clone(space.Bytes(i.addr, i.size)), "", false, binHandle)
}

// BinaryLoadFromFile loads a binary from a file.
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
	if st, err := os.Stat(path); err != nil || st.Size() > maxBinary {
		return t.fail(acl.ACL_ERROR_RT_FILE_OPEN, "binary %s can't be read: %v", path, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return t.fail(acl.ACL_ERROR_RT_FILE_OPEN, "binary %s can't be read: %v", path, err)
	}
	return t.loadBinary(b, path, lazy, binHandle)
}

// BinaryLoadFromData loads a binary from the program's memory.
func (t *Thread) BinaryLoadFromData(data acl.Addr, length uint64, options *acl.BinaryLoadOptions, binHandle *acl.BinHandle) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	if data == 0 || length == 0 || length > maxBinary {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a binary of %d bytes at %#x", length, data)
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

// loadOptions checks the options of a binary, and tells whether it is to be loaded when it is first used.
func (t *Thread) loadOptions(o *acl.BinaryLoadOptions) (lazy bool, e acl.Error) {
	if o == nil || o.NumOpt == 0 {
		return false, acl.ACL_SUCCESS
	}
	if o.Options == 0 || o.NumOpt > 16 {
		return false, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "%d load options at %#x", o.NumOpt, o.Options)
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
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fn := range f.found {
		t.sim.functions.Remove(fn.handle)
	}
	f.found = nil
	return acl.ACL_SUCCESS
}

// BinaryGetFunction finds a kernel of a binary by name.
func (t *Thread) BinaryGetFunction(binHandle acl.BinHandle, kernelName *byte, funcHandle *acl.FuncHandle) acl.Error {
	f, e := t.binary(binHandle, funcHandle)
	if e != 0 {
		return e
	}
	if kernelName == nil {
		return t.null("kernelName")
	}
	name := space.GoString(kernelName)
	if !f.has(name) {
		return t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "the binary holds no kernel %q", name)
	}
	return t.function(f, name, 0, funcHandle)
}

// BinaryGetFunctionByEntry finds a kernel of a binary by its tiling key.
func (t *Thread) BinaryGetFunctionByEntry(binHandle acl.BinHandle, funcEntry uint64, funcHandle *acl.FuncHandle) acl.Error {
	f, e := t.binary(binHandle, funcHandle)
	if e != 0 {
		return e
	}
	name, ok := t.sim.byEntry(f, funcEntry)
	if !ok {
		return t.fail(acl.ACL_ERROR_RT_KERNEL_LOOKUP, "the binary holds no kernel with entry %d", funcEntry)
	}
	return t.function(f, name, funcEntry, funcHandle)
}

func (t *Thread) binary(h acl.BinHandle, funcHandle *acl.FuncHandle) (*kernelBinary, acl.Error) {
	if _, e := t.context(); e != 0 {
		return nil, e
	}
	f := t.sim.binaries.Get(uint64(h))
	if f == nil {
		return nil, t.badHandle(space.KindBinary, uint64(h))
	}
	if funcHandle == nil {
		return nil, t.null("funcHandle")
	}
	return f, acl.ACL_SUCCESS
}

// function returns the handle of a kernel, the same for each question.
func (t *Thread) function(f *kernelBinary, name string, entry uint64, h *acl.FuncHandle) acl.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := name
	if entry != 0 {
		key += "\x00" + strconv.FormatUint(entry, 10)
	}
	fn := f.found[key]
	if fn == nil {
		if f.found == nil {
			return t.fail(acl.ACL_ERROR_RT_INVALID_HANDLE, "binary %#x was unloaded", f.handle)
		}
		fn = &function{name: name, bin: f, kernel: t.sim.kernel(f, name, entry), rule: t.sim.Model.Rule(name)}
		if fn.kernel == nil {
			n, _ := t.sim.Unknowns.Launches.LoadOrStore(name, new(atomic.Int64))
			fn.launches = n.(*atomic.Int64)
		}
		if fn.handle = t.sim.functions.Add(fn); fn.handle == 0 {
			return t.fail(acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many functions")
		}
		f.found[key] = fn
	}
	*h = acl.FuncHandle(fn.handle)
	return acl.ACL_SUCCESS
}

// GetFunctionName stores the name of a kernel.
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
	case uint64(maxLen) <= uint64(len(fn.name)):
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "maxLen %d is too small for the name of %d bytes and its NUL", maxLen, len(fn.name))
	}
	space.PutText(space.List(name, uint64(maxLen)), fn.name)
	return acl.ACL_SUCCESS
}

// layout returns a kernel whose arguments are known.
func (t *Thread) layout(h uint64) (*function, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	fn := t.sim.functions.Get(h)
	if fn == nil {
		if space.KindOf(h) == 0 && h != 0 {
			return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, "%#x is no function handle, and functions known by a host symbol are not simulated", h)
		}
		return nil, t.badHandle(space.KindFunction, h)
	}
	if fn.kernel == nil {
		return nil, t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "kernel %q is in no kernel library: its parameters are not known", fn.name)
	}
	return fn, acl.ACL_SUCCESS
}

// FunctionGetParamCount returns the number of a kernel's parameters.
func (t *Thread) FunctionGetParamCount(func_ acl.Addr, paramCount *uint64) acl.Error {
	fn, e := t.layout(func_)
	if e != 0 {
		return e
	}
	if paramCount == nil {
		return t.null("paramCount")
	}
	*paramCount = uint64(len(fn.kernel.Args))
	return acl.ACL_SUCCESS
}

// FunctionGetParamInfo returns where a parameter lies in the argument block.
func (t *Thread) FunctionGetParamInfo(func_ acl.Addr, paramIndex uint64, paramOffset, paramSize *uint64) acl.Error {
	fn, e := t.layout(func_)
	if e != 0 {
		return e
	}
	if paramIndex >= uint64(len(fn.kernel.Args)) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "parameter %d: kernel %q has %d", paramIndex, fn.name, len(fn.kernel.Args))
	}
	if paramOffset != nil {
		*paramOffset = fn.kernel.Offset(int(paramIndex))
	}
	if paramSize != nil {
		*paramSize = uint64(fn.kernel.Args[paramIndex].Size)
	}
	return acl.ACL_SUCCESS
}
