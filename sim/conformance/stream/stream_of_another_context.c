/*
 * says: A stream can be destroyed only in its own context.
 * source: API, aclrtDestroyStream; Errors, ACL_ERROR_RT_STREAM_CONTEXT
 */
#include "../conformance.h"

RULE(stream_of_another_context)
{
	aclrtStream s = new_stream();
	aclrtContext c;

	OK(aclrtCreateContext(&c, 0));
	WANT(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(s));
}
