/*
 * says: aclrtFunctionGetBinary returns the binary that a kernel came from.
 * source: API, aclrtFunctionGetBinary
 */
#include "../conformance.h"

RULE(binary_of_a_kernel)
{
	aclrtBinHandle b = NULL;

	OK(aclrtFunctionGetBinary(kernel("store"), &b));
	CHECK(b == binary());
}
