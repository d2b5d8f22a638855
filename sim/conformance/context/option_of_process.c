/*
 * says: An option of the process that was not set is 0.
 * source: public runtime, src/runtime/api/api_c.cc, rtGetSysParamOpt
 */
#include "../conformance.h"

RULE(option_of_process)
{
	int64_t v = 7;

	OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v));
	CHECK(v == 0);
}
