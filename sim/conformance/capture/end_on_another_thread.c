/*
 * says: A capture ends on the thread on which it began, unless its mode is relaxed.
 * source: API, aclmdlRICaptureEnd; Errors, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD
 */
#include "../conformance.h"

static void *end_elsewhere(void *stream)
{
	aclmdlRI g;

	OK(aclrtSetDevice(0));
	WANT(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, aclmdlRICaptureEnd(stream, &g));
	return NULL;
}

static void *end_relaxed_elsewhere(void *stream)
{
	aclmdlRI g;

	OK(aclrtSetDevice(0));
	OK(aclmdlRICaptureEnd(stream, &g));
	return NULL;
}

RULE(end_on_another_thread)
{
	aclrtStream a = new_stream(), b = new_stream();

	OK(aclmdlRICaptureBegin(b, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	elsewhere(end_relaxed_elsewhere, b);
	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	elsewhere(end_elsewhere, a);
}
