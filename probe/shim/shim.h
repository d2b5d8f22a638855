/*
 * What the generated wrappers call. A launch as most are, whose arguments are few and lie in one block, is written by the
 * function that the program calls (shim_plain and what follows it). All others, and the first of a thread, go to a wrapper, which is
 *
 *	if (!shim_enter(&c, ...))  call the real function, shim_leave(), return
 *	pieces that must be taken before the call
 *	shim_commit(&c);           the entry is visible from here on
 *	call the real function
 *	shim_return(&c, result);
 *	outputs and small inputs   into the same record
 *	shim_exit(&c);             the call is visible as finished
 *	payloads                   as records of their own
 *	shim_leave();
 *
 * The wrapper of a call that encloses others has shim_begin, shim_begun, shim_ended, shim_finish and shim_outside in their
 * places; that of one that encloses what the program's own functions call, and nothing else, has shim_report and shim_reported for the
 * first and the last.
 */
#ifndef ACLTRACE_SHIM_H
#define ACLTRACE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring.h"

#define SHIM_EXPORT __attribute__((visibility("default")))
/* All that the wrapper needs in one piece of code: for the calls that programs make most. */
#define SHIM_HOT __attribute__((flatten))
/* What the function that the program calls jumps to: see SHIM_ENTRY. */
#define SHIM_BODY __attribute__((noinline, used))
#define SHIM_INLINE inline __attribute__((always_inline))
#define TIME_PARAM 250 /* stands for the device's time of the task, which comes later */
#define MEMORY_PARAM 248 /* stands for memory that the device and the program access without a call: see visible.c */
#define RET_PARAM 255 /* stands for the returned value in a piece */
#define MAPS_PARAM 252 /* stands for the mappings of the process */
#define STACK_PARAM 253 /* stands for the stack that a call was made from */
#define TASK_PARAM 254 /* stands for the ids of the task that a call has made */

struct shim_thread {
	uint8_t *base; /* first byte of the records; NULL: no ring yet */
	struct ring *ring;
	uint64_t head; /* without a ring: clock, of the first call that is lost for that */
	uint64_t room; /* head up to which a plain call may be written, 0 where there is more to do: see shim_plain */
	uint64_t tail; /* as last seen */
	uint64_t size; /* of the records, bytes */
	uint64_t lost; /* calls since the last record */
	uint32_t slot;
	uint32_t generation; /* of the process state that the ring belongs to */
	int32_t device;      /* 1 + the one that the thread has selected, 0 unknown */
	uint32_t depth;
	void *frame; /* of the wrapper of the outermost call */
	uint64_t capacity;   /* bytes of the ring that records may take: less while room is kept for the end of an enclosing call */
	void *outer_frame;   /* of the wrapper of the enclosing call */
	uint32_t outer;      /* enclosing calls that the thread is in */
	uint32_t ran;        /* runs of functions of the program's that are kept beside the ring: see host.c */
	bool off; /* this thread records nothing */
	bool late; /* this thread has loaded what may go past the shim: see late.c */
	uint32_t offered; /* how many rings the recorder had made ahead when none was left for this thread */
};

extern __thread struct shim_thread shim_t __attribute__((tls_model("initial-exec"), visibility("hidden")));

/*
 * Pages of the shim's own memory, so that their addresses are known when it is linked: what has to be looked at in every call is
 * one load away. One is cleared by a fork, and so tells a child that it is one without its asking for its pid; over the other the
 * session's file is mapped once there is one.
 */
#if defined(__aarch64__)
#define SHIM_PAGE 65536 /* the largest that kernels have */
#else
#define SHIM_PAGE 4096
#endif

