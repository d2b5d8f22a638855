/*
 * says: A kernel can access the memory of another device after aclrtDeviceEnablePeerAccess.
 * source: API, aclrtDeviceEnablePeerAccess
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(peer_access_first)
{
	void *p = device(8);
	int32_t can = 0;
	aclrtStream s;

	OK(aclrtSetDevice(1));
	s = new_stream();
	OK(aclrtDeviceCanAccessPeer(&can, 1, 0));
	CHECK(can == 1);
	store(s, p, 1);
	WANT(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(s));
	OK(aclrtDestroyStream(s));
	s = new_stream();
	OK(aclrtDeviceEnablePeerAccess(0, 0));
	store(s, p, 2);
	finish(s);
	CHECK(word(p) == 2);
}
