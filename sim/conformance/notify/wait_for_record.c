/*
 * says: A stream that waits for a notify continues when another stream records it.
 * source: API, aclrtRecordNotify
 */
#include "../conformance.h"

RULE(wait_for_record)
{
	static struct gate g;
	aclrtStream a = new_stream(), b = new_stream();
	aclrtNotify n;

	OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
	hold(&g, a);
	OK(aclrtRecordNotify(n, a));
	OK(aclrtWaitAndResetNotify(n, b, 0));
	pause_ms(20);
	CHECK(!stream_done(b));
	open_gate(&g);
	finish(b);
}
