#define _GNU_SOURCE
#include "face.h"

#include "include/aclsim/clock.h"
#include "include/aclsim/late.h"
#include "include/aclsim/place.h"
#include "include/aclsim/unknown.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENGINE "libaclsim.so"

/* Tells that this is the simulator and not the vendor's library. */
FACE_EXPORT const int aclsim_simulated = 1;

static struct {
	uint64_t (*call)(uint64_t thread, uint32_t fn, uint64_t *words);
	uint64_t (*thread_begin)(uint64_t *told, int64_t *late, int *own, uint64_t *wish);
	void (*thread_end)(uint64_t thread);
	int (*unknown)(uint64_t addr, uint64_t size, char *kernel, uint64_t n);
	void (*mark)(uint64_t addr, uint64_t size, int reason);
	int64_t (*clock)(uint64_t thread, int64_t work);
} engine;

static char library[PATH_MAX]; /* path of this library */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static atomic_int opening, ready, forked;

static __thread uint64_t thread_id;
/* What the call before has told of a task that it made: its id, with TOLD set. */
static __thread uint64_t told;
#define TOLD (1ULL << 32)
static __thread int64_t late;
static __thread int own;
/* Where the thread's next allocation is to lie, 0 for anywhere. */
static __thread uint64_t wish;

/* The path is taken at load time: it may be relative, and the program may change its directory. */
__attribute__((constructor)) static void find_library(void)
{
	Dl_info info;

	if (!dladdr((const void *)&aclsim_simulated, &info) || !info.dli_fname || !realpath(info.dli_fname, library))
		library[0] = 0;
}

/* In a forked child the engine's threads are gone, and its locks may be held for ever. */
static void after_fork(void)
{
	if (atomic_load(&opening))
		atomic_store(&forked, 1);
}

static void end_thread(void *id)
{
	thread_id = 0; /* a destructor that runs later may call again */
	if (!atomic_load(&forked))
		engine.thread_end((uint64_t)(uintptr_t)id);
}

static void open_engine(void)
{
	char path[PATH_MAX + sizeof ENGINE];
	char *slash;
	void *h;

	pthread_atfork(NULL, NULL, after_fork);
	atomic_store(&opening, 1);
	strcpy(path, library);
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, ENGINE);
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!h) {
		const char *why = dlerror();

		fprintf(stderr, "aclsim: can't open the simulator's engine %s: %s; put " ENGINE " beside libascendcl.so (`make build` makes both)\n",
			path, why ? why : "unknown");
		return;
	}
	*(void **)&engine.call = dlsym(h, "aclsim_call");
	*(void **)&engine.thread_begin = dlsym(h, "aclsim_thread_begin");
	*(void **)&engine.thread_end = dlsym(h, "aclsim_thread_end");
	*(void **)&engine.unknown = dlsym(h, "aclsim_unknown");
	*(void **)&engine.mark = dlsym(h, "aclsim_mark");
	*(void **)&engine.clock = dlsym(h, "aclsim_clock");
	if (!engine.call || !engine.thread_begin || !engine.thread_end || !engine.unknown || !engine.mark || !engine.clock) {
		fprintf(stderr, "aclsim: %s is not the engine of this simulator; run `make build` again\n", path);
		return;
	}
	if (pthread_key_create(&thread_key, end_thread)) {
		fprintf(stderr, "aclsim: the program uses all keys of thread-specific data\n");
		return;
	}
	atomic_store(&ready, 1);
}

static void in_child(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		fprintf(stderr, "aclsim: process %d was forked after its parent had used the runtime: all calls fail in it; fork before the first call\n",
			(int)getpid());
}

/* Calls the engine. Where it can't be called, the answer is the given one for a call without it or in a forked child. */
static inline uint64_t call(uint32_t fn, uint64_t *words, uint64_t without, uint64_t child)
{
	if (__builtin_expect(atomic_load_explicit(&forked, memory_order_relaxed), 0)) {
		in_child();
		return child;
	}
	if (__builtin_expect(!thread_id, 0)) {
		pthread_once(&once, open_engine);
		if (!atomic_load(&ready))
			return without;
		thread_id = engine.thread_begin(&told, &late, &own, &wish);
		pthread_setspecific(thread_key, (void *)(uintptr_t)thread_id);
	}
	told = 0;
	return engine.call(thread_id, fn, words);
}

uint64_t face_call(uint32_t fn, uint64_t *words)
{
	return call(fn, words, ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
}

/* Recorders ask this after every task: a question to the engine would cost as much as a fifth of a launch. */
int face_last_task(uint32_t *id)
{
	if (!(told & TOLD) || id == NULL || atomic_load_explicit(&forked, memory_order_relaxed))
		return 0;
	*id = (uint32_t)told;
	return 1;
}

uint64_t face_ask(uint32_t fn, uint64_t *words)
{
	return call(fn, words, 0, 0);
}

FACE_EXPORT void aclsim_late(int64_t ns)
{
	late = ns;
}

static int64_t engine_clock(int64_t work)
{
	return atomic_load(&ready) && !atomic_load(&forked) ? engine.clock(thread_id, work) : 0;
}

FACE_EXPORT int64_t aclsim_now(void) { return engine_clock(0); }

FACE_EXPORT void aclsim_work(int64_t ns) { engine_clock(ns); }

FACE_EXPORT void aclsim_own(int on)
{
	own = on;
}

FACE_EXPORT void aclsim_place(uint64_t addr)
{
	wish = addr;
}

FACE_EXPORT int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n)
{
	if (!atomic_load(&ready) || atomic_load(&forked))
		return 0;
	return engine.unknown((uint64_t)(uintptr_t)addr, size, kernel, n);
}

FACE_EXPORT void aclsim_mark(const void *addr, size_t size, int reason)
{
	if (atomic_load(&forked))
		return;
	pthread_once(&once, open_engine);
	if (atomic_load(&ready))
		engine.mark((uint64_t)(uintptr_t)addr, size, reason);
}

aclError face_unsupported(const char *name)
{
	enum { MAX_NAMES = 512 };
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const char *said[MAX_NAMES]; /* the names are literals of the exports: one address each */
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < MAX_NAMES && said[i] && said[i] != name; i++)
		;
	if (i < MAX_NAMES && !said[i]) {
		said[i] = name;
		fprintf(stderr, "aclsim: %s is not simulated and returns %d\n", name, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
	}
	pthread_mutex_unlock(&lock);
	return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}
