/*
 * Measures a copy from the host, and memcpy with the same length. The runtime's own copy takes no time here, so the difference is
 * the capture of the payload.
 *
 *	copy NAME [ROUNDS [KIB [async|pinned]]]
 *
 * copies KIB KiB, 64 MiB by default: by a synchronous copy, or by an asynchronous one from memory of the program or of the
 * runtime. It prints "NAME MICROSECONDS memcpy MICROSECONDS processor MICROSECONDS memcpy
 * MICROSECONDS". These are medians over all rounds: first elapsed time, then the thread's processor time, which excludes waits for
 * a core. Between rounds with more than 1 MiB the recorder may catch up.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "acl/acl.h"
#include "median.h"

enum { MOST = 1000 };
static size_t size = 64 << 20;

enum { TIME, PROCESSOR, CLOCKS };

static void now(double us[CLOCKS])
{
	static const clockid_t clocks[CLOCKS] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID};
	for (int i = 0; i < CLOCKS; i++) {
		struct timespec t;
		clock_gettime(clocks[i], &t);
		us[i] = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
	}
}

static void *memory(int pinned)
{
	void *p;
	if (pinned)
		return aclrtMallocHost(&p, size) == ACL_SUCCESS ? p : NULL;
	/* Shared like the memory that the capture copies to, and touched. */
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		abort();
	return p;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "bare";
	int rounds = argc > 2 && atoi(argv[2]) < MOST ? atoi(argv[2]) : 30;
	if (argc > 3)
		size = (size_t)atoi(argv[3]) << 10;
	int pinned = argc > 4 && strcmp(argv[4], "pinned") == 0;
	static double call[CLOCKS][MOST], plain[CLOCKS][MOST];
	uint64_t *from = memory(pinned), *to = memory(0);
	uint64_t x = 88172645463325252ULL;
	for (size_t i = 0; i < size / 8; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		from[i] = x;
	}
	/* Only after its first look at the process does the recorder let threads touch their rings ahead. */
	void *device = (void *)0x124000000000;
	struct timespec pause = {0, 200000000};
	if (aclrtMemcpy(device, size, from, 64, ACL_MEMCPY_HOST_TO_DEVICE) != ACL_SUCCESS)
		abort();
	nanosleep(&pause, NULL);
	for (int r = 0; r < rounds; r++) {
		double a[CLOCKS], b[CLOCKS], c[CLOCKS];
		now(a);
		memcpy(to, from, size);
		now(b);
		if ((argc > 4 ? aclrtMemcpyAsync(device, size, from, size, ACL_MEMCPY_HOST_TO_DEVICE, NULL) :
				aclrtMemcpy(device, size, from, size, ACL_MEMCPY_HOST_TO_DEVICE)) != ACL_SUCCESS)
			abort();
		now(c);
		for (int i = 0; i < CLOCKS; i++) {
			plain[i][r] = b[i] - a[i];
			call[i][r] = c[i] - b[i];
		}
		if (size > 1 << 20)
			nanosleep(&pause, NULL);
	}
	printf("%s %.1f memcpy %.1f processor %.1f memcpy %.1f\n", name, median(call[TIME], rounds), median(plain[TIME], rounds),
	       median(call[PROCESSOR], rounds), median(plain[PROCESSOR], rounds));
	return 0;
}
