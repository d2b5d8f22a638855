/*
 * says: A capture can't wait for an event of another capture.
 * source: Errors, ACL_ERROR_STREAM_CAPTURE_CONFLICT
 */
#include "../conformance.h"

RULE(two_captures)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();

	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureBegin(b, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtRecordEvent(e, b));
	WANT(ACL_ERROR_STREAM_CAPTURE_CONFLICT, aclrtStreamWaitEvent(a, e));
}
