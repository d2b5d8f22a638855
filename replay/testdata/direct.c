/* Calls a function of a library again and again, and reads the player's clock as often: prints nanoseconds for each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
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

int main(int argc, char **argv)
{
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*memset_)(void *, size_t, int, size_t) = lib ? (int (*)(void *, size_t, int, size_t))dlsym(lib, "aclrtMemset") : NULL;
	if (memset_ == NULL)
		return 1;
	double call = 1e9, clock = 1e9;
	volatile uint64_t last = 0;
	for (int k = 0; k < STRETCHES; k++) {
		uint64_t a = nanoseconds();
		for (uintptr_t i = 0; i < STRETCH; i++)
			memset_((void *)(0x124000000000 + i % 512), 512, 0, 1);
		uint64_t b = nanoseconds();
		for (int i = 0; i < STRETCH; i++)
			last = counter();
		uint64_t c = nanoseconds();
		if ((double)(b - a) / STRETCH < call)
			call = (double)(b - a) / STRETCH;
		if ((double)(c - b) / STRETCH < clock)
			clock = (double)(c - b) / STRETCH;
	}
	(void)last;
	printf("%.2f %.2f\n", call, clock);
	return 0;
}
