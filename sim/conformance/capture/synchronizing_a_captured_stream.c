/*
 * says: A synchronization of a captured stream fails, and invalidates the capture.
 * source: Errors, ACL_ERROR_RT_STREAM_CAPTURED, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED
 */
#include "../conformance.h"

RULE(synchronizing_a_captured_stream)
{
	aclrtStream s = new_stream();
	aclmdlRI g;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	WANT(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStream(s));
	WANT(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(s, &g));
}
