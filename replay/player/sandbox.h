/* The sandbox that the player of a simulator enters. Package replay/sandbox has the same layers. */
#ifndef ACLTRACE_PLAYER_SANDBOX_H
#define ACLTRACE_PLAYER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The result of sandbox_enter(): layers that this kernel has, and Landlock's ABI version from bit SANDBOX_ABI on. */
enum sandbox_layer {
	SANDBOX_DESCRIPTORS = 1, /* only the standard streams are open */
	SANDBOX_PRIVILEGES = 2,  /* no capabilities but root's to read and write files */
	SANDBOX_FILES = 4,       /* Landlock, ABI 1 */
	SANDBOX_TCP = 8,         /* Landlock, ABI 4 */
	SANDBOX_SIGNALS = 16,    /* Landlock, ABI 6: signals and abstract sockets stay inside */
	SANDBOX_CALLS = 32,      /* seccomp */
	SANDBOX_NAMES = 64,      /* a mount namespace: files that can't be read have no names, sizes and times */
	SANDBOX_NEEDED = SANDBOX_DESCRIPTORS | SANDBOX_PRIVILEGES | SANDBOX_FILES | SANDBOX_CALLS, /* to run a stranger's trace */
	SANDBOX_ABI = 8
};

/*
 * Puts the calling thread, and all threads and processes that it makes, into the sandbox for good. The process may have no other thread.
 * It may then read and write below the folder `own` (NULL for none), and read below the `count` paths of `read`. Files elsewhere have no
 * names in it, if `hide`.
 */
uint32_t sandbox_enter(const char *own, const char *const *read, size_t count, bool hide);

#endif
