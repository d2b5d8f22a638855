/*
 * says: A function of the runtime that is called before aclInit fails.
 * source: API, aclInit; Errors, ACL_ERROR_UNINITIALIZE
 */
#include "../conformance.h"

RULE_BARE(init_first)
{
	WANT(ACL_ERROR_UNINITIALIZE, aclrtSetDevice(0));
}
