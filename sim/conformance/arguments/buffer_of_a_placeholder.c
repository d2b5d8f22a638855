/*
 * says: Data that the program stores in a placeholder's buffer reaches the kernel.
 * source: API, aclrtKernelArgsGetPlaceHolderBuffer
 */
#include "../conformance.h"

RULE(buffer_of_a_placeholder)
{
	aclrtStream s = new_stream();
	aclrtFuncHandle f = kernel("blocks");
	aclrtArgsHandle args;
	aclrtParamHandle h, place;
	void *p = device(8), *buffer;
	uint64_t value = 41;

	OK(aclrtKernelArgsInit(f, &args));
	OK(aclrtKernelArgsAppend(args, &p, sizeof p, &h));
	OK(aclrtKernelArgsAppendPlaceHolder(args, &place));
	OK(aclrtKernelArgsGetPlaceHolderBuffer(args, place, sizeof value, &buffer));
	memcpy(buffer, &value, sizeof value);
	OK(aclrtKernelArgsFinalize(args));
	OK(aclrtLaunchKernelWithConfig(f, 1, s, NULL, args, NULL));
	finish(s);
	CHECK(word(p) == 41);
}
