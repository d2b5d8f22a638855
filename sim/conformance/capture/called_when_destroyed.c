/*
 * says: A function that is registered for the end of a graph is called once, when the graph is destroyed.
 * source: API, aclmdlRIDestroyRegisterCallback
 */
#include "../conformance.h"

static int destroyed_calls;

static void note_destroyed(void *unused)
{
	(void)unused;
	destroyed_calls++;
}

RULE(called_when_destroyed)
{
	aclrtStream s = new_stream();
	aclmdlRI g;

	OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
	OK(aclmdlRICaptureEnd(s, &g));
	OK(aclmdlRIDestroyRegisterCallback(g, note_destroyed, NULL));
	CHECK(!destroyed_calls);
	OK(aclmdlRIDestroy(g));
	CHECK(destroyed_calls == 1);
}
