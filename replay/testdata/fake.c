/*
 * A minimal AscendCL library for the tests of replay, with every way to go wrong. Handles are
 * unique, device memory starts at FAKE_BASE, and a stream works only when a call waits for
 * it, so wrong handles, addresses and comparisons show.
 *
 *	FAKE_BASE=HEX       address of device memory
 *	FAKE_WRONG=OFFSET   every copy to the host has a wrong byte at this offset
 *	FAKE_RACE=OFFSET    every copy to the host has different bytes there in each process
 *	FAKE_CRASH=NAME     the function kills the process
 *	FAKE_HANG=NAME      the function never returns
 *	FAKE_FAIL=NAME      the function fails with 207001
 *	FAKE_FAULT=N,M      the task of the N-th launch fails. Waits and launches from the M-th on return 507015
 *	FAKE_DELAY=NAME     the function takes 30 ms
 *	FAKE_SLOW=NAME      the function takes 30 ms; every later call crashes unless its thread declares that delay
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"

enum { BAD_HANDLE = 107017, GONE = 107018, BAD_PARAM = 107000, GRAPH_RUNS = 107037, NO_MEMORY = 207001 };

static int64_t late;
static int slowed;
void aclsim_late(int64_t ns) { late = ns; }

static int trouble(const char *name)
{
	const char *crash = getenv("FAKE_CRASH"), *hang = getenv("FAKE_HANG"), *fail = getenv("FAKE_FAIL");
	if (crash && strcmp(crash, name) == 0)
		raise(SIGSEGV);
	while (hang && strcmp(hang, name) == 0)
		sleep(1);
	const char *slow = getenv("FAKE_SLOW");
	if (slowed && late < 25000000)
		raise(SIGSEGV);
	if (slow && strcmp(slow, name) == 0) {
		usleep(30000);
		slowed = 1;
	}
	const char *delay = getenv("FAKE_DELAY");
	if (delay && strcmp(delay, name) == 0)
		usleep(30000);
	return fail && strcmp(fail, name) == 0;
}

#define BEGIN                      \
	if (trouble(__func__))     \
		return NO_MEMORY;

/* Handles: numbers unique to this run, each with one kind. */
static uint64_t next_handle;
static struct { uint64_t handle; int kind; } live[1024];
static int handles;
enum { STREAM = 1, EVENT, BINARY, FUNCTION, GRAPH };

static void *make(int kind)
{
	if (next_handle == 0)
		next_handle = 0x7000000 + ((uint64_t)getpid() << 32);
	live[handles].handle = next_handle += 16;
	live[handles++].kind = kind;
	return (void *)next_handle;
}

static int known(void *h, int kind)
{
	for (int i = 0; i < handles; i++)
		if (live[i].handle == (uint64_t)h && live[i].kind == kind)
			return 1;
	return 0;
}

/* Describes an invalid handle: destroyed or never made. */
static int bad(void *h)
{
	for (int i = 0; i < handles; i++)
		if (live[i].handle == (uint64_t)h)
			return GONE;
	return BAD_HANDLE;
}

static int forget(void *h, int kind)
{
	for (int i = 0; i < handles; i++)
		if (live[i].handle == (uint64_t)h && live[i].kind == kind) {
			live[i].kind = 0;
			return 0;
		}
	return bad(h);
}

/* Device memory: a part of this process, allocated from the front and reused. */
static uint8_t *arena;
static uint64_t used;
static struct { uint64_t at, size; } blocks[1024];
static int nblocks;
#define ARENA (64 << 20)

static int on_device(const void *p) { return arena && (uint8_t *)p >= arena && (uint8_t *)p < arena + ARENA; }

static int allocated(const void *p, size_t n)
{
	for (int i = 0; i < nblocks; i++)
		if ((uint64_t)p >= blocks[i].at && (uint64_t)p + n <= blocks[i].at + blocks[i].size)
			return 1;
	return 0;
}

