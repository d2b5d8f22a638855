/*
 * The C face of the simulator: helpers that the generated exports call.
 *
 * It contains no Go. The engine (libaclsim.so, beside this library) is opened at the first call, because a running Go
 * runtime does not survive a fork. Calls may come from any thread.
 */
#ifndef ACLSIM_FACE_H
#define ACLSIM_FACE_H

#include <stdint.h>

#include "acl/acl.h"

#define FACE_EXPORT __attribute__((visibility("default")))

/* Calls a function of the engine with its arguments as words, and returns the error code that it returned. */
uint64_t face_call(uint32_t fn, uint64_t *words);

/* The id of the task that the thread's last call has made, 0 if it made none. */
int face_last_task(uint32_t *id);

/* Calls a function without an error code. Returns 0 if the engine can't be called. */
uint64_t face_ask(uint32_t fn, uint64_t *words);

/* Called after the thread has changed its signal stack. */
void face_changed_stack(void);

/* Called for a function that is not simulated: prints its name once and returns 207000. */
aclError face_unsupported(const char *name);

/* The same for a function without an error code. */
void face_does_nothing(const char *name);

#endif
