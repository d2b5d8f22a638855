// The C side of the engine: its threads, the program's functions, and kernels, which are native code.
#ifndef ACLSIM_NATIVE_H
#define ACLSIM_NATIVE_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "../engine.h"
#include "aclsim/kernel.h"

// Creates a thread that is the program's: it may call the runtime.
int native_thread(pthread_t *t, void *(*fn)(void *), void *arg);

// Stores where the program's thread keeps its place, see engine.h.
void native_enter(volatile int *where);

// Begins and ends a function of the program on this thread.
void native_function_begins(void);
void native_function_returned(void);

// Reports whether the engine runs on this thread.
int native_inside(void);

// How a kernel's own code ended. signal is 0 if it returned.
typedef struct {
	int signal;
	uint64_t address; // that it touched
} native_crash;

native_crash kernel_extents(const aclsim_kernel *k, const aclsim_launch *l, aclsim_extent *out, uint32_t max, uint32_t *n);
native_crash kernel_run(const aclsim_kernel *k, const aclsim_launch *l, uint32_t from, uint32_t to);
native_crash kernel_duration(const aclsim_kernel *k, const aclsim_launch *l, uint64_t *ns);

// Reports whether an address is in this library's code or data.
int native_holds(uint64_t address);

extern uint64_t aclsim_kept[MAX_KEPT / 64];

#endif
