/* Modules, libraries, kernels and their parameters, from PTX and binaries. */
#include "driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Adds a line to the list that a recording or a replay reads: "-" and the path of a loaded kernel library, whose build id is
 * unknown here, or "?" and the name of a kernel that no library has. */
void report(char kind, const char *what)
{
	const char *list = getenv("FAKECUDA_KERNELS_LOG");
	char line[PATH_MAX + 4];
	int fd, n;

	if (!list || !*list || (fd = open(list, O_WRONLY | O_APPEND | O_CLOEXEC)) < 0)
		return;
	n = snprintf(line, sizeof line, "%c %s\n", kind, what);
	if (n >= (int)sizeof line || write(fd, line, (size_t)n) != n)
		fprintf(stderr, "fakecuda: report %s: FAKECUDA_KERNELS_LOG: write %s: %s\n", what, list, n >= (int)sizeof line ? "name too long" : strerror(errno));
	close(fd);
}

/* The address of a symbol of a given type that a library defines itself. dlsym would also search its dependencies, such as libc. */
static void *defined(void *library, const char *name, unsigned type)
{
	void *at = dlsym(library, name);
	struct link_map *of, *map;
	const ElfW(Sym) *symbol;
	Dl_info info;

	if (at == NULL || dlinfo(library, RTLD_DI_LINKMAP, &of) || !dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP) || map != of)
		return NULL;
	if (!dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) || symbol == NULL || (symbol->st_info & 0xf) != type)
		return NULL;
	return at;
}

/* Opens the kernel library by path. A name without a slash is a file in the current folder. */
static void *open_kernels(const char *path)
{
	char file[PATH_MAX];
	void *library;

	if (realpath(path, file) == NULL) {
		fprintf(stderr, "fakecuda: load kernel library %s: %s\n", path, strerror(errno));
		return NULL;
	}
	if ((library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) == NULL) {
		fprintf(stderr, "fakecuda: load kernel library: %s\n", dlerror());
		return NULL;
	}
	if (defined(library, "fakecuda_kernels", STT_OBJECT) == NULL) {
		fprintf(stderr, "fakecuda: load kernel library %s: it does not export fakecuda_kernels; include fakecuda.h in its source\n", file);
		return NULL;
	}
	report('-', file);
	return library;
}

static fakecuda_kernel *kernel_named(const char *name)
{
	static void *library;
	static bool asked;
	const char *path = getenv("FAKECUDA_KERNELS");
	if (!asked && path && *path)
		library = open_kernels(path);
	asked = true;
	return library ? (fakecuda_kernel *)defined(library, name, STT_FUNC) : NULL;
}

/* Finds a variable by name: first in the same text, then in texts linked to it. */
struct variable *variable_named(const struct module *m, const char *name, int unit)
{
	struct variable *best = NULL;
	for (struct variable *v = m->variables; v; v = v->next)
		if (strcmp(v->as->name, name) == 0 && (best == NULL || v->as->unit == unit))
			best = v;
	return best;
}

static CUresult parse(struct module *m, const char *text)
{
	if (!ptx_read(&m->text, text))
		return CUDA_ERROR_INVALID_IMAGE;
	for (struct ptx_kernel *k = m->text.kernels; k; k = k->next) {
		struct function *f = make(FUNCTION, sizeof *f);
		f->module = m;
		f->name = k->name, f->params = k->params, f->count = k->count, f->size = k->size;
		f->run = kernel_named(f->name);
		f->sibling = m->functions;
		m->functions = f;
	}
	for (struct ptx_variable *p = m->text.variables; p; p = p->next) {
		struct variable *v = calloc(1, sizeof *v);
		v->as = p;
		CUresult e = allocate(current() ? current()->device : 0, &v->at, p->size, p->managed ? MANAGED : PLAIN, 0);
		if (e) {
			free(v);
			return e;
		}
		v->next = m->variables;
		m->variables = v;
		if (p->value)
			memcpy(seen(v->at, p->size), p->value, p->size);
		else
			memset(seen(v->at, p->size), 0, p->size);
	}
	for (struct variable *v = m->variables; v; v = v->next)
		for (size_t i = 0; i < v->as->count; i++) {
			const struct ptx_address *a = &v->as->addresses[i];
			struct variable *to = variable_named(m, a->name, v->as->unit);
			uint64_t value = to ? (to->at + a->add) & a->mask : 0; /* functions have no address here */
			if (value)
				value >>= __builtin_ctzll(a->mask);
			memcpy(seen(v->at + a->at, a->bytes), &value, a->bytes);
		}
	return OK;
}

