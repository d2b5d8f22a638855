/*
 * says: A kernel can be launched only on the device on which it was loaded.
 * source: API, aclrtBinaryLoadFromData
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(kernel_of_the_device)
{
	aclrtFuncHandle f = kernel("store");
	struct store_args a;

	OK(aclrtSetDevice(1));
	a.to = device(8);
	a.value = 1;
	INVALID(aclrtLaunchKernelWithHostArgs(f, 1, new_stream(), NULL, &a, sizeof a, NULL, 0));
}