struct shim_process {
	_Atomic uint32_t ready; /* 0 untouched or forked, 1 being made, 2 recording, 3 off */
	uint32_t generation; /* 1 + the number of its file, which no other process of the session has */
	uint32_t pid;
	uint32_t told_maps; /* the recorder knows where code lies */
	uint32_t drop; /* has waited in vain for the recorder, and waits no more */
	uint32_t plain; /* generation, or 0 while no call may be written as a plain one */
	uint32_t inside; /* atomic; system calls of the shim that are under way */
};
extern union shim_process_page {
	struct shim_process process;
	uint8_t bytes[SHIM_PAGE];
} shim_process_page __attribute__((visibility("hidden")));
extern union shim_control_pages {
	struct control control;
	uint8_t bytes[(sizeof(struct control) + SHIM_PAGE - 1) / SHIM_PAGE * SHIM_PAGE];
} shim_control_pages __attribute__((visibility("hidden")));
#define shim_p (&shim_process_page.process)
#define shim_control (&shim_control_pages.control)

/* Whether a call is better left to its wrapper, or to the runtime alone where shim_quiet says so too. */
static SHIM_INLINE bool shim_special(void) { return __builtin_expect(__atomic_load_n(&shim_control->quiet, __ATOMIC_RELAXED) != QUIET_NO, 0); }
/* Whether all programs of the session record nothing for now. */
static SHIM_INLINE bool shim_quiet(void) { return __builtin_expect(__atomic_load_n(&shim_control->quiet, __ATOMIC_RELAXED) == QUIET_ALL, 0); }

struct shim_call {
	struct call_record *rec;
	uint8_t *end; /* where the next piece goes */
	uint8_t *limit; /* end of what was reserved */
	uint64_t seq;
};

static inline uint64_t shim_counter(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
#error "no time stamp counter for this processor"
#endif
}

uint64_t shim_monotonic(void);

/* The calls that the shim makes for itself take no virtual time: all of them are outside the program's own, which is between these two. */
enum clock_use { CALL_STARTS, CALL_ENDS, NO_CALL };
uint64_t shim_other_clock(enum clock_use use);

static inline uint64_t shim_clock(enum clock_use use)
{
	if (__builtin_expect(shim_control->clock == CLOCK_COUNTER, 1))
		return shim_counter();
	return shim_other_clock(use);
}

static inline uint64_t shim_now(void) { return shim_clock(NO_CALL); }

/*
 * Whether the outermost call, whose frame is gone, was left by a longjmp or an exception. Then its record is given up and
 * the thread begins anew. False on an alternate signal stack, whose frames lie anywhere.
 */
bool shim_abandoned(void);
/* Makes the ring of the calling thread, or says that it has none. */
bool shim_open_thread(void);
/* Makes room for need bytes: waits or gives up, as the session's policy says. */
bool shim_make_room(uint64_t need);
/* Counts a call that there was no room for; what is written next begins with their number. */
void shim_lose(void);
void shim_write_lost(void);
/* A call inside another one, by the frame of its wrapper: counts it if it is the program's. What is written next begins with their number. */
void shim_nested(void *frame);
void shim_add_nested(uint64_t calls);
void shim_write_nested(void);

static inline uint64_t round8(uint64_t n) { return (n + 7) & ~(uint64_t)7; }

static inline bool shim_room(uint64_t need)
{
	struct shim_thread *t = &shim_t;
	if (__builtin_expect(t->head + need - t->tail > t->capacity, 0))
		return shim_make_room(need);
	return true;
}

/*
 * Begins a call: its words go into a new record with room for `reserve` bytes of pieces. False where the call is not to
 * be recorded: inside another traced call (the outermost layer counts), without a ring, or with a full one.
 */
#define shim_enter(c, func, words, n, reserve) shim_enter_at(__builtin_frame_address(0), c, func, words, n, reserve)

