/*
 * says: Each thread has its own error text.
 * source: API, aclGetRecentErrMsg
 */
#include "../conformance.h"

static void *no_message_here(void *unused)
{
	CHECK(!aclGetRecentErrMsg());
	return unused;
}

RULE(message_of_each_thread)
{
	REFUSED(aclrtFree(NULL));
	elsewhere(no_message_here, NULL);
}
