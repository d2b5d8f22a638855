/*
 * says: The reserved argument of aclrtLaunchKernelWithConfig is null.
 * source: API, aclrtLaunchKernelWithConfig
 */
#include "../conformance.h"

RULE(reserved_is_null)
{
	aclrtFuncHandle f = kernel("count");
	aclrtArgsHandle args;
	aclrtParamHandle h;
	void *p = device(8);

	OK(aclrtKernelArgsInit(f, &args));
	OK(aclrtKernelArgsAppend(args, &p, sizeof p, &h));
	OK(aclrtKernelArgsFinalize(args));
	REFUSED(aclrtLaunchKernelWithConfig(f, 1, new_stream(), NULL, args, &p));
}
