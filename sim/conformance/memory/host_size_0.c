/*
 * says: An allocation of 0 bytes of host memory is refused.
 * source: Runtime, argument checks; API, aclrtMallocHost
 */
#include "../conformance.h"

RULE(host_size_0)
{
	void *p;

	REFUSED(aclrtMallocHost(&p, 0));
}
