/*
 * says: aclrtQueryEventWaitStatus refuses an event of aclrtCreateEventExWithFlag.
 * source: API, aclrtQueryEventWaitStatus
 */
#include "../conformance.h"

RULE(ex_event_has_no_wait_status)
{
	aclrtEventWaitStatus status;

	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEventWaitStatus(new_event(), &status));
}
