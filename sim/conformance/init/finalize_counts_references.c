/*
 * says: aclFinalizeReference drops one reference and returns the number left. The last one ends the runtime.
 * source: API, aclFinalizeReference
 */
#include "../conformance.h"

RULE(finalize_counts_references)
{
	uint64_t n = 9;

	WANT(ACL_ERROR_REPEAT_INITIALIZE, aclInit(NULL));
	OK(aclFinalizeReference(&n));
	CHECK(n == 1);
	OK(aclrtSetDevice(0));
	OK(aclFinalizeReference(&n));
	CHECK(n == 0);
}
