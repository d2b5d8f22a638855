/*
 * says: aclrtGetFunctionName returns the name of a kernel if the buffer is large enough.
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
