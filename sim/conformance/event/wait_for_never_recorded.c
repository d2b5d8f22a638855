/*
 * says: A stream does not wait for an event that was never recorded.
 * source: Simulator
 */
#include "../conformance.h"

RULE(wait_for_never_recorded)
{
	aclrtStream s = new_stream();

	OK(aclrtStreamWaitEvent(s, new_event()));
	finish(s);
}
