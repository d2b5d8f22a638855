/*
 * says: An unknown launch attribute is refused.
 * source: Simulator
 */
#include "../conformance.h"

RULE(unknown_attribute)
{
	struct store_args a = {device(8), 1};
	aclrtLaunchKernelAttr attr = {.id = (aclrtLaunchKernelAttrId)77};
	aclrtLaunchKernelCfg cfg = {&attr, 1};

	INVALID(aclrtLaunchKernelWithHostArgs(kernel("store"), 1, new_stream(), &cfg, &a, sizeof a, NULL, 0));
}
