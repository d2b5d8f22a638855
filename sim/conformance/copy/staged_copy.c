/*
 * says: HOST_TO_BUF_TO_DEVICE copies the host bytes at the call. The program may then reuse the buffer.
 * source: API, aclrtMemcpyKind
 */
#include "../conformance.h"

RULE(staged_copy)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint64_t h = 1;
	void *d = device(8);

	hold(&g, s);
	AT_ONCE(OK(aclrtMemcpyAsync(d, 8, &h, 8, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, s)));
	h = 2;
	open_gate(&g);
	finish(s);
	CHECK(word(d) == 1);
}
