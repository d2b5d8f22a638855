/*
 * says: A context option has no default. A query of an option that was not set fails.
 * source: API, aclrtCtxGetSysParamOpt; Errors, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET
 */
#include "../conformance.h"

RULE(option_not_set)
{
	int64_t v;

	WANT(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v));
}
