/* The kernels of the test programs; program.h describes them. */
#define _POSIX_C_SOURCE 199309L
#include <time.h>

#include "aclsim/kernel.h"

#include "program.h"

#ifndef BUG
#define BUG 0 /* 1: add computes the last element wrong */
#endif

static uint32_t extents(aclsim_extent *out, uint32_t max, uint32_t n, uint32_t arg, const void *p, uint64_t size, uint32_t access)
{
	if (n < max)
		out[n] = (aclsim_extent){(uint64_t)(uintptr_t)p, size, access, arg};
	return n + 1;
}

/* Argument types in the binary: a pointer, and numbers. */
#define BE16(v) (v) >> 8, (v) & 255
#define BE64(v) 0, 0, 0, 0, (v) >> 24 & 255, (v) >> 16 & 255, (v) >> 8 & 255, (v) & 255
#define ARG(what, size) BE16(5), BE16(2), BE64(what), BE64(size)
__attribute__((used, section(".ascend.meta.add"))) static const uint8_t add_meta[] = {
	4, 0, 3 * 20, 0, ARG(1 << 16 | 2, 0), ARG(1, 8), ARG(1, 8),
};

static const aclsim_arg add_params[] = {{"x", ACLSIM_INOUT, 8}, {"count", ACLSIM_SCALAR, 8}, {"by", ACLSIM_SCALAR, 4}, {"unused", ACLSIM_SCALAR, 4}};

static uint32_t add_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct add_args *a = l->args;
	return extents(out, max, 0, 0, a->x, 4 * a->count, ACLSIM_READ | ACLSIM_WRITE);
}

void add(const aclsim_launch *l, uint32_t block)
{
	const struct add_args *a = l->args;
	for (uint64_t i = a->count * block / l->num_blocks; i < a->count * (block + 1) / l->num_blocks; i++)
		a->x[i] += a->by * (uint32_t)(i + 1) + (BUG && i == a->count - 1);
}

/* Crashes. */
void trap(const aclsim_launch *l, uint32_t block)
{
	(void)l;
	*(volatile uint32_t *)(uintptr_t)(8 + block) = 1;
}

/* x[i] = the time, independent of the arguments. */
void stamp(const aclsim_launch *l, uint32_t block)
{
	const struct add_args *a = l->args;
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (uint64_t i = 0; block == 0 && i < a->count; i++)
		a->x[i] = (uint32_t)t.tv_nsec;
}

static const aclsim_arg pages_params[] = {
	{"out", ACLSIM_OUTPUT, 8}, {"table", ACLSIM_INPUT, 8}, {"index", ACLSIM_INPUT, 8}, {"count", ACLSIM_SCALAR, 8}, {"page", ACLSIM_SCALAR, 8},
};

static uint32_t pages_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct pages_args *a = l->args;
	uint32_t n = extents(out, max, 0, 0, a->out, 8 * a->count, ACLSIM_WRITE);
	return extents(out, max, n, 2, a->index, 4 * a->count, ACLSIM_READ);
}

void pages(const aclsim_launch *l, uint32_t block)
{
	const struct pages_args *a = l->args;
	for (uint64_t i = block; i < a->count; i += l->num_blocks) {
		const uint8_t *p = a->table[a->index[i]];
		a->out[i] = 0;
		for (uint64_t k = 0; p != NULL && k < a->page; k++)
			a->out[i] += p[k];
	}
}

static const aclsim_arg attend_params[] = {
	{"out", ACLSIM_OUTPUT, 8}, {"pool", ACLSIM_INPUT, 8}, {"table", ACLSIM_INPUT, 8},
	{"length", ACLSIM_INPUT, 8}, {"count", ACLSIM_SCALAR, 8}, {"width", ACLSIM_SCALAR, 8},
};

