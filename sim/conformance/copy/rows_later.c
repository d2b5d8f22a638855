/*
 * says: aclrtMemcpy2dAsync with pinned memory runs in stream order.
 * source: API, aclrtMemcpy2dAsync
 */
#include "../conformance.h"

RULE(rows_later)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t *h = pinned(32);
	void *d = device(32);

	hold(&g, s);
	AT_ONCE(OK(aclrtMemcpy2dAsync(d, 8, h, 16, 8, 2, ACL_MEMCPY_HOST_TO_DEVICE, s)));
	h[0] = 1;
	open_gate(&g);
	finish(s);
	CHECK(word(d) == 1);
}
