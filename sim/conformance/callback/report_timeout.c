/*
 * says: aclrtProcessReport returns an error after the timeout in milliseconds.
 * source: API, aclrtProcessReport; Errors, ACL_ERROR_RT_REPORT_TIMEOUT
 */
#include "../conformance.h"

RULE(report_timeout)
{
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), new_stream()));
	WANT(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(10));
}