static uint32_t attend_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct attend_args *a = l->args;
	uint32_t n = extents(out, max, 0, 0, a->out, 8 * a->count, ACLSIM_WRITE);
	n = extents(out, max, n, 2, a->table, 4 * a->count * a->width, ACLSIM_READ);
	return extents(out, max, n, 3, a->length, 4 * a->count, ACLSIM_READ);
}

void attend(const aclsim_launch *l, uint32_t block)
{
	const struct attend_args *a = l->args;
	for (uint64_t s = block; s < a->count; s += l->num_blocks) {
		a->out[s] = 0;
		for (uint64_t k = 0; k < a->length[s]; k++)
			a->out[s] += (k + 1) * a->pool[(uint64_t)a->table[s * a->width + k / BLOCK] * BLOCK + k % BLOCK];
	}
}

static const aclsim_arg sum_params[] = {{"out", ACLSIM_OUTPUT, 8}, {"x", ACLSIM_INPUT, 8}, {"count", ACLSIM_SCALAR, 8}, {"by", ACLSIM_SCALAR, 8}};

static uint32_t sum_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct sum_args *a = l->args;
	return extents(out, max, 0, 0, a->out, 8, ACLSIM_WRITE);
}

static void sum_of(int64_t *out, const int32_t *x, uint64_t count)
{
	int64_t all = 0;
	for (uint64_t i = 0; i < count; i++)
		all += (int64_t)(i + 1) * x[i];
	*out = all;
}

void sum(const aclsim_launch *l, uint32_t block)
{
	const struct sum_args *a = l->args;
	if (block == 0)
		sum_of(a->out, a->x, a->count);
}

void minus(const aclsim_launch *l, uint32_t block)
{
	const struct sum_args *a = l->args;
	if (block == 0)
		sum_of(a->out, (const int32_t *)(uintptr_t)(a->above - a->by), a->count);
}

void tiled(const aclsim_launch *l, uint32_t block)
{
	const struct sum_args *a = l->args;
	if (block == 0)
		sum_of(a->out, a->tiling->x, a->tiling->count);
}

static const aclsim_arg walk_params[] = {{"out", ACLSIM_OUTPUT, 8}, {"pool", ACLSIM_INPUT, 8}, {"count", ACLSIM_SCALAR, 8}, {"first", ACLSIM_SCALAR, 8}};

static uint32_t walk_extents(const aclsim_launch *l, aclsim_extent *out, uint32_t max)
{
	const struct walk_args *a = l->args;
	uint32_t n = extents(out, max, 0, 0, a->out, 8, ACLSIM_WRITE);
	return extents(out, max, n, 1, a->pool, a->count * sizeof *a->pool, ACLSIM_READ);
}

void walk(const aclsim_launch *l, uint32_t block)
{
	const struct walk_args *a = l->args;
	int64_t all = 0, k = 1;
	for (const struct node *n = &a->pool[a->first]; block == 0 && n != NULL; n = n->next)
		all += k++ * n->value;
	if (block == 0)
		*a->out = all;
}

static const aclsim_kernel kernels[] = {
	{"sum", 0, sum_params, 4, 0, sum_extents, sum, NULL},
	{"minus", 0, sum_params, 4, 0, sum_extents, minus, NULL},
	{"tiled", 0, sum_params, 4, 0, sum_extents, tiled, NULL},
	{"walk", 0, walk_params, 4, 0, walk_extents, walk, NULL},
	{"add", 0, add_params, 4, 0, add_extents, add, NULL},
	{"stamp", 0, add_params, 4, 0, add_extents, stamp, NULL},
	{"trap", 0, add_params, 4, 0, add_extents, trap, NULL},
	{"pages", 0, pages_params, 5, 0, pages_extents, pages, NULL},
	{"attend", 0, attend_params, 6, 0, attend_extents, attend, NULL},
};

const aclsim_kernel_library *aclsim_kernels(void)
{
	static const aclsim_kernel_library library = {ACLSIM_KERNEL_ABI, sizeof kernels / sizeof *kernels, kernels};
	return &library;
}
