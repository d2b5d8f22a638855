/*
 * says: A size of 0 is refused for host memory, too.
 * source: API, aclrtMallocHost
 */
#include "../conformance.h"

RULE(host_size_0)
{
	void *p;

	INVALID(aclrtMallocHost(&p, 0));
}
