/*
 * says: A stream that is captured can't be captured again.
 * source: Errors, ACL_ERROR_RT_STREAM_CAPTURED
 */
#include "../conformance.h"

RULE(captured_twice)
{
	aclrtStream s = new_stream();

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	WANT(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
}
