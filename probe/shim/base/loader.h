/*
 * Functions and libraries in the process, found in the loader's own list. dlsym would take the loader's lock and clear
 * the error that the program may still want from dlerror.
 */
#ifndef ACLTRACE_SHIM_LOADER_H
#define ACLTRACE_SHIM_LOADER_H

#include "base/state.h"

struct link_map;

/* The objects in the program's own namespace, in the loader's order, NULL for an unknown C library. */
const struct link_map *shim_objects(void) HIDDEN;
/* The function that the loader would find after the shim, NULL for none. */
void *shim_next(const char *name) HIDDEN;
/* Whether the shim has a function for the program. */
bool shim_exports(const char *name) HIDDEN;
/* Whether an address is in the shim itself. */
bool shim_is_own(const void *f) HIDDEN;
/* Whether the process has loaded a runtime library. */
bool shim_loaded(void) HIDDEN;

/* Functions that the shim itself calls: 0 and 1 in the runtime's folder, the rest in task/ids.c. dlclose forgets the unloaded ones. */
#define SHIM_OWN 5
extern void *shim_own[SHIM_OWN] HIDDEN;

static inline void *shim_real_known(void **slot) { return __atomic_load_n(slot, __ATOMIC_ACQUIRE); }

/* A function by name, looked for until it is there: its library may be loaded later. */
static inline void *shim_real(void **slot, const char *name)
{
	void *f = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (__builtin_expect(f == NULL, 0)) {
		f = shim_next(name);
		__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	}
	return f;
}

/* As shim_real, for a function that the runtime may lack: looked for once. */
static inline void *shim_optional(void **slot, const char *name)
{
	void *f = shim_real(slot, name);
	if (f == NULL) {
		f = (void *)-1L;
		__atomic_store_n(slot, f, __ATOMIC_RELEASE);
	}
	return f == (void *)-1L ? NULL : f;
}

/* The file of the object with an address, NULL if it is unknown. Takes the same lock as dlsym. */
const char *shim_object_of(const void *address) HIDDEN;

#endif
