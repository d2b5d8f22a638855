/* Calls a library function repeatedly, and reads the player's clock as often: prints the median nanoseconds for each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t counter(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return nanoseconds();
#endif
}

enum { STRETCH = 10000, STRETCHES = 100 };

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*memset_)(void *, size_t, int, size_t) = lib ? (int (*)(void *, size_t, int, size_t))dlsym(lib, "aclrtMemset") : NULL;
	if (memset_ == NULL)
		return 1;
	static double call[STRETCHES], clock[STRETCHES];
	volatile uint64_t last = 0;
	for (int k = 0; k < STRETCHES; k++) {
		uint64_t a = nanoseconds();
		for (uintptr_t i = 0; i < STRETCH; i++)
			memset_((void *)(0x124000000000 + i % 512), 512, 0, 1);
		uint64_t b = nanoseconds();
		for (int i = 0; i < STRETCH; i++)
			last = counter();
		uint64_t c = nanoseconds();
		call[k] = (double)(b - a) / STRETCH;
		clock[k] = (double)(c - b) / STRETCH;
	}
	(void)last;
	qsort(call, STRETCHES, sizeof *call, order);
	qsort(clock, STRETCHES, sizeof *clock, order);
	printf("%.2f %.2f\n", call[STRETCHES / 2], clock[STRETCHES / 2]);
	return 0;
}
