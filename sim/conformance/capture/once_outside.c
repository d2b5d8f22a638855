/*
 * says: A capture can contain one external record or wait of an event.
 * source: API, aclrtRecordEventWithFlag
 */
#include "../conformance.h"

RULE(once_outside)
{
	aclrtStream s = new_stream();
	aclrtEvent e;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclrtStreamWaitEventWithFlag(s, e, 0, ACL_EVENT_WAIT_EXTERNAL));
	INVALID(aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_EXTERNAL));
}
