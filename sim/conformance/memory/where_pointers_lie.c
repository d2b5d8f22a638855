/*
 * says: aclrtPointerGetAttributes distinguishes device memory, pinned host memory and pageable memory.
 * source: API, aclrtPointerGetAttributes
 */
#include "../conformance.h"

RULE(where_pointers_lie)
{
	aclrtPtrAttributes a;
	char *own = malloc(64);

	OK(aclrtPointerGetAttributes((char *)device(64) + 8, &a));
	CHECK(a.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && a.location.id == 0);
	OK(aclrtPointerGetAttributes(pinned(64), &a));
	CHECK(a.location.type == ACL_MEM_LOCATION_TYPE_HOST);
	OK(aclrtPointerGetAttributes(own, &a));
	CHECK(a.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}
