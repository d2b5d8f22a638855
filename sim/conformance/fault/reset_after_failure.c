/*
 * says: A device works again after a reset.
 * source: Guide, troubleshooting
 */
#include "../conformance.h"

RULE(reset_after_failure)
{
	aclrtStream s = new_stream();
	void *p;

	OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
	store(s, (char *)device(64) + 4096, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	OK(aclrtResetDeviceForce(0));
	OK(aclrtSetDevice(0));
	s = new_stream();
	p = device(64);
	OK(aclrtMemsetAsync(p, 8, 1, 8, s));
	finish(s);
	CHECK(word(p) == 0x0101010101010101);
}
