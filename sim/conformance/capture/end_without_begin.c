/*
 * says: Only a captured stream can end its capture.
 * source: Errors, ACL_ERROR_RT_STREAM_NOT_CAPTURED
 */
#include "../conformance.h"

RULE(end_without_begin)
{
	aclmdlRI g;

	WANT(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureEnd(new_stream(), &g));
}
