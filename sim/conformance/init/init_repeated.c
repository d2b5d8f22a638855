/*
 * says: A second aclInit returns ACL_ERROR_REPEAT_INITIALIZE, which the program may ignore.
 * source: API, aclInit
 */
#include "../conformance.h"

RULE(init_repeated)
{
	WANT(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
	CHECK(device(32));
}
