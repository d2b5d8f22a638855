/*
 * says: A configuration that does not exist is refused.
 * source: Errors, ACL_ERROR_INVALID_FILE
 */
#include "../conformance.h"

RULE_BARE(init_missing_configuration)
{
	WANT(ACL_ERROR_INVALID_FILE, aclInit("/nonexistent/acl.json"));
}
