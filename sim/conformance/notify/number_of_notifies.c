/*
 * says: A device has 8192 notifies.
 * source: API, aclrtCreateNotify (A2 series)
 */
#include "../conformance.h"

RULE(number_of_notifies)
{
	aclrtNotify n;

	for (int i = 0; i < 8192; i++)
		OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
	WANT(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
}
