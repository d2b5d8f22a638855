/*
 * says: aclrtReduceAsync reduces one array into another, in stream order.
 * source: API, aclrtReduceAsync
 */
#include "../conformance.h"

RULE(reduction)
{
	aclrtStream s = new_stream();
	uint64_t *a = device(32), *b = device(32);

	set_word(a, 0x0000000500000003);
	set_word(b, 0x0000000700000001);
	OK(aclrtReduceAsync(a, b, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, s, NULL));
	finish(s);
	CHECK(word(a) == 0x0000000c00000004);
	OK(aclrtReduceAsync(a, b, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN, ACL_INT32, s, NULL));
	finish(s);
	CHECK(word(a) == 0x0000000700000001);
}
