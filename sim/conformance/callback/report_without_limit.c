/*
 * says: A timeout of 0 is refused: it must be -1 or above 0.
 * source: API, aclrtProcessReport
 */
#include "../conformance.h"

RULE(report_without_limit)
{
	OK(aclrtSubscribeReport((uint64_t)pthread_self(), new_stream()));
	INVALID(aclrtProcessReport(0));
}
