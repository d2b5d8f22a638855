/*
 * says: Registered host memory is pinned: an asynchronous copy with it returns before it is done.
 * source: API, aclrtHostRegisterV2
 */
#include "../conformance.h"

RULE(registered_copy_does_not_wait)
{
	static struct gate g;
	aclrtStream s = new_stream();
	char *h = aligned_alloc(4096, 4096);

	OK(aclrtHostRegisterV2(h, 4096, ACL_HOST_REG_PINNED | ACL_HOST_REG_MAPPED));
	hold(&g, s);
	AT_ONCE(OK(aclrtMemcpyAsync(device(64), 64, h, 64, ACL_MEMCPY_HOST_TO_DEVICE, s)));
	CHECK(!stream_done(s));
	open_gate(&g);
	finish(s);
}