static inline bool shim_enter_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve)
{
	struct shim_thread *t = &shim_t;
	/* A call inside another has its frame below. A handler that calls before depth is stored leaves its own frame behind, and one that calls
	 * after that needs this one: so it is stored on both sides. */
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
	if (__builtin_expect(shim_p->ready != 2 || t->base == NULL || t->generation != shim_p->generation, 0) &&
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
	 * Unrolled, so that the words go from registers. Two words at once, out of an array that was filled by one, would be loads
	 * that no store buffer can serve: each would wait until all stores before it, those into the ring too, are in the cache.
	 */
#pragma GCC unroll 32
	for (unsigned i = 0; i < n; i++)
		w[i] = words[i];
	c->end = (uint8_t *)(w + n);
	c->limit = c->end + reserve;
	return true;
}

void shim_stack(struct shim_call *c);

static inline void shim_commit(struct shim_call *c)
{
	struct shim_thread *t = &shim_t;
	struct call_record *r = c->rec;
	if (__builtin_expect(shim_control->stack_frames != 0, 0))
		shim_stack(c);
	r->h.size = (uint32_t)(c->end - (uint8_t *)r);
	r->start = shim_clock(CALL_STARTS);
	__atomic_store_n(&t->ring->head, t->head + r->h.size, __ATOMIC_RELEASE);
}

static inline void shim_return(struct shim_call *c, uint64_t ret)
{
	c->rec->end = shim_clock(CALL_ENDS);
	c->rec->ret = ret;
}

/*
 * Has the memory of records to come brought into this core's cache, from the recorder's, which has read it the last time
 * round. Some records ahead is early enough for calls that follow each other at once. The mapping goes on behind the
 * ring, so that any offset is a place in it.
 */
static inline void shim_fetch(const uint8_t *next)
{
	enum { AHEAD = 1024, LINE = 64, LINES = 3 };
	for (int i = 0; i < LINES; i++) {
		const uint8_t *p = next + AHEAD + i * LINE;
#if defined(__x86_64__)
		/* The builtin is an ordinary prefetch here, which leaves the line with both cores. */
		__asm__ volatile("prefetchw %0" : : "m"(*p));
#else
		__builtin_prefetch(p, 1);
#endif
	}
}

/* Ends the record of the call. */
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
	shim_t.depth--;
}

/*
 * Of a call that is not recorded, between shim_enter and shim_leave: whether it is no part of another, in a process that is recorded at times, so
 * that what it does to the runtime's objects is to be kept in mind.
 */
static inline bool shim_outermost(void) { return shim_t.depth == 1 && shim_p->ready == 2; }

/* The same: whether it was to be recorded, and there was no room. Nothing that is waited for while nothing is recorded is taken later. */
static inline bool shim_missed(void)
{
	return shim_outermost() && !shim_quiet() && __atomic_load_n(&shim_control->off, __ATOMIC_RELAXED) != OFF_ENDED &&
	       (shim_t.base == NULL || __atomic_load_n(&shim_control->slots[shim_t.slot].off, __ATOMIC_RELAXED) == 0);
}

/*
 * A plain call: the outermost of its thread, with words and a few small blocks. All that may stand in the way of writing
 * it at once is in three comparisons: whether all processes record, whether this is the process that the thread has made its ring
 * in, and room, which is 0 for a thread without a ring, with lost calls to tell of, or in a session that asks for more.
 */
enum { PLAIN_WORDS = 12, PLAIN_BLOCKS = 3, PLAIN_BLOCK = 256, PLAIN_BYTES = 1024 };
_Static_assert(sizeof(struct call_record) + 8 * PLAIN_WORDS + PLAIN_BLOCKS * (sizeof(struct piece) + PLAIN_BLOCK) +
	sizeof(struct piece) + 8 /* a task's ids */ + sizeof(struct lost_record) <= PLAIN_BYTES, "a plain call");

