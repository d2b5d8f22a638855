/*
 * says: aclrtLaunchKernelWithArgsArray takes a pointer to each argument.
 * source: API, aclrtLaunchKernelWithArgsArray
 */
#include "../conformance.h"

RULE(array_of_arguments)
{
	aclrtStream s = new_stream();
	void *p = device(8);
	uint64_t value = 11;
	void *args[] = {&p, &value};

	OK(aclrtLaunchKernelWithArgsArray(kernel("store"), 1, s, NULL, args));
	value = 12;
	finish(s);
	CHECK(word(p) == 11);
}
