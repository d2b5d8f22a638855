/*
 * What an operator of the simulator computes, from its argument block (aclsim/operator.h).
 *
 * Package block has checked the block, and the simulator that the memory of every tensor is allocated. A function computes only what it
 * knows, and says so before it writes: then memory is as for an operator that is not computed.
 *
 * Results have the same bits on every processor: functions.h has the functions, sums have an order that depends on dims alone (sum_of), nothing is
 * contracted, and NaNs are stored with one pattern. Elements of 8, 16 and 32 bits are computed in 64 bits and rounded once.
 */
#ifndef COMPUTE_H
#define COMPUTE_H

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC contracts nothing with -std=c11 */
#endif

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "aclsim/operator.h"
#include "functions.h"

typedef struct aclsim_operator_block block;

enum { MAX_DIMS = 8, ROW = 256, MAX_OPERANDS = 5 };

/* Elements of a tensor, at most. Strides of 0 allow more than memory has. */
#define MAX_COUNT (INT64_C(1) << 32)

/* Data types by the numbers of aclDataType. */
enum { F32 = 0, F16 = 1, I8 = 2, I32 = 3, U8 = 4, I16 = 6, I64 = 9, F64 = 11, BOOL = 12, BF16 = 27 };

/* A view of device memory. Strides are in bytes. */
typedef struct tensor {
	char *at;
	int32_t dtype;
	int num_dims;
	int64_t dims[MAX_DIMS], strides[MAX_DIMS];
} tensor;

/* An element, or a scalar: as a real number and as a whole one. */
typedef struct number {
	double real;
	int64_t whole;
	bool is_real, given;
} number;

const aclsim_operator_param *param_of(const block *b, uint32_t i);
/* Stores the tensor k of a parameter. False if it is absent, or of a type or format that nothing here computes. */
bool tensor_of(const block *b, uint32_t i, uint32_t k, tensor *t);
bool is_absent(const block *b, uint32_t i);
/* The scalar k of a parameter, of whatever type it has; given is false if it is absent. A tensor with one element counts as a scalar. */
number number_of(const block *b, uint32_t i, uint32_t k);
/* The integers of an array, or NULL. */
const int64_t *ints_of(const block *b, uint32_t i, uint32_t *n);

int64_t width_of(int32_t dtype);
bool is_real(int32_t dtype);
int64_t count_of(const tensor *t);
bool same_dims(const tensor *a, const tensor *b);
/* Adds dims of 1 in front. */
tensor with_dims(const tensor *t, int num_dims);
/* Removes a dim. */
void squeeze(tensor *t, int dim);
/* Makes a view of the dims of another tensor, in which dims of 1 and missing dims repeat. */
bool spread(const tensor *t, const tensor *to, tensor *out);
/* Copies the elements of a tensor to another one of its dims and type. */
void move(const tensor *to, const tensor *from);
/* The dim with a number that may count from the end. */
bool dim_of(const tensor *t, int64_t i, int *dim);

void load_real(double *to, const char *from, int64_t stride, int32_t dtype, int64_t n);
void load_floats(float *to, const char *from, int64_t stride, int32_t dtype, int64_t n);
void load_whole(int64_t *to, const char *from, int64_t stride, int32_t dtype, int64_t n);
void store_real(char *to, int64_t stride, int32_t dtype, const double *from, int64_t n);
void store_whole(char *to, int64_t stride, int32_t dtype, const int64_t *from, int64_t n);

/* Visits the rows of tensors with the same dims: at has the address of the first element of a row, strides those of its elements. */
typedef struct rows {
	int n, num_dims;
	int64_t dims[MAX_DIMS], index[MAX_DIMS], strides[MAX_OPERANDS][MAX_DIMS];
	char *at[MAX_OPERANDS];
	int64_t length, step[MAX_OPERANDS];
	bool done;
} rows;

void rows_begin(rows *r, int n, const tensor *const *of);
void rows_next(rows *r);

/* Adds an element times a factor to another one, in their type. */
void add_element(char *to, const char *from, int32_t dtype, const number *factor);

/* An element and its place. */
typedef struct ranked {
	double real;
	int64_t whole, place;
} ranked;