static SHIM_INLINE bool shim_plain(void)
{
	struct shim_thread *t = &shim_t;
	void *frame;
	if (__builtin_expect(t->depth != 0, 0))
		return false;
	/* The least of the frame, which what is called from it lies below. */
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
	/* What a signal's handler calls from here on is inside this call, and leaves the ring alone. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(t->generation == shim_p->plain && t->head < t->room, 1))
		return true;
	t->depth = 0;
	return false;
}

/* A block: of words, or of half words as the lists of launches are, which its owner gives or leaves out. */
static SHIM_INLINE bool shim_plain_block(const void *p, uint64_t len) { return p == NULL || (len <= PLAIN_BLOCK && (len & 3) == 0); }

/* The elements behind a structure {pointer, count}. */
static SHIM_INLINE bool shim_plain_list(const void *list, uint32_t elem)
{
	return list == NULL || ((const uint64_t *)list)[1] <= PLAIN_BLOCK / elem;
}

/* Stores the time. Nothing waits for all of it in one register. */
static SHIM_INLINE void shim_stamp(uint64_t *at)
{
#if defined(__x86_64__)
	typedef uint32_t half __attribute__((may_alias));
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	((half *)at)[0] = lo;
	((half *)at)[1] = hi;
#else
	*at = shim_counter();
#endif
}

/* The record of a plain call with its words, and room for pieces behind them. */
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

/* What a parameter leads to, up to a call that may change it. */
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

/* The entry is complete, and ends at a place. */
static SHIM_INLINE void shim_plain_commit(struct call_record *r, uint16_t func, const uint64_t *end)
{
	struct shim_thread *t = &shim_t;
	uint32_t size = (uint32_t)((const uint8_t *)end - (const uint8_t *)r);
	r->h = (struct record){.size = size, .func = func, .type = REC_CALL, .state = STATE_ENTERED};
	shim_stamp(&r->start);
	__atomic_store_n(&t->ring->head, t->head + size, __ATOMIC_RELEASE);
}

/* Ends the record of a plain call, with the ids of the task that it has put on a stream. */
void shim_plain_task(struct call_record *r, void *stream);

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

/* As shim_enter, for a call that encloses others: of those of its kind the outermost counts. */
#define shim_begin(c, func, words, n, reserve) shim_begin_at(__builtin_frame_address(0), c, func, words, n, reserve)
bool shim_begin_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve);
void shim_begun(struct shim_call *c);
void shim_ended(struct shim_call *c, uint16_t func, uint64_t ret);
void shim_finish(struct shim_call *c);
static inline void shim_outside(void) { shim_t.outer--; }

/* A value of at most 8 bytes that the call has stored at p. Room for it is reserved by the generator. */
static inline void shim_out(struct shim_call *c, uint8_t param, const void *p, uint32_t len)
{
	if (p == NULL)
		return;
	struct piece *h = (struct piece *)c->end;
	*h = (struct piece){.param = param, .flags = PIECE_OUT | PIECE_BYTES, .len = len};
	uint64_t v = 0;
	__builtin_memcpy(&v, p, len);
	*(uint64_t *)(h + 1) = v;
	c->end += sizeof *h + 8;
}

/* Bytes that a piece of this length takes, for what is reserved at the beginning of a call. */
static inline uint64_t shim_piece_room(const void *p, uint64_t len)
{
	return p == NULL || len > RING_INLINE ? 0 : sizeof(struct piece) + round8(len);
}

/*
 * Memory into the record of the call, before the real call or after it. Where the call has failed (!ok) nothing says
 * that the memory is readable, and it is read with care.
 */
void shim_any_piece(struct shim_call *c, uint8_t param, uint8_t flags, const void *p, uint64_t len, bool ok);

static inline void shim_piece(struct shim_call *c, uint8_t param, uint8_t flags, const void *p, uint64_t len, bool ok)
{
	if (p == NULL)
		return;
	/* Argument blocks are mostly small and whole words, and room for them is reserved. */
	if (__builtin_expect(ok && len <= 256 && (len & 7) == 0 && c->end + sizeof(struct piece) + len <= c->limit, 1)) {
		typedef uint64_t word __attribute__((may_alias, aligned(1)));
		struct piece *h = (struct piece *)c->end;
		*h = (struct piece){.param = param, .flags = (uint8_t)(flags | PIECE_BYTES), .len = (uint32_t)len};
		uint64_t *to = (uint64_t *)(h + 1);
		for (uint64_t i = 0; i < len / 8; i++)
			to[i] = ((const word *)p)[i];
		c->end += sizeof *h + len;
		return;
	}
	shim_any_piece(c, param, flags, p, len, ok);
}

/* As shim_piece, nothing where it is larger than RING_INLINE: see shim_large. */
void shim_in(struct shim_call *c, uint8_t param, const void *p, uint64_t len, bool ok);
/* The elements behind a structure {pointer, count}. */
void shim_any_list(struct shim_call *c, uint8_t param, const void *p, uint32_t elem, bool ok);

