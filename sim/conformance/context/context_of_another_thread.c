/*
 * says: A context that one thread made can be used by another.
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
