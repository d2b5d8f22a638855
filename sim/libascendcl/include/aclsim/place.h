/* Functions of the simulator's libascendcl.so beyond the runtime's own. */
#ifndef ACLSIM_PLACE_H
#define ACLSIM_PLACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Sets the address of the next device memory, managed memory or reservation that the calling thread allocates. If the addresses are not
 * free, the allocation lies elsewhere. 0 takes the wish back.
 */
void aclsim_place(uint64_t addr);

#ifdef __cplusplus
}
#endif

#endif
