/*
 * says: A thread can use a context of another thread.
 * source: API, aclrtCreateContext
 */
#include "../conformance.h"

static void *use_context(void *context)
{
	OK(aclrtSetCurrentContext(context));
	CHECK(device(32));
	return NULL;
}

RULE(context_of_another_thread)
{
	aclrtContext c;

	OK(aclrtCreateContext(&c, 0));
	elsewhere(use_context, c);
}
