/* The functions of runtime.h for the CUDA driver. */
#define ACLTRACE_EXACT_NAMES
#include "runtime.h"

#include "base/loader.h"
#include "base/sys.h"
#include "base/text.h"
#include "bind/names.h"
#include "bind/passed.h"
#include "cuda.h"
#include "params.h"
#include "record/piece.h"
#include "task/sizes.h"

#include <asm/fcntl.h>
#include <elf.h>
#include <linux/mman.h>

/* The driver does not report task numbers. */
const char *const shim_task_of[2];

const char *const shim_timing[TIMING_LAYERS][TIMING_FUNCTIONS] = {
	[LOWER] = {[CONTEXT] = "cuCtxGetCurrent", [CREATE] = "cuEventCreate", [DESTROY] = "cuEventDestroy_v2", [RECORD] = "cuEventRecord", [STATUS] = "cuEventQuery", [ELAPSED] = "cuEventElapsedTime"},
};
const uint32_t shim_timing_flags = CU_EVENT_DEFAULT;

int32_t shim_event_status(void *function, void *event, bool *done)
{
	_Static_assert((int)TIMING_LATER == (int)CUDA_ERROR_NOT_READY, "not complete");
	CUresult e = ((CUresult (*)(CUevent))function)(event);
	*done = e == CUDA_SUCCESS;
	return e == CUDA_ERROR_NOT_READY ? 0 : (int32_t)e;
}

static CUresult (*param_info(void))(CUfunction, size_t, size_t *, size_t *) { return shim_optional(&shim_own[0], "cuFuncGetParamInfo"); }

/* Whether a handle is a CUkernel, which belongs to no context. It is launched as a CUfunction, but the driver's queries differ. */
static uint64_t loose_key(const void *func) { return shim_part((uint64_t)func, 0x7f); }
static bool is_loose(const void *func)
{
	struct shim_sizes s;
	return shim_sizes_known(loose_key(func), &s) && s.count == 1;
}
static void keep_loose(const void *func, bool loose)
{
	if (loose != is_loose(func))
		shim_sizes_keep(loose_key(func), 0, &(struct shim_sizes){.count = loose});
}

/* The driver reads the sizes from the kernel's binary (12.4 and later). */
bool shim_param_size(const void *func, uint32_t i, size_t *size)
{
	CUresult (*info)(CUfunction, size_t, size_t *, size_t *) = param_info();
	CUresult (*kernel)(CUkernel, size_t, size_t *, size_t *) = shim_optional(&shim_own[1], "cuKernelGetParamInfo");
	size_t off;
	if (is_loose(func))
		return kernel != NULL && kernel((CUkernel)func, i, &off, size) == CUDA_SUCCESS;
	return info != NULL && info((CUfunction)func, i, &off, size) == CUDA_SUCCESS;
}

/*
 * For an older driver the shim reads the sizes from the binaries that the program loads. They are valid until another function has the handle, which
 * the shim sees, since the program gets handles only by these calls.
 */
static bool reads_binaries(void) { return shim_p->ready != PROCESS_OFF && param_info() == NULL; }

static uint64_t key_of(const void *binary, const char *name, uint64_t length)
{
	uint64_t h = text_hash(TEXT_HASH ^ (uint64_t)binary, name, length);
	return (h & ~(0x7fULL << 56)) | 1ULL << 63; /* never equal to a handle; the bits of the part are 0 */
}

static void keep(void *binary, const char *name, uint64_t length, const struct params *params)
{
	uint64_t key = key_of(binary, name, length);
	uint32_t part = 0, n = 0;
	do {
		struct shim_sizes s = {0};
		while (n < params->count && s.count < SHIM_PARAMS)
			s.size[s.count++] = params->size[n++];
		if (n < params->count)
			s.count |= SHIM_MORE;
		shim_sizes_keep(shim_part(key, part++), 0, &s);
	} while (n < params->count);
}

/* Copies the sizes of one key to another. */
static void keep_as(uint64_t key, uint64_t from)
{
	struct shim_sizes s = {.count = SHIM_MORE};
	for (uint32_t part = 0; part < SHIM_PARTS && (s.count & SHIM_MORE); part++) {
		if (!shim_sizes_known(shim_part(from, part), &s))
			s.count = 0;
		shim_sizes_keep(shim_part(key, part), 0, &s);
	}
}

/* For a binary that was obtained from another one and has its kernels: keeps the other's handle under the empty name, which no kernel has. */
enum { HANDLE_PARTS = 4 };

static void keep_other(const void *binary, const void *other)
{
	struct shim_sizes s = {.count = HANDLE_PARTS};
	for (int i = 0; i < HANDLE_PARTS; i++)
		s.size[i] = (uint16_t)((uint64_t)other >> (16 * i));
	shim_sizes_keep(key_of(binary, "", 0), 0, &s);
}

static const void *origin(const void *binary)
{
	struct shim_sizes s;
	if (!shim_sizes_known(key_of(binary, "", 0), &s))
		return binary;
	uint64_t other = 0;
	for (int i = 0; i < HANDLE_PARTS; i++)
		other |= (uint64_t)s.size[i] << (16 * i);
	return (const void *)other;
}

void shim_binary_as(const void *binary, const void *other)
{
	if (reads_binaries())
		keep_other(binary, other);
}

void shim_binary(const void *binary, const void *image)
{
	if (image == NULL || !reads_binaries())
		return;
	if (origin(binary) != binary)
		keep_other(binary, binary);
	params_of(shim_image(image), shim_image_size(image), keep, (void *)binary);
}

