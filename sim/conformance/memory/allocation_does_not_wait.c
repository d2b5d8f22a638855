/*
 * says: aclrtMalloc waits for no stream.
 * source: API, aclrtMalloc
 */
#include "../conformance.h"

RULE(allocation_does_not_wait)
{
	static struct gate g;

	hold(&g, new_stream());
	AT_ONCE(device(32));
	open_gate(&g);
}
