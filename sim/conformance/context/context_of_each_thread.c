/*
 * says: A new thread has no context before it sets a device or a context.
 * source: API, aclrtSetCurrentContext; Errors, ACL_ERROR_RT_CONTEXT_NULL
 */
#include "../conformance.h"

static void *without_context(void *unused)
{
	aclrtStream s;

	WANT(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&s));
	return unused;
}

RULE(context_of_each_thread)
{
	elsewhere(without_context, NULL);
}
