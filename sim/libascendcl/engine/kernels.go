package main

/*
#cgo CFLAGS: -I${SRCDIR}/../include
#cgo LDFLAGS: -ldl -Wl,--wrap=pthread_create -Wl,--wrap=pthread_getattr_np
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "aclsim/kernel.h"

// The kernel whose native code this thread is in. A crash there is the kernel's: the line says so before Go's own report.
static __thread const char *running;
static struct sigaction before[NSIG];

static void crashed(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *b = &before[sig];
	char line[256];
	int n;

	if (running) {
		n = snprintf(line, sizeof line, "aclsim: kernel %.120s crashed in its own code: signal %d at address %p\n", running, sig, info->si_addr);
		running = NULL;
		if (n > 0 && write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1) < 0)
			n = 0;
	}
	if (b->sa_flags & SA_SIGINFO) {
		b->sa_sigaction(sig, info, context);
	} else if (b->sa_handler == SIG_DFL) {
		signal(sig, SIG_DFL); // the instruction faults again
	} else if (b->sa_handler != SIG_IGN) {
		b->sa_handler(sig);
	}
}

static void watch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	struct sigaction a;

	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		sigaction(signals[i], NULL, &before[signals[i]]);
		a = before[signals[i]];
		a.sa_sigaction = crashed;
		a.sa_flags |= SA_SIGINFO | SA_ONSTACK;
		sigaction(signals[i], &a, NULL);
	}
}

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
		*why = "it has no symbol aclsim_kernels";
		return NULL;
	}
	lib = list();
	if (!lib || lib->abi != ACLSIM_KERNEL_ABI || (lib->num_kernels && !lib->kernels)) {
		*why = "it was made for another version of aclsim/kernel.h";
		return NULL;
	}
	*file = dladdr(*(void **)&list, &info) && info.dli_fname ? info.dli_fname : path;
	return lib;
}

static uint32_t kernel_extents(const aclsim_kernel *k, const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	uint32_t n;

	running = k->name;
	n = k->extents(l, out, max);
	running = NULL;
	return n;
}

static void kernel_run(const aclsim_kernel *k, const aclsim_launch *l, uint32_t from, uint32_t to)
{
	running = k->name;
	for (uint32_t b = from; b < to; b++)
		k->run(l, b);
	running = NULL;
}

static uint64_t kernel_duration(const aclsim_kernel *k, const aclsim_launch *l)
{
	uint64_t ns;

	running = k->name;
	ns = k->duration(l);
	running = NULL;
	return ns;
}
*/
import "C"

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/sim"
)

// kernelsSymbol is the function that every kernel library exports. A library without it is not loaded: its code runs when it is.
const kernelsSymbol = "aclsim_kernels"

// libraries are kernel libraries in the order in which they are searched.
type libraries []*library

// library is a kernel library. It is opened at the first Lookup.
type library struct {
	path    string
	once    sync.Once
	kernels []*sim.Kernel
}

// besides holds the libraries that were found beside binaries, by path.
var besides sync.Map

// watching starts when the first library is opened.
var watching sync.Once

// named returns the libraries of a list of paths, nil for an empty one.
func named(paths string) sim.Kernels {
	var l libraries
	for path := range strings.SplitSeq(paths, ":") {
		if path == "" {
			continue
		}
		if !strings.Contains(path, "/") {
			path = "./" + path // no name for the linker to search for: the file of the current folder
		}
		l = append(l, &library{path: path})
	}
	if l == nil {
		return nil
	}
	return l
}

// beside returns the kernel library of a binary: x.so for x.o. It returns nil if that file does not exist or is no kernel library.
func beside(binary string) sim.Kernels {
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

// Lookup finds a kernel by name, or by name and entry. Libraries and their kernels are searched in order.
func (l libraries) Lookup(name string, entry uint64) *sim.Kernel {
	for _, lib := range l {
		lib.once.Do(lib.open) // all of them, so that the first question reports every library that can't be used
	}
	for _, lib := range l {
		if k := lib.Lookup(name, entry); k != nil {
			return k
		}
	}
	return nil
}

// Lookup is as that of libraries.
func (l *library) Lookup(name string, entry uint64) *sim.Kernel {
	l.once.Do(l.open)
	for _, k := range l.kernels {
		if k.Name == name && (entry == 0 || k.Entry == 0 || k.Entry == entry) {
			return k
		}
	}
	return nil
}

func (l *library) open() {
	if _, err := os.Stat(l.path); err == nil && !kernellib.Exports(l.path, kernelsSymbol) {
		warn("kernel library %s can't be used: it has no symbol %s", l.path, kernelsSymbol)
		return
	}
	path := C.CString(l.path)
	defer C.free(unsafe.Pointer(path))
	var file, why *C.char
	lib := C.kernels_open(path, &file, &why)
	if lib == nil {
		warn("kernel library %s can't be used: %s", l.path, C.GoString(why))
		return
	}
	report(C.GoString(file))
	for i := range unsafe.Slice(lib.kernels, lib.num_kernels) {
		k := &unsafe.Slice(lib.kernels, lib.num_kernels)[i]
		if k.name == nil || k.run == nil || (k.num_args > 0 && k.args == nil) {
			warn("kernel library %s: kernel %d has no name, no function or no arguments, and is left out", l.path, i)
			continue
		}
		l.kernels = append(l.kernels, wrap(k))
	}
	if len(l.kernels) > 0 {
		watching.Do(func() { C.watch_crashes() })
	}
}

// report adds a library that was loaded to the list that a recording or a replay reads.
func report(path string) {
	list := os.Getenv("ACLSIM_KERNELS_LOG")
	if list == "" {
		return
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = kernellib.Append(list, kernellib.Library{Path: path, BuildID: kernellib.BuildID(path)})
	}
	if err != nil {
		warn("ACLSIM_KERNELS_LOG: %v; kernel library %s is not reported", err, path)
	}
}

// wrap makes a kernel of one that lives in C.
func wrap(k *C.aclsim_kernel) *sim.Kernel {
	w := &sim.Kernel{Name: C.GoString(k.name), Entry: uint64(k.entry)}
	for _, a := range unsafe.Slice(k.args, k.num_args) {
		w.Args = append(w.Args, sim.Arg{Name: C.GoString(a.name), Kind: sim.ArgKind(a.kind), Size: uint32(a.size)})
	}
	run := func(l *sim.Launch, from, to uint32) {
		c := launch(l)
		C.kernel_run(k, &c, C.uint32_t(from), C.uint32_t(to))
	}
	if k.flags&C.ACLSIM_PARALLEL != 0 {
		w.Blocks = run
	} else {
		w.Run = func(l *sim.Launch) { run(l, 0, l.NumBlocks) }
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
