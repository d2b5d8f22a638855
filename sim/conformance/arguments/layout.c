/*
 * says: The runtime returns the number, offsets and sizes of a kernel's arguments.
 * source: API, aclrtFunctionGetParamInfo
 */
#include "../conformance.h"

RULE(layout)
{
	size_t n, offset, size;

	OK(aclrtFunctionGetParamCount(kernel("store"), &n));
	CHECK(n == 2);
	OK(aclrtFunctionGetParamInfo(kernel("store"), 1, &offset, &size));
	CHECK(offset == 8 && size == 8);
	INVALID(aclrtFunctionGetParamInfo(kernel("store"), 2, &offset, &size));
}
