/*
 * says: A stream waits for a blocking callback.
 * source: API, aclrtLaunchCallback
 */
#include "../conformance.h"

static void callback_nothing(void *unused)
{
	(void)unused;
}

RULE(callback_blocks)
{
	aclrtStream s = new_stream();
	void *p = device(8);

	OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
	OK(aclrtLaunchCallback(callback_nothing, NULL, ACL_CALLBACK_BLOCK, s));
	store(s, p, 1);
	pause_ms(50);
	CHECK(!stream_done(s) && word(p) == 0);
	OK(aclrtProcessReport(patience));
	finish(s);
}
