/*
 * says: aclGetRecentErrMsg returns the text of the last error and clears it.
 * source: API, aclGetRecentErrMsg
 */
#include "../conformance.h"

RULE(message_is_taken)
{
	REFUSED(aclrtFree(NULL));
	CHECK(aclGetRecentErrMsg());
	CHECK(!aclGetRecentErrMsg());
}
