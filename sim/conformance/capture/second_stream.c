/*
 * says: A stream joins a capture by a wait for a captured event, and returns in the same way.
 * source: Guide, capture across streams
 */
#include "../conformance.h"

RULE(second_stream)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent fork_event = new_event(), join_event = new_event();
	void *p = device(8);
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtRecordEvent(fork_event, a));
	OK(aclrtStreamWaitEvent(b, fork_event));
	store(b, p, 1);
	OK(aclrtRecordEvent(join_event, b));
	OK(aclrtStreamWaitEvent(a, join_event));
	store(a, p, 2);
	OK(aclmdlRICaptureEnd(a, &g));
	finish(b);
	CHECK(word(p) == 0);
	OK(aclmdlRIExecuteAsync(g, a));
	finish(a);
	CHECK(word(p) == 2);
}
