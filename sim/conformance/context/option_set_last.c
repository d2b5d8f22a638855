/*
 * says: An option has the value that was set last.
 * source: API, aclrtCtxSetSysParamOpt
 */
#include "../conformance.h"

RULE(option_set_last)
{
	int64_t v = -1;

	OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
	OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
	OK(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v));
	CHECK(v == 1);
}
