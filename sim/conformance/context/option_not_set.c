/*
 * says: An option of a context has no default: asking for one that was not set fails.
 * source: API, aclrtCtxGetSysParamOpt; Errors, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET
 */
#include "../conformance.h"

RULE(option_not_set)
{
	int64_t v;

	WANT(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v));
}