/* Compares elements for qsort. NaNs come last, in their order. Others that are equal keep their order. */
int by_value(const void *a, const void *b);

/* The sum of a row: 8 lanes in each ROW elements, and those in order. */
double sum_of(const double *v, int64_t n);

/* The sum of squares of differences from a number. */
double spread_of(const double *v, int64_t n, double mean);

/* Reads a whole tensor as real numbers, row after row. The caller frees the result; NULL if there is no memory. */
double *read_all(const tensor *t);
/* Stores a whole tensor from real numbers. */
void write_all(const tensor *t, const double *v);

/* An operator. Its function computes a block, or only says whether it would. */
typedef struct operator operator;
typedef bool compute(const block *b, const operator *o, bool dry);
typedef void real_fn(double *out, double *const *in, const number *p, int64_t n);
typedef void whole_fn(int64_t *out, int64_t *const *in, const number *p, int64_t n);

struct operator {
	const char *name;
	compute *run;
	const char *in;      /* parameters with the operands, one digit each */
	int out;             /* parameter with the result */
	const char *scalars; /* parameters with numbers, one digit each */
	real_fn *real;
	whole_fn *whole; /* NULL if the operator works on real numbers only */
	int kind;
};

compute elementwise, bitwise, foreach, clamp, arange, linspace, cast, triangle, stack, reduce, norm_of, foreach_norm, softmax, softmax_backward, layer_norm, layer_norm_backward, nll_loss, nll_loss_backward,
	embedding, embedding_backward, index_select, gather, mse_loss, best, equal, matmul, addmm, random_fill, bernoulli,
	dropout_mask, dropout, multinomial, index_of, index_put, flip, cumulate, mse_loss_backward, bce_with_logits, unscale, is_close, scatter, index_add,
	bce_with_logits_backward, round_decimals, embedding_renorm, convolve, convolve_backward, max_pool, max_pool_backward, average_pool, adaptive_average_pool,
	batch_norm, batch_norm_backward, flash_attention, flash_attention_backward, infer_attention, rotary, recurrent, recurrent_backward, masked_select, masked_scatter, nonzero, unique,
	permute, repeat, repeat_elements, roll, slice, reflection_pad, upsample_nearest, index_fill, index_copy, pick_rows, argsort, sort, top, rms_norm, group_norm, gated, softmax_loss,
	max_pool_alone, im2col, triangular_solve, gelu_of;

/* Computes an operator with numbers that are not parameters. */
bool elements(const block *b, const operator *o, const number *p, bool dry);

/* Kinds of reductions. */
enum { SUM, MEAN, MAX, MIN, NORM, ALL, ANY, PROD };

/* Kinds of pools: their dims, and one of these. */
enum { MASKED = 8, BACKWARD = 8 };

/* A kind of scatter */
enum { ADDS = 1 };

/* Kinds of random numbers. From OF_TENSORS on, tensors have the seed and the offset. */
enum { UNIFORM, NORMAL, WHOLE_NUMBERS, OF_TENSORS = 8 };

extern const operator operators[];
extern const size_t num_operators;

/* Dims of a window. Those in front of the ones that an operator has are 1. */
enum { WINDOW = 3 };

typedef struct window {
	int64_t size[WINDOW], stride[WINDOW], padding[WINDOW], dilation[WINDOW];
} window;

/* Reads a window from parameters with its size, stride, padding and dilation. One that is -1 keeps the size, and is 0 for padding and 1 for others. */
bool window_of(const block *b, const int *params, int num_dims, window *w);
/* The integer k of an array, or its only one. */
bool int_of(const block *b, uint32_t param, uint32_t k, int64_t *v);

/* The part of a launch that the calling thread computes. Operators that have no shares compute all in the first one. */
typedef struct part {
	int64_t i, n;
	int64_t wanted; /* set by a dry run: the shares that the launch is worth */
} part;

extern _Thread_local part share;

/* Returns the shares in which a block may be computed at the same time, 0 if it is not computed. */
int64_t aclsim_shares(const block *b);

/* Computes share i of n of a block. If it returns false, the block is not computed. */
bool aclsim_compute(const block *b, int64_t i, int64_t n);

#endif
