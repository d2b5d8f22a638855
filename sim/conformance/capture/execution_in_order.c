/*
 * says: An execution runs in stream order.
 * source: API, aclmdlRIExecuteAsync
 */
#include "../conformance.h"

RULE(execution_in_order)
{
	static struct gate before, inside;
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	hold(&inside, s);
	store(s, p, 2);
	OK(aclmdlRICaptureEnd(s, &g));
	hold(&before, s);
	store(s, p, 1);
	OK(aclmdlRIExecuteAsync(g, s));
	store(s, p, 3);
	pause_ms(20);
	CHECK(word(p) == 0);
	open_gate(&before);
	at_gate(&inside);
	pause_ms(20); /* enough for tasks that do not wait for the execution */
	CHECK(word(p) == 1);
	open_gate(&inside);
	finish(s);
	CHECK(word(p) == 3);
}
