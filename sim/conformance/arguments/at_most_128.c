/*
 * says: An argument list has at most 128 arguments.
 * source: API, kernel loading and execution (argument lists)
 */
#include "../conformance.h"

RULE(at_most_128)
{
	aclrtArgsHandle args;
	aclrtParamHandle h;
	uint64_t value = 0;

	OK(aclrtKernelArgsInit(kernel("unknown"), &args));
	for (int i = 0; i < 128; i++)
		OK(aclrtKernelArgsAppend(args, &value, sizeof value, &h));
	INVALID(aclrtKernelArgsAppend(args, &value, sizeof value, &h));
}
