/*
 * says: A program can update an appended argument before and after it finalizes the list, and finalize the list again.
 * source: API, kernel loading and execution (argument lists)
 */
#include "../conformance.h"

RULE(updated)
{
	aclrtStream s = new_stream();
	aclrtFuncHandle f = kernel("store");
	aclrtArgsHandle args;
	aclrtParamHandle h;
	void *p = device(8);
	uint64_t value = 1;

	OK(aclrtKernelArgsInit(f, &args));
	OK(aclrtKernelArgsAppend(args, &p, sizeof p, &h));
	OK(aclrtKernelArgsAppend(args, &value, sizeof value, &h));
	OK(aclrtKernelArgsFinalize(args));
	value = 31;
	OK(aclrtKernelArgsParaUpdate(args, h, &value, sizeof value));
	OK(aclrtKernelArgsFinalize(args));
	OK(aclrtLaunchKernelWithConfig(f, 1, s, NULL, args, NULL));
	finish(s);
	CHECK(word(p) == 31);
}
