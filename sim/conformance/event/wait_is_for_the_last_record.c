/*
 * says: A wait ends at the last record before the call. Later records don't change it.
 * source: API, aclrtRecordEvent
 */
#include "../conformance.h"

RULE(wait_is_for_the_last_record)
{
	static struct gate first, second;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtEvent e = new_event();

	hold(&first, a);
	OK(aclrtRecordEvent(e, a));
	OK(aclrtStreamWaitEvent(b, e));
	hold(&second, a);
	OK(aclrtRecordEvent(e, a));
	open_gate(&first);
	finish(b);
	open_gate(&second);
}
