/*
 * says: aclrtMemset fills pinned host memory, too.
 * source: API, aclrtMemset
 */
#include "../conformance.h"

RULE_BARE(filled_on_the_host)
{
	unsigned char *h;

	OK(aclInit(NULL));
	OK(aclrtSetDevice(0));
	h = pinned(64);
	OK(aclrtMemset(h, 64, 9, 64));
	CHECK(h[63] == 9);
}
