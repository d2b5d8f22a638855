/*
 * Ready kernels for the simulator: what programs need to do something sensible without kernels of their own. All numbers are
 * 32-bit floats unless the name says otherwise; a copy takes any bytes. Each kernel splits its rows or elements over the
 * blocks, and gives the same result with any number of them.
 *
 *   copy(in, out, bytes)                 fill(out, count, value)
 *   add, mul(a, b, out, count)           matmul(a[m][k], b[k][n], c[m][n], m, n, k)
 *   reduce(in[rows][cols], out[rows], rows, cols)                 sums
 *   softmax(in[rows][cols], out[rows][cols], rows, cols)
 *   layer_norm(in, gamma[cols], beta[cols], out, rows, cols, epsilon)
 *   gather(table[n][cols], index[rows] (int32), out[rows][cols], n, rows, cols)
 *   transpose(in[rows][cols], out[cols][rows], rows, cols)
 *   cast_f32_i32, cast_i32_f32(in, out, count)
 *
 * A gather with an index out of range stores zeros there.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "aclsim/kernel.h"

#define EXPORT __attribute__((visibility("default")))

/* The part of n that a block does. */
static void share(const aclsim_launch *l, uint32_t block, uint64_t n, uint64_t *from, uint64_t *to)
{
	*from = n / l->num_blocks * block + n % l->num_blocks * block / l->num_blocks;
	block++;
	*to = n / l->num_blocks * block + n % l->num_blocks * block / l->num_blocks;
}

static void extent(aclsim_extent *out, uint32_t max, uint32_t arg, const void *addr, uint64_t size, uint32_t access)
{
	if (arg < max)
		out[arg] = (aclsim_extent){(uint64_t)(uintptr_t)addr, size, access, arg};
}

static uint64_t times(uint64_t a, uint64_t b)
{
	return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

struct copy_args {
	const char *in;
	char *out;
	uint64_t bytes;
};

static uint32_t copy_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct copy_args *a = l->args;

	extent(out, max, 0, a->in, a->bytes, ACLSIM_READ);
	extent(out, max, 1, a->out, a->bytes, ACLSIM_WRITE);
	return 2;
}

static void copy_run(const aclsim_launch *l, uint32_t block)
{
	const struct copy_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->bytes, &from, &to);
	memmove(a->out + from, a->in + from, to - from);
}

struct fill_args {
	float *out;
	uint64_t count;
	float value;
};

static uint32_t fill_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct fill_args *a = l->args;

	extent(out, max, 0, a->out, times(4, a->count), ACLSIM_WRITE);
	return 1;
}

static void fill_run(const aclsim_launch *l, uint32_t block)
{
	const struct fill_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		a->out[i] = a->value;
}

struct binary_args {
	const float *a, *b;
	float *out;
	uint64_t count;
};

static uint32_t binary_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct binary_args *a = l->args;
	uint64_t n = times(4, a->count);

	extent(out, max, 0, a->a, n, ACLSIM_READ);
	extent(out, max, 1, a->b, n, ACLSIM_READ);
	extent(out, max, 2, a->out, n, ACLSIM_WRITE);
	return 3;
}

static void add_run(const aclsim_launch *l, uint32_t block)
{
	const struct binary_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		a->out[i] = a->a[i] + a->b[i];
}

static void mul_run(const aclsim_launch *l, uint32_t block)
{
	const struct binary_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		a->out[i] = a->a[i] * a->b[i];
}

struct matmul_args {
	const float *a, *b;
	float *c;
	uint32_t m, n, k;
};

static uint32_t matmul_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct matmul_args *a = l->args;

	extent(out, max, 0, a->a, times(4, times(a->m, a->k)), ACLSIM_READ);
	extent(out, max, 1, a->b, times(4, times(a->k, a->n)), ACLSIM_READ);
	extent(out, max, 2, a->c, times(4, times(a->m, a->n)), ACLSIM_WRITE);
	return 3;
}

