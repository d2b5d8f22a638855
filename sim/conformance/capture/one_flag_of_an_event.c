/*
 * says: All records of an event are external, or none is. The same applies to its waits.
 * source: API, aclrtRecordEventWithFlag, aclrtStreamWaitEventWithFlag
 */
#include "../conformance.h"

RULE(one_flag_of_an_event)
{
	aclrtStream s = new_stream();
	aclrtEvent e;

	OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
	OK(aclrtRecordEvent(e, s));
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	INVALID(aclrtRecordEventWithFlag(e, s, ACL_EVENT_RECORD_EXTERNAL));
	OK(aclrtStreamWaitEventWithFlag(s, e, 0, ACL_EVENT_WAIT_EXTERNAL));
	INVALID(aclrtStreamWaitEvent(s, e));
}