/* The PTX in an image: plain text, a fat binary, or an ELF file with a section .ptx. */
CUresult text_of(const uint8_t *image, const char **text)
{
	uint32_t magic;
	if (image == NULL)
		return INVALID;
	memcpy(&magic, image, sizeof magic);
	if (magic == 0x466243b1) {
		memcpy(&image, image + 8, sizeof image);
		return text_of(image, text);
	}
	if (magic == 0xba55ed50) {
		uint16_t header;
		uint64_t size;
		memcpy(&header, image + 6, 2);
		memcpy(&size, image + 8, 8);
		for (const uint8_t *p = image + header, *end = p + size; p + 16 <= end;) {
			uint16_t kind;
			uint32_t head;
			uint64_t body;
			memcpy(&kind, p, 2);
			memcpy(&head, p + 4, 4);
			memcpy(&body, p + 8, 8);
			if (kind == 1) {
				*text = (const char *)p + head;
				return OK;
			}
			p += head + body;
		}
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (memcmp(image, ELFMAG, SELFMAG) == 0) {
		const Elf64_Ehdr *e = (const void *)image;
		const Elf64_Shdr *s = (const void *)(image + e->e_shoff);
		for (unsigned i = 0; i < e->e_shnum; i++)
			if (strcmp((const char *)image + s[e->e_shstrndx].sh_offset + s[i].sh_name, ".ptx") == 0) {
				*text = (const char *)image + s[i].sh_offset;
				return OK;
			}
		return CUDA_ERROR_INVALID_IMAGE;
	}
	*text = (const char *)image;
	return OK;
}

static CUresult load(struct module *m, const uint8_t *image)
{
	const char *text;
	CUresult e = text_of(image, &text);
	return e ? e : parse(m, text);
}

static CUresult load_module(void **out, const void *image, bool context)
{
	struct context *c;
	CUresult e = OK;
	if (out == NULL || image == NULL)
		return INVALID;
	if (context)
		e = enter(&c);
	else if (!initialized)
		e = CUDA_ERROR_NOT_INITIALIZED;
	else
		pthread_mutex_lock(&lock);
	if (e)
		return e;
	struct module *m = make(MODULE, sizeof *m);
	m->library = !context;
	e = load(m, image);
	if (e)
		m->o.gone = true;
	else
		*out = m;
	return leave(e);
}

/* The content of a file with a 0 appended; NULL if there is none. */
char *file_bytes(const char *name, size_t *size)
{
	FILE *f = name ? fopen(name, "rb") : NULL;
	if (f == NULL)
		return NULL;
	size_t room = 1 << 20, n;
	char *b = calloc(1, room + 1);
	size_t have = 0;
	while ((n = fread(b + have, 1, room - have, f)) > 0) {
		have += n;
		if (have == room) {
			b = realloc(b, 2 * room + 1);
			memset(b + room, 0, room + 1);
			room *= 2;
		}
	}
	fclose(f);
	*size = have;
	return b;
}

static CUresult load_file(void **out, const char *name, bool context)
{
	size_t size;
	char *b = file_bytes(name, &size);
	CUresult e = b ? load_module(out, b, context) : CUDA_ERROR_FILE_NOT_FOUND;
	free(b);
	return e;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) { return load_file((void **)module, fname, true); }

CUresult cuModuleLoadData(CUmodule *module, const void *image) { return load_module((void **)module, image, true); }

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, CUjit_option *options, void **optionValues)
{
	return numOptions && (options == NULL || optionValues == NULL) ? INVALID : load_module((void **)module, image, true);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues, unsigned numJitOptions, CUlibraryOption *libraryOptions,
			   void **libraryOptionValues, unsigned numLibraryOptions)
{
	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return load_module((void **)library, code, false);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues, unsigned numJitOptions, CUlibraryOption *libraryOptions,
			       void **libraryOptionValues, unsigned numLibraryOptions)
{
	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return load_file((void **)library, fileName, false);
}

static CUresult unload(const void *handle)
{
	FIND(module, m, known(MODULE, handle), HANDLE);
	m->o.gone = true;
	for (struct function *f = m->functions; f; f = f->sibling)
		f->o.gone = true;
	for (struct variable *v = m->variables; v; v = v->next)
		release_block(v->at);
	return leave(OK);
}

CUresult cuModuleUnload(CUmodule hmod) { return unload(hmod); }

CUresult cuLibraryUnload(CUlibrary library) { return unload(library); }

/*
 * A kernel without a context and its function in a context have different kinds of handles. Launches take both, other functions only their own.
 * A wrong kind ends the program, as a driver may crash on it.
 */
void *contextless(struct function *f) { return (char *)f + 1; }

static bool is_contextless(const void *h) { return (uintptr_t)h & 1; }

struct function *launchable(const void *h) { return known(FUNCTION, is_contextless(h) ? (const char *)h - 1 : h); }

