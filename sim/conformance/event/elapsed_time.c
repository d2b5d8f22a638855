/*
 * says: aclrtEventElapsedTime returns the device time between two records, in milliseconds.
 * source: API, aclrtEventElapsedTime
 */
#include "../conformance.h"

RULE(elapsed_time)
{
	aclrtStream s = new_stream();
	aclrtEvent a = new_event(), b = new_event();
	uint64_t ms = 30;
	float t = 0;
	struct timespec began, ended;

	clock_gettime(CLOCK_MONOTONIC, &began);
	OK(aclrtRecordEvent(a, s));
	OK(aclrtLaunchKernelWithHostArgs(kernel("last"), 1, s, NULL, &ms, sizeof ms, NULL, 0));
	OK(aclrtRecordEvent(b, s));
	finish(s);
	OK(aclrtEventElapsedTime(&t, a, b));
	clock_gettime(CLOCK_MONOTONIC, &ended);
	CHECK(t >= 30 && t <= (double)(ended.tv_sec - began.tv_sec) * 1e3 + (double)(ended.tv_nsec - began.tv_nsec) / 1e6 + 1);
}
