/*
 * says: aclrtEventGetTimestamp returns the time of an event's completion, in microseconds.
 * source: API, aclrtEventGetTimestamp
 */
#include "../conformance.h"

RULE(timestamp)
{
	aclrtStream s = new_stream();
	aclrtEvent a = new_event(), b = new_event();
	uint64_t ms = 20, ta, tb;

	OK(aclrtRecordEvent(a, s));
	OK(aclrtLaunchKernelWithHostArgs(kernel("last"), 1, s, NULL, &ms, sizeof ms, NULL, 0));
	OK(aclrtRecordEvent(b, s));
	finish(s);
	OK(aclrtEventGetTimestamp(a, &ta));
	OK(aclrtEventGetTimestamp(b, &tb));
	CHECK(tb - ta >= 20000 && tb - ta < 5000000);
}
