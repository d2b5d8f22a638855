/*
 * says: A launch has 1 to 65535 blocks.
 * source: Runtime, kernel launches
 */
#include "../conformance.h"

RULE(number_of_blocks)
{
	struct store_args a = {device(8), 1};
	aclrtStream s = new_stream();

	INVALID(aclrtLaunchKernelWithHostArgs(kernel("store"), 0, s, NULL, &a, sizeof a, NULL, 0));
	INVALID(aclrtLaunchKernelWithHostArgs(kernel("store"), 65536, s, NULL, &a, sizeof a, NULL, 0));
	OK(aclrtLaunchKernelWithHostArgs(kernel("store"), 65535, s, NULL, &a, sizeof a, NULL, 0));
}
