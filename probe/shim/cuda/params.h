/* Parameter sizes of kernels, read from GPU binaries. */
#ifndef ACLTRACE_SHIM_PARAMS_H
#define ACLTRACE_SHIM_PARAMS_H

#include <stdint.h>

#include "task/sizes.h"

enum { PARAMS_MOST = SHIM_PARAMS * SHIM_PARTS };
struct params { uint16_t count, size[PARAMS_MOST]; };
/*
 * Calls `found` for each kernel in a binary: PTX, a cubin, or a fat binary with both. A kernel with more than PARAMS_MOST parameters, or with one of
 * unknown size, is left out. Never reads outside the `size` bytes, whose content may be arbitrary.
 */
typedef void params_found(void *to, const char *name, uint64_t length, const struct params *params);
void params_of(const void *binary, uint64_t size, params_found *found, void *to);

#endif
