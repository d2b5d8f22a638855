/*
 * The boundaries of operators. A mark is one record, complete at once: the program may leave the operator by an exception.
 *
 * The end of a phase or an inner operator has only the address of an object of the operator library. So a thread keeps the open ones. The end of a phase
 * one records the executor that it has made, which is at the address that its begin got.
 */
#include "bind/mark.h"

#include "base/copy.h"
#include "base/loader.h"
#include "base/maps.h"
#include "record/piece.h"
#include "session/process.h"

enum { MARK_NAME = 512, MARK_OPEN = 16, MARK_WORDS = 6 /* as in apigen */ };
/* In the page before the ring, as the hashes of stacks. */
struct open_mark {
	const uint8_t *sp; /* of the caller */
	uint64_t executor; /* address of a phase one's executor, 0 for none */
};
#define open_marks ((struct open_mark *)((uint8_t *)shim_t.ring + 2048))
_Static_assert(2048 + MARK_OPEN * sizeof(struct open_mark) <= RING_HEADER, "open marks");

/* Whether code is in the library of a mark's real function. */
static bool inside(struct shim_mark *m, void *real, uint64_t code)
{
	if (__atomic_load_n(&m->of, __ATOMIC_ACQUIRE) != real) {
		struct mapping of = find_mapping((uint64_t)real);
		m->from = of.start, m->to = of.end;
		__atomic_store_n(&m->of, real, __ATOMIC_RELEASE);
	}
	return code >= m->from && code < m->to;
}

/* A phase whose caller's frame is below this one was left by a longjmp, and so was one with the same frame and executor. */
static void begins(const uint8_t *sp, uint64_t executor)
{
	struct ring *r = shim_t.ring;
	for (; r->marks > 0 && r->marks <= MARK_OPEN; r->marks--) {
		const struct open_mark *last = &open_marks[r->marks - 1];
		if (last->sp > sp || (last->sp == sp && (executor == 0 || last->executor != executor)))
			break;
	}
	if (r->marks < MARK_OPEN)
		open_marks[r->marks] = (struct open_mark){sp, executor};
	r->marks++;
}

/*
 * Ends a phase, and those inside it that were left by a longjmp. They have lower frames, and so may the phase itself, if its begin had arguments on the
 * stack: it is the one with this frame, or else the outermost lower one. Returns the address of the executor, 0 for none.
 */
static uint64_t ends(const uint8_t *sp)
{
	struct ring *r = shim_t.ring;
	if (r->marks == 0 || r->marks > MARK_OPEN) {
		r->marks -= r->marks > 0;
		return 0;
	}
	uint32_t n = r->marks;
	while (n > 0 && open_marks[n - 1].sp < sp)
		n--;
	if (n == r->marks || (n > 0 && open_marks[n - 1].sp == sp))
		n--;
	r->marks = n;
	return open_marks[n].executor;
}

/* The executor is a variable of a caller, or else in memory that is read with care. */
static uint64_t stored(uint64_t at, const uint8_t *sp)
{
	enum { NEAR = 64 * 1024 };
	uint64_t v = 0, *end = &shim_t.ring->stack_end;
	if (at == 0)
		return 0;
	if (*end == 0)
		*end = find_mapping((uint64_t)sp).end;
	if (at % 8 == 0 && at >= (uint64_t)sp && at - (uint64_t)sp < NEAR && at < *end)
		return *(const uint64_t *)at;
	return shim_careful_copy(&v, (const void *)at, sizeof v) ? v : 0;
}

/* Copies a name, padded with zeros to whole words, and returns its length. No read crosses a page before the end of the name is known. */
static SHIM_INLINE uint64_t copy_name(uint64_t *to, const char *name)
{
	typedef uint64_t word __attribute__((may_alias, aligned(1)));
	const uint64_t ones = 0x0101010101010101;
	for (uint64_t n = 0; n < MARK_NAME; n += 8, to++) {
		uint64_t w = 0, left = 4096 - ((uint64_t)(name + n) & 4095);
		if (left >= 8)
			w = *(const word *)(name + n);
		else
			for (uint64_t i = 0; i < 8 && name[n + i]; i++)
				w |= (uint64_t)(uint8_t)name[n + i] << 8 * i;
		uint64_t zeros = (w - ones) & ~w & ones << 7;
		if (zeros != 0) {
			uint64_t k = (uint64_t)__builtin_ctzll(zeros) / 8;
			*to = w & ((1ULL << 8 * k) - 1); /* overwritten by the next record if k is 0 */
			return n + k;
		}
		*to = w;
	}
	return MARK_NAME;
}

static int nothing(void) { return 0; }

HIDDEN __attribute__((used)) void *shim_mark_enter(const uint64_t *words, uint32_t number, uint64_t from, const uint8_t *sp)
{
	struct shim_mark *m = &shim_marks[number];
	void *real = shim_real(&m->real, m->name);
	if (real == NULL)
		return (void *)nothing;
	if (__builtin_expect(shim_p->ready == PROCESS_NEW, 0))
		open_process(); /* the level is the session's */
	if (shim_control->operators == OPERATORS_NONE || shim_quiet() || (m->kind == MARK_END && inside(m, real, from)))
		return real;
	uint64_t executor = m->executor >= 0 ? words[m->executor] : 0;
	const char *name = m->text >= 0 ? (const char *)words[m->text] : NULL;
	uint64_t end[MARK_WORDS] = {0};
	if (!shim_special() && shim_plain()) {
		if (m->kind == MARK_END) {
			uint64_t at = ends(sp);
			end[0] = at ? stored(at, sp) : 0;
			words = end;
		} else if (m->kind != MARK_OTHER)
			begins(sp, m->kind == MARK_PHASE_ONE ? executor : 0);
		struct call_record *r = shim_plain_enter(words, MARK_WORDS);
		*(uint64_t *)&r->words = m->words; /* the pieces overwrite the other words */
		uint64_t *to = shim_plain_pieces(r, m->words);
		if (name != NULL) {
			struct piece *p = (struct piece *)to++;
			uint64_t n = copy_name(to, name);
			*p = (struct piece){.param = (uint8_t)m->text, .flags = PIECE_BYTES, .len = (uint32_t)n};
			to += round8(n) / 8;
		}
		shim_plain_mark(r, m->func, to);
		return real;
	}
	struct shim_call c;
	if (shim_enter(&c, m->func, words, m->words, 0)) {
		uint64_t *to = (uint64_t *)(c.rec + 1);
		if (m->kind == MARK_END) {
			uint64_t at = ends(sp);
			to[0] = at ? stored(at, sp) : 0;
		} else if (m->kind != MARK_OTHER)
			begins(sp, m->kind == MARK_PHASE_ONE ? executor : 0);
		shim_string(&c, (uint8_t)m->text, 0, name, MARK_NAME, true);
		shim_commit(&c);
		shim_return(&c, 0);
		c.rec->end = c.rec->start;
		shim_exit(&c);
	}
	shim_leave();
	return real;
}