void shim_binary_file(const void *binary, const char *path)
{
	if (path == NULL || !reads_binaries())
		return;
	if (origin(binary) != binary)
		keep_other(binary, binary);
	long fd = sys_open(path, O_RDONLY), size = fd < 0 ? 0 : sys3(__NR_lseek, fd, 0, 2);
	if (size > 0) {
		long at = sys_map((uint64_t)size, PROT_READ, MAP_PRIVATE, fd, 0, NULL);
		if (!sys_failed(at)) {
			params_of((const void *)at, (uint64_t)size, keep, (void *)binary);
			sys2(__NR_munmap, at, size);
		}
	}
	if (fd >= 0)
		sys1(__NR_close, fd);
}

void shim_kernel(const void *func, const void *binary, const char *name, bool loose)
{
	if (shim_p->ready != PROCESS_OFF)
		keep_loose(func, loose);
	if (name == NULL || !reads_binaries())
		return;
	keep_as((uint64_t)func, key_of(origin(binary), name, text_length(name)));
}

void shim_kernel_as(const void *func, const void *other)
{
	if (shim_p->ready != PROCESS_OFF)
		keep_loose(func, false);
	if (reads_binaries())
		keep_as((uint64_t)func, (uint64_t)other);
}

void shim_packed(struct shim_call *c, uint8_t param, uint32_t item, void **list)
{
	enum { END = 0, POINTER = 1, SIZE = 2, MOST = 16 };
	const void *p = NULL;
	uint64_t size = 0;
	for (int i = 0; list != NULL && i < MOST && (uintptr_t)list[0] != END; i++, list += 2) {
		if ((uintptr_t)list[0] == POINTER)
			p = list[1];
		else if ((uintptr_t)list[0] == SIZE && list[1] != NULL)
			size = *(const size_t *)list[1];
	}
	shim_far(c, param, 0, item, p, size);
}

/* A fat binary, and the wrapper that points to one in a program. */
struct fat { uint32_t magic; uint16_t version, header; uint64_t size; };
struct wrapper { uint32_t magic, version; const void *data; const void *name; };
enum { FAT = 0xba55ed50u, WRAPPER = 0x466243b1u };

const void *shim_image(const void *image)
{
	const struct wrapper *w = image;
	return image != NULL && w->magic == WRAPPER ? w->data : image;
}

uint64_t shim_image_size(const void *image)
{
	const uint8_t *p = shim_image(image);
	if (p == NULL)
		return 0;
	if (p[0] == ELFMAG0 && p[1] == ELFMAG1 && p[2] == ELFMAG2 && p[3] == ELFMAG3) {
		const Elf64_Ehdr *e = (const void *)p;
		uint64_t end = e->e_shoff + (uint64_t)e->e_shentsize * e->e_shnum, n = e->e_phoff + (uint64_t)e->e_phentsize * e->e_phnum;
		if (n > end)
			end = n;
		for (unsigned i = 0; i < e->e_shnum && e->e_shentsize >= sizeof(Elf64_Shdr); i++) {
			const Elf64_Shdr *s = (const void *)(p + e->e_shoff + (uint64_t)i * e->e_shentsize);
			if (s->sh_type != SHT_NOBITS && s->sh_offset + s->sh_size > end)
				end = s->sh_offset + s->sh_size;
		}
		return end;
	}
	const struct fat *f = (const void *)p;
	/* By bytes, since text may be shorter than the header. */
	if (p[0] == (FAT & 0xff) && p[1] == (FAT >> 8 & 0xff) && p[2] == (FAT >> 16 & 0xff) && p[3] == FAT >> 24)
		return f->header + f->size;
	return text_length((const char *)p) + 1; /* with the final 0 */
}

/*
 * A program has asked for a function by name and version, and got *fn. If that is the address of an exported function, the address identifies it.
 * Otherwise the version does, up to KNOWN. Any other function is passed through and counted.
 */
void shim_found(const char *symbol, void **fn, int version, uint64_t flags)
{
	enum { KNOWN = 13020, THREAD = 2, LONGEST = 96 };
	static const char *const versions[] = {"", "_v2", "_v3", "_v4"}, *const streams[] = {"", "_ptsz", "_ptds"};
	if (symbol == NULL || fn == NULL || *fn == NULL || shim_is_own(*fn))
		return;
	const struct shim_name *latest = NULL;
	char name[LONGEST + 16];
	size_t n = 0;
	while (symbol[n] && n < LONGEST) {
		name[n] = symbol[n];
		n++;
	}
	for (int exact = 1; exact >= 0 && symbol[n] == 0; exact--)
		for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
			for (unsigned s = 0; s < sizeof streams / sizeof *streams; s++) {
				size_t k = n;
				for (const char *t = versions[v]; *t; t++)
					name[k++] = *t;
				for (const char *t = streams[s]; *t; t++)
					name[k++] = *t;
				name[k] = 0;
				const struct shim_name *f = shim_lookup(name);
				if (f == NULL)
					continue;
				if (exact && shim_next(name) == *fn) {
					*fn = shim_substitute(f, name, *fn);
					return;
				}
				if (!exact && f->since != 0 && f->since <= version && version <= KNOWN && (s != 0) == (flags == THREAD) && (latest == NULL || f->since >= latest->since))
					latest = f;
				/* Most functions do not use a stream and have one form only. */
				if (!exact && flags == THREAD && s == 0 && latest == NULL && f->since != 0 && f->since <= version && version <= KNOWN)
					latest = f;
			}
	if (latest != NULL)
		*fn = shim_substitute(latest, latest->name, *fn);
	else
		shim_passed(symbol);
}
