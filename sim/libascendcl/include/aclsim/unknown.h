/* What a program or a player may ask libascendcl.so where it is the simulator, beyond the runtime's own functions. */
#ifndef ACLSIM_UNKNOWN_H
#define ACLSIM_UNKNOWN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Tells whether bytes depend on what a kernel that no kernel library knows would have written: 1 or 0. Where they do, the
 * kernel's name is stored in n bytes at kernel, cut if need be; kernel may be NULL. The bytes are device memory, or host
 * memory, which counts as the last copy of the runtime's left it. Call it behind a synchronization.
 */
int aclsim_unknown(const void *addr, size_t size, char *kernel, size_t n);

#ifdef __cplusplus
}
#endif

#endif
