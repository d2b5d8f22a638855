/*
 * says: A process may initialize, finalize and initialize again.
 * source: API, aclInit
 */
#include "../conformance.h"

RULE(init_after_finalize)
{
	OK(aclFinalize());
	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	CHECK(device(32));
}
