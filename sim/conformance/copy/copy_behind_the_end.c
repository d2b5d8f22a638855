/*
 * says: A copy that leaves its allocation is refused.
 * source: Simulator
 */
#include "../conformance.h"

RULE(copy_behind_the_end)
{
	void *d = device(64);
	char h[4096] = "";

	INVALID(aclrtMemcpy(d, sizeof h, h, sizeof h, ACL_MEMCPY_HOST_TO_DEVICE));
}
