/* Counting, once right and once with a race. */
#define _GNU_SOURCE
#include <sched.h>

#include "histogram_args.h"
#include "kernel.h"

static const aclsim_arg histogram_args[] = {
	{"values", ACLSIM_INPUT, 8},
	{"bins", ACLSIM_INOUT, 8},
	{"count", ACLSIM_SCALAR, 8},
};

static uint32_t histogram_extents(const aclsim_launch *launch, aclsim_extent *out, uint32_t max)
{
	const histogram_block *a = launch->args;
	extent_list list = {out, max, 0};

	reads(&list, 0, a->values, a->count * sizeof(uint32_t));
	updates(&list, 1, a->bins, HISTOGRAM_BINS * sizeof(uint32_t));
	return list.count;
}

void histogram(const aclsim_launch *launch, uint32_t block)
{
	const histogram_block *a = launch->args;
	share s = share_of(a->count, launch, block);

	for (uint64_t i = s.from; i < s.to; i++)
		__atomic_fetch_add(&a->bins[a->values[i] % HISTOGRAM_BINS], 1, __ATOMIC_RELAXED);
}

/* The bug: two blocks that read a bin at once store the same number, and a count is lost. The lost counts
 * depend on other work on the machine. */
void histogram_racy(const aclsim_launch *launch, uint32_t block)
{
	const histogram_block *a = launch->args;
	share s = share_of(a->count, launch, block);
	volatile uint32_t *bins = a->bins;

	for (uint64_t i = s.from; i < s.to; i++) {
		uint32_t seen = bins[a->values[i] % HISTOGRAM_BINS];

		if (i % 16 == 0)
			sched_yield();
		bins[a->values[i] % HISTOGRAM_BINS] = seen + 1;
	}
}

static const aclsim_kernel kernels[] = {
	{"histogram", 0, histogram_args, COUNT_OF(histogram_args), ACLSIM_PARALLEL, histogram_extents, histogram, NULL},
	{"histogram_racy", 0, histogram_args, COUNT_OF(histogram_args), ACLSIM_PARALLEL, histogram_extents, histogram_racy, NULL},
};

LIBRARY(kernels)
