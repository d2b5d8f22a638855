/*
 * says: A launch needs a finalized argument list.
 * source: API, aclrtKernelArgsFinalize
 */
#include "../conformance.h"

RULE(finalized_first)
{
	aclrtFuncHandle f = kernel("count");
	aclrtArgsHandle args;
	aclrtParamHandle h;
	void *p = device(8);

	OK(aclrtKernelArgsInit(f, &args));
	OK(aclrtKernelArgsAppend(args, &p, sizeof p, &h));
	INVALID(aclrtLaunchKernelWithConfig(f, 1, new_stream(), NULL, args, NULL));
}
