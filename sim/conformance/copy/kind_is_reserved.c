/*
 * says: aclrtMemcpy uses the location of the memory and ignores the kind.
 * source: API, aclrtMemcpy
 */
#include "../conformance.h"

RULE(kind_is_reserved)
{
	uint64_t from = 5;
	void *d = device(8);

	OK(aclrtMemcpy(d, 8, &from, 8, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(word(d) == 5);
}
