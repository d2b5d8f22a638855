/*
 * says: A task of type WHILE repeats its part until the condition is 0.
 * source: API, aclmdlRICondTaskParams
 */
#include "../conformance.h"

static int runs;

static void count_down(void *left)
{
	runs++;
	--*(uint64_t *)left;
}

RULE(while_repeats)
{
	aclrtStream s = new_stream(), body = new_stream();
	uint64_t *left = pinned(8), *condition;
	aclmdlRICondHandle c;
	aclmdlRI g, part;

	condition = begin_with_condition(s, 0, 0, &c);
	OK(ask(s, c, ACL_MODEL_RI_COND_TYPE_WHILE, 1, &part));
	OK(aclmdlRICaptureToModelRIBegin(body, part, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
	OK(aclrtLaunchHostFunc(body, count_down, left));
	OK(aclrtMemcpyAsync(condition, 8, left, 8, ACL_MEMCPY_HOST_TO_DEVICE, body));
	OK(aclmdlRICaptureEnd(body, &part));
	OK(aclmdlRICaptureEnd(s, &g));
	run_model(g, s);
	CHECK(runs == 0);
	*left = 3;
	set_word(condition, 3);
	run_model(g, s);
	CHECK(runs == 3 && word(condition) == 0);
}
