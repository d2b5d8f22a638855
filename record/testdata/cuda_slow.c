/* The kernel of the example, but it takes 4 ms at least. */
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
