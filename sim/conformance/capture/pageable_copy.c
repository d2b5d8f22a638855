/*
 * says: An asynchronous copy with pageable memory is unsafe during a capture, because it blocks.
 * source: API, aclmdlRICaptureBegin; Errors, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC
 */
#include "../conformance.h"

RULE(pageable_copy)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	uint64_t h = 1;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	WANT(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, aclrtMemcpyAsync(p, 8, &h, 8, ACL_MEMCPY_HOST_TO_DEVICE, s));
}
