#define _GNU_SOURCE
#include "guest.h"

#include "engine.h"
#include "face.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Functions of libc that this library exports as well. A program that is linked with it calls these.
 */
#define SIGNALS                                                                                                       \
	X(int, sigaction, (int, const struct sigaction *, struct sigaction *))                                         \
	X(sighandler_t, signal, (int, sighandler_t))                                                                   \
	X(sighandler_t, bsd_signal, (int, sighandler_t))                                                               \
	X(sighandler_t, sysv_signal, (int, sighandler_t))                                                              \
	X(sighandler_t, __sysv_signal, (int, sighandler_t))                                                            \
	X(sighandler_t, sigset, (int, sighandler_t))
#define DESCRIPTORS                                                                                                   \
	X(int, close, (int))                                                                                           \
	X(int, close_range, (unsigned, unsigned, int))                                                                 \
	X(void, closefrom, (int))                                                                                      \
	X(int, dup2, (int, int))                                                                                       \
	X(int, dup3, (int, int, int))

/* Looks a function up once. libc's own is the next one after this library's. */
static void *find(void *_Atomic *known, const char *name)
{
	void *f = atomic_load_explicit(known, memory_order_relaxed);

	if (!f) {
		f = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(known, f, memory_order_relaxed);
	}
	return f;
}

#define X(type, name, params)                                                                                         \
	static void *_Atomic known_##name;                                                                             \
	static inline type(*libc_##name(void)) params                                                                  \
	{                                                                                                              \
		type(*f) params;                                                                                       \
		*(void **)&f = find(&known_##name, #name);                                                             \
		return f;                                                                                              \
	}
SIGNALS
DESCRIPTORS
#undef X

/* Signal handlers may call sigaction and close, and dlsym is not for them: what they need is looked up when the library is loaded. */
__attribute__((constructor)) static void find_all(void)
{
#define X(type, name, params) libc_##name();
	SIGNALS
	DESCRIPTORS
#undef X
}

/*
 * Handlers and stacks. Every handler gets SA_ONSTACK: it then runs on the thread's signal stack and not on that of the code that it interrupts,
 * which may be the engine's.
 */

static int is_function(sighandler_t h) { return h != SIG_DFL && h != SIG_IGN && h != SIG_ERR && h != SIG_HOLD; }

static void on_stack(int sig)
{
	struct sigaction a;

	if (libc_sigaction()(sig, NULL, &a) || !is_function(a.sa_handler) || a.sa_flags & SA_ONSTACK)
		return;
	a.sa_flags |= SA_ONSTACK;
	libc_sigaction()(sig, &a, NULL);
}

/* A program's handler may expect the room that it would have on an ordinary stack. Memory that is never touched costs nothing. */
enum { STACK = 256 << 10, GUARD = 4096 };

void guest_handlers(void)
{
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		on_stack(sig);
}

static char *make_stack(void)
{
	char *m = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (m == MAP_FAILED)
		return NULL; /* the engine brings a smaller one */
	mprotect(m, GUARD, PROT_NONE);
	return m;
}

void guest_set_stack(struct guest_stack *stack)
{
	stack_t s;

	if (sigaltstack(NULL, &s))
		return;
	if (s.ss_flags & SS_DISABLE) {
		if (!stack->made && !(stack->made = make_stack()))
			return;
		s = (stack_t){.ss_sp = stack->made + GUARD, .ss_size = STACK};
		if (sigaltstack(&s, NULL))
			return;
	}
	stack->low = (uintptr_t)s.ss_sp;
	stack->size = s.ss_size;
}

void guest_end_thread(struct guest_stack *stack)
{
	stack_t s, none = {.ss_flags = SS_DISABLE};
	char *made = stack->made;

	*stack = (struct guest_stack){0};
	if (!made || sigaltstack(NULL, &s))
		return;
	/* The program may have another one by now, which is its own. */
	if (s.ss_flags & SS_DISABLE || s.ss_sp != made + GUARD || sigaltstack(&none, NULL) == 0)
		munmap(made, GUARD + STACK);
}

void guest_block(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, NULL, old);
	guest_unblock(&all);
}

void guest_unblock(const sigset_t *mask)
{
	static const int crash[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	sigset_t set = *mask;

	for (size_t i = 0; i < sizeof crash / sizeof *crash; i++)
		sigdelset(&set, crash[i]);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

FACE_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction a;

	if (!act || !is_function(act->sa_handler) || act->sa_flags & SA_ONSTACK)
		return libc_sigaction()(sig, act, old);
	a = *act;
	a.sa_flags |= SA_ONSTACK;
	return libc_sigaction()(sig, &a, old);
}

static sighandler_t set(int sig, sighandler_t h, sighandler_t (*libc)(int, sighandler_t))
{
	sighandler_t before = libc(sig, h);

	if (before != SIG_ERR)
		on_stack(sig);
	return before;
}

FACE_EXPORT sighandler_t signal(int sig, sighandler_t h) { return set(sig, h, libc_signal()); }
FACE_EXPORT sighandler_t bsd_signal(int sig, sighandler_t h) { return set(sig, h, libc_bsd_signal()); }
FACE_EXPORT sighandler_t sigset(int sig, sighandler_t h) { return set(sig, h, libc_sigset()); }
FACE_EXPORT sighandler_t sysv_signal(int sig, sighandler_t h) { return set(sig, h, libc_sysv_signal()); }
FACE_EXPORT sighandler_t __sysv_signal(int sig, sighandler_t h) { return set(sig, h, libc___sysv_signal()); }

/*
 * Descriptors. A program that closes all that it has not opened would close the engine's, and get the same numbers for files of its own, to which the
 * engine would then write. To the program the engine's are not open.
 */

static const _Atomic uint64_t *kept;

void guest_keep(const _Atomic uint64_t *descriptors)
{
	kept = descriptors;
}

static int is_kept(int fd)
{
	return kept && fd >= 0 && fd < MAX_KEPT && atomic_load_explicit(&kept[fd / 64], memory_order_relaxed) >> fd % 64 & 1;
}

void guest_in_child(void)
{
	kept = NULL;
}

FACE_EXPORT int close(int fd)
{
	if (is_kept(fd)) {
		errno = EBADF;
		return -1;
	}
	return libc_close()(fd);
}

FACE_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	int (*range)(unsigned, unsigned, int) = libc_close_range();

	if (!range) {
		errno = ENOSYS;
		return -1;
	}
	for (unsigned fd = first; kept && fd < MAX_KEPT && fd <= last; fd++) {
		if (!is_kept((int)fd))
			continue;
		if (fd > first && range(first, fd - 1, flags))
			return -1;
		if (fd == last)
			return 0;
		first = fd + 1;
	}
	return range(first, last, flags);
}

FACE_EXPORT void closefrom(int from)
{
	if (from < 0)
		from = 0;
	if (close_range((unsigned)from, ~0U, 0))
		for (long fd = from, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
			close((int)fd);
}

FACE_EXPORT int dup2(int from, int to)
{
	if (is_kept(to)) {
		errno = EBUSY;
		return -1;
	}
	return libc_dup2()(from, to);
}

FACE_EXPORT int dup3(int from, int to, int flags)
{
	if (is_kept(to)) {
		errno = EBUSY;
		return -1;
	}
	return libc_dup3()(from, to, flags);
}
