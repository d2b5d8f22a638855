/*
 * says: A host function runs in aclrtProcessHostFunc, on the subscribed thread.
 * source: API, aclrtSubscribeHostFunc
 */
#include "../conformance.h"

static pthread_t function_thread;
static atomic_int function_ran;

static void note_function(void *unused)
{
	(void)unused;
	function_thread = pthread_self();
	atomic_store(&function_ran, 1);
}

RULE(function_on_the_subscribed_thread)
{
	aclrtStream s = new_stream();

	OK(aclrtSubscribeHostFunc((uint64_t)pthread_self(), s));
	OK(aclrtLaunchHostFunc(s, note_function, NULL));
	pause_ms(50);
	CHECK(!atomic_load(&function_ran));
	OK(aclrtProcessHostFunc(patience));
	CHECK(atomic_load(&function_ran) && pthread_equal(function_thread, pthread_self()));
	OK(aclrtUnSubscribeHostFunc((uint64_t)pthread_self(), s));
}
