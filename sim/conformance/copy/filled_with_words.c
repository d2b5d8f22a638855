/*
 * says: aclrtMemsetD32 fills N words of 32 bits.
 * source: API, aclrtMemsetD32
 */
#include "../conformance.h"

RULE(filled_with_words)
{
	void *d = device(32);

	OK(aclrtMemsetD32(d, 32, 0x01020304, 2));
	CHECK(word(d) == 0x0102030401020304 && word((char *)d + 8) == 0);
}
