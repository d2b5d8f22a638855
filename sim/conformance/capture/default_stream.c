/*
 * says: The default stream can't be captured.
 * source: Errors, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT
 */
#include "../conformance.h"

RULE(default_stream)
{
	WANT(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclmdlRICaptureBegin(NULL, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
}
