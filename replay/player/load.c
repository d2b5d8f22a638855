/* Maps the plan and the results, and loads the runtime library. */
#include "player.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "place_gen.h"

static uint32_t crc_table[8][256];

static void crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
		crc_table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc, const uint8_t *p, uint64_t n)
{
	uint64_t c = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		c = __builtin_ia32_crc32di(c, w);
	}
	while (n--)
		c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
	return ~(uint32_t)c;
}
#endif

static uint32_t crc32c(uint32_t crc, const uint8_t *p, uint64_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_fast(crc, p, n);
#endif
	crc = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t w;
		memcpy(&w, p, 8);
		w ^= crc;
		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= crc_table[7 - k][w >> 8 * k & 255];
	}
	while (n--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
	return ~crc;
}

static int open_file(const char *path, int flags, uint64_t *size)
{
	int fd = open(path, flags | O_CLOEXEC);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (end < 0)
		refuse("open %s: %s", path, strerror(errno));
	*size = (uint64_t)end;
	return fd;
}

static void *map(const char *path, int fd, uint64_t offset, uint64_t size, int prot, int flags)
{
	void *p = size ? mmap(NULL, size, prot, flags, fd, (off_t)offset) : MAP_FAILED;
	if (p == MAP_FAILED)
		refuse("map %s: %s", path, size ? strerror(errno) : "the file is empty");
	return p;
}

/* Maps the extents of a list one after the other. In a long plan, pages are read from the file when they are used. */
static void *map_list(const char *path, int fd, const struct plan_table *list, int prot, int flags)
{
	const struct plan_extent *e = table(list);
	uint64_t size = 0;
	for (uint64_t i = 0; i < list->count; i++)
		size += e[i].size;
	uint8_t *all = size ? map(path, -1, 0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE) : NULL, *at = all;
	for (uint64_t i = 0; i < list->count; at += e[i++].size) {
		if (e[i].size > P.plan->index || e[i].offset > P.plan->index - e[i].size)
			refuse("read plan %s: a section is outside the file; write the plan again", path);
		if (mmap(at, e[i].size, prot, flags | MAP_FIXED | (flags & MAP_SHARED && !long_plan() ? MAP_POPULATE : 0), fd, (off_t)e[i].offset) == MAP_FAILED)
			refuse("map %s: %s", path, strerror(errno));
		if (crc32c(0, at, e[i].size) != e[i].checksum)
			refuse("read plan %s: wrong checksum, the file was changed or damaged; write the plan again", path);
		if (long_plan())
			madvise(at, e[i].size, MADV_DONTNEED);
	}
	return all;
}

/* Copies the pages of data that the run will write. */
static void copy_data(void)
{
	for (uint64_t i = 0; i < P.plan->instructions; i++) {
		const struct plan_instruction *in = &P.instructions[i];
		if (in->relocs == 0)
			continue;
		const struct plan_reloc *l = &P.relocs[in->relocs];
		do {
			volatile uint8_t *data = own_data(in) + l->at;
			*data = *data;
		} while (!(l++->flags & RELOC_LAST));
	}
}

