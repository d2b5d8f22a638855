/* A wait for an event covers the results that were added before the event's record: each has a number in the process's order (task/order.h). */
#include "payload/results.h"

#include "base/hooks.h"
#include "base/limits.h"
#include "base/sys.h"
#include "payload/visible.h"
#include "task/devtime.h"

#define PENDING 65536
static struct pending {
	uint32_t state;
	int32_t device;
	void *stream;
	uint64_t order; /* 0 while the slot is free */
	uint64_t gone;  /* WHYS * order + why: of the slot's latest result whose memory something else got before the wait */
	uint64_t pitch, width; /* of rows; pitch 0: one piece */
	uint32_t resumed; /* control.resumed at the copy */
	struct payload what;
} pending[PENDING];
static uint32_t pending_count; /* slots in use */
static uint32_t taking; /* threads in release */

static const uint8_t why_missing[WHYS] = {MISSING_OVERWRITTEN, MISSING_FREED, MISSING_UNREGISTERED};

/*
 * The slots form sets, each for the results of one stream. So a wait for a stream looks only at its own results and at one word for each other set.
 * A stream claims an empty set. If there is none, its result goes to a set of another stream, which then serves any stream until it is empty. The
 * lower half of in_use has a bit for each used slot, the upper half the stream's mark. No result in the set is older than since.
 */
enum { SET = 32, SETS = PENDING / SET };
static struct set { uint64_t in_use, since; } sets[SETS];
static uint32_t sets_used, sets_low; /* sets ever used; index where the search for an empty one begins */
static uint16_t set_of[256]; /* set of a stream's last result, by its mark */
static const uint32_t any_stream = 0xffffffff;

static uint32_t mark_of(const void *stream)
{
	uint32_t m = (uint32_t)((uint64_t)stream * 0x9e3779b97f4a7c15ULL >> 32);
	return m == any_stream ? 0 : m;
}

static uint32_t set_mark(uint64_t in_use) { return (uint32_t)(in_use >> 32); }
static uint32_t set_slots(uint64_t in_use) { return (uint32_t)in_use; }
#define NONE (~(uint64_t)0)

/*
 * A hash table finds pending results by memory. An entry is listed under each block that it overlaps. Its block size is the smallest of 8, 64, 512 ...
 * bytes that is not less than its length, so it has one or two blocks, and few adjacent entries share one. A place in the table holds the
 * entry's order and slot. It is stale once the slot has another order, so places are never removed.
 */
enum { LEVELS = 16, GROUPS = 32768, GROUP = 16 };
_Static_assert(PENDING == 1 << 16, "a place has 16 bits for the slot");
static uint64_t (*places)[GROUP]; /* mapped for the first pending result */
static uint32_t level_count[LEVELS]; /* entries, by block size */

static uint32_t block_shift(uint32_t level) { return 3 + 3 * level; }

static uint32_t level_of(uint64_t len)
{
	uint32_t level = 0;
	while (level < LEVELS - 1 && len > 1ULL << block_shift(level))
		level++;
	return level;
}

static uint64_t *group_of(uint32_t level, uint64_t block)
{
	return places[((block << 4 | level) * 0x9e3779b97f4a7c15ULL >> 32) % GROUPS];
}

/* Whether both belong to one run of a graph. They may overlap: the program itself can see only the content at the end of the run. */
static bool together(const struct pending *a, const struct pending *b)
{
	return b != NULL && a->what.run && b->what.run && a->what.slot == b->what.slot && a->what.seq == b->what.seq;
}

static uint64_t extent(const struct pending *e)
{
	return extent_of(e->what.len, e->pitch, e->width);
}

/* The results are the parent's. */
static void forget_parent(void)
{
	for (uint32_t i = 0; i < sets_used * SET; i++) {
		pending[i].order = 0;
		pending[i].state = ENTRY_FREE;
	}
	for (uint32_t i = 0; i < sets_used; i++)
		sets[i].in_use = 0;
	sets_used = pending_count = sets_low = taking = 0;
	for (uint32_t i = 0; i < LEVELS; i++)
		level_count[i] = 0;
}

