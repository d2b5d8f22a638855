#ifndef ACLTRACE_SHIM_SHARE_H
#define ACLTRACE_SHIM_SHARE_H

#include "base/state.h"

/* See shim_stranger: for a thread whose state another process may share. */
bool shim_shares(void);

/* Whether the caller is not the thread that shim_t belongs to. Then it must not change shim_t, but for counts. */
static inline bool shim_stranger(void) { return __builtin_expect(shim_t.owner != 0, 0) && shim_shares(); }

#endif
