/*
 * says: aclmdlRICaptureToModelRIBegin accepts only a part.
 * source: Runtime, captures
 */
#include "../conformance.h"

RULE(captured_into_parts)
{
	aclrtStream s = new_stream(), other = new_stream();
	void *p = device(8);
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	store(s, p, 1);
	OK(aclmdlRICaptureEnd(s, &g));
	INVALID(aclmdlRICaptureToModelRIBegin(other, g, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
}
