/*
 * says: Each execution of a graph makes its external records visible to streams outside.
 * source: API, aclrtRecordEventWithFlag
 */
#include "../conformance.h"

RULE(stream_waits_for_graph)
{
	aclrtStream s = new_stream(), other = new_stream();
	char *from = device(64), *to = device(64);
	aclrtEvent e;
	aclmdlRI g;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	OK(aclrtMemsetAsync(from, 64, 1, 64, s));
	OK(aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_EXTERNAL));
	OK(aclmdlRICaptureEnd(s, &g));
	for (int i = 1; i < 3; i++) {
		struct gate gate = {0};

		OK(aclrtMemset(from, 64, 0, 64));
		OK(aclrtMemset(to, 64, 0, 64));
		hold(&gate, s);
		OK(aclmdlRIExecuteAsync(g, s));
		CHECK(!event_done(e));
		OK(aclrtStreamWaitEvent(other, e));
		OK(aclrtMemcpyAsync(to, 64, from, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, other));
		open_later(&gate);
		finish(other);
		CHECK(word(to) == 0x0101010101010101);
	}
}
