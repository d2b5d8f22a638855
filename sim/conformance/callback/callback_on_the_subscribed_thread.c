/*
 * says: A callback runs in aclrtProcessReport, on the subscribed thread.
 * source: API, aclrtLaunchCallback
 */
#include "../conformance.h"

static pthread_t callback_thread;
static atomic_int called_back;

static void note_callback(void *unused)
{
	(void)unused;
	callback_thread = pthread_self();
	atomic_store(&called_back, 1);
}

RULE(callback_on_the_subscribed_thread)
{
	aclrtStream s = new_stream();

	OK(aclrtSubscribeReport((uint64_t)pthread_self(), s));
	OK(aclrtLaunchCallback(note_callback, NULL, ACL_CALLBACK_BLOCK, s));
	pause_ms(50);
	CHECK(!atomic_load(&called_back));
	OK(aclrtProcessReport(patience));
	CHECK(atomic_load(&called_back) && pthread_equal(callback_thread, pthread_self()));
}
