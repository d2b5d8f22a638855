/* The session that the process records into: a folder, named by ACLTRACE_SESSION, and its control file. */
#ifndef ACLTRACE_SHIM_SESSION_H
#define ACLTRACE_SHIM_SESSION_H

#include "base/state.h"

/* Maps the session's control file, once. False without a session, or if the session is one of another build of the shim. */
bool attach_session(void);
bool session_attached(void);
/* Opens a file of the session, with a number at the end of its name if numbered. Returns -errno on failure. */
long open_in_session(const char *name, uint64_t number, bool numbered, long flags);
/* Removes a numbered file of the session. */
void remove_from_session(const char *name, uint64_t number);
/* Bytes that the session's file system has left, NO_LIMIT if unknown. */
uint64_t session_left(void);
/* Maps a file of the session and stores the address at *at, once in the process. */
bool map_in_session(const char *name, uint64_t size, void *at);
/* Keeps the session reachable after the process changes its root. Only in an attached process. */
void keep_session(void);
/* Allocates a part of a file. Fails beyond RLIMIT_FSIZE without trying, since the kernel would send a fatal signal. */
bool allocate(long fd, uint64_t from, uint64_t size);
/*
 * Stops recording in all processes if the session's folder was removed. Called when a file of the session is missing, at a thread's first call: a thread
 * that records makes no system call to find out, since it may have filtered them.
 */
void look_for_session(void);
extern uint32_t session_pid HIDDEN; /* process that found the session first: another one is a forked child. 0 without a session */
extern uint64_t used_before HIDDEN; /* bytes used by rings of other processes when this one attached */

#endif
