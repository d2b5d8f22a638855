/*
 * says: A second aclFinalize returns ACL_ERROR_REPEAT_FINALIZE.
 * source: Errors, ACL_ERROR_REPEAT_FINALIZE
 */
#include "../conformance.h"

RULE(finalize_twice)
{
	OK(aclFinalize());
	WANT(ACL_ERROR_REPEAT_FINALIZE, aclFinalize());
}
