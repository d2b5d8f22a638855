#ifndef ACLTRACE_SHIM_HASH_H
#define ACLTRACE_SHIM_HASH_H

#include <stdbool.h>
#include <stdint.h>

/* The XXH3-128 of len bytes, more than 240, as {low, high}. careful: they may be unmapped; then the result is false. They must not be unmapped meanwhile. */
bool shim_hash(const void *data, uint64_t len, bool careful, uint64_t out[2]);

/* The same with vectors of so many lanes, and the widest ones that the processor has. */
enum shim_vectors { VECTORS_PLAIN, VECTORS_OF_TWO, VECTORS_OF_FOUR };
bool shim_hash_by(enum shim_vectors v, const void *data, uint64_t len, bool careful, uint64_t out[2]);
enum shim_vectors shim_hash_vectors(void);

#endif