static inline void shim_list(struct shim_call *c, uint8_t param, const void *p, uint32_t elem, bool ok)
{
	if (p != NULL)
		shim_any_list(c, param, p, elem, ok);
}

/* Memory that something else than a parameter leads to, into the record of the call. It must be readable. */
void shim_far(struct shim_call *c, uint8_t param, uint8_t flags, uint32_t item, const void *p, uint64_t len);
void shim_far_string(struct shim_call *c, uint8_t param, uint32_t item, const char *s);

void shim_string(struct shim_call *c, uint8_t param, uint8_t flags, const char *s, uint64_t max, bool ok);
/* Memory larger than RING_INLINE that a call has read, after shim_exit, as records of its own. */
void shim_large(uint64_t seq, uint8_t param, uint32_t item, const void *p, uint64_t len);
void shim_file(uint64_t seq, uint8_t param, const char *path);

/* Payloads, after shim_exit. Memory on the device is left alone. */
/* Whether a value is one of those below 16 that have a bit. */
static inline bool shim_one_of(uint32_t v, uint16_t bits) { return v < 16 && (bits >> v & 1); }
void shim_reads(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t len, bool host, bool async);
void shim_writes(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t len, bool host, bool async, void *stream);
void shim_reads_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool host, bool async);
void shim_writes_rows(struct shim_call *c, uint8_t param, uint32_t item, const void *p, uint64_t pitch, uint64_t width, uint64_t rows, bool host, bool async, void *stream);

/* Whether memory is the host's, where its address does not tell. */
bool shim_on_host(const void *p, uint64_t len);

/* A structure that describes a copy, by the offsets of its fields. */
#define SHIM_NO_FIELD (~(uint32_t)0)
struct shim_side { uint32_t kind, host, device, x, y, z, pitch, rows; };
struct shim_block { struct shim_side from, to; uint32_t width, height, depth; };
/* What the copy at s reads from the host on the side from, or writes there on the side to. */
void shim_block(struct shim_call *c, uint8_t param, uint32_t item, const void *s, const struct shim_block *b, const struct shim_side *side, bool async, void *stream);

/* Before the call: the copy at s comes over what is pending on the host. */
void shim_block_overwrites(const void *s, const struct shim_block *b);

/* The copy at s is one that a graph makes each time that it runs: that of the node, if it is one. A graph of NULL is the one that the node is in. */
void shim_block_captured(void *graph, const void *node, const void *s, const struct shim_block *b);

/* What has to be remembered between calls. */
void shim_host_new(uint64_t addr, uint64_t len, bool registered);
void shim_host_end(uint64_t addr, bool registered);
/* Device memory beyond the window where it is expected. What is mapped into a reservation and taken out of it stays in there. */
#ifndef SHIM_FAR
#define SHIM_FAR 512 /* allocations of a kind that are remembered */
#endif
enum far_memory { ALLOCATED, RESERVED, FAR_KINDS };
void shim_far_new(enum far_memory kind, uint64_t addr, uint64_t len);
void shim_far_end(enum far_memory kind, uint64_t addr);

static inline bool shim_in_window(uint64_t addr) { return addr - shim_control->device_from < shim_control->device_to - shim_control->device_from; }

/* Managed memory. */
void shim_visible_new(enum far_memory kind, uint64_t addr, uint64_t len);

static inline void shim_device_new(enum far_memory kind, uint64_t addr, uint64_t len)
{
	if (__builtin_expect(!shim_in_window(addr), 0))
		shim_far_new(kind, addr, len);
}

extern uint32_t shim_visible __attribute__((visibility("hidden"))); /* ranges of memory that the program accesses without a call */
void shim_visible_end(uint64_t addr);
/* Before a task: records what the program has stored there. Returns at once inside another call. */
void shim_visible_before(bool async);

static inline void shim_visible_task(bool async)
{
	if (__builtin_expect(shim_visible != 0, 0))
		shim_visible_before(async);
}

