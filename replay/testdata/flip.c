/*
 * The kernels in a file (KERNELS), with one wrong result: FLIP=N:BIT makes the Nth launch of the process, counted from 1, change
 * one bit in its outputs. Launches must not overlap.
 */
#define aclsim_kernels true_kernels
#include KERNELS
#undef aclsim_kernels

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, EXTENTS = 64 };

static const aclsim_kernel *true_kernel(unsigned k) { return &true_kernels()->kernels[k]; }

static void flip(const aclsim_kernel *k, const aclsim_launch *l)
{
	static uint64_t launches;
	unsigned long long launch, bit;
	const char *what = getenv("FLIP");
	if (what == NULL || sscanf(what, "%llu:%llu", &launch, &bit) != 2 || ++launches != launch)
		return;
	aclsim_extent e[EXTENTS];
	uint32_t n = k->extents(l, e, EXTENTS);
	uint64_t written = 0;
	for (uint32_t i = 0; i < n; i++)
		written += e[i].access & ACLSIM_WRITE ? e[i].size : 0;
	if (written == 0)
		return;
	uint64_t at = bit / 8 % written;
	for (uint32_t i = 0; i < n; i++) {
		if (!(e[i].access & ACLSIM_WRITE))
			continue;
		if (at < e[i].size) {
			((uint8_t *)(uintptr_t)e[i].addr)[at] ^= (uint8_t)(1 << bit % 8);
			return;
		}
		at -= e[i].size;
	}
}

#define RUN(i) \
	static void run_##i(const aclsim_launch *l, uint32_t block) \
	{ \
		true_kernel(i)->run(l, block); \
		if (block == l->num_blocks - 1) \
			flip(true_kernel(i), l); \
	}
RUN(0) RUN(1) RUN(2) RUN(3) RUN(4) RUN(5) RUN(6) RUN(7) RUN(8) RUN(9) RUN(10) RUN(11) RUN(12) RUN(13) RUN(14) RUN(15)

const aclsim_kernel_library *aclsim_kernels(void)
{
	static void (*const runs[MOST])(const aclsim_launch *, uint32_t) = {
		run_0, run_1, run_2, run_3, run_4, run_5, run_6, run_7, run_8, run_9, run_10, run_11, run_12, run_13, run_14, run_15,
	};
	static aclsim_kernel kernels[MOST];
	static aclsim_kernel_library library;
	library = *true_kernels();
	library.kernels = kernels;
	if (library.num_kernels > MOST)
		abort();
	for (uint32_t i = 0; i < library.num_kernels; i++) {
		kernels[i] = *true_kernel(i);
		kernels[i].run = runs[i];
		kernels[i].flags &= ~(uint32_t)ACLSIM_PARALLEL; /* so that the last block ends last */
	}
	return &library;
}
