/* Argument blocks of the vector kernels, as the programs pass them. Pointers are device addresses. */
#ifndef KERNELS_VECTOR_ARGS_H
#define KERNELS_VECTOR_ARGS_H

#include <stdint.h>

/* vector_add, vector_add_simt: z = x + y */
typedef struct vector_add_block {
	const float *x;
	const float *y;
	float *z;
	uint64_t count;
} vector_add_block;

/* Sizes and other constants of a launch are called its tiling data. Kernels often get them by address: the host puts
 * them after the arguments, and the runtime fills in their device address. */
typedef struct vector_tiling {
	uint64_t count;
	float bias;
	uint32_t reserved;
} vector_tiling;

/* vector_add_tiled: z = x + y + bias */
typedef struct vector_add_tiled_block {
	const float *x;
	const float *y;
	float *z;
	const vector_tiling *tiling;
} vector_add_tiled_block;

/* vector_scale: z = factor * x */
typedef struct vector_scale_block {
	const float *x;
	float *z;
	uint64_t count;
	float factor;
} vector_scale_block;

/* vector_fill: z = value */
typedef struct vector_fill_block {
	float *z;
	uint64_t count;
	float value;
} vector_fill_block;

/* vector_copy: z = x */
typedef struct vector_copy_block {
	const float *x;
	float *z;
	uint64_t count;
} vector_copy_block;

/* A kernel may also be found by a number, its entry (tiling key). */
enum { VECTOR_ADD_ENTRY = 1001 };

#endif
