/*
 * The inlined path for a recorded call. A generated wrapper is
 *
 *	if (!shim_enter(&c, ...))  call the real function, shim_leave(), return
 *	pieces that must be taken before the call
 *	shim_commit(&c);           the recorder can see the entry
 *	call the real function
 *	shim_return(&c, result);
 *	outputs and small inputs   into the same record
 *	shim_exit(&c);             the recorder can see that the call is finished
 *	payloads                   as records of their own
 *	shim_leave();
 *
 * A launch with few arguments in one block takes the plain path (shim_plain and the functions after it), in the function that the program
 * calls, without calling the shim. Every other call, and the first one of a thread, goes to the wrapper.
 *
 * The wrapper for a call that encloses others uses shim_begin, shim_begun, shim_ended, shim_finish and shim_outside instead (record/enclose.h). If the
 * enclosed calls are all made by the program's host functions, shim_report and shim_reported replace the first and the last (task/host.h).
 */
#ifndef ACLTRACE_SHIM_HOT_H
#define ACLTRACE_SHIM_HOT_H

#include "base/clock.h"
#include "base/state.h"
#include "record/nested.h"
#include "session/share.h"
#include "session/thread.h"

/* Inlines all that a wrapper calls: for the calls that programs make most. */
#define SHIM_HOT __attribute__((flatten))
/* The function that SHIM_ENTRY jumps to: see bind/entry.h. */
#define SHIM_BODY __attribute__((noinline, used))

struct shim_call {
	struct call_record *rec;
	uint8_t *end; /* the next piece begins here */
	uint8_t *limit; /* the reserved room ends here */
	uint64_t seq;
};

/*
 * Begins a call: stores its words in a new record with room for `reserve` bytes of pieces. False if the call is not recorded: it is inside
 * another traced call (only the outermost layer is recorded), or the thread has no ring, or the ring is full.
 */
#define shim_enter(c, func, words, n, reserve) shim_enter_at(__builtin_frame_address(0), c, func, words, n, reserve)

static inline bool shim_enter_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve)
{
	struct shim_thread *t = &shim_t;
	if (shim_stranger()) {
		shim_nested(frame);
		return false;
	}
	/* The frame of an inner call is below this one. A signal handler may call the runtime at any point here: before depth is stored it
	 * overwrites frame, after that it compares with frame. So frame is stored before and after depth. */
	if (t->depth == 0)
		t->frame = frame;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (t->depth++ != 0 && (frame < t->frame || !shim_abandoned())) {
		shim_nested(frame);
		return false;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->frame = frame;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(shim_p->ready != PROCESS_RECORDS || t->base == NULL || t->generation != shim_p->generation, 0) &&
	    !shim_open_thread())
		return false;
	if (__builtin_expect(__atomic_load_n(&shim_control->slots[t->slot].off, __ATOMIC_RELAXED) != 0, 0))
		return false;
	uint64_t need = sizeof(struct call_record) + 8 * n + reserve;
	if (__builtin_expect(!shim_room(need + 2 * sizeof(struct lost_record)), 0)) {
		shim_lose();
		return false;
	}
	if (__builtin_expect(__atomic_load_n(&t->ring->nested, __ATOMIC_RELAXED) != 0, 0))
		shim_write_nested();
	if (__builtin_expect(t->lost != 0, 0))
		shim_write_lost();
	struct call_record *r = (struct call_record *)(t->base + (t->head & (t->size - 1)));
	c->rec = r;
	c->seq = t->ring->seq++;
	r->h.func = func;
	r->h.type = REC_CALL;
	r->h.state = STATE_ENTERED;
	*(uint64_t *)&r->words = n;
	uint64_t *w = (uint64_t *)(r + 1);
	/*
	 * Unrolled, so that the words are stored from registers. A vector load of two words that were stored one by one can't be forwarded from
	 * the store buffer: it would wait for all earlier stores, also those into the ring, to reach the cache.
	 */
#pragma GCC unroll 32
	for (unsigned i = 0; i < n; i++)
		w[i] = words[i];
	c->end = (uint8_t *)(w + n);
	c->limit = c->end + reserve;
	return true;
}

/* Adds the stack that the call was made from: see record/stack.c. */
void shim_stack(struct shim_call *c);

/* Reads the thread's processor time, after a long time without a call and at the end of a long call: see record/ran.c. */
void shim_gap(struct call_record *r);
void shim_ran(uint64_t now);

static inline bool shim_long(uint64_t from, uint64_t to) { return __builtin_expect(to - from > shim_control->gap, 0); }

