/*
 * says: aclrtGetThreadLastTaskId returns the task that this thread submitted last.
 * source: API, aclrtGetThreadLastTaskId
 */
#include "../conformance.h"

static void *submit_elsewhere(void *stream)
{
	OK(aclrtSetDevice(0));
	OK(aclrtMemsetAsync(device(8), 8, 0, 8, stream));
	return NULL;
}

RULE(last_task_id)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	uint32_t first, second, now;

	OK(aclrtMemsetAsync(p, 8, 0, 8, s));
	OK(aclrtGetThreadLastTaskId(&first));
	OK(aclrtMemsetAsync(p, 8, 0, 8, s));
	OK(aclrtGetThreadLastTaskId(&second));
	CHECK(first != second);
	elsewhere(submit_elsewhere, s);
	OK(aclrtGetThreadLastTaskId(&now));
	CHECK(now == second);
	finish(s);
}
