/*
 * says: The context of aclrtSetDevice can't be destroyed by aclrtDestroyContext.
 * source: API, aclrtSetCurrentContext
 */
#include "../conformance.h"

RULE(default_context_stays)
{
	aclrtContext c;

	OK(aclrtGetCurrentContext(&c));
	INVALID(aclrtDestroyContext(c));
}
