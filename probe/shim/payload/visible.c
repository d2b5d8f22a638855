/*
 * Memory that the program and the device both access without a call: managed memory, and memory of the program that is registered for the
 * device. A session that keeps all that a replay needs records its content before tasks (the program may have stored to it) and after waits
 * (the device may have). A range is recorded only if its hash has changed.
 *
 * The content is read before the first task after each wait, and before every task if the ranges are small (visible_small): the program may
 * also store to memory that no task in flight uses. If the ranges exceed control.visible_limit, one record for each says that its content is missing.
 */
#include "payload/visible.h"

#include "base/copy.h"
#include "base/hash.h"
#include "base/hooks.h"
#include "base/sys.h"
#include "payload/payload.h"

enum { RANGES = 256, VISIBLE_SMALL = 1 << 20 };

static struct visible_range {
	uint64_t addr, len; /* addr 0: free */
	uint64_t hash[2];
	bool kept;    /* the trace has the content with this hash */
	bool missing; /* the trace says that the content is missing */
} ranges[RANGES];
static uint64_t total;
static bool forgot; /* no room for a range */
static uint32_t busy;
static uint32_t stored = 1; /* atomic; a wait has ended since the last look: the program may have stored */

/* Returns false after ten seconds: a thread that was cancelled holds the lock. */
static bool lock(void)
{
	for (uint64_t limit = 0; __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE);) {
		uint64_t now = shim_monotonic();
		if (limit == 0)
			limit = now + 10000000000;
		if (now > limit)
			return false;
		sys0(__NR_sched_yield);
	}
	return true;
}

static void unlock(void) { __atomic_store_n(&busy, 0, __ATOMIC_RELEASE); }

static void forget_parent(void)
{
	unlock();
	for (uint32_t i = 0; i < RANGES; i++)
		ranges[i].kept = ranges[i].missing = false;
}

SHIM_HOOKS(.process = forget_parent);

void visible_new(uint64_t addr, uint64_t len)
{
	if (shim_control->visible_limit == 0 || addr == 0 || len == 0 || !lock())
		return;
	uint32_t i = 0;
	while (i < RANGES && ranges[i].addr != 0)
		i++;
	if (i < RANGES) {
		ranges[i] = (struct visible_range){.addr = addr, .len = len};
		total += len;
		shim_visible++;
	} else
		forgot = true; /* its content is missing: the trace has none of it */
	/* From here on every task is recorded by its wrapper, which calls shim_visible_before. */
	__atomic_store_n(&shim_p->plain, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&stored, 1, __ATOMIC_RELAXED);
	unlock();
}

void shim_visible_end(uint64_t addr)
{
	if (!lock())
		return;
	for (uint32_t i = 0; i < RANGES; i++)
		if (ranges[i].addr == addr) {
			total -= ranges[i].len;
			ranges[i].addr = 0;
			shim_visible--;
		}
	if (shim_visible == 0)
		__atomic_store_n(&shim_p->plain, shim_p->generation, __ATOMIC_RELAXED);
	unlock();
}

/* The hash needs more than 240 bytes: shorter content is extended with zeros. */
static bool hash_of(const struct visible_range *r, uint64_t hash[2])
{
	enum { LEAST = 256 };
	uint8_t copy[LEAST];
	if (r->len >= LEAST)
		return shim_hash((const void *)r->addr, r->len, true, hash);
	for (uint64_t i = 0; i < LEAST; i++)
		copy[i] = 0;
	return shim_careful_copy(copy, (const void *)r->addr, r->len) && shim_hash(copy, LEAST, false, hash);
}

/* Records the ranges that have changed as data of the call with a number. The caller holds the lock. */
static void record_changes(uint64_t seq, uint8_t flags)
{
	const bool over = total > shim_control->visible_limit;
	for (uint32_t i = 0; i < RANGES; i++) {
		struct visible_range *r = &ranges[i];
		uint64_t hash[2], again[2];
		if (r->addr == 0)
			continue;
		struct payload p = payload_of(seq, MEMORY_PARAM, flags, i + 1, (const void *)r->addr, r->len);
		begin_payload(&p);
		bool hashed = !over && hash_of(r, hash);
		keep_time(&p);
		if (!hashed) {
			if (!r->missing)
				payload_missing(&p, over ? MISSING_OVER_LIMIT : unreadable());
			r->missing = true;
			r->kept = false;
			continue;
		}
		if (r->kept && r->hash[0] == hash[0] && r->hash[1] == hash[1])
			continue;
		payload_bytes(&p, true);
		/* The device may have written it meanwhile. Then the next look records it again. */
		r->kept = hash_of(r, again) && again[0] == hash[0] && again[1] == hash[1];
		r->missing = false;
		r->hash[0] = hash[0];
		r->hash[1] = hash[1];
	}
}

void shim_visible_before(bool async)
{
	struct shim_thread *t = &shim_t;
	if (t->depth != 0 || shim_stranger() || shim_p->ready != 2 || (total > VISIBLE_SMALL && !__atomic_load_n(&stored, __ATOMIC_RELAXED)))
		return;
	t->depth++;
	bool open = (t->base != NULL && t->generation == shim_p->generation) || shim_open_thread();
	if (open && __atomic_load_n(&shim_control->slots[t->slot].off, __ATOMIC_RELAXED) == 0 && lock()) {
		if (t->lost != 0 && shim_room(sizeof(struct lost_record)))
			shim_write_lost();
		record_changes(t->ring->seq, 0);
		/* After a call that blocks the program may store again. */
		if (async)
			__atomic_store_n(&stored, 0, __ATOMIC_RELAXED);
		unlock();
	}
	t->depth--;
}

void visible_after(void)
{
	struct shim_thread *t = &shim_t;
	if (t->base == NULL || t->ring->seq == 0 || !lock())
		return;
	record_changes(t->ring->seq - 1, PIECE_OUT);
	__atomic_store_n(&stored, 1, __ATOMIC_RELAXED);
	unlock();
}
