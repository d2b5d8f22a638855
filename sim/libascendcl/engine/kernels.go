package main

/*
#cgo CFLAGS: -I${SRCDIR}/../include
#cgo LDFLAGS: -ldl -Wl,--wrap=pthread_create -Wl,--wrap=pthread_getattr_np
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <stdlib.h>
#include "native.h"

static const aclsim_kernel_library *kernels_open(const char *path, const char **file, const char **why)
{
	const aclsim_kernel_library *(*list)(void);
	const aclsim_kernel_library *lib;
	Dl_info info;
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!h) {
		*why = dlerror();
		return NULL;
	}
	*(void **)&list = dlsym(h, "aclsim_kernels");
	if (!list) {
		*why = "it does not export aclsim_kernels";
		return NULL;
	}
	lib = list();
	if (!lib || lib->abi != ACLSIM_KERNEL_ABI || (lib->num_kernels && !lib->kernels)) {
		*why = "it was compiled with another version of aclsim/kernel.h; compile it again";
		return NULL;
	}
	*file = dladdr(*(void **)&list, &info) && info.dli_fname ? info.dli_fname : path;
	return lib;
}
*/
import "C"

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// kernelsSymbol is the function that every kernel library exports. Libraries without it are not loaded, since loading
// runs their code.
const kernelsSymbol = "aclsim_kernels"

// libraries are kernel libraries in search order.
type libraries []*library

// library is a kernel library. The first Lookup opens it.
type library struct {
	path    string
	once    sync.Once
	kernels []*device.Kernel
	crashed atomic.Pointer[device.Crash] // after a crash none of its code runs: it may hold locks or have written anywhere
}

// besides are the libraries found beside binaries, by path.
var besides sync.Map

// named returns the libraries in a list of paths; nil for an empty list. It reports an unusable library at once and
// skips it. The program runs on, as with every invalid setting: a kernel that no library has is reported too.
func named(paths string) device.Kernels {
	var l libraries
	for path := range strings.SplitSeq(paths, ":") {
		if path == "" {
			continue
		}
		file, err := kernellib.Resolve(path, kernelsSymbol)
		if err != nil {
			warn("ignore kernel library %s: %v; correct the path in ACLSIM_KERNELS", path, err)
			continue
		}
		l = append(l, &library{path: file})
	}
	if l == nil {
		return nil
	}
	return l
}

// beside returns the kernel library of a binary: x.so for x.o. It returns nil if that file does not exist or is no
// kernel library.
func beside(binary string) device.Kernels {
	path, err := filepath.Abs(strings.TrimSuffix(binary, filepath.Ext(binary)) + ".so")
	if err != nil {
		return nil
	}
	if l, ok := besides.Load(path); ok {
		return l.(*library)
	}
	if !kernellib.Exports(path, kernelsSymbol) {
		return nil
	}
	l, _ := besides.LoadOrStore(path, &library{path: path})
	return l.(*library)
}

// Lookup finds a kernel by name, or by name and entry, in search order.
func (l libraries) Lookup(name string, entry uint64) *device.Kernel {
	for _, lib := range l {
		lib.once.Do(lib.open) // all, so that the first lookup reports every unusable library
	}
	for _, lib := range l {
		if k := lib.Lookup(name, entry); k != nil {
			return k
		}
	}
	return nil
}

// Lookup finds a kernel in this library.
func (l *library) Lookup(name string, entry uint64) *device.Kernel {
	l.once.Do(l.open)
	for _, k := range l.kernels {
		if k.Name == name && (entry == 0 || k.Entry == 0 || k.Entry == entry) {
			return k
		}
	}
	return nil
}

func (l *library) open() {
	path := C.CString(l.path)
	defer C.free(unsafe.Pointer(path))
	var file, why *C.char
	lib := C.kernels_open(path, &file, &why)
	if lib == nil {
		warn("load kernel library %s: %s", l.path, strings.TrimPrefix(C.GoString(why), l.path+": "))
		return
	}
	report(C.GoString(file))
	for i := range unsafe.Slice(lib.kernels, lib.num_kernels) {
		k := &unsafe.Slice(lib.kernels, lib.num_kernels)[i]
		if k.name == nil || (k.num_args > 0 && k.args == nil) {
			warn("ignore kernel %d of kernel library %s: it has no name or list of arguments", i, l.path)
			continue
		}
		l.kernels = append(l.kernels, l.wrap(k))
	}
}

