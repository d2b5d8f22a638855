/*
 * says: aclrtFunctionGetBinary returns the binary of a kernel.
 * source: API, aclrtFunctionGetBinary
 */
#include "../conformance.h"

RULE(binary_of_a_kernel)
{
	aclrtBinHandle b = NULL;

	OK(aclrtFunctionGetBinary(kernel("store"), &b));
	CHECK(b == binary());
}
