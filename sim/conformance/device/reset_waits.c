/*
 * says: aclrtResetDevice waits for the work of the default context.
 * source: API, aclrtResetDevice
 */
#include "../conformance.h"

static struct gate g;
static atomic_int ran;

static void note_run(void *unused)
{
	(void)unused;
	atomic_store(&ran, 1);
}

RULE(reset_waits)
{
	aclrtStream s = new_stream();

	hold(&g, s);
	OK(aclrtLaunchHostFunc(s, note_run, NULL));
	at_gate(&g);
	open_later(&g);
	OK(aclrtResetDevice(0));
	CHECK(atomic_load(&ran));
}
