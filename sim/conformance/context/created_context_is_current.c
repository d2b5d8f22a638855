/*
 * says: aclrtCreateContext makes the new context current.
 * source: API, aclrtCreateContext
 */
#include "../conformance.h"

RULE(created_context_is_current)
{
	aclrtContext made, now;

	OK(aclrtCreateContext(&made, 0));
	OK(aclrtGetCurrentContext(&now));
	CHECK(made == now);
}
