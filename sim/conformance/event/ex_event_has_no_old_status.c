/*
 * says: aclrtQueryEvent refuses an event of aclrtCreateEventExWithFlag.
 * source: API, aclrtCreateEventExWithFlag
 */
#include "../conformance.h"

RULE(ex_event_has_no_old_status)
{
	aclrtEventStatus status;

	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEvent(new_event(), &status));
}
