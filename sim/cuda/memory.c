/* Device memory: its file, allocations, and host memory that the device may access. */
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int devices = 1;

uint64_t base = 0x302000000000;

uint8_t *arena;

int file = -1;

struct record *records;

static size_t records_count;

_Static_assert(sizeof(struct record) == 64, "no record lies in two pages");

struct block *blocks; /* by address; mappings in reserved ranges are in a list of their own */

size_t blocks_count;

static size_t blocks_room;

uint64_t used[MOST_DEVICES];

bool open_arena(void)
{
	const char *at = getenv("FAKECUDA_VA_BASE");
	if (at && *at)
		base = strtoull(at, NULL, 16);
	file = (int)syscall(SYS_memfd_create, "fakecuda", MFD_CLOEXEC); /* glibc has the function since 2.27 */
	if (file < 0 || ftruncate(file, ARENA + RECORDS * sizeof *records) != 0)
		return false;
	records = mmap(NULL, RECORDS * sizeof *records, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, ARENA);
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	void *p = mmap((void *)base, RESERVE_AT, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
	/* The addresses are taken: use the range below, unless the user has set the base. */
	if (p == MAP_FAILED && (at == NULL || *at == 0))
		p = mmap((void *)(base -= RESERVE_AT), RESERVE_AT, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
	/* Drivers place memory of their own anywhere. */
	if ((at = getenv("FAKECUDA_TAKES")) != NULL && *at)
		mmap((void *)strtoull(at, NULL, 16), GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return arena != MAP_FAILED && records != MAP_FAILED && p == (void *)base;
}

struct record *new_record(enum kind kind, int device, uint64_t at, uint64_t size)
{
	struct record *r = records_count < RECORDS ? &records[records_count++] : NULL;
	if (r)
		*r = (struct record){.kind = kind, .device = device, .at = at, .size = size};
	return r;
}

uint64_t record_at(const struct record *r) { return ARENA + (uint64_t)(r - records) * sizeof *r; }

int open_file(int pid, int fd)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* A descriptor is the file again, with the file offset at the object's record. */
CUresult give_descriptor(void *out, const struct record *r)
{
	int fd = r ? open_file(getpid(), file) : -1;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	lseek(fd, (off_t)record_at(r), SEEK_SET);
	*(int *)out = fd;
	return OK;
}

/* Returns a private descriptor of the file and the record at its offset. -1 if the record has another kind or does not exist. */
int take_descriptor(const void *handle, enum kind kind, struct record *r)
{
	int fd = (int)(intptr_t)handle;
	off_t at = lseek(fd, 0, SEEK_CUR);
	return at >= (off_t)ARENA && pread(fd, r, sizeof *r, at) == sizeof *r && r->kind == kind && r->size ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
}

void insert(struct block b)
{
	if (blocks_count == blocks_room)
		blocks = realloc(blocks, (blocks_room = blocks_room ? 2 * blocks_room : 64) * sizeof *blocks);
	size_t i = blocks_count++;
	for (; i > 0 && blocks[i - 1].at > b.at; i--)
		blocks[i] = blocks[i - 1];
	blocks[i] = b;
}

struct block *block_at(uint64_t at, int kind)
{
	for (size_t i = 0; i < blocks_count; i++)
		if (blocks[i].at == at && ((int)blocks[i].kind == kind || (kind < 0 && blocks[i].kind <= MANAGED)))
			return &blocks[i];
	return NULL;
}

void erase(struct block *b)
{
	memmove(b, b + 1, (size_t)(&blocks[--blocks_count] - b) * sizeof *b);
}

/* See aclsim/place.h. */
static __thread uint64_t place_wish;

void aclsim_place(uint64_t addr) { place_wish = addr; }

/* Places an allocation at its thread's wanted address, or else the nth one at the nth address in the file FAKECUDA_PLACE, if that is free. */
uint64_t placed(void)
{
	uint64_t wish = place_wish;
	place_wish = 0;
	if (wish)
		return wish;
	static FILE *f;
	static bool asked;
	const char *name = getenv("FAKECUDA_PLACE");
	if (!asked && name && *name)
		f = fopen(name, "r");
	asked = true;
	char line[64];
	return f && fgets(line, sizeof line, f) ? strtoull(line, NULL, 0) : 0;
}

/* Free addresses within a part of the arena, 0 if there are none. */
uint64_t find_room(uint64_t from, uint64_t to, uint64_t size, uint64_t align, uint64_t wish)
{
	for (int pass = wish ? 0 : 1; pass < 2; pass++) {
		uint64_t at = pass == 0 ? wish : base + from + LEAD;
		bool free_ = at >= base + from;
		for (size_t i = 0; i < blocks_count; i++) {
			struct block *b = &blocks[i];
			if (b->kind == MAPPED || b->kind == MULTICAST || b->at + b->size <= at || b->at >= base + to)
				continue;
			if (b->at >= at + size)
				break;
			if (pass == 0) {
				free_ = false;
				break;
			}
			at = (b->at + b->size + align - 1) / align * align;
		}
		if (free_ && at % UNIT == 0 && at + size <= base + to)
			return at;
	}
	return 0;
}

/* A wanted address is available after the streams that free it have done so. */
static void await_room(uint64_t at, uint64_t size)
{
	for (size_t i = 0; at && i < blocks_count; i++)
		if (blocks[i].going && blocks[i].at < at + size && at < blocks[i].at + blocks[i].size) {
			pthread_cond_wait(&moved, &lock);
			i = (size_t)-1;
		}
}

uint64_t room(int device) { return TOTAL / (uint64_t)devices - used[device]; }

CUresult allocate_in(int device, CUdeviceptr *p, size_t size, int kind, uint64_t wish, uint64_t from, uint64_t to)
{
	if (p == NULL || size == 0)
		return INVALID;
	uint64_t align = kind == MANAGED ? PAGE : UNIT, whole = (size + align - 1) / align * align;
	await_room(wish, whole);
	uint64_t at = whole > room(device) ? 0 : find_room(from, to, whole, align, wish);
	if (at == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (kind == MANAGED && mprotect((void *)at, whole, PROT_READ | PROT_WRITE) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	insert((struct block){.at = at, .size = whole, .kind = kind, .device = device, .open = kind == MANAGED ? ~0U : 0});
	used[device] += whole;
	*p = at;
	return OK;
}

CUresult allocate(int device, CUdeviceptr *p, size_t size, int kind, uint64_t wish) { return allocate_in(device, p, size, kind, wish, 0, RESERVE_AT); }

/* The block to free for an address, NULL if there is none. Imported pool memory is freed here too. */
struct block *owned_block(CUdeviceptr p)
{
	struct block *b = block_at(p, -1);
	if (b == NULL && (b = block_at(p - p % PAGE, IMPORTED)) != NULL && b->pool == NULL)
		b = NULL;
	return b;
}

/* Unmaps memory of another process. */
void leave_block(struct block *b)
{
	mmap(arena + (b->at - base), b->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, (off_t)(b->at - base));
	erase(b);
}

CUresult release_block(CUdeviceptr p)
{
	struct block *b = owned_block(p);
	if (b == NULL)
		return INVALID;
	if (b->kind == IMPORTED) {
		leave_block(b);
		return OK;
	}
	if (b->kind == MANAGED)
		mprotect((void *)b->at, b->size, PROT_NONE);
	madvise(arena + (b->at - base), b->size & ~(uint64_t)(PAGE - 1), MADV_REMOVE);
	used[b->device] -= b->size;
	erase(b);
	return OK;
}

/* The allocation that contains a whole range, NULL if there is none. */
struct block *holding(uint64_t at, uint64_t size)
{
	for (size_t i = 0; i < blocks_count; i++) {
		struct block *b = &blocks[i];
		if (b->kind != RESERVED && b->kind != BACKING && b->kind != MULTICAST && at >= b->at && at - b->at <= b->size && size <= b->size - (at - b->at))
			return b;
	}
	return NULL;
}

/* This library's mapping of device memory, NULL if no allocation contains the whole range. */
uint8_t *seen(uint64_t at, uint64_t size) { return holding(at, size) ? arena + (at - base) : NULL; }

bool device_address(uint64_t at) { return at >= base && at < base + ARENA; }

struct host *hosts;

struct host *host_of(const void *p)
{
	for (struct host *h = hosts; h; h = h->next)
		if ((const uint8_t *)p >= h->at && (const uint8_t *)p < h->at + h->size)
			return h;
	return NULL;
}
