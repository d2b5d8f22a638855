/*
 * says: aclrtMemsetD32Async fills host memory at once, not on the stream.
 * source: API, aclrtMemsetD32Async
 */
#include "../conformance.h"

RULE(words_on_the_host_at_once)
{
	static struct gate g;
	aclrtStream s = new_stream();
	uint32_t *h = pinned(32);

	hold(&g, s);
	OK(aclrtMemsetD32Async(h, 32, 7, 8, s));
	CHECK(h[7] == 7);
	open_gate(&g);
}
