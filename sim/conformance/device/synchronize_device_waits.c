/*
 * says: aclrtSynchronizeDevice returns when all work of the context's streams is done.
 * source: API, aclrtSynchronizeDevice
 */
#include "../conformance.h"

RULE(synchronize_device_waits)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);

	hold(&g, s);
	store(s, p, 5);
	open_later(&g);
	OK(aclrtSynchronizeDevice());
	CHECK(stream_done(s) && word(p) == 5);
}
