/*
 * says: An asynchronous copy has at most 5242880 rows of at most 5000000 bytes.
 * source: API, aclrtMemcpy2dAsync
 */
#include "../conformance.h"

RULE(too_many_rows)
{
	aclrtStream s = new_stream();
	char *h = pinned(64);

	INVALID(aclrtMemcpy2dAsync(device(64), 8, h, 8, 8, 5242881, ACL_MEMCPY_HOST_TO_DEVICE, s));
	INVALID(aclrtMemcpy2dAsync(device(64), 6000000, h, 6000000, 5000001, 1, ACL_MEMCPY_HOST_TO_DEVICE, s));
}
