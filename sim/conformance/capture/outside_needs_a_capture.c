/*
 * says: External records and waits need a captured stream, an event of aclrtCreateEventExWithFlag with only ACL_EVENT_SYNC,
 *   and no timeout.
 * source: API, aclrtRecordEventWithFlag, aclrtStreamWaitEventWithFlag; Runtime, events
 */
#include "../conformance.h"

RULE(outside_needs_a_capture)
{
	aclrtStream s = new_stream();
	aclrtEvent e;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	WANT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_EXTERNAL));
	WANT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclrtStreamWaitEventWithFlag(s, e, 0, ACL_EVENT_WAIT_EXTERNAL));
	REFUSED(aclrtStreamWaitEventWithFlag(s, e, 1, ACL_EVENT_WAIT_EXTERNAL));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEventWithFlag(new_event(), s, ACL_EVENT_RECORD_EXTERNAL));
}
