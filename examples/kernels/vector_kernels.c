/* Elementwise kernels on vectors of float. */
#include "kernel.h"
#include "vector_args.h"

static const aclsim_arg vector_add_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"y", ACLSIM_INPUT, 8},
	{"z", ACLSIM_OUTPUT, 8},
	{"count", ACLSIM_SCALAR, 8},
};

static uint32_t vector_add_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const vector_add_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 0, a->x, a->count * sizeof(float));
	reads(&list, 1, a->y, a->count * sizeof(float));
	writes(&list, 2, a->z, a->count * sizeof(float));
	return list.count;
}

void vector_add(const aclsim_launch *launch, uint32_t block)
{
	const vector_add_block *a = launch->args;
	share s = share_of(a->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->z[i] = a->x[i] + a->y[i];
}

#define vector_add_simt_args vector_add_args
#define vector_add_simt_extents vector_add_extents

/* Each thread of the grid processes elements at a stride of the whole grid. Here a block's threads run one after
 * another. */
void vector_add_simt(const aclsim_launch *launch, uint32_t block)
{
	const vector_add_block *a = launch->args;
	uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
	uint64_t step = threads * launch->num_blocks;

	for (uint64_t thread = 0; thread < threads; thread++)
		for (uint64_t i = block * threads + thread; i < a->count; i += step)
			a->z[i] = a->x[i] + a->y[i];
}

static const aclsim_arg vector_add_tiled_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"y", ACLSIM_INPUT, 8},
	{"z", ACLSIM_OUTPUT, 8},
	{"tiling", ACLSIM_TILING, 8},
};

static uint32_t vector_add_tiled_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const vector_add_tiled_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 3, a->tiling, sizeof *a->tiling);
	if (!a->tiling)
		return list.count;
	reads(&list, 0, a->x, a->tiling->count * sizeof(float));
	reads(&list, 1, a->y, a->tiling->count * sizeof(float));
	writes(&list, 2, a->z, a->tiling->count * sizeof(float));
	return list.count;
}

void vector_add_tiled(const aclsim_launch *launch, uint32_t block)
{
	const vector_add_tiled_block *a = launch->args;
	share s = share_of(a->tiling->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->z[i] = a->x[i] + a->y[i] + a->tiling->bias;
}

static const aclsim_arg vector_scale_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"z", ACLSIM_OUTPUT, 8},
	{"count", ACLSIM_SCALAR, 8},
	{"factor", ACLSIM_SCALAR, 4},
};

static uint32_t vector_scale_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const vector_scale_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 0, a->x, a->count * sizeof(float));
	writes(&list, 1, a->z, a->count * sizeof(float));
	return list.count;
}

void vector_scale(const aclsim_launch *launch, uint32_t block)
{
	const vector_scale_block *a = launch->args;
	share s = share_of(a->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->z[i] = a->factor * a->x[i];
}

static const aclsim_arg vector_fill_args[] = {
	{"z", ACLSIM_OUTPUT, 8},
	{"count", ACLSIM_SCALAR, 8},
	{"value", ACLSIM_SCALAR, 4},
};

static uint32_t vector_fill_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const vector_fill_block *a = launch->args;
	extent_list list = {out, max, 0};

	writes(&list, 0, a->z, a->count * sizeof(float));
	return list.count;
}

void vector_fill(const aclsim_launch *launch, uint32_t block)
{
	const vector_fill_block *a = launch->args;
	share s = share_of(a->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->z[i] = a->value;
}

static const aclsim_arg vector_copy_args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"z", ACLSIM_OUTPUT, 8},
	{"count", ACLSIM_SCALAR, 8},
};

static uint32_t vector_copy_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const vector_copy_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 0, a->x, a->count * sizeof(float));
	writes(&list, 1, a->z, a->count * sizeof(float));
	return list.count;
}

void vector_copy(const aclsim_launch *launch, uint32_t block)
{
	const vector_copy_block *a = launch->args;
	share s = share_of(a->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->z[i] = a->x[i];
}

static const aclsim_kernel kernels[] = {
	KERNEL(vector_add, VECTOR_ADD_ENTRY),
	KERNEL(vector_add_tiled, 0),
	KERNEL(vector_add_simt, 0),
	KERNEL(vector_scale, 0),
	KERNEL(vector_fill, 0),
	KERNEL(vector_copy, 0),
};

LIBRARY(kernels)
