/*
 * says: A capture can record only events of aclrtCreateEventExWithFlag.
 * source: Guide, capture across streams; Runtime, events
 */
#include "../conformance.h"

RULE(events_of_a_capture)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	aclrtEvent plain, flagged;
	aclmdlRI g;

	kernel("store");
	OK(aclrtCreateEvent(&plain));
	OK(aclrtCreateEventWithFlag(&flagged, ACL_EVENT_SYNC));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	store(s, p, 3);
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(plain, s));
	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(flagged, s));
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRIExecuteAsync(g, s));
	finish(s);
	CHECK(word(p) == 3);
}
