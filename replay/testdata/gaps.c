/* Stands before the simulator's library and leaves other gaps between allocations, as every device does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "acl/acl.h"

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
	static size_t allocations;
	aclError (*real)(void **, size_t, aclrtMemMallocPolicy);
	*(void **)&real = dlsym(RTLD_NEXT, "aclrtMalloc");
	void *gap;
	(void)real(&gap, 512 * (1 + allocations++ % 7), policy);
	return real(devPtr, size, policy);
}
