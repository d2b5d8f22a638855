#ifndef ACLTRACE_SHIM_SHARE_H
#define ACLTRACE_SHIM_SHARE_H

#include <stdbool.h>

/* Whether the caller is not the thread that shim_t belongs to. */
bool shim_stranger(void);

#endif