static inline void shim_device_end(enum far_memory kind, uint64_t addr)
{
	if (__builtin_expect(shim_visible != 0, 0))
		shim_visible_end(addr);
	if (__builtin_expect(!shim_in_window(addr), 0))
		shim_far_end(kind, addr);
}

/* The place in the order of asynchronous results that has been reached. Asked for before a call: what other threads ask for while it runs
 * is not what it waits for. */
uint64_t shim_order(void);
/* Memory that a call which is not recorded may have written, or that one is about to write. */
void shim_overwritten(uint64_t addr, uint64_t len);
void shim_synced_stream(void *stream, uint64_t until);
/* Around a record of an event, written down or not: it has a number, 0 inside another call. */
uint64_t shim_event_begins(void *event);
void shim_event_recorded(void *event, uint64_t number, bool ok, void *stream, uint64_t until);
void shim_event_ends(void *event);
/* Before a wait for an event: what it was recorded for, and behind it. */
struct shim_recorded {
	uint64_t number; /* 0 where that is not known */
	void *stream;
	uint64_t order;
};
struct shim_recorded shim_event_last(void *event);
void shim_synced_event(void *event, const struct shim_recorded *r);
void shim_synced_device(uint64_t until);
void shim_buffer(void *args, void *param, uint64_t addr, uint64_t len);
void shim_buffers_reset(void *args);
void shim_buffers_captured(struct shim_call *c, uint8_t param, void *args);

/* The sizes of a kernel's parameters, of one that has not too many: see sizes.c. */
/* Of a kernel with more parameters than these there are further parts, of which each but the last says so in its count. */
enum { SHIM_PARAMS = 23, SHIM_PARTS = 16, SHIM_MORE = 1 << 15 };
struct shim_sizes { uint16_t count, size[SHIM_PARAMS]; } __attribute__((aligned(8)));
static inline uint64_t shim_part(uint64_t key, uint32_t part) { return key ^ (uint64_t)part << 56; }
#ifndef SHIM_KERNELS
#define SHIM_KERNELS 4096 /* whose sizes are remembered */
#endif
bool shim_sizes_known(uint64_t key, struct shim_sizes *s);
/* since: the epoch in which they were asked for, 0 where they count until others are kept. */
void shim_sizes_keep(uint64_t key, uint32_t since, const struct shim_sizes *s);
uint32_t shim_epoch(void);
/* Functions are about to end, with what they lie in. */
void shim_functions_end(void);
/* The arguments of a kernel, as items behind this one. */
void shim_args_array(struct shim_call *c, uint8_t param, uint32_t item, const void *func, void **args);

/* Of each runtime its own: acl.c, cuda.c. */
/* Asks for the size of a parameter, false where there is none. */
bool shim_param_size(const void *func, uint32_t i, size_t *size);
/* A binary that was loaded from memory or a file, a function of one by its name, loose if it is of no context, and one that stands for another. */
void shim_binary(const void *binary, const void *image);
void shim_binary_file(const void *binary, const char *path);
void shim_binary_as(const void *binary, const void *other);
void shim_kernel(const void *func, const void *binary, const char *name, bool loose);
void shim_kernel_as(const void *func, const void *other);
/* Functions that answer with the number of the thread's last task and of a stream, NULL where there are none. */
extern const char *const shim_task_of[2] __attribute__((visibility("hidden")));
/* Functions by which tasks are timed (devtime.c). What is not TIMING_REQUIRED may be missing in the lower layer. A runtime without STAMP
 * is asked for the time since an event that is kept for that. */
enum { CONTEXT, CREATE, DESTROY, RECORD, STATUS, ELAPSED, TIMING_REQUIRED, STAMP = TIMING_REQUIRED, PEEK, FORGET, MESSAGE, TASK, TIMING_FUNCTIONS };
enum { UPPER, LOWER, TIMING_LAYERS };
extern const char *const shim_timing[TIMING_LAYERS][TIMING_FUNCTIONS] __attribute__((visibility("hidden")));
extern const uint32_t shim_timing_flags __attribute__((visibility("hidden"))); /* of an event that takes no other from the program */
/* Asks by the function STATUS whether an event is complete. */
int32_t shim_event_status(void *function, void *event, bool *done);
enum { TIMING_LATER = 600 }; /* what ELAPSED returns of an event that is not complete, where there is no STAMP */
/* A list that leads to the block with the arguments of a kernel. */
void shim_packed(struct shim_call *c, uint8_t param, uint32_t item, void **list);
/* A binary in memory, and how many bytes it is by what it says itself. */
const void *shim_image(const void *image);
uint64_t shim_image_size(const void *image);
/* An argument of a kernel. */
void shim_array_item(struct shim_call *c, uint8_t param, uint32_t i, const void *p, uint64_t len);
void shim_set_device(int32_t device);

