#include "record/enclose.h"

#include "record/nested.h"

/* From BEGIN on, room is reserved for END. So a full ring loses calls in between, but not the result. */
enum { END_BYTES = 256 };

bool shim_begin_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve)
{
	struct shim_thread *t = &shim_t;
	c->rec = NULL;
	if (shim_stranger()) {
		shim_nested(frame);
		return false;
	}
	if (t->outer++ != 0) {
		if (frame < t->outer_frame || on_signal_stack())
			return false;
		t->outer = 1; /* the earlier one was left by a longjmp or an exception */
		t->capacity = t->size;
	}
	t->outer_frame = frame;
	if (t->base != NULL && t->capacity == t->size)
		t->capacity -= END_BYTES;
	/* depth protects the record only while it is written: the enclosed calls are recorded. */
	bool on = shim_enter_at(frame, c, func, words, n, reserve);
	t->depth--;
	if (!on) {
		t->capacity = t->size;
		c->rec = NULL;
		return false;
	}
	if (t->capacity == t->size) /* shim_enter_at has just made the ring */
		t->capacity -= END_BYTES;
	c->rec->h.type = REC_BEGIN;
	return true;
}

void shim_begun(struct shim_call *c)
{
	shim_commit(c);
	shim_t.until = c->rec->start;
	shim_exit(c);
}

void shim_ended(struct shim_call *c, uint16_t func, uint64_t ret)
{
	struct shim_thread *t = &shim_t;
	t->capacity = t->size;
	c->rec = NULL;
	if (t->base == NULL || t->generation != shim_p->generation || !shim_room(END_BYTES))
		return; /* in a forked child: the call is the parent's */
	struct call_record *r = shim_next_record();
	*r = (struct call_record){.h = {.func = func, .type = REC_END, .state = STATE_ENTERED}, .end = shim_now(), .ret = ret};
	t->until = r->end;
	c->rec = r;
	c->end = (uint8_t *)(r + 1);
	c->limit = (uint8_t *)r + END_BYTES;
}

void shim_finish(struct shim_call *c)
{
	if (c->rec != NULL)
		shim_exit(c);
}
