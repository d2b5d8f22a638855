/*
 * says: Threads that set the same device share its default context.
 * source: API, aclrtSetDevice
 */
#include "../conformance.h"

static aclrtContext shared_context;

static void *set_device_too(void *unused)
{
	OK(aclrtSetDevice(0));
	OK(aclrtGetCurrentContext(&shared_context));
	return unused;
}

RULE(threads_share_default_context)
{
	aclrtContext mine;

	OK(aclrtGetCurrentContext(&mine));
	elsewhere(set_device_too, NULL);
	CHECK(mine == shared_context);
}
