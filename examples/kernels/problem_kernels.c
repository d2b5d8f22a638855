/* Stand-ins for the kernels of a model. Each does the same small computation, and takes the device time that its
 * arguments name. */
#include "kernel.h"
#include "problem_args.h"

static const aclsim_arg args[] = {
	{"x", ACLSIM_INPUT, 8},
	{"y", ACLSIM_OUTPUT, 8},
	{"count", ACLSIM_SCALAR, 8},
	{"factor", ACLSIM_SCALAR, 4},
	{"us", ACLSIM_SCALAR, 4},
};

static uint32_t extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const problem_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 0, a->x, a->count * sizeof(float));
	writes(&list, 1, a->y, a->count * sizeof(float));
	return list.count;
}

static uint64_t duration(const aclsim_launch *launch)
{
	const problem_block *a = launch->args;

	return (uint64_t)a->us * 1000;
}

static void run(const aclsim_launch *launch, uint32_t block)
{
	const problem_block *a = launch->args;
	share s = share_of(a->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		a->y[i] = a->factor * a->x[i] + 1;
}

/* The symbols are the kernels that a program finds in the binary. */
#define STAND_IN(name)                                            \
	void name(const aclsim_launch *launch, uint32_t block);   \
	void name(const aclsim_launch *launch, uint32_t block)    \
	{                                                         \
		run(launch, block);                               \
	}

STAND_IN(embed)
STAND_IN(attention)
STAND_IN(mlp)
STAND_IN(bias)
STAND_IN(gelu)
STAND_IN(bias_gelu)
STAND_IN(loss)

#define ROW(name) {#name, 0, args, COUNT_OF(args), 0, extents, name, duration}

static const aclsim_kernel kernels[] = {
	ROW(embed),
	ROW(attention),
	ROW(mlp),
	ROW(bias),
	ROW(gelu),
	ROW(bias_gelu),
	ROW(loss),
};

LIBRARY(kernels)
