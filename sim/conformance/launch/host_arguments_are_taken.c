/*
 * says: Arguments in host memory are copied at the call.
 * source: API, aclrtLaunchKernelWithHostArgs
 */
#include "../conformance.h"

RULE(host_arguments_are_taken)
{
	static struct gate g;
	aclrtStream s = new_stream();
	void *p = device(8);
	struct store_args a = {p, 1};

	hold(&g, s);
	OK(aclrtLaunchKernelWithHostArgs(kernel("store"), 1, s, NULL, &a, sizeof a, NULL, 0));
	a.value = 2;
	open_gate(&g);
	finish(s);
	CHECK(word(p) == 1);
}
