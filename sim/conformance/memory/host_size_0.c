/*
 * says: A size of 0 is refused for host memory, too.
 * source: Runtime, argument checks; API, aclrtMallocHost
 */
#include "../conformance.h"

RULE(host_size_0)
{
	void *p;

	REFUSED(aclrtMallocHost(&p, 0));
}
