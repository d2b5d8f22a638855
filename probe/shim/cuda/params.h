/* What binaries for the GPU say of the parameters of their kernels. */
#ifndef ACLTRACE_SHIM_PARAMS_H
#define ACLTRACE_SHIM_PARAMS_H

#include <stdint.h>

#include "task/sizes.h"

enum { PARAMS_MOST = SHIM_PARAMS * SHIM_PARTS };
struct params { uint16_t count, size[PARAMS_MOST]; };
/*
 * Tells the sizes of the parameters of each kernel of a binary: PTX, a cubin, or a fat binary with some of both. A kernel with more than
 * PARAMS_MOST of them, or with one whose size it can't say, is left out. Nothing outside of size bytes is read, whatever they are.
 */
typedef void params_told(void *to, const char *name, uint64_t length, const struct params *params);
void params_of(const void *binary, uint64_t size, params_told *told, void *to);

#endif
