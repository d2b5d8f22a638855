/* The process's own file process.N, by which the recorder knows it. */
#ifndef ACLTRACE_SHIM_PROCESS_H
#define ACLTRACE_SHIM_PROCESS_H

#include "base/state.h"

/* Makes the process ready to record, once, and again in a forked child. False if the process is not to be recorded. */
bool open_process(void);
/* Whether open_process has failed for lack of memory or rights: the process's calls are counted in the control file. */
bool process_refused(void);
/* Adds a library that was loaded after the first call to the process's file. One thread at a time calls it. */
void process_maps(const char *library) HIDDEN;
/* Notes that a call of this process is recorded: children that it forks from here on name it. */
void shim_calls(void) HIDDEN;
/* Another name of the chroot that the shim exports, for which no other library's stands in. */
extern int shim_chroot(const char *path) HIDDEN;

#endif
