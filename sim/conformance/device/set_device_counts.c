/*
 * says: aclrtSetDevice counts. A device stays open until it is reset as often as it was set.
 * source: API, aclrtResetDevice
 */
#include "../conformance.h"

RULE(set_device_counts)
{
	OK(aclrtSetDevice(0));
	OK(aclrtResetDevice(0));
	CHECK(device(32));
}
