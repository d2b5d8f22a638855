/*
 * says: A capture can end only after all joined streams have returned to its origin.
 * source: Errors, ACL_ERROR_RT_STREAM_UNJOINED
 */
#include "../conformance.h"

RULE(stream_that_does_not_come_back)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();
	void *p = device(8);
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	store(b, p, 1);
	WANT(ACL_ERROR_RT_STREAM_UNJOINED, aclmdlRICaptureEnd(a, &g));
}
