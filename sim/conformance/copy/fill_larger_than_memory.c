/*
 * says: A fill of more bytes than the memory has is refused.
 * source: API, aclrtMemset
 */
#include "../conformance.h"

RULE(fill_larger_than_memory)
{
	INVALID(aclrtMemset(device(64), 32, 0, 33));
}
