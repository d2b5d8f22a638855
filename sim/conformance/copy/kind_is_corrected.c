/*
 * says: The locations of device and pinned memory determine an asynchronous copy, not its kind.
 * source: Runtime, memory copies
 */
#include "../conformance.h"

RULE(kind_is_corrected)
{
	aclrtStream s = new_stream();
	uint64_t *h = pinned(8);
	void *d = device(8);

	*h = 8;
	OK(aclrtMemcpyAsync(d, 8, h, 8, ACL_MEMCPY_DEVICE_TO_HOST, s));
	finish(s);
	CHECK(word(d) == 8);
	*h = 0;
	OK(aclrtMemcpyAsync(h, 8, d, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	finish(s);
	CHECK(*h == 8);
}
