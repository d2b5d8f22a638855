/*
 * Ready kernels for the simulator, for programs without kernels of their own. Numbers are 32-bit floats. A kernel with the suffix
 * _f16 or _bf16 works on IEEE half precision or bfloat16, rounded to nearest even. A copy takes any bytes. Each kernel splits its
 * rows or elements over the blocks; the result does not depend on the number of blocks.
 *
 *   copy(in, out, bytes)                 fill(out, count, value (a float for all types))
 *   add, mul(a, b, out, count)           matmul(a[m][k], b[k][n], c[m][n], m, n, k)
 *   reduce(in[rows][cols], out[rows], rows, cols)                 sums
 *   softmax(in[rows][cols], out[rows][cols], rows, cols)
 *   layer_norm(in, gamma[cols], beta[cols], out, rows, cols, epsilon)
 *   gather(table[n][cols], index[rows] (int32), out[rows][cols], n, rows, cols)
 *   transpose(in[rows][cols], out[cols][rows], rows, cols)
 *   cast_FROM_TO(in, out, count)         FROM, TO: f32 and i32, f16 or bf16, either way
 *
 * A gather with an index out of range stores zeros there.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "aclsim/kernel.h"
#include "half.h"

#define EXPORT __attribute__((visibility("default")))

/* A block's part of n elements. */
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
	void *out;
	uint64_t count;
	float value;
};

struct binary_args {
	const void *a, *b;
	void *out;
	uint64_t count;
};

struct matmul_args {
	const void *a, *b;
	void *c;
	uint32_t m, n, k;
};

struct rows_args {
	const void *in;
	void *out;
	uint32_t rows, cols;
};

struct norm_args {
	const void *in, *gamma, *beta;
	void *out;
	uint32_t rows, cols;
	float epsilon;
};

struct gather_args {
	const void *table;
	const int32_t *index;
	void *out;
	uint32_t n, rows, cols;
};

struct cast_args {
	const void *in;
	void *out;
	uint64_t count;
};

static float same(float f) { return f; }

#define TYPE float
#define NAME(x) x##_f32
#define LOAD same
#define STORE same
#include "typed.h"

#define TYPE uint16_t
#define NAME(x) x##_f16
#define LOAD from_f16
#define STORE to_f16
#include "typed.h"

#define TYPE uint16_t
#define NAME(x) x##_bf16
#define LOAD from_bf16
#define STORE to_bf16
#include "typed.h"

/* Rounds towards zero. Values out of range become the nearest number, NaN becomes 0. */
static int32_t to_i32(float f) { return f != f ? 0 : f >= 2147483648.0f ? INT32_MAX : f < -2147483648.0f ? INT32_MIN : (int32_t)f; }

#define CAST(name, from_type, to_type, convert)                                                        \
	static uint32_t name##_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)       \
	{                                                                                              \
		const struct cast_args *a = l->args;                                                   \
                                                                                                       \
		extent(out, max, 0, a->in, times(sizeof(from_type), a->count), ACLSIM_READ);           \
		extent(out, max, 1, a->out, times(sizeof(to_type), a->count), ACLSIM_WRITE);           \
		return 2;                                                                              \
	}                                                                                              \
                                                                                                       \
	static void name(const aclsim_launch *l, uint32_t block)                                       \
	{                                                                                              \
		const struct cast_args *a = l->args;                                                   \
		const from_type *in = a->in;                                                           \
		to_type *out = a->out;                                                                 \
		uint64_t from, to;                                                                     \
                                                                                                       \
		share(l, block, a->count, &from, &to);                                                 \
		for (uint64_t i = from; i < to; i++)                                                   \
			out[i] = convert(in[i]);                                                       \
	}

CAST(cast_f32_i32, float, int32_t, to_i32)
CAST(cast_i32_f32, int32_t, float, (float))
CAST(cast_f32_f16, float, uint16_t, to_f16)
CAST(cast_f16_f32, uint16_t, float, from_f16)
CAST(cast_f32_bf16, float, uint16_t, to_bf16)
CAST(cast_bf16_f32, uint16_t, float, from_bf16)

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

#define KERNEL(name, layout, extents, run) {name, 0, layout, sizeof layout / sizeof *layout, ACLSIM_PARALLEL, extents, run, NULL}
#define CAST_KERNEL(name) KERNEL(#name, cast_layout, name##_extents, name)
#define TYPED(suffix, type)                                                               \
	KERNEL("fill" suffix, fill_layout, fill_extents_##type, fill_##type),             \
	KERNEL("add" suffix, binary_layout, binary_extents_##type, add_##type),           \
	KERNEL("mul" suffix, binary_layout, binary_extents_##type, mul_##type),           \
	KERNEL("matmul" suffix, matmul_layout, matmul_extents_##type, matmul_##type),     \
	KERNEL("reduce" suffix, rows_layout, reduce_extents_##type, reduce_##type),       \
	KERNEL("softmax" suffix, rows_layout, rows_extents_##type, softmax_##type),       \
	KERNEL("layer_norm" suffix, norm_layout, layer_norm_extents_##type, layer_norm_##type), \
	KERNEL("gather" suffix, gather_layout, gather_extents_##type, gather_##type),     \
	KERNEL("transpose" suffix, rows_layout, rows_extents_##type, transpose_##type)

EXPORT const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel kernels[] = {
		KERNEL("copy", copy_layout, copy_extents, copy_run),
		TYPED("", f32), TYPED("_f16", f16), TYPED("_bf16", bf16),
		CAST_KERNEL(cast_f32_i32), CAST_KERNEL(cast_i32_f32), CAST_KERNEL(cast_f32_f16),
		CAST_KERNEL(cast_f16_f32), CAST_KERNEL(cast_f32_bf16), CAST_KERNEL(cast_bf16_f32),
	};
	static const aclsim_kernel_library lib = {ACLSIM_KERNEL_ABI, sizeof kernels / sizeof *kernels, kernels};

	return &lib;
}
