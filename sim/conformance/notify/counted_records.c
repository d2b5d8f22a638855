/*
 * says: Records add to a counting notify, and a wait ends at a value.
 * source: API, aclrtCntNotifyRecord
 */
#include "../conformance.h"

RULE(counted_records)
{
	aclrtStream a = new_stream(), b = new_stream();
	aclrtCntNotify n;
	aclrtCntNotifyRecordInfo add = {.mode = ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, .value = 2};
	aclrtCntNotifyWaitInfo wait = {.mode = ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, .value = 4};

	OK(aclrtCntNotifyCreate(&n, 0));
	OK(aclrtCntNotifyWaitWithTimeout(n, b, &wait));
	OK(aclrtCntNotifyRecord(n, a, &add));
	finish(a);
	pause_ms(20);
	CHECK(!stream_done(b));
	OK(aclrtCntNotifyRecord(n, a, &add));
	finish(b);
}