struct function *function_known(const void *h, bool wants_contextless)
{
	if (h && is_contextless(h) != wants_contextless && launchable(h)) {
		fprintf(stderr, "fakecuda: %s\n", wants_contextless ? "a CUfunction was passed for a CUkernel: the program is aborted" :
			"a CUkernel was passed for a CUfunction: the program is aborted; call cuKernelGetFunction");
		abort();
	}
	return launchable(h);
}

struct module *module_of(const void *handle) { return known(MODULE, (const void *)((uintptr_t)handle & ~(uintptr_t)OF_LIBRARY)); }

static CUresult function_of(void **out, const void *module, const char *name, bool as_kernel)
{
	FIND(module, m, module_of(module), HANDLE);
	for (struct function *f = m->functions; name && f; f = f->sibling)
		if (strcmp(f->name, name) == 0) {
			*out = as_kernel ? contextless(f) : f;
			return leave(OK);
		}
	return leave(CUDA_ERROR_NOT_FOUND);
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) { return function_of((void **)hfunc, hmod, name, false); }

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) { return function_of((void **)pKernel, library, name, true); }

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	pthread_mutex_lock(&lock);
	struct module *m = known(MODULE, library);
	if (m)
		*pMod = (CUmodule)((uintptr_t)m | OF_LIBRARY);
	return leave(m ? OK : HANDLE);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	pthread_mutex_lock(&lock);
	struct function *f = function_known(kernel, true);
	if (f)
		*pFunc = (CUfunction)f;
	return leave(f ? OK : HANDLE);
}

CUresult variable_of(CUdeviceptr *dptr, size_t *bytes, const void *module, const char *name)
{
	FIND(module, m, module_of(module), HANDLE);
	struct variable *v = name ? variable_named(m, name, 0) : NULL;
	if (v && dptr)
		*dptr = v->at;
	if (v && bytes)
		*bytes = v->as->size;
	return leave(v ? OK : CUDA_ERROR_NOT_FOUND);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) { return variable_of(dptr, bytes, hmod, name); }

static CUresult param_info(const void *func, bool as_kernel, size_t index, size_t *offset, size_t *size)
{
	FIND(function, f, function_known(func, as_kernel), HANDLE);
	if (index >= f->count || offset == NULL)
		return leave(INVALID);
	*offset = f->params[index].at;
	if (size)
		*size = f->params[index].size;
	return leave(OK);
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize) { return param_info(func, false, paramIndex, paramOffset, paramSize); }

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize) { return param_info(kernel, true, paramIndex, paramOffset, paramSize); }

static CUresult param_count(const void *func, bool as_kernel, size_t *count)
{
	FIND(function, f, function_known(func, as_kernel), HANDLE);
	return STORE(count, f->count);
}

CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount) { return param_count(func, false, paramCount); }

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) { return param_count(kernel, true, paramCount); }

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	if (pi == NULL || attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return INVALID;
	pthread_mutex_lock(&lock);
	bool there = function_known(hfunc, false);
	switch ((int)attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*pi = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*pi = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*pi = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*pi = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK];
		break;
	default:
		*pi = 0;
	}
	return leave(there ? OK : HANDLE);
}

/* CUDA 3 sets launch parameters in advance. All later launches pass their own. */
CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
	pthread_mutex_lock(&lock);
	if (function_known(hfunc, false) == NULL)
		return leave(HANDLE);
	return leave(x <= 0 || y <= 0 || z <= 0 || (int64_t)x * y * z > 1024 ? INVALID : OK);
}

/* A call that only needs a context. Profiling starts here in a real driver. */
CUresult cuProfilerStart(void)
{
	ENTER(c);
	return leave(OK);
}

static CUresult potential_block(int *minGridSize, int *blockSize, CUfunction func, int most)
{
	if (minGridSize == NULL || blockSize == NULL || most < 0)
		return INVALID;
	ENTER(c);
	if (function_known(func, false) == NULL)
		return leave(HANDLE);
	*blockSize = most > 0 && most < 1024 ? most : 1024;
	return STORE(minGridSize, device_attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] * (2048 / *blockSize));
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize shared, size_t dynamicSMemSize, int blockSizeLimit)
{
	(void)shared, (void)dynamicSMemSize;
	return potential_block(minGridSize, blockSize, func, blockSizeLimit);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
	(void)dynamicSMemSize;
	if (numBlocks == NULL || blockSize <= 0)
		return INVALID;
	ENTER(c);
	*numBlocks = blockSize > 1024 ? 0 : 2048 / blockSize < 32 ? 2048 / blockSize : 32;
	return leave(function_known(func, false) ? OK : HANDLE);
}
