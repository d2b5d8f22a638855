/*
 * Measures cuLaunchKernelEx with four 8-byte arguments and one attribute.
 *
 *	cuda_launch NAME [ROUNDS]
 *
 * prints "NAME NANOSECONDS": the median over rounds with 1000 launches each, in processor time.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda.h"
#include "median.h"

enum { CALLS = 1000, MOST = 10000 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	static double took[MOST];
	int rounds = argc > 2 && atoi(argv[2]) > 0 && atoi(argv[2]) < MOST ? atoi(argv[2]) : 400;
	uint64_t args[4] = {0x302000000000, 0x302000010000, 0x302000020000, 4096};
	void *params[4] = {&args[0], &args[1], &args[2], &args[3]};
	CUlaunchAttribute at = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = -1}};
	CUlaunchConfig config = {.gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1, .hStream = (CUstream)0x2000, .attrs = &at, .numAttrs = 1};
	for (int r = 0; r < rounds; r++) {
		double from = now();
		for (int i = 0; i < CALLS; i++) {
			args[3] = (uint64_t)i;
			if (cuLaunchKernelEx(&config, (CUfunction)0x1000, params, NULL) != CUDA_SUCCESS)
				return 1;
		}
		took[r] = (now() - from) / CALLS;
		nanosleep(&(struct timespec){0, 1000000}, NULL); /* the recorder may catch up */
	}
	printf("%s %.1f\n", argc > 1 ? argv[1] : "bare", median(took, rounds));
	return 0;
}
