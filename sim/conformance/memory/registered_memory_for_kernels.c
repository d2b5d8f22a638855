/*
 * says: A kernel can access registered host memory by the address that the registration returns.
 * source: API, aclrtHostRegister
 */
#include "../conformance.h"

RULE(registered_memory_for_kernels)
{
	aclrtStream s = new_stream();
	uint64_t *h = aligned_alloc(4096, 4096);
	void *d = NULL;

	*h = 0;
	OK(aclrtHostRegister(h, 4096, ACL_HOST_REGISTER_MAPPED, &d));
	store(s, d, 42);
	finish(s);
	CHECK(*h == 42);
	OK(aclrtHostUnregister(h));
}
