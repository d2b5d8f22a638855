/*
 * says: The alignment of a reservation must be 0.
 * source: API, aclrtReserveMemAddress
 */
#include "../conformance.h"

RULE(alignment_is_reserved)
{
	void *va;

	INVALID(aclrtReserveMemAddress(&va, 2 << 20, 4096, NULL, 0));
}
