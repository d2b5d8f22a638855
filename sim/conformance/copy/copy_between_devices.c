/*
 * says: aclrtMemcpy copies from one device to another.
 * source: API, aclrtMemcpy
 * env: ACLSIM_DEVICES=2
 */
#include "../conformance.h"

RULE(copy_between_devices)
{
	void *a = device(8), *b;

	set_word(a, 77);
	OK(aclrtSetDevice(1));
	OK(aclrtDeviceEnablePeerAccess(0, 0));
	b = device(8);
	OK(aclrtMemcpy(b, 8, a, 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
	CHECK(word(b) == 77);
}
