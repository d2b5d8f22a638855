/*
 * says: The current device of a thread is that of its current context.
 * source: API, aclrtSetCurrentContext
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(current_device_follows_context)
{
	aclrtContext first;
	int32_t d = -1;

	OK(aclrtGetCurrentContext(&first));
	OK(aclrtSetDevice(1));
	OK(aclrtGetDevice(&d));
	CHECK(d == 1);
	OK(aclrtSetCurrentContext(first));
	OK(aclrtGetDevice(&d));
	CHECK(d == 0);
}
