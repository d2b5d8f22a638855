/*
 * says: In global mode no thread may call an unsafe function, such as aclrtMemcpy.
 * source: API, aclmdlRICaptureThreadExchangeMode
 */
#include "../conformance.h"

static void *refused_copy(void *p)
{
	uint64_t h = 0;

	OK(aclrtSetDevice(0));
	WANT(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, aclrtMemcpy(p, 8, &h, 8, ACL_MEMCPY_HOST_TO_DEVICE));
	return NULL;
}

RULE(global_mode)
{
	void *p = device(8);

	OK(aclmdlRICaptureBegin(new_stream(), ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	elsewhere(refused_copy, p);
}
