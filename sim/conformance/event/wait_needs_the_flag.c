/*
 * says: A stream can't wait for an event that was made without ACL_EVENT_SYNC.
 * source: API, aclrtCreateEventWithFlag
 */
#include "../conformance.h"

RULE(wait_needs_the_flag)
{
	aclrtEvent e;

	OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_TIME_LINE));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamWaitEvent(new_stream(), e));
}
