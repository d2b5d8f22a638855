/*
 * says: The host can't query an event whose record was captured.
 * source: Errors, ACL_ERROR_RT_EVENT_CAPTURED
 */
#include "../conformance.h"

RULE(captured_event)
{
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();
	aclrtEventRecordedStatus status;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtRecordEvent(e, s));
	WANT(ACL_ERROR_RT_EVENT_CAPTURED, aclrtQueryEventStatus(e, &status));
}
