/*
 * The interface that each runtime's folder (acl, cuda) implements for the other folders and for generated wrappers: tables written by apigen, and
 * functions written by hand. A function that no wrapper of a runtime calls need not be there.
 */
#ifndef ACLTRACE_SHIM_RUNTIME_H
#define ACLTRACE_SHIM_RUNTIME_H

#include "shim_hot.h"

/* Generated. */

extern const uint64_t shim_functions HIDDEN; /* checksum of the model */
extern const char shim_build[] HIDDEN; /* the recorder looks for this text in the file before a program loads it */
extern const uint16_t shim_hostFunction HIDDEN; /* the host function's number in the model */

/* Tasks. */

/* Functions that return the thread's last task number and a stream's number, NULL if there are none. */
extern const char *const shim_task_of[2] HIDDEN;
/* Stores the size of a kernel's parameter. False if there is no such parameter. */
bool shim_param_size(const void *func, uint32_t i, size_t *size);

/*
 * Functions by which tasks are timed: see task/devtime.c. In the lower layer those after TIMING_REQUIRED may be missing. A runtime without STAMP is
 * asked for the time since a reference event.
 */
enum { CONTEXT, CREATE, DESTROY, RECORD, STATUS, ELAPSED, TIMING_REQUIRED, STAMP = TIMING_REQUIRED, PEEK, FORGET, MESSAGE, TASK, TIMING_FUNCTIONS };
enum { UPPER, LOWER, TIMING_LAYERS };
extern const char *const shim_timing[TIMING_LAYERS][TIMING_FUNCTIONS] HIDDEN;
extern const uint32_t shim_timing_flags HIDDEN; /* creates events that do not count against the program's limit */
/* Calls the function STATUS. */
int32_t shim_event_status(void *function, void *event, bool *done);
enum { TIMING_LATER = 600 }; /* the result of ELAPSED for an incomplete event, in a runtime without STAMP */

/* Kernels and binaries. */

/* Notes a binary that was loaded from memory or a file, or obtained from another one. */
void shim_binary(const void *binary, const void *image);
void shim_binary_file(const void *binary, const char *path);
void shim_binary_as(const void *binary, const void *other);
/* Notes a function of a binary, and one that stands for another. loose: it belongs to no context. */
void shim_kernel(const void *func, const void *binary, const char *name, bool loose);
void shim_kernel_as(const void *func, const void *other);
/* Adds the block of a kernel's arguments that a list of options leads to. */
void shim_packed(struct shim_call *c, uint8_t param, uint32_t item, void **list);
/* A binary in memory, and its size in bytes by its own header. */
const void *shim_image(const void *image);
uint64_t shim_image_size(const void *image);
/* Replaces a function that the program has asked the runtime for, by name and version. */
void shim_found(const char *symbol, void **fn, int version, uint64_t flags) HIDDEN;

#endif
