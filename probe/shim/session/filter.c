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

enum { PR_SECCOMP = 22, STRICT = 0, FILTER = 1 };

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

static void *real_syscall, *real_prctl;

SHIM_EXPORT long syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long (*next)(long, long, long, long, long, long, long) = (long (*)(long, long, long, long, long, long, long))shim_real(&real_syscall, "syscall");
	if (__builtin_expect((n == __NR_seccomp && (a == STRICT || a == FILTER)) || (n == __NR_prctl && a == PR_SECCOMP), 0)) {
		bool first = before_filter();
		long r = next(n, a, b, c, d, e, f);
		after_filter(first, r == 0);
		return r;
	}
	return next(n, a, b, c, d, e, f);
}

SHIM_EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int (*next)(int, unsigned long, unsigned long, unsigned long, unsigned long) =
		(int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long))shim_real(&real_prctl, "prctl");
	if (__builtin_expect(option == PR_SECCOMP, 0)) {
		bool first = before_filter();
		int r = next(option, a, b, c, d);
		after_filter(first, r == 0);
		return r;
	}
	return next(option, a, b, c, d);
}
