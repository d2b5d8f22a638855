// The C side of the engine: its threads, the program's functions and its descriptors.
#ifndef ACLSIM_NATIVE_H
#define ACLSIM_NATIVE_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "../engine.h"

// Creates a thread that is the program's: it may call the runtime.
int native_thread(pthread_t *t, void *(*fn)(void *), void *arg);

// Stores where the program's thread keeps its place, see engine.h.
void native_enter(volatile int *where);

// Begins and ends a function of the program on this thread.
void native_function_begins(void);
void native_function_returned(void);

// Reports whether the engine runs on this thread.
int native_inside(void);

// Reports whether an address is in this library's code or data.
int native_holds(uint64_t address);

extern uint64_t aclsim_kept[MAX_KEPT / 64];

#endif
