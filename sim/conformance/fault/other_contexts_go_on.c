/*
 * says: A failure in one context does not stop the streams of another.
 * source: API, aclrtSetStreamFailureMode
 */
#include "../conformance.h"

RULE(other_contexts_go_on)
{
	aclrtStream s = new_stream();
	aclrtContext c;
	void *p = device(64);

	OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	store(s, (char *)p + 4096, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	OK(aclrtCreateContext(&c, 0));
	s = new_stream();
	store(s, p, 2);
	finish(s);
	CHECK(word(p) == 2);
}
