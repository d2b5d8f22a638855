/*
 * says: aclrtGetStreamAttribute returns the values of aclrtSetStreamAttribute.
 * source: API, aclrtSetStreamAttribute
 */
#include "../conformance.h"

RULE(attributes)
{
	aclrtStream s = new_stream();
	aclrtStreamAttrValue v = {.userCustomTag = 1234}, got = {0};

	OK(aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v));
	OK(aclrtGetStreamAttribute(s, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &got));
	CHECK(got.userCustomTag == 1234);
}
