/*
 * says: aclrtSetDevice makes a default context with a default stream, and makes it current.
 * source: API, aclrtSetDevice
 */
#include "../conformance.h"

RULE(set_device_makes_context)
{
	aclrtContext c = NULL;
	aclrtStream s = NULL;

	OK(aclrtGetCurrentContext(&c));
	OK(aclrtCtxGetCurrentDefaultStream(&s));
	CHECK(c && s);
}
