/*
 * What a copy of 64 MiB from the host costs, beside memcpy of as much. The runtime's own copy is nothing here, so that
 * the difference is the capture of the payload.
 *
 *	copy NAME [ROUNDS]
 *
 * prints "NAME MICROSECONDS memcpy MICROSECONDS": the medians of the rounds. Between rounds the recorder may catch up.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "acl/acl.h"

enum { SIZE = 64 << 20, MOST = 1000 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void *memory(void)
{
	/* Shared, like the memory that the capture copies to, and touched. */
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		abort();
	return p;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "bare";
	int rounds = argc > 2 ? atoi(argv[2]) : 30;
	static double call[MOST], plain[MOST];
	uint64_t *from = memory(), *to = memory();
	uint64_t x = 88172645463325252ULL;
	for (size_t i = 0; i < SIZE / 8; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		from[i] = x;
	}
	for (int r = 0; r < rounds && r < MOST; r++) {
		double a = now();
		memcpy(to, from, SIZE);
		double b = now();
		if (aclrtMemcpy((void *)0x124000000000, SIZE, from, SIZE, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS)
			abort();
		double c = now();
		plain[r] = b - a;
		call[r] = c - b;
		struct timespec pause = {0, 200000000};
		nanosleep(&pause, NULL);
	}
	qsort(call, (size_t)rounds, sizeof *call, ascending);
	qsort(plain, (size_t)rounds, sizeof *plain, ascending);
	printf("%s %.0f memcpy %.0f\n", name, call[rounds / 2], plain[rounds / 2]);
	return 0;
}
