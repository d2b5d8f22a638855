/*
 * The C face of the simulator: what the generated exports of the runtime's functions call.
 *
 * It holds no Go and little else. The engine (libaclsim.so, beside this library) is opened at the first call, since a Go
 * runtime that is already up does not survive a fork. Calls may come from any thread.
 */
#ifndef ACLSIM_FACE_H
#define ACLSIM_FACE_H

#include <stdint.h>

#include "acl/acl.h"

#define FACE_EXPORT __attribute__((visibility("default")))

/* Calls a function of the engine with its arguments as words, and returns the error code that it returned. */
uint64_t face_call(uint32_t fn, uint64_t *words);

/* The id of the task that the thread's last call has made, where that call was one to make one; else 0. */
int face_last_task(uint32_t *id);

/* Calls one that returns no error code; 0 where it can't be called. */
uint64_t face_ask(uint32_t fn, uint64_t *words);

/* Answers for a function that is not simulated: says its name once. */
aclError face_unsupported(const char *name);

/* The same for one that returns no error code. */
void face_does_nothing(const char *name);

#endif
