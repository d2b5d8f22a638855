/* The time of the simulator's devices, for recorders and for programs that are made for it. */
#ifndef ACLSIM_CLOCK_H
#define ACLSIM_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the time of the calling thread, in nanoseconds since the simulator began; 0 before the first call of the process. */
int64_t aclsim_now(void);

/* Lets so many nanoseconds pass on the calling thread, in virtual time: what the program computes between its calls takes none. */
void aclsim_work(int64_t ns);

/* Has the calls of the calling thread take no host time, from now on, or take it again (0): a recorder's own calls are not the program's. */
void aclsim_own(int on);

#ifdef __cplusplus
}
#endif

#endif
