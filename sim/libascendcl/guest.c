#define _GNU_SOURCE
#include "guest.h"

#include "bind.h"
#include "engine.h"
#include "face.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Functions of libc that have a substitute here, guest_NAME, which this library exports as NAME. Programs call it if this library comes before
 * libc in the order of symbols. If it does not, as in a program that reaches it through another library or by dlopen, the tables of all
 * loaded libraries are bound to the substitutes: see bind.c.
 */
#define SIGNALS                                                                                                       \
	X(int, sigaction, (int, const struct sigaction *, struct sigaction *))                                         \
	X(sighandler_t, signal, (int, sighandler_t))                                                                   \
	X(sighandler_t, bsd_signal, (int, sighandler_t))                                                               \
	X(sighandler_t, sysv_signal, (int, sighandler_t))                                                              \
	X(sighandler_t, __sysv_signal, (int, sighandler_t))                                                            \
	X(sighandler_t, sigset, (int, sighandler_t))                                                                   \
	X(int, sigaltstack, (const stack_t *, stack_t *))
#define DESCRIPTORS                                                                                                   \
	X(int, close, (int))                                                                                           \
	X(int, close_range, (unsigned, unsigned, int))                                                                 \
	X(void, closefrom, (int))                                                                                      \
	X(int, dup2, (int, int))                                                                                       \
	X(int, dup3, (int, int, int))

#define X(type, name, params) static type guest_##name params;
SIGNALS
DESCRIPTORS
#undef X

static const struct binding bindings[] = {
#define X(type, name, params) {#name, (void *)guest_##name},
	SIGNALS
	DESCRIPTORS
#undef X
};

