/*
 * says: aclrtMemsetD32 refuses more words than the memory has.
 * source: API, aclrtMemsetD32
 */
#include "../conformance.h"

RULE(fewer_bytes_than_words)
{
	REFUSED(aclrtMemsetD32(device(64), 31, 1, 8));
}
