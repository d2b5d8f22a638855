/*
 * says: A copy of memory onto itself succeeds without effect.
 * source: Runtime, memory copies
 */
#include "../conformance.h"

RULE(onto_itself)
{
	void *d = device(8);
	aclrtStream s = new_stream();

	set_word(d, 3);
	OK(aclrtMemcpyAsync(d, 8, d, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	finish(s);
	CHECK(word(d) == 3);
}
