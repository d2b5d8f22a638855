/*
 * says: A copy of no rows, or of rows of no bytes, succeeds.
 * source: Runtime, memory copies
 */
#include "../conformance.h"

RULE(no_rows)
{
	OK(aclrtMemcpy2d(NULL, 0, NULL, 0, 0, 4, ACL_MEMCPY_HOST_TO_DEVICE));
	OK(aclrtMemcpy2d(NULL, 8, NULL, 8, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE));
}
