/* Clears its environment before it makes its first call. */
#define _DEFAULT_SOURCE
#include <stdlib.h>

#include "acl/acl.h"
#include "check.h"

int main(void)
{
	if (clearenv())
		return 2;
	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
