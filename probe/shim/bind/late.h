/* References of libraries that the loader has bound past the shim. */
#ifndef ACLTRACE_SHIM_LATE_H
#define ACLTRACE_SHIM_LATE_H

#include "base/state.h"

/* Called before the thread loads a library that is bound past the shim. */
void shim_loads_late(void) HIDDEN;
/* Called when the thread asks for the first function of such a library, by a handle. loader_function returns the shim's own dlsym and the like,
 * NULL for other names. */
void shim_late(const void *handle, void *(*loader_function)(const char *name)) HIDDEN;

#endif
