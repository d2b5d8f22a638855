/*
 * says: Devices are numbered from 0 to the count minus 1.
 * source: API, aclrtSetDevice
 * env: ACLSIM_DEVICES=3
 */
#include "../conformance.h"

RULE(device_count)
{
	uint32_t n;

	OK(aclrtGetDeviceCount(&n));
	CHECK(n == 3);
	for (uint32_t i = 0; i < n; i++)
		OK(aclrtSetDevice((int32_t)i));
}
