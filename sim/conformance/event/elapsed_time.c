/*
 * says: aclrtEventElapsedTime tells the device time between two records, in milliseconds.
 * source: API, aclrtEventElapsedTime
 */
#include "../conformance.h"

RULE(elapsed_time)
{
	aclrtStream s = new_stream();
	aclrtEvent a = new_event(), b = new_event();
	uint64_t ms = 30;
	float t = 0;

	OK(aclrtRecordEvent(a, s));
	OK(aclrtLaunchKernelWithHostArgs(kernel("last"), 1, s, NULL, &ms, sizeof ms, NULL, 0));
	OK(aclrtRecordEvent(b, s));
	finish(s);
	OK(aclrtEventElapsedTime(&t, a, b));
	CHECK(t >= 30 && t < 5000);
}
