/*
 * says: A thread processes the callbacks of one device.
 * source: API, aclrtSubscribeReport
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(one_device_a_thread)
{
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), new_stream()));
	OK(aclrtSetDevice(1));
	WANT(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtSubscribeReport((uint64_t)pthread_self(), new_stream()));
}