/* Copies to the host that a graph makes, each time that it runs: how many into the record of the call, then what they bring. */
void shim_captured(void *graph); /* NULL: for none */
void shim_graph_ended(void *graph);
void shim_graph_copied(void *to, void *from); /* an executable graph of one that was captured */
/* Graphs whose handles lie behind parts run as parts of another, where a condition says so. */
void shim_graph_parts(void *graph, const void *parts, uint64_t bytes);
void shim_graph_results(struct shim_call *c, uint8_t param, void *graph);
/* Each run of a graph records an event, by a node. A graph of NULL is the one that the node is in. */
void shim_graph_records(void *graph, const void *node, void *event);
/* The same for an event that is recorded with flags: false where that is no node of a graph that is being captured. */
bool shim_graph_external(void *event, uint64_t flags);
/*
 * Before the call: what a graph copies to the host comes over what is pending there. Where it may or may not, what lies there is recorded. What
 * waits for an event that the graph records waits for nothing that is known.
 */
void shim_graph_begins(struct shim_call *c, uint8_t param, void *graph);
void shim_graph_run(struct shim_call *c, uint8_t param, void *graph, void *stream, bool async);

/* Functions of the program's that streams call: see host.c. */
struct shim_function {
	void *fn, *data;
};
extern const uint16_t shim_hostFunction __attribute__((visibility("hidden"))); /* its number in the model */
/* What to give the runtime instead of a function and its argument, so that its runs are recorded. */
struct shim_function shim_host_function(void *fn, void *data) __attribute__((visibility("hidden")));
/* The beginning and the end of a call that runs such functions on its thread. */
#define shim_report(c, func, words, n, reserve) shim_report_at(__builtin_frame_address(0), c, func, words, n, reserve)
bool shim_report_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve);
void shim_reported(void);

/* The runtime's ids of the task that the call has just put on a stream. */
void shim_any_task(struct shim_call *c, void *stream);
void shim_stream_ended(void);

/*
 * When the device does a task (devtime.c): one event is put on the stream before it and one behind it, and what they say is
 * written where the program has waited for them.
 */
enum reach { OF_STREAM, OF_DEVICE };
enum leave { STREAM_ENDS, CONTEXT_ENDS, DEVICE_ENDS, ALL_ENDS };
struct place {
	void *stream;
	uint64_t order; /* in that of all asynchronous results of the process */
	int32_t device; /* 1 + the one that the thread had selected, 0 unknown */
};
/* The place of what the thread has put on a stream just now. */
struct place shim_place(void *stream);
/* Whether who has waited for a stream, or the device of the thread, up to a place in the order, has waited for this one. */
bool shim_reached(const struct place *p, enum reach which, const void *stream, uint64_t until);
void shim_time_begin(struct shim_call *c, void *on);
void shim_time_end(struct shim_call *c, void *stream);
void shim_times_reached(enum reach which, void *stream, uint64_t until);
void shim_times_thread(void);
void shim_times_forked(void);
/* Before the program ends what events and streams belong to: those of the shim go as well, when their times have been written that are there. */
void shim_times_leave(enum leave which, const void *what, int32_t device);

/* The same in a wrapper: before shim_enter, whose record is to be the last one of the thread until it is whole. */
static inline void shim_leaving(enum leave which, const void *what, int32_t device)
{
	if (shim_t.depth != 0 || shim_p->ready != 2)
		return;
	shim_t.depth++;
	shim_times_leave(which, what, device);
	shim_t.depth--;
}

