/* Another preloaded tool that wraps a function in the usual way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stddef.h>

static int calls;

int aclrtMalloc(void **p, size_t n, int policy);

int aclrtMalloc(void **p, size_t n, int policy)
{
	static int (*next)(void **, size_t, int);
	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "aclrtMalloc");
	calls++;
	return next(p, n, policy);
}

__attribute__((destructor)) static void tell(void)
{
	if (calls)
		fprintf(stderr, "tool: %d calls of aclrtMalloc\n", calls);
}
