/*
 * says: Arguments in device memory must be on the device of the launch.
 * source: API, aclrtLaunchKernel
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(arguments_of_the_stream_s_device)
{
	void *a;

	OK(aclrtSetDevice(1));
	a = device(16);
	OK(aclrtSetDevice(0));
	INVALID(aclrtLaunchKernel(kernel("store"), 1, a, 16, new_stream()));
}
