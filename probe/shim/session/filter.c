/*
 * Programs that filter their system calls (seccomp). A filter may kill a process for a call that it does not list, so the shim makes none once
 * there is one. The program sets a filter by prctl or syscall, which this file wraps.
 *
 * Without system calls the shim can't record payloads that the device may still write, nor children. Threads get rings from a pool
 * (session/pool.c). Other memory that is needed later is mapped before the filter is set, by hooks.
 */
#include "base/clock.h"
#include "base/hooks.h"
#include "base/loader.h"
#include "base/sys.h"
#include "session/pool.h"
#include "session/process.h"
#include "session/thread.h"

enum { PR_SECCOMP = 22, PR_COUNTER = 26, PR_FORBIDS = 2, STRICT = 0, FILTER = 1, PR_STRICT = 1 };

/* The thread is about to set a filter. Returns whether it is the first. */
static bool before_filter(void)
{
	const uint64_t PATIENCE_NS = 100000000;
	if (shim_filtered())
		return false;
	uint64_t since = shim_monotonic();
	if (shim_loaded() && open_process()) {
		SHIM_RUN_HOOKS(filter);
		make_pool();
	}
	shim_set_filtered(true);
	/* Wait until no thread is in a system call of the shim, which takes a few milliseconds. A call that was left by a longjmp never ends. */
	while (__atomic_load_n(&shim_p->inside, __ATOMIC_SEQ_CST) != 0) {
		struct { int64_t sec, nsec; } now = {0, 0};
		sys_raw(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
		sys_raw(__NR_clock_gettime, 1, SYS_ARG(&now), 0, 0, 0, 0);
		if ((uint64_t)now.sec * 1000000000 + (uint64_t)now.nsec - since > PATIENCE_NS)
			break;
	}
	return true;
}

/* The kernel has set the filter (ok), or refused it. */
static void after_filter(bool first, bool ok)
{
	struct process *p = shim_own_process();
	if (!first)
		return;
	if (!ok)
		shim_set_filtered(false);
	else if (p != NULL) {
		__atomic_store_n(&p->filtered, 1, __ATOMIC_RELEASE);
		__atomic_add_fetch(&shim_control->filtered, 1, __ATOMIC_RELEASE);
	}
}

/* What a call asks of the kernel. */
enum wish { NOTHING, A_FILTER, STRICT_MODE, NO_COUNTER };

static enum wish wish_of_prctl(long option, long a)
{
	if (option == PR_SECCOMP)
		return a == PR_STRICT ? STRICT_MODE : A_FILTER;
	return option == PR_COUNTER && a == PR_FORBIDS ? NO_COUNTER : NOTHING;
}

static enum wish wish_of_syscall(long n, long a, long b)
{
	if (n == __NR_seccomp && (a == STRICT || a == FILTER))
		return a == STRICT ? STRICT_MODE : A_FILTER;
	return n == __NR_prctl ? wish_of_prctl(a, b) : NOTHING;
}

/* In strict mode, x86-64 forbids the thread to read the counter too. */
static void after(enum wish w, bool first, bool ok)
{
	if (w != NO_COUNTER)
		after_filter(first, ok);
#if defined(__x86_64__)
	if (ok && w != A_FILTER)
		shim_confine(w == NO_COUNTER);
#endif
}

static void *real_syscall, *real_prctl;

SHIM_EXPORT long syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long (*next)(long, long, long, long, long, long, long) = (long (*)(long, long, long, long, long, long, long))shim_real(&real_syscall, "syscall");
	enum wish w = wish_of_syscall(n, a, b);
	if (__builtin_expect(w == NOTHING, 1))
		return next(n, a, b, c, d, e, f);
	bool first = w != NO_COUNTER && before_filter();
	long r = next(n, a, b, c, d, e, f);
	after(w, first, r == 0);
	return r;
}

SHIM_EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int (*next)(int, unsigned long, unsigned long, unsigned long, unsigned long) =
		(int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long))shim_real(&real_prctl, "prctl");
	enum wish w = wish_of_prctl(option, (long)a);
	if (__builtin_expect(w == NOTHING, 1))
		return next(option, a, b, c, d);
	bool first = w != NO_COUNTER && before_filter();
	int r = next(option, a, b, c, d);
	after(w, first, r == 0);
	return r;
}