// report adds a loaded library to the list that a recording or a replay reads.
func report(path string) {
	list := getenv("ACLSIM_KERNELS_LOG")
	if list == "" {
		return
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = kernellib.Append(list, kernellib.Library{Path: path, BuildID: kernellib.BuildID(path)})
	}
	if err != nil {
		warn("report kernel library %s: ACLSIM_KERNELS_LOG: %v", path, err)
	}
}

// wrap returns a Kernel that calls native code.
func (l *library) wrap(k *C.aclsim_kernel) *device.Kernel {
	w := &device.Kernel{Name: C.GoString(k.name), Entry: uint64(k.entry), Crashed: l.crashed.Load}
	for _, a := range unsafe.Slice(k.args, k.num_args) {
		w.Args = append(w.Args, device.Arg{Name: C.GoString(a.name), Kind: device.ArgKind(a.kind), Size: uint32(a.size)})
	}
	run := func(x *device.Launch, from, to uint32) {
		c := launch(x)
		l.check(w, C.kernel_run(k, &c, C.uint32_t(from), C.uint32_t(to)))
	}
	switch {
	case k.run == nil: // it is not computed
	case k.flags&C.ACLSIM_PARALLEL != 0:
		w.Blocks = run
	default:
		w.Run = func(l *device.Launch) { run(l, 0, l.NumBlocks) }
	}
	if k.extents != nil {
		w.Extents = func(x *device.Launch, to []space.Extent) []space.Extent { return l.extents(w, k, x, to) }
	}
	if k.duration != nil {
		w.Duration = func(x *device.Launch) time.Duration {
			c := launch(x)
			var ns C.uint64_t
			l.check(w, C.kernel_duration(k, &c, &ns))
			return time.Duration(ns)
		}
	}
	return w
}

// check disables the library if one of its kernels has crashed.
func (l *library) check(k *device.Kernel, c C.native_crash) {
	if c.signal == 0 {
		return
	}
	crash := &device.Crash{Kernel: k.Name, Signal: unix.SignalName(unix.Signal(c.signal)), Address: uint64(c.address)}
	if l.crashed.CompareAndSwap(nil, crash) {
		warn("%v; this process runs no more kernels of %s, and its later results are unproved", crash, l.path)
		if list := getenv("ACLSIM_KERNELS_LOG"); list != "" {
			if err := kernellib.AppendCrashed(list, k.Name); err != nil {
				warn("report the crash of kernel %s: ACLSIM_KERNELS_LOG: %v", k.Name, err)
			}
		}
	}
}

func launch(l *device.Launch) C.aclsim_launch {
	c := C.aclsim_launch{args: unsafe.Pointer(unsafe.SliceData(l.Args)), args_size: C.uint64_t(len(l.Args)), num_blocks: C.uint32_t(l.NumBlocks)}
	for i := range 3 {
		c.grid[i], c.block[i] = C.uint32_t(l.Grid[i]), C.uint32_t(l.Block[i])
	}
	return c
}

func (l *library) extents(w *device.Kernel, k *C.aclsim_kernel, x *device.Launch, to []space.Extent) []space.Extent {
	c := launch(x)
	out := make([]C.aclsim_extent, 16)
	var n C.uint32_t
	l.check(w, C.kernel_extents(k, &c, &out[0], C.uint32_t(len(out)), &n))
	if int(n) > len(out) {
		out = make([]C.aclsim_extent, n)
		all := n
		l.check(w, C.kernel_extents(k, &c, &out[0], all, &n))
		n = min(n, all)
	}
	for _, x := range out[:n] {
		to = append(to, space.Extent{Addr: uint64(x.addr), Size: uint64(x.size), Access: uint32(x.access), Arg: uint32(x.arg)})
	}
	return to
}
