/* Argument blocks of the matrix kernels, as the programs pass them. Matrices are packed, row by row. */
#ifndef KERNELS_MATMUL_ARGS_H
#define KERNELS_MATMUL_ARGS_H

#include <stdint.h>

typedef struct matmul_tiling {
	uint32_t rows;    /* of a and c */
	uint32_t columns; /* of b and c */
	uint32_t inner;   /* columns of a, rows of b */
	uint32_t reserved;
} matmul_tiling;

/* matmul_accumulate: c += a b */
typedef struct matmul_accumulate_block {
	const float *a;
	const float *b;
	float *c;
	const matmul_tiling *tiling;
} matmul_accumulate_block;

/* scale_bias: every row of c becomes c * scale + bias, column by column */
typedef struct scale_bias_block {
	float *c;
	const float *scale;
	const float *bias;
	uint32_t rows;
	uint32_t columns;
} scale_bias_block;

#endif
