/*
 * says: A callback needs a thread that is subscribed to the stream.
 * source: Errors, ACL_ERROR_RT_STREAM_NO_CB_REG
 */
#include "../conformance.h"

static void callback_never(void *unused)
{
	(void)unused;
}

RULE(callback_without_thread)
{
	WANT(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(callback_never, NULL, ACL_CALLBACK_BLOCK, new_stream()));
}
