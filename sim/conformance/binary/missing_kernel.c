/*
 * says: A kernel that is not in the binary is not found.
 * source: Errors, ACL_ERROR_RT_KERNEL_LOOKUP
 */
#include "../conformance.h"

RULE(missing_kernel)
{
	aclrtFuncHandle f;

	WANT(ACL_ERROR_RT_KERNEL_LOOKUP, aclrtBinaryGetFunction(binary(), "nothing", &f));
}
