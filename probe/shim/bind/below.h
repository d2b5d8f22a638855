/*
 * Functions under and beside the runtime that can move data without it: those of the driver's libraries, and functions of the runtime's own libraries
 * that the shim does not know. Calls of linked ones bypass the shim, so the references are counted, by name: those that the program looks up, and those
 * of objects that it has loaded. The libraries' references to each other are not counted.
 */
#ifndef ACLTRACE_SHIM_BELOW_H
#define ACLTRACE_SHIM_BELOW_H

#include "base/state.h"

/* Counts a function that code at `caller` has looked up and found at f. */
void below_found(const char *name, const void *f, const void *caller) HIDDEN;
/* Counts the references of objects that were loaded since the last time, and reports those objects that are libraries with operators. */
void below_linked(void) HIDDEN;

#endif
