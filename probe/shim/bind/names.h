/* The names that the shim exports, and the functions of the runtime that their wrappers call. */
#ifndef ACLTRACE_SHIM_NAMES_H
#define ACLTRACE_SHIM_NAMES_H

#include "base/state.h"

/* An exported name. A second library with the same function gets the copy of the wrapper. */
struct shim_name {
	const char *name;
	void *wrapper;
	void **real;
	void *copy;
	void **copy_real;
	int since; /* version of the runtime that introduced it, 0 if unknown */
};
/* Generated, sorted by name. */
extern const struct shim_name shim_names[] HIDDEN;
extern const uint32_t shim_names_count HIDDEN;

const struct shim_name *shim_lookup(const char *name) HIDDEN;
/* Whether the runtime has the function: a program may ask for one to find out. */
bool name_exists(const struct shim_name *n);
/* The function to give to a program that asked for `name` and would get f; n is shim_lookup(name). Leaves errno and dlerror unchanged. */
void *shim_substitute(const struct shim_name *n, const char *name, void *f) HIDDEN;
/* Forgets the functions of unloaded libraries. */
void forget_unloaded(void);

#endif
