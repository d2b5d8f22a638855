/*
 * says: With the kind DEFAULT the addresses determine the direction.
 * source: API, aclrtMemcpyKind
 */
#include "../conformance.h"

RULE(default_kind)
{
	aclrtStream s = new_stream();
	uint64_t h = 9, back = 0;
	void *d = device(8);

	OK(aclrtMemcpyAsync(d, 8, &h, 8, ACL_MEMCPY_DEFAULT, s));
	OK(aclrtMemcpyAsync(&back, 8, d, 8, ACL_MEMCPY_DEFAULT, s));
	CHECK(back == 9);
}
