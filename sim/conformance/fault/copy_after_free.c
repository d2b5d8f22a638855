/*
 * says: An asynchronous copy from memory that is freed before it runs fails.
 * source: Simulator; Errors, ACL_ERROR_RT_SYS_DMA
 */
#include "../conformance.h"

RULE(copy_after_free)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *a = device(64), *b = device(64);

	hold(&g, s);
	OK(aclrtMemcpyAsync(b, 64, a, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	OK(aclrtFree(a));
	open_gate(&g);
	WANT(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(s));
}
