/*
 * says: Each aclrtProcessReport runs one callback, in order.
 * source: API, aclrtLaunchCallback
 */
#include "../conformance.h"

static int callback_order[2], callback_count;

static void note_order(void *arg)
{
	callback_order[callback_count++] = (int)(uintptr_t)arg;
}

RULE(one_callback_a_call)
{
	aclrtStream s = new_stream();

	OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
	OK(aclrtLaunchCallback(note_order, (void *)1, ACL_CALLBACK_NO_BLOCK, s));
	OK(aclrtLaunchCallback(note_order, (void *)2, ACL_CALLBACK_NO_BLOCK, s));
	finish(s);
	OK(aclrtProcessReport(patience));
	CHECK(callback_count == 1 && callback_order[0] == 1);
	OK(aclrtProcessReport(patience));
	CHECK(callback_count == 2 && callback_order[1] == 2);
}
