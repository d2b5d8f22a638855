/* The time of the simulator's devices, for recorders and for programs that are made for it. */
#ifndef ACLSIM_CLOCK_H
#define ACLSIM_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the time of the calling thread, in nanoseconds since the simulator began; 0 before the first call of the process. */
int64_t aclsim_now(void);

/* Advances the calling thread's virtual time by ns nanoseconds. Without it, computation between calls takes no virtual time. */
void aclsim_work(int64_t ns);

/* From now on calls of the calling thread take no host time, or take it again (0). For a recorder's own calls. */
void aclsim_own(int on);

#ifdef __cplusplus
}
#endif

#endif
