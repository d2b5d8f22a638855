/*
 * The contract between the C face (libascendcl.so) and the engine (libaclsim.so): symbols that the face looks up in the engine.
 */
#ifndef ACLSIM_ENGINE_H
#define ACLSIM_ENGINE_H

#include <signal.h>
#include <stdint.h>

/* The place of a thread. */
enum {
	IN_PROGRAM = 0,  /* no call of the engine is on its stack */
	IN_ENGINE = 1,   /* the engine runs: a signal handler must not call it */
	IN_FUNCTION = 2, /* a function of the program that the engine has called */
};

/* The signals by which a crash announces itself. Their handlers form a chain: see guest.c. */
#define CRASH_SIGNALS {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}

/* Descriptors below this number can be kept from the program. */
#define MAX_KEPT 65536

/*
 * int aclsim_own_thread(void): reports whether the engine made this thread.
 * void aclsim_crashed(int sig, siginfo_t *info, void *context): ends the kernel that crashed on this thread and does not return. It returns if
 * no kernel runs on this thread.
 * _Atomic uint64_t aclsim_kept[MAX_KEPT / 64]: a bit for each descriptor that the engine keeps open.
 */

#endif