static inline void shim_commit(struct shim_call *c)
{
	struct shim_thread *t = &shim_t;
	struct call_record *r = c->rec;
	if (__builtin_expect(shim_control->stack_frames != 0, 0))
		shim_stack(c);
	r->h.size = (uint32_t)(c->end - (uint8_t *)r);
	r->start = shim_clock(CALL_STARTS);
	if (shim_long(t->until, r->start))
		shim_gap(r);
	__atomic_store_n(&t->ring->head, t->head + r->h.size, __ATOMIC_RELEASE);
}

static inline void shim_return(struct shim_call *c, uint64_t ret)
{
	struct call_record *r = c->rec;
	shim_t.until = r->end = shim_clock(CALL_ENDS);
	r->ret = ret;
	if (shim_long(r->start, r->end))
		shim_ran(r->end);
}

/*
 * Prefetches the memory of later records into this core's cache, from the recorder's, which has read it in the previous round.
 * A few records ahead is early enough for calls in quick succession. The ring is mapped twice in a row, so the address is always valid.
 */
static inline void shim_fetch(const uint8_t *next)
{
	enum { AHEAD = 1024, LINE = 64, LINES = 3 };
	for (int i = 0; i < LINES; i++) {
		const uint8_t *p = next + AHEAD + i * LINE;
#if defined(__x86_64__)
		/* The builtin would be a prefetch for reading, which leaves the line shared between the cores. */
		__asm__ volatile("prefetchw %0" : : "m"(*p));
#else
		__builtin_prefetch(p, 1);
#endif
	}
}

/* Ends the call's record. */
static inline void shim_exit(struct shim_call *c)
{
	struct shim_thread *t = &shim_t;
	struct call_record *r = c->rec;
	r->h.size = (uint32_t)(c->end - (uint8_t *)r);
	t->head += r->h.size;
	__atomic_store_n(&r->h.state, STATE_DONE, __ATOMIC_RELEASE);
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
	shim_fetch(t->base + (t->head & (t->size - 1)));
}

/* The last thing a wrapper does, whether the call was recorded or not. */
static inline void shim_leave(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!shim_stranger())
		shim_t.depth--;
}

/*
 * Of a call that shim_enter has refused: whether it is the thread's outermost one, in a recording process. Then the shim still notes its
 * effect on the runtime's objects.
 */
static inline bool shim_outermost(void) { return shim_t.depth == 1 && shim_p->ready == PROCESS_RECORDS && !shim_stranger(); }

/* The same: whether it was refused for lack of room. While recording is off, results that the program waits for are not captured. */
static inline bool shim_missed(void)
{
	return shim_outermost() && !shim_quiet() && __atomic_load_n(&shim_control->off, __ATOMIC_RELAXED) != OFF_ENDED &&
	       (shim_t.base == NULL || __atomic_load_n(&shim_control->slots[shim_t.slot].off, __ATOMIC_RELAXED) == 0);
}

/*
 * A plain call: the outermost of its thread, with words and a few small blocks. Three comparisons decide whether it is written at once:
 * shim_special for the session, generation for a fork or a process that must not, and room. room is 0 for a thread without a ring, with lost
 * calls to report, or in a session that records more than arguments.
 */
enum { PLAIN_WORDS = 12, PLAIN_BLOCKS = 3, PLAIN_BLOCK = 256 };
_Static_assert(sizeof(struct call_record) + 8 * PLAIN_WORDS + PLAIN_BLOCKS * (sizeof(struct piece) + PLAIN_BLOCK) +
	sizeof(struct piece) + 8 /* a task's ids */ + sizeof(struct lost_record) <= PLAIN_BYTES, "a plain call");

