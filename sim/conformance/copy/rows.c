/*
 * says: aclrtMemcpy2d copies rows at a pitch, and leaves the bytes between them unchanged.
 * source: API, aclrtMemcpy2d
 */
#include "../conformance.h"

RULE(rows)
{
	unsigned char from[4][16], to[4][20];
	char *d = device(4 * 32);

	for (int i = 0; i < 64; i++)
		from[i / 16][i % 16] = (unsigned char)(i + 1);
	OK(aclrtMemcpy2d(d, 32, from, 16, 12, 4, ACL_MEMCPY_HOST_TO_DEVICE));
	memset(to, 0xee, sizeof to);
	OK(aclrtMemcpy2d(to, 20, d, 32, 12, 4, ACL_MEMCPY_DEVICE_TO_HOST));
	for (int r = 0; r < 4; r++)
		CHECK(!memcmp(to[r], from[r], 12) && to[r][12] == 0xee);
}
