/*
 * says: After a failed task, a stream runs the next task and accepts new ones.
 * source: API, aclrtSetStreamFailureMode
 */
#include "../conformance.h"

RULE(continue_on_failure)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(64);

	hold(&g, s);
	store(s, (char *)p + 4096, 1);
	store(s, p, 2);
	open_gate(&g);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	CHECK(word(p) == 2);
	store(s, p, 3);
	finish(s);
	CHECK(word(p) == 3);
}
