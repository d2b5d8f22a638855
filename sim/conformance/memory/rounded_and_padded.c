/*
 * says: aclrtMalloc rounds up to 32 bytes and adds 32 bytes.
 * source: API, aclrtMalloc (A2 series)
 */
#include "../conformance.h"

RULE(rounded_and_padded)
{
	void *p = device(33);

	OK(aclrtMemset(p, 96, 1, 96));
	INVALID(aclrtMemset(p, 97, 1, 97));
}
