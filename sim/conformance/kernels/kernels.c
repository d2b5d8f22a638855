/*
 * Kernels of the conformance suite. The file is compiled twice: as an object it is the binary that the programs load, whose
 * symbols name the kernels, and as a library it is what the simulator runs.
 */
#include "aclsim/kernel.h"

/* *to = value */
struct store_args {
	uint64_t *to;
	uint64_t value;
};

static uint32_t store_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct store_args *a = l->args;

	if (max)
		out[0] = (aclsim_extent){(uintptr_t)a->to, 8, ACLSIM_WRITE, 0};
	return 1;
}

void store(const aclsim_launch *l, uint32_t block)
{
	const struct store_args *a = l->args;

	(void)block;
	*a->to = a->value;
}

/* to[b] = tiling->value + b for each block b */
struct tiling {
	uint64_t value;
};

struct blocks_args {
	uint64_t *to;
	const struct tiling *tiling;
};

static uint32_t blocks_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct blocks_args *a = l->args;

	if (max > 1) {
		out[0] = (aclsim_extent){(uintptr_t)a->to, 8ull * l->num_blocks, ACLSIM_WRITE, 0};
		out[1] = (aclsim_extent){(uintptr_t)a->tiling, sizeof *a->tiling, ACLSIM_READ, 1};
	}
	return 2;
}

void blocks(const aclsim_launch *l, uint32_t block)
{
	const struct blocks_args *a = l->args;

	a->to[block] = a->tiling->value + block;
}

/* *to += 1 */
static uint32_t count_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	if (max)
		out[0] = (aclsim_extent){*(const uint64_t *)l->args, 8, ACLSIM_READ | ACLSIM_WRITE, 0};
	return 1;
}

void count(const aclsim_launch *l, uint32_t block)
{
	(void)block;
	**(uint64_t *const *)l->args += 1;
}

/* Takes so many milliseconds of device time. */
void last(const aclsim_launch *l, uint32_t block)
{
	(void)l;
	(void)block;
}

static uint64_t last_duration(const aclsim_launch *l) { return *(const uint64_t *)l->args * 1000000; }

/* *to = 7 or 9, the tiling key */
void keyed(const aclsim_launch *l, uint32_t block)
{
	(void)block;
	**(uint64_t *const *)l->args = 7;
}

static void other_key(const aclsim_launch *l, uint32_t block)
{
	(void)block;
	**(uint64_t *const *)l->args = 9;
}

/* The library has no kernel of this name. */
void unknown(void) {}

/* A kernel for both kinds of cores has a symbol for each. */
void mixed_mix_aic(const aclsim_launch *l, uint32_t block) { store(l, block); }
void mixed_mix_aiv(const aclsim_launch *l, uint32_t block) { store(l, block); }

static const aclsim_arg store_layout[] = {{"to", ACLSIM_OUTPUT, 8}, {"value", ACLSIM_SCALAR, 8}};
static const aclsim_arg blocks_layout[] = {{"to", ACLSIM_OUTPUT, 8}, {"tiling", ACLSIM_TILING, 8}};
static const aclsim_arg count_layout[] = {{"to", ACLSIM_INOUT, 8}};
static const aclsim_arg last_layout[] = {{"ms", ACLSIM_SCALAR, 8}};

const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel kernels[] = {
		{"store", 0, store_layout, 2, 0, store_extents, store, NULL},
		{"mixed", 0, store_layout, 2, 0, store_extents, store, NULL},
		{"blocks", 0, blocks_layout, 2, 0, blocks_extents, blocks, NULL},
		{"count", 0, count_layout, 1, 0, count_extents, count, NULL},
		{"last", 0, last_layout, 1, 0, NULL, last, last_duration},
		{"keyed", 7, count_layout, 1, 0, count_extents, keyed, NULL},
		{"keyed", 9, count_layout, 1, 0, count_extents, other_key, NULL},
	};
	static const aclsim_kernel_library lib = {ACLSIM_KERNEL_ABI, sizeof kernels / sizeof *kernels, kernels};

	return &lib;
}
