/*
 * Descriptions of operators: kernel type, blocks, and the tensors' types and shapes. An operator library asks the runtime before each launch whether it takes
 * one. The runtime does while a stream is captured. With OPERATORS_SHAPES the shim says yes for any stream, and keeps the descriptions that the runtime does not
 * want: it would refuse them. So a thread needs no list of captured streams: its last question decides.
 */
#ifndef ACLTRACE_SHIM_KEPT_H
#define ACLTRACE_SHIM_KEPT_H

#include "shim_hot.h"

/* The runtime has answered a question, and the record has its answer. */
static inline void shim_offered(bool ok, uint32_t *answer)
{
	struct ring *r = shim_t.ring;
	if (r == NULL)
		return;
	r->keeps = 0;
	if (!ok || answer == NULL || *answer != 0 || shim_control->operators != OPERATORS_SHAPES)
		return;
	r->keeps = 1 + __atomic_load_n(&shim_control->resumed, __ATOMIC_RELAXED);
	*answer = 1;
}

/* Whether the runtime does not want this thread's next description. Before a pause the answer may have been for another stream. */
static inline bool shim_keeps(void)
{
	const struct ring *r = shim_t.ring;
	return r != NULL && __builtin_expect(r->keeps != 0, 0) && r->keeps == 1 + __atomic_load_n(&shim_control->resumed, __ATOMIC_RELAXED);
}

static inline void shim_note_kept(struct shim_call *c)
{
	c->rec->kept = shim_keeps();
}

#endif
