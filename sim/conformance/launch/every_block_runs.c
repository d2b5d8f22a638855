/*
 * says: A kernel runs once for each block of a launch.
 * source: API, aclrtLaunchKernelWithHostArgs
 */
#include "../conformance.h"

RULE(every_block_runs)
{
	aclrtStream s = new_stream();
	uint64_t *to = device(8 * 20);
	struct {
		void *to, *tiling;
		uint64_t value;
	} a = {to, NULL, 100};
	aclrtPlaceHolderInfo p = {8, 16};

	OK(aclrtLaunchKernelWithHostArgs(kernel("blocks"), 20, s, NULL, &a, sizeof a, &p, 1));
	finish(s);
	for (uint64_t i = 0; i < 20; i++)
		CHECK(word(to + i) == 100 + i);
}