void open_plan(const char *path, const char *results)
{
	uint64_t size, result_size;
	int fd = open_file(path, O_RDONLY, &size), result_fd = -1;
	const struct plan_header *h = map(path, fd, 0, size < PLAN_HEADER ? size : PLAN_HEADER, PROT_READ, MAP_PRIVATE);
	P.plan = h;
	if (size < PLAN_HEADER || memcmp(h->magic, PLAN_MAGIC, 8) != 0)
		refuse("read plan %s: not a plan of acltrace", path);
	if (h->version != PLAN_VERSION)
		refuse("read plan %s: the plan has version %u, the player has version %u; use both of the same acltrace", path, h->version, PLAN_VERSION);
	if (results != NULL) {
		result_fd = open_file(results, O_RDWR, &result_size);
	} else {
		results = "results";
		result_size = h->result_size;
	}
	/* Fault in all pages now, not during the run. MAP_POPULATE makes shared pages only readable, so each is written. */
	uint8_t *r = map(results, result_fd, 0, result_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | (result_fd < 0 ? MAP_ANONYMOUS : 0));
	P.result = (struct result_header *)r;
	for (uint64_t i = 0; i < result_size; i += 4096)
		((volatile uint8_t *)r)[i] = 0;
	crc_init();
	uint8_t page[PLAN_HEADER];
	memcpy(page, h, sizeof page);
	memset(page + offsetof(struct plan_header, checksum), 0, 4);
	if (h->size != size || h->index > size || h->index % 4096 != 0)
		refuse("read plan %s: the file is truncated; copy it again", path);
	P.index = map(path, fd, h->index, size - h->index, PROT_READ, MAP_PRIVATE);
	if (crc32c(crc32c(0, P.index, size - h->index), page, sizeof page) != h->checksum)
		refuse("read plan %s: wrong checksum, the file was changed or damaged; write the plan again", path);
	if (result_size != h->result_size)
		refuse("open %s: the file has %llu bytes, the results of the plan need %llu", results, (unsigned long long)result_size, (unsigned long long)h->result_size);
	P.names = table(&h->names);
	P.functions = table(&h->functions);
	P.processes = table(&h->processes);
	P.threads = table(&h->threads);
	P.data = map_list(path, fd, &h->data_extents, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	P.instructions = map_list(path, fd, &h->instructions_extents, PROT_READ, MAP_SHARED);
	P.templates = map_list(path, fd, &h->templates_extents, PROT_READ, MAP_SHARED);
	P.operands = map_list(path, fd, &h->operands_extents, PROT_READ, MAP_SHARED);
	P.relocs = map_list(path, fd, &h->relocs_extents, PROT_READ, MAP_SHARED);
	close(fd);
	if (result_fd >= 0)
		close(result_fd);
	P.progress = (struct result_thread *)(r + h->result_threads);
	P.slots = (uint64_t *)(r + h->result_slots);
	P.results = (struct result_instruction *)(r + h->result_instructions);
	P.details = (struct result_detail *)(r + h->result_details);
	P.kernels = (char (*)[KERNEL_NAME])(r + h->result_kernels);
	if (!long_plan())
		copy_data();
	memcpy(P.result->magic, RESULT_MAGIC, 8);
	P.result->version = PLAN_VERSION;
}

uint64_t nothing(void) { return 0; }

static void *placed(void *library, const char *name, void *real)
{
	for (place_function *const *place = places; *place; place++)
		real = (*place)(library, name, real);
	return real;
}

void open_library(const char *path)
{
	const bool null = strcmp(path, "null") == 0;
	void *lib = null ? NULL : dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (lib == NULL && !null)
		refuse("load the runtime library: %s", dlerror());
	uint64_t n = P.plan->functions.count;
	P.lib.targets = calloc(n ? n : 1, sizeof *P.lib.targets);
	if (P.lib.targets == NULL)
		refuse("look up %llu functions: out of memory", (unsigned long long)n);
	char missing[3072] = "";
	size_t used = 0;
	for (uint64_t i = 0; i < n; i++) {
		const char *name = P.names + P.functions[i].name;
		P.lib.targets[i] = (struct target){null ? (void *)&nothing : placed(lib, name, dlsym(lib, name)), P.functions[i].how};
		if (P.lib.targets[i].fn == NULL && used + strlen(name) + 2 < sizeof missing)
			used += (size_t)sprintf(missing + used, "\n%s", name);
	}
	if (used)
		refuse("load %.512s: the library lacks functions that the plan calls:%s", path, missing);
	if (null)
		return;
	if (paced())
		*(void **)&P.lib.late = dlsym(lib, "aclsim_late");
	if (getenv("ACLSIM_STRICT") != NULL)
		*(void **)&P.lib.number = dlsym(lib, "aclsim_number");
	*(void **)&P.lib.place = dlsym(lib, "aclsim_place");
	*(void **)&P.lib.unknown = dlsym(lib, "aclsim_unknown");
	*(void **)&P.lib.mark = dlsym(lib, "aclsim_mark");
	if (P.lib.unknown)
		__atomic_store_n(&P.result->reports, 1, __ATOMIC_RELAXED);
}
