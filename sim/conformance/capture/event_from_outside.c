/*
 * says: A captured stream can't wait for an event that was recorded outside.
 * source: Errors, ACL_ERROR_RT_CAPTURE_DEPENDENCY
 */
#include "../conformance.h"

RULE(event_from_outside)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();

	OK(aclrtRecordEvent(e, b));
	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	WANT(ACL_ERROR_RT_CAPTURE_DEPENDENCY, aclrtStreamWaitEvent(a, e));
}
