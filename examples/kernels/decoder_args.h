/* Argument blocks of the decoder kernels, as the programs pass them. Pointers are device addresses; all vectors and
 * matrices are packed floats, matrices row by row. */
#ifndef KERNELS_DECODER_ARGS_H
#define KERNELS_DECODER_ARGS_H

#include <stdint.h>

/* embed: out = table[*token] */
typedef struct embed_block {
	const int32_t *token;
	const float *table;
	float *out;
	uint32_t hidden;
	uint32_t reserved;
} embed_block;

typedef struct norm_tiling {
	uint32_t count;
	float epsilon;
} norm_tiling;

/* layer_norm: y = (x - mean(x)) / sqrt(var(x) + epsilon) * gamma + beta; mean and 1/sqrt(...) are left in the workspace */
typedef struct layer_norm_block {
	const float *x;
	const float *gamma;
	const float *beta;
	float *y;
	float *workspace;
	const norm_tiling *tiling;
} layer_norm_block;

typedef struct linear_tiling {
	uint32_t inner;
	uint32_t columns;
} linear_tiling;

/* linear: y = x w, w of inner rows and the given columns */
typedef struct linear_block {
	const float *x;
	const float *w;
	float *y;
	const linear_tiling *tiling;
} linear_block;

typedef struct count_tiling {
	uint64_t count;
} count_tiling;

/* add: y = a + b */
typedef struct add_block {
	const float *a;
	const float *b;
	float *y;
	const count_tiling *tiling;
} add_block;

/* gelu: y = x sigmoid(1.59577 (x + 0.044715 x^3)) */
typedef struct gelu_block {
	const float *x;
	float *y;
	const count_tiling *tiling;
} gelu_block;

/* rope: turns each pair (i, i + head_size/2) of every head by the angle that the table has for the position */
typedef struct rope_block {
	float *x;
	const float *table; /* per position head_size/2 pairs of cosine and sine */
	const int32_t *position;
	uint32_t heads;
	uint32_t head_size;
} rope_block;

/* cache_append: puts a token's keys or values into the cache, which has room for `capacity` positions per head */
typedef struct cache_append_block {
	const float *x;
	float *cache;
	const int32_t *position;
	uint32_t heads;
	uint32_t head_size;
	uint32_t capacity;
	uint32_t reserved;
} cache_append_block;

typedef struct attention_tiling {
	uint32_t context; /* positions so far, this one included */
	uint32_t head_size;
	float scale;
	uint32_t reserved;
} attention_tiling;

/* attention_scores: scores[p] = scale (query . keys[p]), one head */
typedef struct attention_scores_block {
	const float *query;
	const float *keys;
	float *scores;
	const attention_tiling *tiling;
} attention_scores_block;

/* softmax: y = e^(x - max(x)) / sum; the exponentials are left in the workspace */
typedef struct softmax_block {
	const float *x;
	float *y;
	float *workspace;
	const count_tiling *tiling;
} softmax_block;

/* attention_values: out = sum over p of weights[p] values[p], one head */
typedef struct attention_values_block {
	const float *weights;
	const float *values;
	float *out;
	const attention_tiling *tiling;
} attention_values_block;

#endif
