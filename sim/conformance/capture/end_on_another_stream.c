/*
 * says: A capture ends on the stream on which it began.
 * source: API, aclmdlRICaptureBegin; Errors, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED
 */
#include "../conformance.h"

RULE(end_on_another_stream)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();
	aclmdlRI g;

	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	WANT(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, aclmdlRICaptureEnd(b, &g));
}
