/*
 * says: aclrtGetFunctionName returns the name of a kernel, where it has room.
 * source: API, aclrtGetFunctionName
 */
#include "../conformance.h"

RULE(name)
{
	char name[64] = "";

	OK(aclrtGetFunctionName(kernel("store"), sizeof name, name));
	CHECK(!strcmp(name, "store"));
	INVALID(aclrtGetFunctionName(kernel("store"), 5, name));
}
