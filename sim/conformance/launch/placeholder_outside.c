/*
 * says: A placeholder outside the arguments is refused.
 * source: Simulator
 */
#include "../conformance.h"

RULE(placeholder_outside)
{
	struct store_args a = {device(8), 1};
	aclrtPlaceHolderInfo p = {12, 0};

	INVALID(aclrtLaunchKernelWithHostArgs(kernel("store"), 1, new_stream(), NULL, &a, sizeof a, &p, 1));
}
