/*
 * says: The kernels of a binary end when it is unloaded.
 * source: API, aclrtBinaryUnLoad; Errors, ACL_ERROR_RT_INVALID_HANDLE
 */
#include "../conformance.h"

RULE(unloaded_kernel)
{
	struct store_args a = {device(8), 1};
	aclrtFuncHandle f = kernel("store");

	OK(aclrtBinaryUnLoad(binary()));
	WANT(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchKernelWithHostArgs(f, 1, new_stream(), NULL, &a, sizeof a, NULL, 0));
}
