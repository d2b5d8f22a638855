/*
 * says: The program can provide the memory of an argument list, in the sizes that the runtime returns.
 * source: API, aclrtKernelArgsInitByUserMem
 */
#include "../conformance.h"

RULE(in_memory_of_the_program)
{
	aclrtStream s = new_stream();
	aclrtFuncHandle f = kernel("store");
	aclrtParamHandle h;
	size_t handle_size, size;
	void *p = device(8), *handle, *memory;
	uint64_t value = 51;

	OK(aclrtKernelArgsGetHandleMemSize(f, &handle_size));
	OK(aclrtKernelArgsGetMemSize(f, 16, &size));
	CHECK(size >= 16);
	handle = malloc(handle_size);
	memory = malloc(size);
	OK(aclrtKernelArgsInitByUserMem(f, handle, memory, size));
	OK(aclrtKernelArgsAppend(handle, &p, sizeof p, &h));
	OK(aclrtKernelArgsAppend(handle, &value, sizeof value, &h));
	OK(aclrtKernelArgsFinalize(handle));
	OK(aclrtLaunchKernelWithConfig(f, 1, s, NULL, handle, NULL));
	finish(s);
	CHECK(word(p) == 51);
}
