/*
 * says: ACL_EVENT_EXTERNAL can't be combined with other flags.
 * source: API, aclrtCreateEventWithFlag
 */
#include "../conformance.h"

RULE(external_flag_alone)
{
	aclrtEvent e;

	WANT(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtCreateEventWithFlag(&e, ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC));
}
