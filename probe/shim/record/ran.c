/*
 * How long a thread did not run between two calls. A thread that waits for another one makes no call either, but the time is not its own.
 *
 * The thread's processor time, and how often it slept, are read at the call after a gap, and at the end of a long call. Gaps are rare where calls are many. From one reading
 * to the beginning of the next gap there are short calls and short gaps, in which the thread is taken to have run.
 */
#include "base/clock.h"
#include "base/sys.h"
#include "shim_hot.h"

#define RUSAGE_THREAD 1

/* As the kernel stores it: all fields are longs. */
struct usage {
	int64_t user_sec, user_usec, system_sec, system_usec;
	int64_t others[12];
	int64_t sleeps, preemptions; /* context switches */
};

/*
 * False in virtual time, which the machine's clocks have nothing to do with, and if the process filters its system calls. A process that does so without the C library does it
 * early as a rule: none makes this system call before the recorder has looked for filters.
 */
static bool read_time(uint64_t *ns, uint64_t *sleeps)
{
	struct usage u;
	const struct process *p = shim_own_process();
	if (shim_control->clock == CLOCK_RUNTIME || p == NULL || !__atomic_load_n(&p->unfiltered, __ATOMIC_RELAXED) || shim_filtered() ||
	    sys_failed(sys2(__NR_getrusage, RUSAGE_THREAD, &u)))
		return false;
	*ns = (uint64_t)(u.user_sec + u.system_sec) * 1000000000ULL + (uint64_t)(u.user_usec + u.system_usec) * 1000;
	*sleeps = (uint64_t)u.sleeps;
	return true;
}

static uint64_t nanoseconds(uint64_t ticks)
{
	enum { MOST = 1ULL << 46 }; /* hours, and no overflow below */
	return (ticks < MOST ? ticks : MOST) * GAP_NS / (shim_control->gap ? shim_control->gap : 1);
}

void shim_gap(struct call_record *r)
{
	struct ring *g = shim_t.ring;
	uint64_t now, sleeps, from = shim_t.until, to = r->start;
	if (!read_time(&now, &sleeps))
		return;
	/* A thread that did not sleep waited for a processor at most. */
	if (g->read != 0 && g->read <= from && from < to && sleeps != g->sleeps) {
		uint64_t before = nanoseconds(from - g->read), ran = now - g->cpu, gap = nanoseconds(to - from);
		ran = ran > before ? ran - before : 0;
		uint64_t blocked = ran < gap ? (gap - ran) / BLOCKED_UNIT : 0;
		r->blocked = blocked < UINT32_MAX ? (uint32_t)blocked : UINT32_MAX;
	}
	g->cpu = now;
	g->sleeps = sleeps;
	g->read = r->start = shim_clock(CALL_STARTS); /* the reading is not part of the call */
}

void shim_ran(uint64_t now)
{
	struct ring *g = shim_t.ring;
	if (g != NULL && read_time(&g->cpu, &g->sleeps))
		g->read = now;
}