static void matmul_run(const aclsim_launch *l, uint32_t block)
{
	const struct matmul_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->m, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		float *row = a->c + i * a->n;

		for (uint64_t j = 0; j < a->n; j++)
			row[j] = 0;
		for (uint64_t k = 0; k < a->k; k++)
			for (uint64_t j = 0; j < a->n; j++)
				row[j] += a->a[i * a->k + k] * a->b[k * a->n + j];
	}
}

struct rows_args {
	const float *in;
	float *out;
	uint32_t rows, cols;
};

static uint32_t rows_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct rows_args *a = l->args;
	uint64_t n = times(4, times(a->rows, a->cols));

	extent(out, max, 0, a->in, n, ACLSIM_READ);
	extent(out, max, 1, a->out, n, ACLSIM_WRITE);
	return 2;
}

static uint32_t reduce_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct rows_args *a = l->args;

	extent(out, max, 0, a->in, times(4, times(a->rows, a->cols)), ACLSIM_READ);
	extent(out, max, 1, a->out, times(4, a->rows), ACLSIM_WRITE);
	return 2;
}

static void reduce_run(const aclsim_launch *l, uint32_t block)
{
	const struct rows_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		double sum = 0;

		for (uint64_t j = 0; j < a->cols; j++)
			sum += a->in[i * a->cols + j];
		a->out[i] = (float)sum;
	}
}

static void softmax_run(const aclsim_launch *l, uint32_t block)
{
	const struct rows_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		const float *in = a->in + i * a->cols;
		float *out = a->out + i * a->cols;
		float top = -INFINITY;
		double sum = 0;

		for (uint64_t j = 0; j < a->cols; j++)
			top = fmaxf(top, in[j]);
		for (uint64_t j = 0; j < a->cols; j++) {
			out[j] = expf(in[j] - top);
			sum += out[j];
		}
		for (uint64_t j = 0; j < a->cols; j++)
			out[j] = (float)(out[j] / sum);
	}
}

struct norm_args {
	const float *in, *gamma, *beta;
	float *out;
	uint32_t rows, cols;
	float epsilon;
};

static uint32_t norm_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct norm_args *a = l->args;
	uint64_t n = times(4, times(a->rows, a->cols));

	extent(out, max, 0, a->in, n, ACLSIM_READ);
	extent(out, max, 1, a->gamma, times(4, a->cols), ACLSIM_READ);
	extent(out, max, 2, a->beta, times(4, a->cols), ACLSIM_READ);
	extent(out, max, 3, a->out, n, ACLSIM_WRITE);
	return 4;
}

static void norm_run(const aclsim_launch *l, uint32_t block)
{
	const struct norm_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		const float *in = a->in + i * a->cols;
		float *out = a->out + i * a->cols;
		double mean = 0, variance = 0;

		for (uint64_t j = 0; j < a->cols; j++)
			mean += in[j];
		mean /= a->cols;
		for (uint64_t j = 0; j < a->cols; j++)
			variance += (in[j] - mean) * (in[j] - mean);
		variance /= a->cols;
		for (uint64_t j = 0; j < a->cols; j++)
			out[j] = (float)((in[j] - mean) / sqrt(variance + a->epsilon)) * a->gamma[j] + a->beta[j];
	}
}

struct gather_args {
	const float *table;
	const int32_t *index;
	float *out;
	uint32_t n, rows, cols;
};

static uint32_t gather_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct gather_args *a = l->args;

	extent(out, max, 0, a->table, times(4, times(a->n, a->cols)), ACLSIM_READ);
	extent(out, max, 1, a->index, times(4, a->rows), ACLSIM_READ);
	extent(out, max, 2, a->out, times(4, times(a->rows, a->cols)), ACLSIM_WRITE);
	return 3;
}

static void gather_run(const aclsim_launch *l, uint32_t block)
{
	const struct gather_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->rows, &from, &to);
	for (uint64_t i = from; i < to; i++) {
		float *out = a->out + i * a->cols;

		if (a->index[i] >= 0 && (uint32_t)a->index[i] < a->n)
			memcpy(out, a->table + (uint64_t)a->index[i] * a->cols, 4ull * a->cols);
		else
			memset(out, 0, 4ull * a->cols);
	}
}

