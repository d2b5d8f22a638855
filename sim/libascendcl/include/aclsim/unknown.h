/* Functions of the simulator's libascendcl.so beyond the runtime's own. */
#ifndef ACLSIM_UNKNOWN_H
#define ACLSIM_UNKNOWN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reports whether bytes depend on memory whose content the simulator does not know. Call it after a synchronization. The
 * bytes are device memory, or host memory as the runtime's last copy left it.
 *
 * Returns 0 if the bytes are known. Returns 1 if they depend on a kernel that no kernel library has: its name is stored in n
 * bytes at kernel, cut if necessary; kernel may be NULL. Returns 2 if they depend on device memory that nothing has written; only
 * with ACLSIM_UNINITIALISED=1 in the environment. Returns 3 if they depend on memory that two streams, or a stream and the host, use in
 * no order; only with ACLSIM_STRICT in the environment. Returns 4 if a kernel, whose name is stored, has crashed in its own code: it may
 * have written anywhere. Returns 0x100 + REASON if they depend on bytes that aclsim_mark() has marked.
 */
int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n);

/*
 * Marks memory whose content is unknown for a reason of the caller's, 1 to 255, until the runtime overwrites it with known bytes. Reason 0
 * takes marks away: the caller does so when it has written marked host memory itself. Marks with a reason from 128 on give way to all others.
 *
 * If addr is NULL, the mark is for what this thread's copies from host memory and its kernels write from now on, until a call with reason 0.
 */
void aclsim_mark(const void *addr, size_t size, int reason);

#ifdef __cplusplus
}
#endif

#endif
