/* The program's functions that a stream calls (host functions and callbacks). */
#ifndef ACLTRACE_SHIM_HOST_H
#define ACLTRACE_SHIM_HOST_H

#include "record/enclose.h"

struct shim_function {
	void *fn, *data;
};
/* The function and argument to give to the runtime instead, so that each run is recorded. */
struct shim_function shim_host_function(void *fn, void *data) HIDDEN;

/* Begin and end a call that runs host functions on its own thread. */
#define shim_report(c, func, words, n, reserve) shim_report_at(__builtin_frame_address(0), c, func, words, n, reserve)
bool shim_report_at(void *frame, struct shim_call *c, uint16_t func, const uint64_t *words, unsigned n, uint64_t reserve);
void shim_reported(void);

#endif
