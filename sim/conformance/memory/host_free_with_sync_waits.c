/*
 * says: aclrtFreeHostWithDevSync waits for the tasks before it frees.
 * source: API, aclrtFreeHostWithDevSync
 */
#include "../conformance.h"

RULE(host_free_with_sync_waits)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *h = pinned(64), *d = device(64);

	memset(h, 7, 64);
	hold(&g, s);
	OK(aclrtMemcpyAsync(d, 64, h, 64, ACL_MEMCPY_HOST_TO_DEVICE, s));
	open_later(&g);
	OK(aclrtFreeHostWithDevSync(h));
	finish(s);
	CHECK(word(d) == 0x0707070707070707);
}
