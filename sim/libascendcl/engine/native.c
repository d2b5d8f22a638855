//go:build cgo

#define _GNU_SOURCE
#include "native.h"

#include <dlfcn.h>
#include <stdlib.h>

// Threads. The linker has every pthread_create of this library, Go's included, go to __wrap_pthread_create: a thread of Go's must not call the
// runtime from a signal handler, and is known by own.

static __thread int own __attribute__((tls_model("initial-exec")));
static __thread volatile int *place __attribute__((tls_model("initial-exec"))); // of a thread of the program's

struct start {
	void *(*fn)(void *);
	void *arg;
};

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

static void *start(void *p)
{
	struct start s = *(struct start *)p;

	free(p);
	own = 1;
	return s.fn(s.arg);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	struct start *s = malloc(sizeof *s);
	int failed;

	if (!s)
		return 11; // EAGAIN
	*s = (struct start){fn, arg};
	failed = __real_pthread_create(t, attr, start, s);
	if (failed)
		free(s);
	return failed;
}

// Go looks at the stack's bounds whenever a call comes from another stack than the one before, as from a signal handler. libc's function allocates
// memory, and the handler may have interrupted malloc: bounds are looked up once for each thread.

static __thread void *stack_low __attribute__((tls_model("initial-exec")));
static __thread size_t stack_size __attribute__((tls_model("initial-exec")));

int __real_pthread_getattr_np(pthread_t t, pthread_attr_t *attr);

int __wrap_pthread_getattr_np(pthread_t t, pthread_attr_t *attr)
{
	int failed;

	if (pthread_equal(t, pthread_self()) && stack_size) {
		pthread_attr_init(attr);
		return pthread_attr_setstack(attr, stack_low, stack_size);
	}
	failed = __real_pthread_getattr_np(t, attr);
	if (!failed && pthread_equal(t, pthread_self()))
		pthread_attr_getstack(attr, &stack_low, &stack_size);
	return failed;
}

int native_thread(pthread_t *t, void *(*fn)(void *), void *arg) { return __real_pthread_create(t, NULL, fn, arg); }

int aclsim_own_thread(void) { return own; }

void native_enter(volatile int *where) { place = where; }

int native_inside(void) { return own || (place && *place == IN_ENGINE); }

void native_function_begins(void)
{
	if (place)
		*place = IN_FUNCTION;
	else
		own = 0;
}

void native_function_returned(void)
{
	if (place)
		*place = IN_ENGINE;
	else
		own = 1;
}

// Descriptors. The face reads the bits as atomic words; Go writes them so.

uint64_t aclsim_kept[MAX_KEPT / 64];

int native_holds(uint64_t address)
{
	Dl_info here, there;

	return dladdr(aclsim_kept, &here) && dladdr((void *)(uintptr_t)address, &there) && here.dli_fbase == there.dli_fbase;
}
