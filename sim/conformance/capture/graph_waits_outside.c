/*
 * says: Each execution of a graph waits for the last record outside, if it has an external wait.
 * source: API, aclrtStreamWaitEventWithFlag
 */
#include "../conformance.h"

RULE(graph_waits_outside)
{
	aclrtStream s = new_stream(), other = new_stream();
	char *from = device(64), *to = device(64);
	aclrtEvent e;
	aclmdlRI g;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclrtStreamWaitEventWithFlag(s, e, 0, ACL_EVENT_WAIT_EXTERNAL));
	OK(aclrtMemcpyAsync(to, 64, from, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	OK(aclmdlRICaptureEnd(s, &g));
	for (int i = 1; i < 3; i++) {
		struct gate gate = {0};

		hold(&gate, other);
		OK(aclrtMemsetAsync(from, 64, i, 64, other));
		OK(aclrtRecordEvent(e, other));
		OK(aclmdlRIExecuteAsync(g, s));
		open_later(&gate);
		finish(s);
		CHECK(word(to) == 0x0101010101010101 * (uint64_t)i);
	}
}
