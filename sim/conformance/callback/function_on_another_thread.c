/*
 * says: A host function runs on a runtime thread.
 * source: API, aclrtLaunchHostFunc
 */
#include "../conformance.h"

static pthread_t host_thread;

static void note_thread(void *unused)
{
	(void)unused;
	host_thread = pthread_self();
}

RULE(function_on_another_thread)
{
	aclrtStream s = new_stream();

	host_thread = pthread_self();
	OK(aclrtLaunchHostFunc(s, note_thread, NULL));
	finish(s);
	CHECK(!pthread_equal(host_thread, pthread_self()));
}