static SHIM_INLINE bool shim_plain(void)
{
	struct shim_thread *t = &shim_t;
	void *frame;
	if (__builtin_expect((t->depth | t->owner) != 0, 0))
		return false;
	/* The lower end of the frame: frames of inner calls are below it. */
#if defined(__x86_64__)
	__asm__ volatile("mov %%rsp, %0" : "=r"(frame));
#else
	__asm__ volatile("mov %0, sp" : "=r"(frame));
#endif
	/* As in shim_enter_at. */
	t->frame = frame;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->depth = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->frame = frame;
	/* From here on a signal handler's calls count as inside this one, and do not touch the ring. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(t->generation == shim_p->plain && t->head < t->room, 1))
		return true;
	t->depth = 0;
	return false;
}

/* Whether an optional block fits: of words, or of half words as in the lists of launches. */
static SHIM_INLINE bool shim_plain_block(const void *p, uint64_t len) { return p == NULL || (len <= PLAIN_BLOCK && (len & 3) == 0); }

/* The same for the elements of an optional structure {pointer, count}. */
static SHIM_INLINE bool shim_plain_list(const void *list, uint32_t elem)
{
	return list == NULL || ((const uint64_t *)list)[1] <= PLAIN_BLOCK / elem;
}

/* Stores the counter in halves, so that no instruction waits to combine them, and returns it. */
static SHIM_INLINE uint64_t shim_stamp(uint64_t *at)
{
#if defined(__x86_64__)
	typedef uint32_t half __attribute__((may_alias));
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	((half *)at)[0] = lo;
	((half *)at)[1] = hi;
	return (uint64_t)hi << 32 | lo;
#else
	return *at = shim_counter();
#endif
}

static SHIM_INLINE void shim_plain_return(struct call_record *r) { shim_t.until = shim_stamp(&r->end); }

/* Begins the record of a plain call and stores its words. */
static SHIM_INLINE struct call_record *shim_plain_enter(const uint64_t *words, unsigned n)
{
	struct shim_thread *t = &shim_t;
	struct call_record *r = (struct call_record *)(t->base + (t->head & (t->size - 1)));
	t->ring->seq++;
	*(uint64_t *)&r->words = n;
	uint64_t *to = (uint64_t *)(r + 1);
#pragma GCC unroll 32
	for (unsigned i = 0; i < n; i++)
		to[i] = words[i];
	return r;
}

static SHIM_INLINE uint64_t *shim_plain_pieces(struct call_record *r, unsigned n) { return (uint64_t *)(r + 1) + n; }

/* Adds a block before the real call, which may change it. Returns the end of the record. */
static SHIM_INLINE uint64_t *shim_plain_piece(uint64_t *to, uint8_t param, const void *p, uint64_t len)
{
	typedef uint64_t word __attribute__((may_alias, aligned(1)));
	typedef uint32_t half __attribute__((may_alias, aligned(1)));
	typedef uint64_t pair __attribute__((vector_size(16), may_alias, aligned(1)));
	if (p == NULL)
		return to;
	*(struct piece *)to++ = (struct piece){.param = param, .flags = PIECE_BYTES, .len = (uint32_t)len};
	const uint8_t *from = p, *end = from + len;
	for (; end - from >= 32; from += 32, to += 4) {
		pair a = ((const pair *)from)[0], b = ((const pair *)from)[1];
		((pair *)to)[0] = a, ((pair *)to)[1] = b;
	}
	for (; end - from >= 8; from += 8)
		*to++ = *(const word *)from;
	if (from < end)
		*to++ = *(const half *)from;
	return to;
}

static SHIM_INLINE uint64_t *shim_plain_elements(uint64_t *to, uint8_t param, const void *list, uint32_t elem)
{
	if (list == NULL || ((const uint64_t *)list)[1] == 0)
		return to;
	return shim_plain_piece(to, param, ((const void *const *)list)[0], ((const uint64_t *)list)[1] * elem);
}

/* Publishes the entry, which ends at `end`. */
static SHIM_INLINE void shim_plain_commit(struct call_record *r, uint16_t func, const uint64_t *end)
{
	struct shim_thread *t = &shim_t;
	uint32_t size = (uint32_t)((const uint8_t *)end - (const uint8_t *)r);
	r->h = (struct record){.size = size, .func = func, .type = REC_CALL, .state = STATE_ENTERED};
	if (shim_long(t->until, shim_stamp(&r->start)))
		shim_gap(r);
	__atomic_store_n(&t->ring->head, t->head + size, __ATOMIC_RELEASE);
}

/* Completes the record of an entry mark, which ends at `end`. */
static SHIM_INLINE void shim_plain_mark(struct call_record *r, uint16_t func, const uint64_t *end)
{
	struct shim_thread *t = &shim_t;
	uint32_t size = (uint32_t)((const uint8_t *)end - (const uint8_t *)r);
	uint64_t now = shim_stamp(&r->start);
	r->end = now;
	r->ret = 0;
	if (shim_long(t->until, now))
		shim_gap(r);
	t->until = now;
	r->h = (struct record){.size = size, .func = func, .type = REC_CALL, .state = STATE_DONE};
	t->head += size;
	__atomic_store_n(&t->ring->head, t->head, __ATOMIC_RELEASE);
	shim_fetch((const uint8_t *)r + size);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->depth = 0;
}

/* Ends the record of a plain call. */
static SHIM_INLINE void shim_plain_exit(struct call_record *r)
{
	struct shim_thread *t = &shim_t;
	uint64_t size = r->h.size;
	t->head += size;
	__atomic_store_n(&r->h.state, STATE_DONE, __ATOMIC_RELEASE);
	shim_fetch((const uint8_t *)r + size);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->depth = 0;
}

#endif
