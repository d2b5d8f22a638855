/* Entry marks: functions of which only the entry is recorded, as a call without a duration and a result. See SHIM_MARK in bind/entry.h. */
#ifndef ACLTRACE_SHIM_MARK_H
#define ACLTRACE_SHIM_MARK_H

#include "base/state.h"

enum mark_kind { MARK_OTHER, MARK_PHASE_ONE, MARK_BEGIN, MARK_END };

struct shim_mark {
	void *real; /* atomic; NULL: not looked for yet, or unloaded */
	const char *name;
	uint16_t func;
	uint8_t words;
	int8_t text;     /* parameter with the operator's name, -1 for none */
	int8_t executor; /* parameter with the executor, or for MARK_PHASE_ONE with the address at which it is stored */
	uint8_t kind;    /* enum mark_kind */
	uint64_t from, to; /* addresses of the library of `of` */
	void *of;        /* atomic; the real function whose library they are */
};
/* Generated. */
extern struct shim_mark shim_marks[] HIDDEN;

#endif
