/*
 * says: aclmdlRICaptureGetInfo reports if a stream is being captured.
 * source: API, aclmdlRICaptureGetInfo
 */
#include "../conformance.h"

RULE(capture_state)
{
	aclrtStream s = new_stream();
	aclmdlRICaptureStatus status;
	aclmdlRI g = NULL;

	OK(aclmdlRICaptureGetInfo(s, &status, &g));
	CHECK(status == ACL_MODEL_RI_CAPTURE_STATUS_NONE);
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureGetInfo(s, &status, &g));
	CHECK(status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE && g);
}
