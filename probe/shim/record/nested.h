/* Calls inside another call on the same thread. */
#ifndef ACLTRACE_SHIM_NESTED_H
#define ACLTRACE_SHIM_NESTED_H

#include "base/state.h"

/* Counts a call inside another one, or of a stranger (session/share.h), by the frame of its wrapper, if it is the program's own. */
void shim_nested(void *frame);
/*
 * Whether the program left the outermost call by a longjmp or an exception. Then the record is marked and the thread begins anew. False on an
 * alternate signal stack, whose frames may be at any address.
 */
bool shim_abandoned(void);
/* Whether the thread runs on its alternate signal stack. A guess by the distance of frames if the program filters its system calls. */
bool on_signal_stack(void);

#endif
