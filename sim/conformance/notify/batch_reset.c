/*
 * says: aclrtNotifyBatchReset clears notifies.
 * source: API, aclrtNotifyBatchReset
 */
#include "../conformance.h"

RULE(batch_reset)
{
	aclrtStream s = new_stream();
	aclrtNotify n;

	OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
	OK(aclrtRecordNotify(n, s));
	finish(s);
	OK(aclrtNotifyBatchReset(&n, 1));
	OK(aclrtWaitAndResetNotify(n, s, 0));
	pause_ms(20);
	CHECK(!stream_done(s));
	OK(aclrtRecordNotify(n, NULL));
	finish(s);
}
