//go:build cgo

#define _GNU_SOURCE
#include "native.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// Kernels. A crash ends the kernel by a jump back to where it was called.

struct run {
	const char *name;
	sigjmp_buf back;
	volatile native_crash crash;
};

static __thread struct run *running __attribute__((tls_model("initial-exec"))); // NULL if no kernel runs on this thread

static void say(const char *format, const char *kernel)
{
	char line[256];
	int n = snprintf(line, sizeof line, format, kernel);

	if (n > 0 && write(STDERR_FILENO, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1) < 0)
		return;
}

void aclsim_crashed(int sig, siginfo_t *info, void *context)
{
	struct run *r = running;

	if (!r)
		return;
	if (sig == SIGABRT) {
		say("aclsim: kernel %.120s called abort: the program ends\n", r->name);
		running = NULL;
		return;
	}
	if (info->si_code <= 0) // sent by a program: no crash of the kernel
		return;
	r->crash.signal = sig;
	r->crash.address = (uint64_t)(uintptr_t)info->si_addr;
	running = NULL;
	pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
	siglongjmp(r->back, 1);
}

__attribute__((destructor)) static void at_exit(void)
{
	if (running)
		say("aclsim: kernel %.120s called exit: the program ends\n", running->name);
}

// The mask is restored by aclsim_crashed: saving it here would be a system call a launch.
#define KERNEL(k, code)                               \
	do {                                          \
		struct run r;                         \
		r.name = (k)->name;                   \
		r.crash = (native_crash){0};          \
		if (!sigsetjmp(r.back, 0)) {          \
			running = &r;                 \
			code;                         \
			running = NULL;               \
		}                                     \
		return r.crash;                       \
	} while (0)

native_crash kernel_extents(const aclsim_kernel *k, const aclsim_launch *l, aclsim_extent *out, uint32_t max, uint32_t *n)
{
	KERNEL(k, *n = k->extents(l, out, max));
}

native_crash kernel_run(const aclsim_kernel *k, const aclsim_launch *l, uint32_t from, uint32_t to)
{
	KERNEL(k, for (uint32_t b = from; b < to; b++) k->run(l, b));
}

native_crash kernel_duration(const aclsim_kernel *k, const aclsim_launch *l, uint64_t *ns)
{
	KERNEL(k, *ns = k->duration(l));
}

// Descriptors. The face reads the bits as atomic words; Go writes them so.

uint64_t aclsim_kept[MAX_KEPT / 64];

// The linker defines these two. The dynamic loader can't be asked: the thread that opens the engine may hold its lock.
extern const char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

int native_holds(uint64_t address) { return address >= (uint64_t)(uintptr_t)__ehdr_start && address < (uint64_t)(uintptr_t)_end; }
