/*
 * Functions that a file of a higher layer has the lower layers call at certain moments. Each file registers its own with SHIM_HOOKS; the
 * linker collects them in one section, so nothing runs at load time and no file lists the others. Hooks run in no
 * defined order.
 */
#ifndef ACLTRACE_SHIM_HOOKS_H
#define ACLTRACE_SHIM_HOOKS_H

#include "base/state.h"

struct shim_hooks {
	void (*process)(void); /* first call in a process, also in a forked child: drop the state that was copied from the parent */
	void (*thread)(void);  /* the calling thread has a new ring */
	void (*filter)(void);  /* the program is about to filter its system calls: map the memory that later calls need */
	void (*end)(void);     /* the process is about to end by itself */
};

/* The section holds pointers, which the compiler never aligns to more than their size, as it may do with structures. */
#define SHIM_HOOKS(...) \
	static const struct shim_hooks own_hooks = {__VA_ARGS__}; \
	static const struct shim_hooks *const own_hooks_at __attribute__((section("shim_hooks"), used)) = &own_hooks

/* Defined by the linker. */
extern const struct shim_hooks *const __start_shim_hooks[] HIDDEN, *const __stop_shim_hooks[] HIDDEN;

#define SHIM_RUN_HOOKS(moment) \
	for (const struct shim_hooks *const *h = __start_shim_hooks; h < __stop_shim_hooks; h++) \
		if ((*h)->moment != NULL) \
			(*h)->moment()

#endif
