/* The example's kernel, which takes at least 4 ms. */
#define _GNU_SOURCE
#define add example_add
#include "../../examples/cuda/kernels.c"
#undef add

#include <time.h>

EXPORT void add(const struct fakecuda_launch *l)
{
	nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
	example_add(l);
}