/* Looks a function up once. */
static void *find(void *_Atomic *known, const char *name)
{
	void *f = atomic_load_explicit(known, memory_order_relaxed);

	if (!f) {
		f = bind_find(name);
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

/* Signal handlers may call sigaction and close, but not dlsym. So the functions are looked up when the library is loaded. */
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

/* A program's handler may need as much stack as on an ordinary stack. Untouched memory costs nothing. */
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

	if (libc_sigaltstack()(NULL, &s))
		return;
	if (s.ss_flags & SS_DISABLE) {
		if (!stack->made && !(stack->made = make_stack()))
			return;
		s = (stack_t){.ss_sp = stack->made + GUARD, .ss_size = STACK};
		if (libc_sigaltstack()(&s, NULL))
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
	if (!made || libc_sigaltstack()(NULL, &s))
		return;
	/* The program may have another one by now, which is its own. */
	if (s.ss_flags & SS_DISABLE || s.ss_sp != made + GUARD || libc_sigaltstack()(&none, NULL) == 0)
		munmap(made, GUARD + STACK);
}

/* A thread that the engine knows always has a signal stack: a signal of Go's would end the program without one. */
static int guest_sigaltstack(const stack_t *new, stack_t *old)
{
	int r = libc_sigaltstack()(new, old);

	if (r == 0 && new)
		face_changed_stack();
	return r;
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

/*
 * Crashes. The handlers form a chain: front, the engine's, behind, the program's. front gives the crash of a kernel to the engine. The engine's
 * takes faults in its own code and passes others on to the handler that it found when it was opened, behind. Handlers that the program sets
 * meanwhile are stored in theirs.
 */

static const int crashes[] = CRASH_SIGNALS;
enum { CRASHES = sizeof crashes / sizeof *crashes };
static struct sigaction theirs[CRASHES], engines[CRASHES];
static void (*kernel_crashed)(int sig, siginfo_t *info, void *context);
static atomic_int chained; /* in the process with this id: a child of vfork shares the memory and not the handlers */
static atomic_flag chain_lock = ATOMIC_FLAG_INIT;

/* A handler may set handlers, so all signals are blocked while the lock is held. */
static void lock_chain(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	while (atomic_flag_test_and_set_explicit(&chain_lock, memory_order_acquire))
		;
}

static void unlock_chain(const sigset_t *old)
{
	atomic_flag_clear_explicit(&chain_lock, memory_order_release);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static int crash_number(int sig)
{
	for (int i = 0; i < CRASHES; i++)
		if (crashes[i] == sig)
			return i;
	return -1;
}

static void behind(int sig, siginfo_t *info, void *context)
{
	int i = crash_number(sig);
	struct sigaction a;
	sigset_t old;

	lock_chain(&old);
	a = theirs[i];
	if (a.sa_flags & SA_RESETHAND)
		theirs[i].sa_handler = SIG_DFL;
	unlock_chain(&old);
	if (a.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (!is_function(a.sa_handler)) {
		struct sigaction none = {.sa_handler = SIG_DFL};

		libc_sigaction()(sig, &none, NULL);
		if (info->si_code <= 0) /* sent by a program, perhaps this one: no instruction will fault again */
			raise(sig);
		return;
	}
	/* The engine's handlers block all signals. */
	old = ((ucontext_t *)context)->uc_sigmask;
	sigorset(&old, &old, &a.sa_mask);
	if (!(a.sa_flags & SA_NODEFER))
		sigaddset(&old, sig);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(sig, info, context);
	else
		a.sa_handler(sig);
}

static void front(int sig, siginfo_t *info, void *context)
{
	struct sigaction *e = &engines[crash_number(sig)];

	kernel_crashed(sig, info, context);
	/* A signal that was sent is no fault of the engine's, which would print all its stacks. */
	if (info->si_code > 0 && e->sa_flags & SA_SIGINFO)
		e->sa_sigaction(sig, info, context);
	else
		behind(sig, info, context);
}

void guest_before_engine(void)
{
	for (int i = 0; i < CRASHES; i++) {
		struct sigaction a = {.sa_sigaction = behind, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

		sigfillset(&a.sa_mask);
		libc_sigaction()(crashes[i], &a, &theirs[i]);
	}
}

static const _Atomic uint64_t *kept;

void guest_after_engine(void (*crashed)(int sig, siginfo_t *info, void *context), const _Atomic uint64_t *descriptors)
{
	if (!crashed) {
		for (int i = 0; i < CRASHES; i++)
			libc_sigaction()(crashes[i], &theirs[i], NULL);
		return;
	}
	kernel_crashed = crashed;
	kept = descriptors;
	for (int i = 0; i < CRASHES; i++) {
		struct sigaction a;

		libc_sigaction()(crashes[i], NULL, &engines[i]);
		a = engines[i];
		a.sa_sigaction = front;
		a.sa_flags |= SA_SIGINFO | SA_ONSTACK;
		libc_sigaction()(crashes[i], &a, NULL);
	}
	atomic_store(&chained, getpid());
}

/* Returns the number of a crash signal if the program's handler for it is in the chain, else -1. */
static int chain_number(int sig)
{
	int i = atomic_load(&chained) ? crash_number(sig) : -1;

	return i >= 0 && atomic_load(&chained) == getpid() ? i : -1;
}

static int guest_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction a;
	sigset_t mask;
	int i = chain_number(sig);

	if (i >= 0) {
		if (act)
			a = *act;
		lock_chain(&mask);
		if (old)
			*old = theirs[i];
		if (act)
			theirs[i] = a;
		unlock_chain(&mask);
		return 0;
	}
	if (!act || !is_function(act->sa_handler) || act->sa_flags & SA_ONSTACK)
		return libc_sigaction()(sig, act, old);
	a = *act;
	a.sa_flags |= SA_ONSTACK;
	return libc_sigaction()(sig, &a, old);
}

static sighandler_t set(int sig, sighandler_t h, int flags, sighandler_t (*libc)(int, sighandler_t))
{
	sighandler_t before;

	if (h != SIG_HOLD && chain_number(sig) >= 0) {
		struct sigaction a = {.sa_handler = h, .sa_flags = flags}, old;

		return guest_sigaction(sig, &a, &old) ? SIG_ERR : old.sa_handler;
	}
	before = libc(sig, h);
	if (before != SIG_ERR)
		on_stack(sig);
	return before;
}

static sighandler_t guest_signal(int sig, sighandler_t h) { return set(sig, h, SA_RESTART, libc_signal()); }
static sighandler_t guest_bsd_signal(int sig, sighandler_t h) { return set(sig, h, SA_RESTART, libc_bsd_signal()); }
static sighandler_t guest_sigset(int sig, sighandler_t h) { return set(sig, h, 0, libc_sigset()); }
static sighandler_t guest_sysv_signal(int sig, sighandler_t h) { return set(sig, h, SA_RESETHAND | SA_NODEFER, libc_sysv_signal()); }
static sighandler_t guest___sysv_signal(int sig, sighandler_t h) { return set(sig, h, SA_RESETHAND | SA_NODEFER, libc___sysv_signal()); }

/*
 * Descriptors. A program that closes all that it has not opened would close the engine's, and get the same numbers for files of its own, to which the
 * engine would then write. To the program the engine's are not open.
 */

static int is_kept(int fd)
{
	return kept && fd >= 0 && fd < MAX_KEPT && atomic_load_explicit(&kept[fd / 64], memory_order_relaxed) >> fd % 64 & 1;
}

void guest_in_child(void)
{
	kept = NULL;
}

static int guest_close(int fd)
{
	if (is_kept(fd)) {
		errno = EBADF;
		return -1;
	}
	return libc_close()(fd);
}

static int guest_close_range(unsigned first, unsigned last, int flags)
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

static void guest_closefrom(int from)
{
	if (from < 0)
		from = 0;
	if (guest_close_range((unsigned)from, ~0U, 0))
		for (long fd = from, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
			guest_close((int)fd);
}

static int guest_dup2(int from, int to)
{
	if (is_kept(to)) {
		errno = EBUSY;
		return -1;
	}
	return libc_dup2()(from, to);
}

static int guest_dup3(int from, int to, int flags)
{
	if (is_kept(to)) {
		errno = EBUSY;
		return -1;
	}
	return libc_dup3()(from, to, flags);
}

#define X(type, name, params) FACE_EXPORT type name params __attribute__((alias("guest_" #name)));
SIGNALS
DESCRIPTORS
#undef X

/* Libraries that were loaded since the previous call may have set handlers in their constructors. */
void guest_bind(void)
{
	if (bind_all(bindings, sizeof bindings / sizeof *bindings))
		guest_handlers();
}
