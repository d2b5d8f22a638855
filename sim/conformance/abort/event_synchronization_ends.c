/*
 * says: A synchronization with an event after aborted work ends with ACL_ERROR_RT_STREAM_ABORT.
 * source: API, aclrtStreamAbort
 */
#include "../conformance.h"

RULE(event_synchronization_ends)
{
	static struct gate g;
	aclrtStream s = new_stream();
	aclrtEvent e = new_event();

	hold(&g, s);
	OK(aclrtRecordEvent(e, s));
	at_gate(&g);
	open_later(&g);
	OK(aclrtStreamAbort(s));
	WANT(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeEvent(e));
}
