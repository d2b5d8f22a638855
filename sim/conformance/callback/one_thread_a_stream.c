/*
 * says: A stream has one thread for its callbacks; a thread may have several streams.
 * source: API, aclrtSubscribeReport
 */
#include "../conformance.h"

RULE(one_thread_a_stream)
{
	aclrtStream a = new_stream(), b = new_stream();

	OK(aclrtSubscribeReport((uint64_t)pthread_self(), a));
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), b));
	WANT(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(12345, a));
}
