/*
 * says: A 2-D copy inside the host is refused.
 * source: API, aclrtMemcpy2dAsync
 */
#include "../conformance.h"

RULE(rows_inside_the_host)
{
	char *a = pinned(64), *b = pinned(64);

	WANT(ACL_ERROR_INVALID_PARAM, aclrtMemcpy2dAsync(b, 16, a, 16, 16, 4, ACL_MEMCPY_HOST_TO_HOST, new_stream()));
}
