/*
 * says: aclrtMemcpy2dAsync copies rows inside a device.
 * source: API, aclrtMemcpy2dAsync (A2 series)
 */
#include "../conformance.h"

RULE(rows_inside_the_device)
{
	aclrtStream s = new_stream();
	uint64_t *a = device(32), *b = device(64);

	set_word(a, 1);
	set_word(a + 2, 2);
	OK(aclrtMemcpy2dAsync(b, 8, a, 16, 8, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	finish(s);
	CHECK(word(b) == 1 && word(b + 1) == 2);
}
