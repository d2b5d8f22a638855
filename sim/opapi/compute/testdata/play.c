/*
 * Computes argument blocks from standard input. Prints for each whether it was computed, and a hash of all memory.
 *
 * Input, in words of 8 bytes: the number of regions; for each its address, its size, and its bytes; then blocks, each after its size. The page after a
 * region and the one before it are not mapped. With an argument, rounding is upward and small numbers count as 0 when blocks begin.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../compute.h"
#if defined __x86_64__
#include <xmmintrin.h>
#endif

enum { PAGE = 4096, MAX_REGIONS = 64 };

static void get(void *to, size_t n)
{
	if (fread(to, 1, n, stdin) != n)
		exit(2);
}

static uint64_t word(void)
{
	uint64_t w;

	get(&w, sizeof w);
	return w;
}

static uint64_t hash(uint64_t h, const unsigned char *at, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

int main(int argc, char **argv)
{
	unsigned char *regions[MAX_REGIONS];
	uint64_t sizes[MAX_REGIONS], n = word(), size;

	(void)argv;
	for (uint64_t i = 0; i < n && i < MAX_REGIONS; i++) {
		uint64_t at = word(), from = at / PAGE * PAGE;
		sizes[i] = word();
		if (mmap((void *)(uintptr_t)from, sizes[i] + at - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)(uintptr_t)from)
			return 3;
		regions[i] = (unsigned char *)(uintptr_t)at;
		get(regions[i], sizes[i]);
	}
	while (fread(&size, sizeof size, 1, stdin) == 1) {
		void *b = malloc(size);
		get(b, size);
		if (argc > 1) {
			fesetround(FE_UPWARD);
#if defined __x86_64__
			_mm_setcsr(_mm_getcsr() | 0x8040);
#endif
		}
		int64_t shares = aclsim_shares(b);
		int done = 0;
		/* in the wrong order */
		for (int64_t i = shares - 1; i >= 0; i--)
			done = aclsim_compute(b, i, shares);
		uint64_t h = UINT64_C(0xcbf29ce484222325);
		for (uint64_t i = 0; i < n; i++)
			h = hash(h, regions[i], sizes[i]);
		printf("%s %d %016llx\n", (const char *)b + ((const block *)b)->name, done, (unsigned long long)h);
		fflush(stdout);
		free(b);
	}
	return 0;
}
