/*
 * says: aclrtMemcpy copies between host and device and returns after the copy.
 * source: API, aclrtMemcpy
 */
#include "../conformance.h"

RULE(copy_there_and_back)
{
	char from[100], to[100] = "";
	void *d = device(100);

	for (int i = 0; i < 100; i++)
		from[i] = (char)(i + 1);
	OK(aclrtMemcpy(d, 100, from, 100, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtMemcpy(to, 100, d, 100, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(!memcmp(from, to, 100));
}
