/*
 * says: A stream does not wait for a callback without blocking.
 * source: API, aclrtLaunchCallback
 */
#include "../conformance.h"

static void callback_nothing_too(void *unused)
{
	(void)unused;
}

RULE(callback_does_not_block)
{
	aclrtStream s = new_stream();

	OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
	OK(aclrtLaunchCallback(callback_nothing_too, NULL, ACL_CALLBACK_NO_BLOCK, s));
	finish(s);
	OK(aclrtProcessReport(patience));
}
