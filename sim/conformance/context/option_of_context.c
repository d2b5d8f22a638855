/*
 * says: aclrtCtxSetSysParamOpt sets an option of the context, aclrtSetSysParamOpt one of the process.
 * source: API, aclrtCtxSetSysParamOpt
 */
#include "../conformance.h"

RULE(option_of_context)
{
	int64_t v;

	OK(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
	WANT(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v));
}
