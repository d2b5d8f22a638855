/*
 * says: One aclFinalize ends all calls of aclInit.
 * source: API, aclInit
 */
#include "../conformance.h"

RULE(finalize_drops_all_references)
{
	WANT(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
	OK(aclFinalize());
	OK(aclInit(NULL)); /* the first one again */
	OK(aclFinalize());
}
