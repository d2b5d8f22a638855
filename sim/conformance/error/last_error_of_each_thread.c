/*
 * says: Each thread has its own last error.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

static void *no_error_here(void *unused)
{
	OK(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	return unused;
}

RULE(last_error_of_each_thread)
{
	REFUSED(aclrtFree(NULL));
	elsewhere(no_error_here, NULL);
}
