/* The entry points by which a program with mstx compiled in finds a tool. */
#ifndef ACLTRACE_SHIM_INJECT_H
#define ACLTRACE_SHIM_INJECT_H

#include "base/state.h"

/* A function that InitInjectionMstx puts into a slot of a table, and the function that it calls there. Generated; the table ends with a NULL. */
struct shim_injected {
	const char *name;
	int module;
	unsigned slot;
	void *wrapper;
	void **real;
};
extern const struct shim_injected shim_injected[] HIDDEN;

typedef void shim_function(void);
typedef int shim_tables(int module, shim_function ***table, unsigned *size);
SHIM_EXPORT int InitInjectionMstx(shim_tables *get);
/* The same for a second tool. */
int shim_inject_copy(shim_tables *get) HIDDEN;
extern void *shim_inject_real HIDDEN, *shim_inject_copy_real HIDDEN;

#endif
