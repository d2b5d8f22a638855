/*
 * says: An execution takes its place among the tasks of the stream.
 * source: API, aclmdlRIExecuteAsync
 */
#include "../conformance.h"

RULE(execution_in_order)
{
	static struct gate gate;
	aclrtStream s = new_stream();
	void *p = device(8);
	aclmdlRI g;

	kernel("store");
	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	store(s, p, 2);
	OK(aclmdlRICaptureEnd(s, &g));
	hold(&gate, s);
	store(s, p, 1);
	OK(aclmdlRIExecuteAsync(g, s));
	CHECK(word(p) == 0);
	open_gate(&gate);
	finish(s);
	CHECK(word(p) == 2);
	store(s, p, 3);
	finish(s);
	CHECK(word(p) == 3);
}
