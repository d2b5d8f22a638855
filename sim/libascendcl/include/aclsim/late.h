/* A player's reports to libascendcl.so, if that is the simulator. */
#ifndef ACLSIM_LATE_H
#define ACLSIM_LATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Declares that the calling thread is late by ns nanoseconds, from now on. Its tasks begin on the device as if the thread
 * were on time, so delays do not add up.
 */
void aclsim_late(int64_t ns);

/* Declares the number in the trace of the calling thread's next call. Findings of strict mode name the call by this number. */
void aclsim_number(uint64_t call);

#ifdef __cplusplus
}
#endif

#endif
