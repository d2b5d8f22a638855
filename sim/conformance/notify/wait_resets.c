/*
 * says: A wait clears the notify. The next wait ends at the next record.
 * source: API, aclrtWaitAndResetNotify
 */
#include "../conformance.h"

RULE(wait_resets)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtNotify n;

	OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
	OK(aclrtRecordNotify(n, a));
	OK(aclrtWaitAndResetNotify(n, b, 0));
	finish(b);
	OK(aclrtWaitAndResetNotify(n, b, 0));
	pause_ms(50);
	CHECK(!stream_done(b));
	OK(aclrtRecordNotify(n, a));
	finish(b);
}
