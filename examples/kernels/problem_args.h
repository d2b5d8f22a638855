/* Argument block of the kernels of examples/problems. Pointers are device addresses. */
#ifndef KERNELS_PROBLEM_ARGS_H
#define KERNELS_PROBLEM_ARGS_H

#include <stdint.h>

/* y[i] = factor * x[i] + 1, in `us` microseconds of device time */
typedef struct problem_block {
	const float *x;
	float *y;
	uint64_t count;
	float factor;
	uint32_t us;
} problem_block;

#endif
