/*
 * says: aclrtCtxSetSysParamOpt sets an option of the context, aclrtSetSysParamOpt one of the process.
 * source: API, aclrtCtxSetSysParamOpt
 */
#include "../conformance.h"

RULE(option_of_context)
{
	int64_t v = 7;

	OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
	OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v));
	CHECK(v == 0);
}
