/*
 * says: A wait can reset a counting notify to 0, and aclrtCntNotifyReset always does.
 * source: API, aclrtCntNotifyWaitInfo, aclrtCntNotifyReset
 */
#include "../conformance.h"

RULE(count_is_cleared)
{
	aclrtStream s = new_stream();
	aclrtCntNotify n;
	aclrtCntNotifyRecordInfo set = {.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, .value = 3};
	aclrtCntNotifyWaitInfo three = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 3, .isClear = 1}, zero = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE};

	OK(aclrtCntNotifyCreate(&n, 0));
	OK(aclrtCntNotifyRecord(n, s, &set));
	OK(aclrtCntNotifyWaitWithTimeout(n, s, &three));
	OK(aclrtCntNotifyWaitWithTimeout(n, s, &zero));
	OK(aclrtCntNotifyRecord(n, s, &set));
	OK(aclrtCntNotifyReset(n, s));
	OK(aclrtCntNotifyWaitWithTimeout(n, s, &zero));
	finish(s);
}
