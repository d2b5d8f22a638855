/*
 * Programs that lock themselves in by a filter of system calls (seccomp). Such a filter may kill whoever makes a call that it does not
 * know, so from then on the shim makes none. It learns of the filter from the functions by which a program sets one, or from the recorder,
 * which looks at the process now and then. It never asks the kernel: that is a system call too.
 *
 * New threads still need rings. Before the filter is set the shim maps a file, `pool.N`, with room for some of them, and makes the first
 * ones. The recorder makes the next ones, as long as the process lives, so that a few are always READY. What else takes a system call is
 * left out, with its reason: payloads that the device may still write, children, threads that find no ring.
 */
#include "bind.h"
#include "parts.h"

#include <asm/fcntl.h>
#include <linux/mman.h>

#include "sys.h"

#define EPERM 1

enum { RANGES = 32, READY = 4 };
enum { PR_SECCOMP = 22, STRICT = 0, FILTER = 1 };

static uint32_t filtered; /* atomic; children inherit it, as they do the filter */

/* Rings of one process, one after the other: a range of the file each, mapped as the shim maps every ring. */
static struct {
	uint8_t *at;
	uint32_t generation; /* of the process; a child has none */
} pool;

bool shim_filtered(void)
{
	if (__atomic_load_n(&filtered, __ATOMIC_SEQ_CST))
		return true;
	uint32_t *flag = shim_filter_flag();
	if (flag == NULL || !__atomic_load_n(flag, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&filtered, 1, __ATOMIC_SEQ_CST);
	return true;
}

long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	long r = -EPERM;
	/* Either this sees the filter, or who sets it sees this and waits. */
	__atomic_add_fetch(&shim_p->inside, 1, __ATOMIC_SEQ_CST);
	if (!shim_filtered())
		r = sys_raw(n, a, b, c, d, e, f);
	__atomic_sub_fetch(&shim_p->inside, 1, __ATOMIC_RELEASE);
	return r;
}

static uint64_t stride(void) { return RING_HEADER + 2 * shim_control->ring_bytes; }

uint8_t *range_at(uint32_t range)
{
	if (pool.generation != shim_p->generation || range >= RANGES || pool.at == NULL)
		return NULL;
	return pool.at + range * stride() + RING_HEADER;
}

/* The C library notes who holds a mutex that may be locked twice: so the thread's number is found without a system call. */
uint32_t thread_id(uint32_t slot)
{
	enum { KIND = 4, OWNER = 2, RECURSIVE = 1, HIGHEST = 1 << 22 };
	int mutex[16] __attribute__((aligned(16))) = {[KIND] = RECURSIVE};
	int (*lock)(void *) = shim_next("gnu_get_libc_version") == NULL ? NULL : (int (*)(void *))shim_next("pthread_mutex_lock");
	if (lock != NULL && lock(mutex) == 0 && mutex[OWNER] > 0)
		return (uint32_t)mutex[OWNER];
	return HIGHEST + 1 + slot; /* one that no thread has */
}

static void make_ready(long fd, uint32_t range)
{
	struct control *c = shim_control;
	uint64_t bytes = RING_HEADER + c->ring_bytes;
	if (!claim_memory(c->ring_bytes))
		return;
	uint32_t n = allocate(fd, range * bytes, bytes) ? take_slot() : c->max_slots;
	if (n >= c->max_slots) {
		return_memory(c->ring_bytes);
		return;
	}
	struct slot *s = &c->slots[n];
	s->pid = shim_p->pid;
	s->process = shim_p->generation;
	s->ring_bytes = c->ring_bytes;
	s->range = range + 1;
	__atomic_store_n(&s->state, SLOT_READY, __ATOMIC_RELEASE);
}

/* What threads need from here on and can't get later. */
static void make_pool(void)
{
	enum { FILE_SIZE = 1 };
	uint64_t size = shim_control->ring_bytes, bytes = RING_HEADER + size;
	struct { uint64_t soft, hard; } limit;
	open_lists();
	open_places();
	open_arena();
	if (pool.generation == shim_p->generation)
		return;
	if (sys4(__NR_prlimit64, 0, FILE_SIZE, NULL, &limit) < 0 || limit.soft < RANGES * bytes)
		return;
	long fd = open_in_session("pool.", shim_p->generation - 1, true, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return;
	sys2(__NR_fchmod, fd, 0660);
	long at = sys2(__NR_ftruncate, fd, RANGES * bytes) < 0 ? -1 : sys_map(RANGES * stride(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, NULL);
	bool mapped = !sys_failed(at);
	for (uint32_t i = 0; mapped && i < RANGES; i++)
		mapped = map_ring(at + (long)(i * stride()), fd, i * bytes, size, 0);
	if (mapped) {
		pool.at = (uint8_t *)at;
		pool.generation = shim_p->generation;
		for (uint32_t i = 0; i < READY; i++)
			make_ready(fd, i);
	}
	sys1(__NR_close, fd);
}

/* The thread is about to set a filter. True where the shim did not know of one. */
static bool lock_in(void)
{
	const uint64_t PATIENCE_NS = 100000000;
	if (shim_filtered())
		return false;
	uint64_t since = shim_monotonic();
	if (shim_loaded() && open_process())
		make_pool();
	__atomic_store_n(&filtered, 1, __ATOMIC_SEQ_CST);
	/* A thread that waits for the recorder does so for a few milliseconds at a time. One that a handler has left by a longjmp never ends its call. */
	while (__atomic_load_n(&shim_p->inside, __ATOMIC_SEQ_CST) != 0) {
		struct { int64_t sec, nsec; } now = {0, 0};
		sys_raw(__NR_sched_yield, 0, 0, 0, 0, 0, 0);
		sys_raw(__NR_clock_gettime, 1, SYS_ARG(&now), 0, 0, 0, 0);
		if ((uint64_t)now.sec * 1000000000 + (uint64_t)now.nsec - since > PATIENCE_NS)
			break;
	}
	return true;
}

/* The filter is there, or the kernel has refused it. */
static void locked_in(bool first, bool ok)
{
	uint32_t *flag = shim_filter_flag();
	if (!first)
		return;
	if (!ok)
		__atomic_store_n(&filtered, 0, __ATOMIC_SEQ_CST);
	else if (flag != NULL) {
		__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
		__atomic_add_fetch(&shim_control->filtered, 1, __ATOMIC_RELEASE);
	}
}

static void *real_syscall, *real_prctl;

static void *real(void **slot, const char *name)
{
	void *f = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (f == NULL) {
		f = shim_next(name);
		__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	}
	return f;
}

SHIM_EXPORT long syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long (*next)(long, long, long, long, long, long, long) = (long (*)(long, long, long, long, long, long, long))real(&real_syscall, "syscall");
	if (__builtin_expect((n == __NR_seccomp && (a == STRICT || a == FILTER)) || (n == __NR_prctl && a == PR_SECCOMP), 0)) {
		bool first = lock_in();
		long r = next(n, a, b, c, d, e, f);
		locked_in(first, r == 0);
		return r;
	}
	return next(n, a, b, c, d, e, f);
}

SHIM_EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int (*next)(int, unsigned long, unsigned long, unsigned long, unsigned long) =
		(int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long))real(&real_prctl, "prctl");
	if (__builtin_expect(option == PR_SECCOMP, 0)) {
		bool first = lock_in();
		int r = next(option, a, b, c, d);
		locked_in(first, r == 0);
		return r;
	}
	return next(option, a, b, c, d);
}