/*
 * A walk over the results that were pending when it began, of one stream or of all, up to a number in the order. It returns those in a state, or
 * all if the state is ENTRY_FREE. It ends after pending_count entries, so that a table that was once full does not stay slow. An entry is
 * counted before its bit is set: the count is never too low.
 */
struct walk {
	uint32_t mark, set, slots, used, state;
	int32_t left;
	uint64_t until;
};

static struct walk walk_pending(uint32_t mark, uint64_t until)
{
	struct walk w = {.mark = mark, .state = ENTRY_FULL, .until = shim_order()};
	if (w.until > until)
		w.until = until;
	w.left = (int32_t)__atomic_load_n(&pending_count, __ATOMIC_ACQUIRE);
	w.used = __atomic_load_n(&sets_used, __ATOMIC_ACQUIRE);
	return w;
}

/* Counts the bits that are set. The builtin may call a library. */
static int32_t ones(uint32_t v)
{
	v -= v >> 1 & 0x55555555;
	v = (v & 0x33333333) + (v >> 2 & 0x33333333);
	return (int32_t)(((v + (v >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24);
}

static struct pending *next_pending(struct walk *w)
{
	for (;;) {
		while (w->slots != 0) {
			struct pending *e = &pending[(w->set - 1) * SET + (uint32_t)__builtin_ctz(w->slots)];
			w->slots &= w->slots - 1;
			if ((w->state == ENTRY_FREE || __atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == w->state) && e->order <= w->until)
				return e;
		}
		if (w->left <= 0 || w->set >= w->used)
			return NULL;
		struct set *s = &sets[w->set++];
		uint64_t v = __atomic_load_n(&s->in_use, __ATOMIC_ACQUIRE);
		w->left -= ones(set_slots(v));
		if ((w->mark == any_stream || set_mark(v) == w->mark || set_mark(v) == any_stream) && __atomic_load_n(&s->since, __ATOMIC_RELAXED) <= w->until)
			w->slots = set_slots(v);
	}
}

/* Returns the entry of a place and its memory, NULL if it is no longer pending. */
static struct pending *at_place(uint64_t place, uint64_t *from, uint64_t *to)
{
	struct pending *e = &pending[place % PENDING];
	if (place == 0 || __atomic_load_n(&e->order, __ATOMIC_ACQUIRE) != place / PENDING)
		return NULL;
	*from = e->what.addr;
	*to = *from + extent(e);
	/* The memory belongs to this order unless the slot was reused in between. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&e->order, __ATOMIC_RELAXED) == place / PENDING ? e : NULL;
}

static bool open_places(void) { return shim_map_once(&places, sizeof *places * GROUPS, -1); }

static void map_places(void) { open_places(); }
SHIM_HOOKS(.process = forget_parent, .filter = map_places);

/* Lists an entry under its blocks. False if there is no memory or no free place: then overwriting goes unnoticed. */
static bool add_places(struct pending *e)
{
	uint32_t level = level_of(extent(e));
	uint64_t place = e->order * PENDING + (uint64_t)(e - pending), from, to;
	uint64_t block = e->what.addr >> block_shift(level), last = (e->what.addr + extent(e) - 1) >> block_shift(level);
	__atomic_add_fetch(&level_count[level], 1, __ATOMIC_SEQ_CST);
	if (!open_places())
		return false;
	for (; block <= last; block++) {
		uint64_t *g = group_of(level, block);
		uint32_t i = 0;
		for (; i < GROUP; i++) {
			uint64_t was = __atomic_load_n(&g[i], __ATOMIC_RELAXED);
			if (at_place(was, &from, &to) == NULL && __atomic_compare_exchange_n(&g[i], &was, place, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
				break;
		}
		if (i == GROUP)
			return false;
	}
	return true;
}

/* Notes that the entry has lost its memory, if it still has this order. */
static void mark_gone(struct pending *e, uint64_t of, enum why why)
{
	uint64_t was = __atomic_load_n(&e->gone, __ATOMIC_RELAXED);
	while (was < of * WHYS && !__atomic_compare_exchange_n(&e->gone, &was, of * WHYS + why, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* Waits while another thread records the result that has this order. */
static void await_entry(const struct pending *e, uint64_t of, uint64_t *limit)
{
	static const struct { int64_t sec, nsec; } pause = {0, 20000};
	enum { SHORTLY = 100 };
	const uint64_t LONGEST_NS = 10000000000;
	for (int n = 0; __atomic_load_n(&e->order, __ATOMIC_ACQUIRE) == of && __atomic_load_n(&e->state, __ATOMIC_SEQ_CST) == ENTRY_BUSY; n++) {
		if (n < SHORTLY) {
			sys0(__NR_sched_yield);
			continue;
		}
		/* That thread may wait for the recorder. If it was cancelled, it never ends. */
		uint64_t now = shim_monotonic();
		if (*limit == 0)
			*limit = now + LONGEST_NS;
		if (now > *limit)
			return;
		sys2(__NR_nanosleep, &pause, NULL);
	}
}

/*
 * Marks the results that are pending in some memory as lost, and waits for those that a thread is recording. `by` is the entry of the copy that gets
 * the memory, and `mine` its order; NULL and NONE for other causes. Two simultaneous copies find each other, since each is in the table before
 * it looks: the one with the lower order is overwritten.
 */
static void overwrite_pending(struct pending *by, uint64_t mine, uint64_t addr, uint64_t len, enum why why)
{
	uint32_t count = __atomic_load_n(&pending_count, __ATOMIC_SEQ_CST);
	uint64_t end = addr + len, blocks = 0, limit = 0, from, to;
	if (count == 0)
		return;
	for (uint32_t level = 0; level < LEVELS; level++)
		if (__atomic_load_n(&level_count[level], __ATOMIC_SEQ_CST) != 0)
			blocks += ((end - 1) >> block_shift(level)) - (addr >> block_shift(level)) + 1;
	if (blocks > count || __atomic_load_n(&places, __ATOMIC_ACQUIRE) == NULL) {
		/* Fewer entries than blocks: look at each entry. */
		struct walk w = walk_pending(any_stream, NONE);
		w.state = ENTRY_FREE;
		for (struct pending *e; (e = next_pending(&w)) != NULL;) {
			uint64_t of = e->order;
			if (e != by && of < mine && !together(e, by) && at_place(of * PENDING + (uint64_t)(e - pending), &from, &to) && from < end && addr < to) {
				mark_gone(e, of, why);
				await_entry(e, of, &limit);
			}
		}
		return;
	}
	for (uint32_t level = 0; level < LEVELS; level++) {
		if (__atomic_load_n(&level_count[level], __ATOMIC_SEQ_CST) == 0)
			continue;
		for (uint64_t block = addr >> block_shift(level); block <= (end - 1) >> block_shift(level); block++) {
			uint64_t *g = group_of(level, block);
			for (uint32_t i = 0; i < GROUP; i++) {
				uint64_t place = __atomic_load_n(&g[i], __ATOMIC_SEQ_CST), of = place / PENDING;
				struct pending *e = at_place(place, &from, &to);
				if (e == NULL || e == by || from >= end || addr >= to || together(e, by))
					continue;
				if (of < mine) {
					mark_gone(e, of, why);
					await_entry(e, of, &limit);
				} else {
					mark_gone(by, mine, COPIED_OVER);
				}
			}
		}
	}
}

/* Takes a free slot in a set with this mark, NULL if there is none. */
static struct pending *take_entry(struct set *s, uint32_t mark)
{
	uint64_t v = __atomic_load_n(&s->in_use, __ATOMIC_RELAXED);
	while (set_mark(v) == mark && set_slots(v) != 0 && set_slots(v) != 0xffffffff) {
		uint32_t slot = (uint32_t)__builtin_ctz(~set_slots(v));
		if (__atomic_compare_exchange_n(&s->in_use, &v, v | 1ULL << slot, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &pending[(uint32_t)(s - sets) * SET + slot];
	}
	return NULL;
}

/* Takes a slot, NULL if all are in use. */
static struct pending *take_pending(void *stream)
{
	uint32_t mark = mark_of(stream), low = __atomic_load_n(&sets_low, __ATOMIC_RELAXED);
	uint16_t *last = &set_of[mark % 256];
	struct pending *e = take_entry(&sets[__atomic_load_n(last, __ATOMIC_RELAXED)], mark);
	for (uint32_t k = 0; k < SETS && e == NULL; k++) {
		uint32_t i = (low + k) % SETS;
		struct set *s = &sets[i];
		uint64_t v = __atomic_load_n(&s->in_use, __ATOMIC_RELAXED), since = shim_order();
		if (set_slots(v) != 0 || !__atomic_compare_exchange_n(&s->in_use, &v, (uint64_t)mark << 32 | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		/* A thread that claimed the set earlier may store its older value after this one, which does no harm. */
		__atomic_store_n(&s->since, since, __ATOMIC_RELAXED);
		e = &pending[i * SET];
		__atomic_store_n(&sets_low, i + 1, __ATOMIC_RELAXED);
		__atomic_store_n(last, (uint16_t)i, __ATOMIC_RELAXED);
		raise_to(&sets_used, i + 1);
	}
	for (uint32_t i = 0; i < SETS && e == NULL; i++) {
		uint64_t v = __atomic_load_n(&sets[i].in_use, __ATOMIC_RELAXED);
		while (set_slots(v) != 0xffffffff && set_slots(v) != 0 && set_mark(v) != any_stream &&
		       !__atomic_compare_exchange_n(&sets[i].in_use, &v, v | (uint64_t)any_stream << 32, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
		e = take_entry(&sets[i], any_stream);
	}
	return e;
}

static void give_entry(struct pending *e)
{
	uint32_t i = (uint32_t)(e - pending);
	__atomic_store_n(&e->state, ENTRY_FREE, __ATOMIC_RELEASE);
	uint64_t left = __atomic_and_fetch(&sets[i / SET].in_use, ~(1ULL << i % SET), __ATOMIC_ACQ_REL);
	if (set_slots(left) == 0 && i / SET < __atomic_load_n(&sets_low, __ATOMIC_RELAXED))
		__atomic_store_n(&sets_low, i / SET, __ATOMIC_RELAXED);
}

bool add_pending(const struct payload *p, void *stream, uint64_t pitch, uint64_t width)
{
	uint64_t len = extent_of(p->len, pitch, width);
	struct pending *e = NULL;
	if (__atomic_add_fetch(&pending_count, 1, __ATOMIC_SEQ_CST) <= PENDING)
		e = take_pending(stream);
	if (e == NULL) {
		__atomic_sub_fetch(&pending_count, 1, __ATOMIC_SEQ_CST);
		overwrite_pending(NULL, NONE, p->addr, len, COPIED_OVER);
		return false;
	}
	__atomic_thread_fence(__ATOMIC_RELEASE); /* a thread that sees the new fields sees that the old order is gone */
	e->device = shim_t.device;
	e->stream = stream;
	e->pitch = pitch;
	e->width = width;
	e->resumed = __atomic_load_n(&shim_control->resumed, __ATOMIC_ACQUIRE);
	e->what = *p;
	uint64_t mine = next_order();
	__atomic_store_n(&e->order, mine, __ATOMIC_RELEASE);
	if (!add_places(e)) {
		e->what.flags |= PIECE_EARLY;
		e->what.allocated = false; /* so does freeing */
	}
	/* From here on another thread may release it. */
	__atomic_store_n(&e->state, ENTRY_FULL, __ATOMIC_SEQ_CST);
	overwrite_pending(e, mine, p->addr, len, COPIED_OVER);
	return true;
}

static bool released(const struct pending *e, enum reach which, const void *stream, uint64_t until)
{
	return shim_reached(&(struct place){.stream = e->stream, .order = e->order, .device = e->device}, which, stream, until);
}

/* Waits for results that another thread is recording after the same wait: the program may reuse the memory when this thread's call returns. */
static void await_taken(enum reach which, void *stream, uint64_t until)
{
	uint64_t limit = 0;
	struct walk w = walk_pending(which == OF_STREAM ? mark_of(stream) : any_stream, until);
	w.state = ENTRY_BUSY;
	for (struct pending *e; (e = next_pending(&w)) != NULL;) {
		uint64_t o = __atomic_load_n(&e->order, __ATOMIC_ACQUIRE);
		if (o != 0 && released(e, which, stream, until))
			await_entry(e, o, &limit);
	}
}

static void take_released(enum reach which, void *stream, uint64_t until)
{
	struct walk w = walk_pending(which == OF_STREAM ? mark_of(stream) : any_stream, until);
	for (struct pending *e; (e = next_pending(&w)) != NULL;) {
		uint32_t was = ENTRY_FULL;
		if (!released(e, which, stream, until) ||
		    !__atomic_compare_exchange_n(&e->state, &was, ENTRY_BUSY, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		if (!released(e, which, stream, until)) {
			/* The slot was released and reused in between. */
			__atomic_store_n(&e->state, ENTRY_FULL, __ATOMIC_RELEASE);
			continue;
		}
		/* Either this thread sees that the memory is gone, or the thread that frees it sees this one and waits. */
		uint64_t gone = __atomic_load_n(&e->gone, __ATOMIC_SEQ_CST);
		if (e->resumed != __atomic_load_n(&shim_control->resumed, __ATOMIC_ACQUIRE))
			payload_missing(&e->what, MISSING_DETACHED); /* the program may have waited unrecorded, and reused the memory */
		else if (gone / WHYS == e->order)
			payload_missing(&e->what, why_missing[gone % WHYS]);
		else
			payload_rows(&e->what, e->pitch, e->width, !e->what.allocated);
		__atomic_sub_fetch(&level_count[level_of(extent(e))], 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&e->order, 0, __ATOMIC_RELEASE);
		give_entry(e);
		__atomic_sub_fetch(&pending_count, 1, __ATOMIC_SEQ_CST);
	}
}

void release(enum reach which, void *stream, uint64_t until)
{
	shim_times_reached(which, stream, until);
	if (__builtin_expect(shim_visible != 0, 0))
		visible_after();
	if (__atomic_load_n(&pending_count, __ATOMIC_RELAXED) == 0)
		return;
	__atomic_add_fetch(&taking, 1, __ATOMIC_SEQ_CST);
	take_released(which, stream, until);
	if (__atomic_sub_fetch(&taking, 1, __ATOMIC_SEQ_CST) != 0)
		await_taken(which, stream, until);
}

void shim_synced_stream(void *stream, uint64_t until) { release(OF_STREAM, stream, until); }
void shim_synced_device(uint64_t until) { release(OF_DEVICE, NULL, until); }

bool any_pending(void) { return __atomic_load_n(&pending_count, __ATOMIC_RELAXED) != 0; }

void give_up_pending(uint64_t addr, uint64_t len, enum why why) { overwrite_pending(NULL, NONE, addr, len, why); }

void shim_overwritten(uint64_t addr, uint64_t len)
{
	if (len != 0)
		give_up_pending(addr, len, COPIED_OVER);
}
