/* Kernels on matrices of float. */
#include "kernel.h"
#include "matmul_args.h"

static const aclsim_arg matmul_accumulate_args[] = {
	{"a", ACLSIM_INPUT, 8},
	{"b", ACLSIM_INPUT, 8},
	{"c", ACLSIM_INOUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t matmul_accumulate_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const matmul_accumulate_block *m = launch->args;
	const matmul_tiling *t = m->tiling;
	extent_list list = {out, max, 0};

	reads(&list, 3, t, sizeof *t);
	if (!t)
		return list.count;
	reads(&list, 0, m->a, (uint64_t)t->rows * t->inner * sizeof(float));
	reads(&list, 1, m->b, (uint64_t)t->inner * t->columns * sizeof(float));
	updates(&list, 2, m->c, (uint64_t)t->rows * t->columns * sizeof(float));
	return list.count;
}

void matmul_accumulate(const aclsim_launch *launch, uint32_t block)
{
	const matmul_accumulate_block *m = launch->args;
	const matmul_tiling *t = m->tiling;
	share rows = share_of(t->rows, launch, block);

	for (uint64_t i = rows.from; i < rows.to; i++)
		for (uint64_t k = 0; k < t->inner; k++)
			for (uint64_t j = 0; j < t->columns; j++)
				m->c[i * t->columns + j] += m->a[i * t->inner + k] * m->b[k * t->columns + j];
}

/* 8 TFLOP/s, and 2 us for the launch. Without such a function the simulator's cost model is used. */
static uint64_t matmul_accumulate_duration(const aclsim_launch *launch)
{
	const matmul_accumulate_block *m = launch->args;
	const matmul_tiling *t = m->tiling;

	return 2000 + (uint64_t)t->rows * t->columns * t->inner / 4000;
}

static const aclsim_arg scale_bias_args[] = {
	{"c", ACLSIM_INOUT, 8},
	{"scale", ACLSIM_INPUT, 8},
	{"bias", ACLSIM_INPUT, 8},
	{"rows", ACLSIM_SCALAR, 4},
	{"columns", ACLSIM_SCALAR, 4},
};

static uint32_t scale_bias_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const scale_bias_block *a = launch->args;
	extent_list list = {out, max, 0};

	updates(&list, 0, a->c, (uint64_t)a->rows * a->columns * sizeof(float));
	reads(&list, 1, a->scale, a->columns * sizeof(float));
	reads(&list, 2, a->bias, a->columns * sizeof(float));
	return list.count;
}

void scale_bias(const aclsim_launch *launch, uint32_t block)
{
	const scale_bias_block *a = launch->args;
	share rows = share_of(a->rows, launch, block);

	for (uint64_t i = rows.from; i < rows.to; i++)
		for (uint64_t j = 0; j < a->columns; j++)
			a->c[i * a->columns + j] = a->c[i * a->columns + j] * a->scale[j] + a->bias[j];
}

static const aclsim_kernel kernels[] = {
	KERNEL_TIMED(matmul_accumulate, 0),
	KERNEL(scale_bias, 0),
};

LIBRARY(kernels)
