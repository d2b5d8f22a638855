/*
 * says: In thread-local mode the capturing thread may call no unsafe function, and others may.
 * source: API, aclmdlRICaptureThreadExchangeMode
 */
#include "../conformance.h"

static void *allowed_copy(void *p)
{
	OK(aclrtSetDevice(0));
	set_word(p, 1);
	return NULL;
}

RULE(thread_local_mode)
{
	void *p = device(8);
	uint64_t h = 0;

	OK(aclmdlRICaptureBegin(new_stream(), ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	elsewhere(allowed_copy, p);
	WANT(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, aclrtMemcpy(p, 8, &h, 8, ACL_MEMCPY_HOST_TO_DEVICE));
}