aclError aclrtMalloc(void **p, size_t size, aclrtMemMallocPolicy policy)
{
	(void)policy;
	BEGIN
	if (arena == NULL) {
		const char *base = getenv("FAKE_BASE");
		arena = mmap(base ? (void *)strtoull(base, NULL, 16) : NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (size == 0)
		return BAD_PARAM;
	if (size > ARENA - used)
		return NO_MEMORY;
	*p = arena + used;
	blocks[nblocks].at = (uint64_t)*p;
	blocks[nblocks++].size = size;
	used += (size + 511) & ~511ull;
	return 0;
}

aclError aclrtFree(void *p)
{
	BEGIN
	for (int i = 0; i < nblocks; i++)
		if (blocks[i].at == (uint64_t)p) {
			if (blocks[i].at + ((blocks[i].size + 511) & ~511ull) == (uint64_t)arena + used)
				used = blocks[i].at - (uint64_t)arena; /* the next allocation reuses this address */
			blocks[i].at = blocks[i].size = 0;
			return 0;
		}
	return BAD_PARAM;
}

static struct { uint8_t *at; size_t size; } pinned[64];
static int npinned;

aclError aclrtMallocHost(void **p, size_t size)
{
	BEGIN
	*p = calloc(1, size);
	pinned[npinned].at = *p;
	pinned[npinned++].size = size;
	return 0;
}

aclError aclrtFreeHost(void *p)
{
	BEGIN
	(void)p;
	return 0;
}

static int is_pinned(const void *p)
{
	for (int i = 0; i < npinned; i++)
		if ((uint8_t *)p >= pinned[i].at && (uint8_t *)p < pinned[i].at + pinned[i].size)
			return 1;
	return 0;
}

static aclError copy(void *dst, size_t max, const void *src, size_t n)
{
	if (n > max)
		return BAD_PARAM;
	if ((on_device(dst) && !allocated(dst, n)) || (on_device(src) && !allocated(src, n)))
		return BAD_PARAM;
	memcpy(dst, src, n);
	const char *wrong = getenv("FAKE_WRONG");
	if (wrong && !on_device(dst) && strtoull(wrong, NULL, 0) < n)
		((uint8_t *)dst)[strtoull(wrong, NULL, 0)] ^= 0xff;
	const char *race = getenv("FAKE_RACE");
	if (race && !on_device(dst) && strtoull(race, NULL, 0) + 4 <= n) {
		uint32_t pid = (uint32_t)getpid();
		memcpy((uint8_t *)dst + strtoull(race, NULL, 0), &pid, 4);
	}
	return 0;
}

/* Pending work of a stream. */
static struct work {
	void *stream, *dst;
	const void *src;
	size_t n;
	uint64_t args[3];
	int kernel;
} queue[1024];
static int queued;
static int polls;

static aclError finish(void *stream)
{
	aclError e = 0;
	int left = 0;
	for (int i = 0; i < queued; i++) {
		struct work *w = &queue[i];
		if (stream && w->stream != stream) {
			queue[left++] = *w;
			continue;
		}
		if (!w->kernel) {
			e = copy(w->dst, w->n, w->src, w->n);
			continue;
		}
		/* The kernel: args[0][i] = args[1][i] + 1, n bytes. */
		uint8_t *to = (uint8_t *)w->args[0];
		const uint8_t *from = (const uint8_t *)w->args[1];
		if (!allocated(to, w->args[2]) || !allocated(from, w->args[2]))
			return 507015;
		for (uint64_t k = 0; k < w->args[2]; k++)
			to[k] = from[k] + 1;
	}
	queued = left;
	return e;
}

/* The failed task's error if it is known after a number of launches, otherwise 0. */
static int launches;
static int failed_task(int seen_by)
{
	static int failed;
	const char *fault = getenv("FAKE_FAULT");
	int task = 0, moment = 0;
	if (fault && sscanf(fault, "%d,%d", &task, &moment) == 2)
		failed |= launches >= task && seen_by >= moment;
	return failed ? ACL_ERROR_RT_AICORE_EXCEPTION : 0;
}

enum { ALWAYS = 1 << 30 };

aclError aclrtSetStreamFailureMode(aclrtStream s, uint64_t mode)
{
	BEGIN
	return !known(s, STREAM) ? bad(s) : mode > 1 ? BAD_PARAM : 0;
}

aclError aclInit(const char *config)
{
	(void)config;
	BEGIN
	return 0;
}

aclError aclrtSetDevice(int32_t device)
{
	BEGIN
	return device == 0 ? 0 : BAD_PARAM;
}

aclError aclrtCreateStream(aclrtStream *s)
{
	BEGIN
	*s = make(STREAM);
	return 0;
}

aclError aclrtDestroyStream(aclrtStream s)
{
	BEGIN
	finish(s);
	return forget(s, STREAM);
}

/* Copies are made at once, so events and host functions have nothing to do. */
aclError aclrtCreateEvent(aclrtEvent *e)
{
	BEGIN
	*e = make(STREAM);
	return 0;
}

aclError aclrtRecordEvent(aclrtEvent e, aclrtStream s)
{
	(void)e, (void)s;
	return 0;
}

aclError aclrtStreamWaitEvent(aclrtStream s, aclrtEvent e)
{
	(void)e, (void)s;
	return 0;
}

aclError aclrtLaunchHostFunc(aclrtStream s, aclrtHostFunc fn, void *args)
{
	(void)s;
	fn(args);
	return 0;
}

aclError aclrtSynchronizeStream(aclrtStream s)
{
	BEGIN
	if (failed_task(ALWAYS))
		return failed_task(ALWAYS);
	return known(s, STREAM) ? finish(s) : bad(s);
}

aclError aclrtSynchronizeDevice(void)
{
	BEGIN
	if (failed_task(ALWAYS))
		return failed_task(ALWAYS);
	return finish(NULL);
}

aclError aclmdlRIBuildBegin(aclmdlRI *graph, uint32_t flag)
{
	(void)flag;
	BEGIN
	*graph = make(GRAPH);
	return 0;
}

/* The graph runs until it was to be destroyed twice. */
aclError aclmdlRIDestroy(aclmdlRI graph)
{
	static int destroyed;

	BEGIN
	return known(graph, GRAPH) && destroyed++ < 2 ? GRAPH_RUNS : forget(graph, GRAPH);
}

/* Returns complete at the fourth query. */
aclError aclrtStreamQuery(aclrtStream s, aclrtStreamStatus *status)
{
	BEGIN
	if (!known(s, STREAM))
		return BAD_HANDLE;
	if (++polls % 4 != 0) {
		*status = ACL_STREAM_STATUS_NOT_READY;
		return 0;
	}
	*status = ACL_STREAM_STATUS_COMPLETE;
	return finish(s);
}

#ifndef WITHOUT_MEMCPY
aclError aclrtMemcpy(void *dst, size_t max, const void *src, size_t n, aclrtMemcpyKind kind)
{
	(void)kind;
	BEGIN
	return copy(dst, max, src, n);
}
#endif

aclError aclrtMemcpyAsync(void *dst, size_t max, const void *src, size_t n, aclrtMemcpyKind kind, aclrtStream s)
{
	(void)kind;
	BEGIN
	if (!known(s, STREAM))
		return BAD_HANDLE;
	if (n > max)
		return BAD_PARAM;
	if (!(on_device(dst) || is_pinned(dst)) || !(on_device(src) || is_pinned(src))) {
		finish(s);
		return copy(dst, max, src, n);
	}
	queue[queued++] = (struct work){.stream = s, .dst = dst, .src = src, .n = n};
	return 0;
}

aclError aclrtBinaryLoadFromFile(const char *path, aclrtBinaryLoadOptions *o, aclrtBinHandle *b)
{
	BEGIN
	char text[16] = "";
	FILE *f = fopen(path, "r");
	if (f == NULL || fgets(text, sizeof text, f) == NULL || strcmp(text, "binary\n") != 0)
		return BAD_PARAM;
	fclose(f);
	if (o && (o->numOpt != 2 || ((uint32_t *)o->options)[5] != 7))
		return BAD_PARAM;
	*b = make(BINARY);
	return 0;
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle b, const char *name, aclrtFuncHandle *f)
{
	static void *one;
	BEGIN
	if (!known(b, BINARY) || strcmp(name, "add_one") != 0)
		return BAD_HANDLE;
	if (one == NULL)
		one = make(FUNCTION);
	*f = one;
	return 0;
}

/* Patches the caller's block, as the runtime does. */
aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle f, uint32_t blocks, aclrtStream s, aclrtLaunchKernelCfg *cfg, void *args, size_t size, aclrtPlaceHolderInfo *ph, size_t n)
{
	(void)cfg;
	BEGIN
	if (!known(f, FUNCTION) || !known(s, STREAM))
		return BAD_HANDLE;
	if (blocks == 0 || size != 32)
		return BAD_PARAM;
	int e = failed_task(launches + 1);
	if (e)
		return e;
	launches++;
	struct work w = {.stream = s, .kernel = 1};
	memcpy(w.args, args, sizeof w.args);
	for (size_t i = 0; i < n; i++)
		memset((uint8_t *)args + ph[i].addrOffset, 0xee, 8);
	queue[queued++] = w;
	return 0;
}

const char *aclrtGetSocName(void) { return "fake"; }
