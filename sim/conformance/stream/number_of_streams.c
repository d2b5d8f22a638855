/*
 * says: A device has 1984 streams, including the default streams.
 * source: API, aclrtCreateStream (A2 series)
 */
#include "../conformance.h"

RULE(number_of_streams)
{
	aclrtStream s;
	uint32_t left, n = 0;
	aclError e;

	OK(aclrtGetStreamAvailableNum(&left));
	while ((e = aclrtCreateStream(&s)) == ACL_SUCCESS && n < 3000)
		n++;
	CHECK(n == 1983 && left == 1983);
	CHECK(e == ACL_ERROR_RT_NO_STREAM_RESOURCE);
}
