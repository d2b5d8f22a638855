/* Results of asynchronous copies to the host, which are pending until the program has waited for them. */
#ifndef ACLTRACE_SHIM_RESULTS_H
#define ACLTRACE_SHIM_RESULTS_H

#include "payload/payload.h"
#include "task/order.h"

/* The fate of a result's memory before the program has waited for the result. */
enum why { COPIED_OVER, FREED, UNREGISTERED, WHYS };

/* Adds a result of a stream; pitch 0: no rows. False if the table is full. */
bool add_pending(const struct payload *p, void *stream, uint64_t pitch, uint64_t width);
bool any_pending(void);
/* Marks the results that are pending in this memory as missing: something else gets it. */
void give_up_pending(uint64_t addr, uint64_t len, enum why why);
/* Records the results, device times and visible memory that a wait has covered. */
void release(enum reach which, void *stream, uint64_t until);

void shim_synced_stream(void *stream, uint64_t until);
void shim_synced_device(uint64_t until);
/* Memory that a call is about to write, or that an unrecorded call may have written. */
void shim_overwritten(uint64_t addr, uint64_t len);

#endif
