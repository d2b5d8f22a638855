/*
 * says: Appended arguments reach the kernel in order.
 * source: API, aclrtKernelArgsAppend
 */
#include "../conformance.h"

RULE(appended_in_order)
{
	aclrtStream s = new_stream();
	aclrtFuncHandle f = kernel("store");
	aclrtArgsHandle args;
	aclrtParamHandle h;
	void *p = device(8);
	uint64_t value = 21;

	OK(aclrtKernelArgsInit(f, &args));
	OK(aclrtKernelArgsAppend(args, &p, sizeof p, &h));
	OK(aclrtKernelArgsAppend(args, &value, sizeof value, &h));
	value = 22;
	OK(aclrtKernelArgsFinalize(args));
	OK(aclrtLaunchKernelWithConfig(f, 1, s, NULL, args, NULL));
	finish(s);
	CHECK(word(p) == 21);
}