static void transpose_run(const aclsim_launch *l, uint32_t block)
{
	const struct rows_args *a = l->args;
	uint64_t from, to;

	share(l, block, a->rows, &from, &to);
	for (uint64_t i = from; i < to; i++)
		for (uint64_t j = 0; j < a->cols; j++)
			a->out[j * a->rows + i] = a->in[i * a->cols + j];
}

struct cast_args {
	const void *in;
	void *out;
	uint64_t count;
};

static uint32_t cast_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct cast_args *a = l->args;

	extent(out, max, 0, a->in, times(4, a->count), ACLSIM_READ);
	extent(out, max, 1, a->out, times(4, a->count), ACLSIM_WRITE);
	return 2;
}

/* Towards zero; what does not fit becomes the nearest number that does, and no number becomes 0. */
static void f32_i32_run(const aclsim_launch *l, uint32_t block)
{
	const struct cast_args *a = l->args;
	const float *in = a->in;
	int32_t *out = a->out;
	uint64_t from, to;

	share(l, block, a->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		out[i] = in[i] != in[i] ? 0 : in[i] >= 2147483648.0f ? INT32_MAX : in[i] < -2147483648.0f ? INT32_MIN : (int32_t)in[i];
}

static void i32_f32_run(const aclsim_launch *l, uint32_t block)
{
	const struct cast_args *a = l->args;
	const int32_t *in = a->in;
	float *out = a->out;
	uint64_t from, to;

	share(l, block, a->count, &from, &to);
	for (uint64_t i = from; i < to; i++)
		out[i] = (float)in[i];
}

#define IN(name) {name, ACLSIM_INPUT, 8}
#define OUT(name) {name, ACLSIM_OUTPUT, 8}
#define U32(name) {name, ACLSIM_SCALAR, 4}
#define U64(name) {name, ACLSIM_SCALAR, 8}

static const aclsim_arg copy_layout[] = {IN("in"), OUT("out"), U64("bytes")};
static const aclsim_arg fill_layout[] = {OUT("out"), U64("count"), U32("value")};
static const aclsim_arg binary_layout[] = {IN("a"), IN("b"), OUT("out"), U64("count")};
static const aclsim_arg matmul_layout[] = {IN("a"), IN("b"), OUT("c"), U32("m"), U32("n"), U32("k")};
static const aclsim_arg rows_layout[] = {IN("in"), OUT("out"), U32("rows"), U32("cols")};
static const aclsim_arg norm_layout[] = {IN("in"), IN("gamma"), IN("beta"), OUT("out"), U32("rows"), U32("cols"), U32("epsilon")};
static const aclsim_arg gather_layout[] = {IN("table"), IN("index"), OUT("out"), U32("n"), U32("rows"), U32("cols")};
static const aclsim_arg cast_layout[] = {IN("in"), OUT("out"), U64("count")};

#define KERNEL(name, layout, extents, run) {name, 0, layout, sizeof layout / sizeof *layout, 0, extents, run, NULL}

EXPORT const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel kernels[] = {
		KERNEL("copy", copy_layout, copy_extents, copy_run),
		KERNEL("fill", fill_layout, fill_extents, fill_run),
		KERNEL("add", binary_layout, binary_extents, add_run),
		KERNEL("mul", binary_layout, binary_extents, mul_run),
		KERNEL("matmul", matmul_layout, matmul_extents, matmul_run),
		KERNEL("reduce", rows_layout, reduce_extents, reduce_run),
		KERNEL("softmax", rows_layout, rows_extents, softmax_run),
		KERNEL("layer_norm", norm_layout, norm_extents, norm_run),
		KERNEL("gather", gather_layout, gather_extents, gather_run),
		KERNEL("transpose", rows_layout, rows_extents, transpose_run),
		KERNEL("cast_f32_i32", cast_layout, cast_extents, f32_i32_run),
		KERNEL("cast_i32_f32", cast_layout, cast_extents, i32_f32_run),
	};
	static const aclsim_kernel_library lib = {ACLSIM_KERNEL_ABI, sizeof kernels / sizeof *kernels, kernels};

	return &lib;
}
