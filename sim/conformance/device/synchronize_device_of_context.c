/*
 * says: aclrtSynchronizeDevice waits only for the streams of the current context.
 * source: Guide, stream management (aclrtSynchronizeDevice)
 */
#include "../conformance.h"

RULE(synchronize_device_of_context)
{
	static struct gate g;
	aclrtContext c;

	hold(&g, new_stream());
	OK(aclrtCreateContext(&c, 0));
	AT_ONCE(OK(aclrtSynchronizeDevice()));
	open_gate(&g);
}
