package main

/*
#cgo CFLAGS: -I${SRCDIR}/../include
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include "aclsim/kernel.h"

static const aclsim_kernel_library *kernels_open(const char *path, const char **why)
{
	const aclsim_kernel_library *(*list)(void);
	const aclsim_kernel_library *lib;
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!h) {
		*why = dlerror();
		return NULL;
	}
	*(void **)&list = dlsym(h, "aclsim_kernels");
	if (!list) {
		*why = "it has no symbol aclsim_kernels";
		return NULL;
	}
	lib = list();
	if (!lib || lib->abi != ACLSIM_KERNEL_ABI || (lib->num_kernels && !lib->kernels)) {
		*why = "it was made for another version of aclsim/kernel.h";
		return NULL;
	}
	return lib;
}

static uint32_t kernel_extents(const aclsim_kernel *k, const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	return k->extents(l, out, max);
}

static void kernel_run(const aclsim_kernel *k, const aclsim_launch *l)
{
	for (uint32_t b = 0; b < l->num_blocks; b++)
		k->run(l, b);
}

static uint64_t kernel_duration(const aclsim_kernel *k, const aclsim_launch *l)
{
	return k->duration(l);
}
*/
import "C"

import (
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/sim"
)

// libraries are the kernel libraries that the environment names. They are opened at the first question.
type libraries struct {
	paths   string
	once    sync.Once
	kernels []*sim.Kernel
}

func newLibraries(paths string) sim.Kernels {
	if paths == "" {
		return nil
	}
	return &libraries{paths: paths}
}

// Lookup finds a kernel by name, or by name and entry. Libraries and the kernels in them are asked in order.
func (l *libraries) Lookup(name string, entry uint64) *sim.Kernel {
	l.once.Do(l.open)
	for _, k := range l.kernels {
		if k.Name == name && (entry == 0 || k.Entry == 0 || k.Entry == entry) {
			return k
		}
	}
	return nil
}

func (l *libraries) open() {
	for _, path := range strings.Split(l.paths, ":") {
		if path == "" {
			continue
		}
		cpath := C.CString(path)
		var why *C.char
		lib := C.kernels_open(cpath, &why)
		C.free(unsafe.Pointer(cpath))
		if lib == nil {
			warn("kernel library %s can't be used: %s", path, C.GoString(why))
			continue
		}
		for i := range unsafe.Slice(lib.kernels, lib.num_kernels) {
			k := &unsafe.Slice(lib.kernels, lib.num_kernels)[i]
			if k.name == nil || k.run == nil || (k.num_args > 0 && k.args == nil) {
				warn("kernel library %s: kernel %d has no name, no function or no arguments, and is left out", path, i)
				continue
			}
			l.kernels = append(l.kernels, wrap(k))
		}
	}
}

// wrap makes a kernel of one that lives in C.
func wrap(k *C.aclsim_kernel) *sim.Kernel {
	w := &sim.Kernel{Name: C.GoString(k.name), Entry: uint64(k.entry)}
	for _, a := range unsafe.Slice(k.args, k.num_args) {
		w.Args = append(w.Args, sim.Arg{Name: C.GoString(a.name), Kind: sim.ArgKind(a.kind), Size: uint32(a.size)})
	}
	w.Run = func(l *sim.Launch) {
		c := launch(l)
		C.kernel_run(k, &c)
	}
	if k.extents != nil {
		w.Extents = func(l *sim.Launch, to []sim.Extent) []sim.Extent { return extents(k, l, to) }
	}
	if k.duration != nil {
		w.Duration = func(l *sim.Launch) time.Duration {
			c := launch(l)
			return time.Duration(C.kernel_duration(k, &c))
		}
	}
	return w
}

func launch(l *sim.Launch) C.aclsim_launch {
	c := C.aclsim_launch{args: unsafe.Pointer(unsafe.SliceData(l.Args)), args_size: C.uint64_t(len(l.Args)), num_blocks: C.uint32_t(l.NumBlocks)}
	for i := range 3 {
		c.grid[i], c.block[i] = C.uint32_t(l.Grid[i]), C.uint32_t(l.Block[i])
	}
	return c
}

func extents(k *C.aclsim_kernel, l *sim.Launch, to []sim.Extent) []sim.Extent {
	c := launch(l)
	out := make([]C.aclsim_extent, 16)
	n := C.kernel_extents(k, &c, &out[0], C.uint32_t(len(out)))
	if int(n) > len(out) {
		out = make([]C.aclsim_extent, n)
		n = min(n, C.kernel_extents(k, &c, &out[0], n))
	}
	for _, x := range out[:n] {
		to = append(to, sim.Extent{Addr: uint64(x.addr), Size: uint64(x.size), Access: uint32(x.access), Arg: uint32(x.arg)})
	}
	return to
}
