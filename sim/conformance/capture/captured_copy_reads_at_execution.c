/*
 * says: A captured copy reads pinned memory in each execution.
 * source: API, aclmdlRICaptureBegin; aclrtMemcpyAsync
 */
#include "../conformance.h"

RULE(captured_copy_reads_at_execution)
{
	aclrtStream s = new_stream();
	uint64_t *h = pinned(8);
	void *p = device(8);
	aclmdlRI g;

	*h = 1;
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtMemcpyAsync(p, 8, h, 8, ACL_MEMCPY_HOST_TO_DEVICE, s));
	OK(aclmdlRICaptureEnd(s, &g));
	for (uint64_t i = 5; i < 7; i++) {
		*h = i;
		OK(aclmdlRIExecuteAsync(g, s));
		finish(s);
		CHECK(word(p) == i);
	}
}
