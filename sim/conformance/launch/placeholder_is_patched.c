/*
 * says: The runtime writes the device address of a placeholder's data into the program's buffer.
 * source: Runtime, kernel launches
 */
#include "../conformance.h"

RULE(placeholder_is_patched)
{
	aclrtStream s = new_stream();
	struct {
		void *to, *tiling;
		uint64_t value;
	} a = {device(8), NULL, 5};
	aclrtPlaceHolderInfo p = {8, 16};
	aclrtPtrAttributes where;

	OK(aclrtLaunchKernelWithHostArgs(kernel("blocks"), 1, s, NULL, &a, sizeof a, &p, 1));
	CHECK(a.tiling);
	OK(aclrtPointerGetAttributes(a.tiling, &where));
	CHECK(where.location.type == ACL_MEM_LOCATION_TYPE_DEVICE);
	finish(s);
	CHECK(word(a.to) == 5);
}
