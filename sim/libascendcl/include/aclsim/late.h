/* What a player may tell libascendcl.so where it is the simulator. */
#ifndef ACLSIM_LATE_H
#define ACLSIM_LATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Says by how many nanoseconds the calling thread is late, from now on. What it submits begins on the device when it would
 * have begun had the thread been on time, so that being late does not add up.
 */
void aclsim_late(int64_t ns);

#ifdef __cplusplus
}
#endif

#endif
