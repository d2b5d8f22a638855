#include "executor.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define LIVE UINT64_C(0x6c6e6e6f70620000)

static const size_t sizes[KINDS] = {
	[TENSOR] = sizeof(aclTensor), [SCALAR] = sizeof(aclScalar), [INTS] = sizeof(array),    [FLOATS] = sizeof(array),
	[BOOLS] = sizeof(array),      [TENSORS] = sizeof(array),    [SCALARS] = sizeof(array), [EXECUTOR] = sizeof(aclOpExecutor),
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle *unused[KINDS];

/* A child that is forked meanwhile must not inherit the lock. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

__attribute__((constructor)) static void keep_over_fork(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

void *handle_new(enum kind k)
{
	enum { SLAB = 64 };
	size_t size = (sizes[k] + 15) & ~(size_t)15;

	pthread_mutex_lock(&lock);
	if (!unused[k]) {
		char *slab = calloc(SLAB, size);
		for (int i = SLAB - 1; slab && i >= 0; i--) {
			handle *h = (handle *)(slab + (size_t)i * size);
			h->next = unused[k];
			unused[k] = h;
		}
	}
	handle *h = unused[k];
	if (h)
		unused[k] = h->next;
	pthread_mutex_unlock(&lock);
	if (h)
		atomic_store(&h->live, LIVE | k);
	return h;
}

bool handle_is(const void *h, enum kind k)
{
	return h && (uintptr_t)h % 16 == 0 && atomic_load(&((handle *)(uintptr_t)h)->live) == (LIVE | k);
}

bool handle_end(void *h, enum kind k)
{
	uint64_t live = LIVE | k;

	return h && (uintptr_t)h % 16 == 0 && atomic_compare_exchange_strong(&((handle *)h)->live, &live, 0);
}

void handle_free(void *p, enum kind k)
{
	handle *h = p;

	pthread_mutex_lock(&lock);
	h->next = unused[k];
	unused[k] = h;
	pthread_mutex_unlock(&lock);
}

int32_t report(int32_t code, const char *func, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	aclAppLog(ACL_ERROR, func, "libnnopbase.so", 0, "%s: %s (%d)", func, text, code);
	return code;
}