/* A capture of a stream begins, before the call that begins it, or has ended. */
void shim_capture(bool begins);
extern uint32_t shim_captures __attribute__((visibility("hidden"))); /* atomic; under way in the process */
/* What the thread is told of its last error and its last task is the program's own. */
int32_t shim_last_error(int32_t ret, bool forget);
void shim_last_task(uint32_t *id);

/*
 * What a stream is called here, where handles up to own are constants: own stands for the thread's own default stream, as NULL may do, the
 * others for that of the context. TLS of the shim has an address of its own in each thread, where no stream lies.
 */
static inline void *shim_stream(const void *handle, uint64_t own, bool null_is_own)
{
	uint64_t h = (uint64_t)(uintptr_t)handle;
	if (__builtin_expect(h > own, 1))
		return (void *)(uintptr_t)h;
	return h == own || (h == 0 && null_is_own) ? (void *)&shim_t : (void *)0;
}

/* on: the stream's handle, by which the thread names it. */
static inline void shim_timed(struct shim_call *c, void *on)
{
	if (__builtin_expect(shim_control->time_every != 0, 0))
		shim_time_begin(c, on);
}

extern bool shim_after_task __attribute__((visibility("hidden"))); /* something is to be done after each */

static inline void shim_task(struct shim_call *c, void *stream)
{
	if (shim_after_task)
		shim_any_task(c, stream);
}

/* Copies memory that may not be there; false where it is not. */
bool shim_careful_copy(void *to, const void *from, uint64_t len);
/* The XXH3-128 of len bytes, more than 240, as {low, high}; false where they can't be read. */
bool shim_hash(const void *data, uint64_t len, bool careful, uint64_t out[2]);
/* The same with vectors of so many lanes, and the widest ones that the processor has. */
enum shim_vectors { VECTORS_PLAIN, VECTORS_OF_TWO, VECTORS_OF_FOUR };
bool shim_hash_by(enum shim_vectors v, const void *data, uint64_t len, bool careful, uint64_t out[2]);
enum shim_vectors shim_hash_vectors(void);

/* Tells the recorder who this process is, and locks what tells it: see process.c. False where the process is not to be recorded. */
bool shim_register(void) __attribute__((visibility("hidden")));
/* 1 + the number of the process in the session. */
uint32_t shim_process_number(void) __attribute__((visibility("hidden")));
/* Whether the process has loaded the runtime. */
bool shim_loaded(void) __attribute__((visibility("hidden")));
/* A call of this process is recorded. */
void shim_calls(void) __attribute__((visibility("hidden")));

/* In a forked child that can't register: what its parent says is not its own. */
void shim_disown(void) __attribute__((visibility("hidden")));
/* Where the recorder tells this process that it has a filter of system calls, NULL before there is such a place. */
uint32_t *shim_filter_flag(void) __attribute__((visibility("hidden")));
/* Whether the program has a filter of system calls: the shim makes none then. See filter.c. */
bool shim_filtered(void) __attribute__((visibility("hidden")));

/* Bytes that the memory cgroup of the process has left: see cgroup.c. */
uint64_t shim_memory_left(void);

/* What a function of the runtime stores about a handle, 0 where it fails. It must leave all state as it is, and is asked once for a
 * handle, until that is said to end. */
uint64_t shim_query(const char *function, const void *handle);
void shim_forget(const void *handle);

/* The function of this name behind the shim, NULL where there is none. */
void *shim_resolve(const char *name);

static inline void *shim_real_known(void **slot) { return __atomic_load_n(slot, __ATOMIC_ACQUIRE); }

static inline void *shim_real(void **slot, const char *name)
{
	void *f = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (__builtin_expect(f == NULL, 0)) {
		f = shim_resolve(name);
		__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	}
	return f;
}

/* As shim_real, for functions that the runtime may not have: that, too, is found out once. */
static inline void *shim_optional(void **slot, const char *name)
{
	void *f = shim_real(slot, name);
	if (f == NULL) {
		f = (void *)-1L;
		__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	}
	return f == (void *)-1L ? NULL : f;
}

#endif
