/*
 * A fake CUDA driver, for machines without a GPU: a test double, which shares no code with the simulator.
 *
 * Memory, copies, streams, events, captured graphs and the checks of launches are real. Kernels are functions of the host, found by the
 * names in a module's PTX (include/fakecuda.h). Times mean nothing. A function without an implementation returns CUDA_ERROR_NOT_SUPPORTED.
 *
 * Device memory is one file, mapped twice: without access rights at the addresses that the program gets, and with them for this library.
 * A program that reads through a device pointer is killed, as with a GPU. Managed memory has access rights in both places.
 *
 * One lock guards all state. Each stream has a thread that runs its tasks in order; a task may also wait for positions in other streams.
 * Streams, events and contexts are never freed, so that a stale handle is recognized.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tells a simulator's library from a vendor's, which does not export this. */
int fakecuda_simulated(void) { return 1; }

/* The first launched kernel that no kernel library has; NULL for none. */
_Atomic(const char *) missing_kernel;

/* See aclsim/unknown.h, but coarse: after such a launch all bytes of the process are unknown. */
int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n)
{
	const char *name = atomic_load(&missing_kernel);

	(void)addr, (void)size;
	if (name == NULL)
		return 0;
	if (kernel != NULL && n > 0)
		snprintf(kernel, n, "%s", name);
	return 1;
}

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

pthread_cond_t moved = PTHREAD_COND_INITIALIZER;

bool initialized;

pid_t process;

struct object *objects[KINDS];

void *make(enum kind kind, size_t size)
{
	struct object *o = calloc(1, size);
	o->kind = kind;
	o->next = objects[kind];
	objects[kind] = o;
	return o;
}

void *known(enum kind kind, const void *handle)
{
	for (struct object *o = objects[kind]; o; o = o->next)
		if (o == handle && !o->gone)
			return o;
	return NULL;
}
