/*
 * says: aclrtSetDevice counts: the device stays as long as it was set more often than reset.
 * source: API, aclrtResetDevice
 */
#include "../conformance.h"

RULE(set_device_counts)
{
	OK(aclrtSetDevice(0));
	OK(aclrtResetDevice(0));
	CHECK(device(32));
}
