/*
 * Calls that enclose others. Each has a BEGIN record and an END record; the calls between them have their own records. If enclosing calls nest,
 * only the outermost is recorded.
 */
#ifndef ACLTRACE_SHIM_ENCLOSE_H
#define ACLTRACE_SHIM_ENCLOSE_H

#include "shim_hot.h"

#define shim_begin(c, func, words, n, reserve) shim_begin_at(__builtin_frame_address(0), c, func, words, n, reserve)
bool shim_begin_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve);
void shim_begun(struct shim_call *c);
void shim_ended(struct shim_call *c, uint16_t func, uint64_t ret);
void shim_finish(struct shim_call *c);
static inline void shim_outside(void)
{
	if (!shim_stranger())
		shim_t.outer--;
}

#endif
