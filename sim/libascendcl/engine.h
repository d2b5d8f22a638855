/*
 * What the C face (libascendcl.so) and the engine (libaclsim.so) share: the symbols that the face looks up in the engine.
 */
#ifndef ACLSIM_ENGINE_H
#define ACLSIM_ENGINE_H

#include <stdint.h>

/* Where a thread is. */
enum {
	IN_PROGRAM = 0,  /* no call of the engine is on its stack */
	IN_ENGINE = 1,   /* the engine runs: a signal handler must not call it */
	IN_FUNCTION = 2, /* a function of the program that the engine has called */
};

/* Descriptors below this number can be kept from the program. */
#define MAX_KEPT 65536

/*
 * int aclsim_own_thread(void): reports whether the engine made this thread.
 * _Atomic uint64_t aclsim_kept[MAX_KEPT / 64]: a bit for each descriptor that the engine keeps open.
 */

#endif
